"""The configuration of a scale (``config/<scale>.yaml``), checked before any job starts."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from noisyfl.core.artifacts import Results
from noisyfl.core.checked_yaml import as_model, read_yaml
from noisyfl.core.options import BadInput, find, reading, within
from noisyfl.core.places import ROOT
from noisyfl.core.plugins import find_plugins as find_plugins
from noisyfl.core.typed import choices_of
from noisyfl.data.roots import checked_folder
from noisyfl.experiments.configuration import Configuration

EXECUTORS = choices_of(Configuration.model_fields["executor"]) or ()
"""The names in :data:`noisyfl.runs.train.EXECUTORS`, whose import would need torch."""

TRACKERS = choices_of(Configuration.model_fields["trackers"]) or ()
"""The names in :data:`noisyfl.runs.trackers.TRACKERS`, likewise."""

EXPERIMENTS = ROOT / "config" / "papers"
"""The folder of the experiments that come with the package."""

PUBLISHED = ROOT / "config" / "published.csv"
"""The file of the reproduced papers' own numbers."""

DEFAULTS: dict[str, Any] = Configuration.model_construct().to_json()
"""By key of a scale, its default."""


RULES = (
    *("all", "cells", "claims", "data", "evidence", "explorer"),
    *("figure", "partition", "table", "train"),
)
"""The names of Snakemake's rules, which targets must not have."""

TAKEN = sorted(
    {
        path.relative_to("results").parts[0]
        for path in (
            Results(Path("results")).data("x", "train"),
            Results(Path("results")).own_file("x"),
            Results(Path("results")).partition("x"),
            Results(Path("results")).run("x").folder,
            Results(Path("results")).stored("x").folder,
            Results(Path("results")).checkpoint("x"),
            Results(Path("results")).log("x"),
            Results(Path("results")).status("x"),
            Path("results/benchmarks"),
            *(Path("results") / tracker for tracker in TRACKERS),
        )
    }
)
"""Folders of the results that all scales share; no scale may have one of these names."""


KERNELS = ("/proc", "/sys", "/dev")
"""Folders that show the state of the system, and keep no files."""


def check_config(config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A scale's configuration, checked, with defaults filled in.

    Environment variables and ``~`` in the names of folders are expanded.

    Raises:
        BadInput: naming ``where``, the key, the value and what was expected.
    """
    with reading(where):
        return _checked_config(config, where)


def _checked_config(config: Mapping[str, Any], where: str) -> dict[str, Any]:
    given = as_model(dict(config), Configuration, where).to_json()
    if given["scale"] in TAKEN:
        raise BadInput(
            f"{where}: scale: got {given['scale']!r}, expected another name than those of the "
            f"folders that scales share ({', '.join(TAKEN)})"
        )
    for name in given["experiments"]:
        if name in RULES:
            raise BadInput(
                f"{where}: experiments: got {name!r}, expected another name than those of the "
                f"pipeline's rules ({', '.join(RULES)})"
            )
    data = given["data"]
    if isinstance(data["folder"], str):
        data["folder"] = checked_folder(data["folder"], f"{where}: data.folder", to_be_made=True)
    else:
        last = len(data["folder"]) - 1
        data["folder"] = [
            checked_folder(folder, f"{where}: data.folder[{n}]", to_be_made=n == last)
            for n, folder in enumerate(data["folder"])
        ]
    data["prepared"] = [
        checked_folder(folder, f"{where}: data.prepared[{n}]")
        for n, folder in enumerate(data["prepared"])
    ]
    given["experiment_folders"] = [
        checked_folder(folder, f"{where}: experiment_folders[{n}]")
        for n, folder in enumerate(given["experiment_folders"])
    ]
    check_device(given["device"], f"{where}: device")
    if given["plugins"]:
        with within(where=f"{where}: "):
            find_plugins(given["plugins"])
    check_trackers(given["trackers"], f"{where}: trackers")
    results = checked_folder(given["results"], f"{where}: results", to_be_made=True)
    check_folder(Path(results), f"{where}: results")
    if set(results) & set("{}"):
        raise BadInput(
            f"{where}: results: got {given['results']!r}, expected a folder without braces, which "
            "Snakemake takes for wildcards"
        )
    for key in ("results", "experiment_folders"):
        if "<" in str(given[key]):
            raise BadInput(
                f"{where}: {key}: got {given[key]!r}, expected no '<', which could end a script of "
                "Snakemake's report"
            )
    place = Path(results).resolve()
    for folder in KERNELS:
        if place.is_relative_to(folder) and not place.is_relative_to("/dev/shm"):
            raise BadInput(
                f"{where}: results: got {given['results']!r}, expected a folder for files, and "
                f"{folder} has none"
            )
    if place == place.parent:
        raise BadInput(
            f"{where}: results: got {given['results']!r}, expected a folder below the root"
        )
    return {**given, "results": results, "data": data}


def check_trackers(names: Sequence[str], where: str) -> None:
    """Raise :class:`BadInput` if a tracker is not installed; its module and extra have its name."""
    for name in names:
        found = importlib.util.find_spec(name)
        if found is None or found.origin is None:  # a folder of that name, as W&B makes one
            raise BadInput(
                f"{where}: got {name!r}, which is not installed; install it with: "
                f'pip install "noisyfl[{name}]"'
            )


def experiment_files(config: Mapping[str, Any], folder: Path = EXPERIMENTS) -> dict[str, Path]:
    """The files of experiments by name; of two with one name, that of a scale's own folder.

    Args:
        config: as :func:`check_config` returns it.
    """
    own = [Path(one) for one in config["experiment_folders"]]
    folders = [folder, *reversed(own)]
    return {path.stem: path for one in folders for path in sorted(one.glob("*.yaml"))}


def published_files(config: Mapping[str, Any], file: Path = PUBLISHED) -> list[Path]:
    """The files of published numbers: those in a scale's own folders of experiments, then ``file``.

    Args:
        config: as :func:`check_config` returns it.
    """
    own = [Path(folder) / file.name for folder in config["experiment_folders"]]
    return [*(path for path in own if path.exists()), file]


def check_device(name: str, where: str) -> None:
    """Raise :class:`BadInput` unless ``name`` can be a device, on this machine or another one."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", name):
        raise BadInput(f"{where}: got {name!r}, expected auto, cpu, cuda or cuda:<number>")


def check_folder(path: Path, where: str, to_be_made: bool = True) -> None:
    """Check that a path is a folder.

    Args:
        to_be_made: the folder need not exist yet.

    Raises:
        BadInput: there is something else, or nothing, in its place.
    """
    got = f"{where}: got {str(path)!r}, expected a folder"
    try:
        there = next(one for one in (path, *path.absolute().parents) if one.exists())
        if not there.is_dir():
            raise BadInput(f"{got}, and {there} is none")
    except OSError as error:
        raise BadInput(f"{got} that can be read ({error.strerror})") from error
    if there != path and not to_be_made:
        raise BadInput(f"{got}, and there is none")


def scale_file(name: str | None, folder: Path) -> Path:
    """The file in a folder that has the scale of that name; the default scale's for no name.

    Raises:
        BadInput: no file has that scale, or the file cannot be read; Snakemake, which reads it
            next, would end in a traceback.
    """
    known = {}
    for path in sorted(folder.glob("*.yaml")):
        scale = re.search(r"^scale: *(\w+)", path.read_text(errors="replace"), re.MULTILINE)
        if scale:
            known[scale[1]] = path
    default = folder / "config.yaml"
    file = default if name is None else find(known, str(name), "scale", "--config scale")
    read_yaml(file)
    return file


def check_scale(name: str | None, files: Sequence[Path]) -> None:
    """Check that a scale's name and its files do not contradict each other.

    Args:
        name: the scale that ``--config`` names; None if it names none.
        files: those that ``--configfile`` or a profile gives.

    Raises:
        BadInput: a file is of another scale.
    """
    own = [scale for file in files if (scale := read_yaml(file).get("scale")) is not None]
    if name is not None and own and name != own[-1]:
        listed = ", ".join(os.path.relpath(file) for file in files)
        raise BadInput(
            f"--config scale: got {name!r}, but the file that --configfile or a profile gives, "
            f"{listed}, is the scale {own[-1]!r}; to take another give --configfile=FILE alone"
        )


def load_config(path: Path) -> dict[str, Any]:
    """Read and check a scale's YAML file."""
    return check_config(read_yaml(path), str(path))
