"""From configuration to plan: which runs make which tables and figures.

A paper's experiments are data (``config/papers/<paper>.yaml``); a scale (``config/<scale>.yaml``)
lays its own values over them. Everything a user can get wrong in either is found here, before any
job starts.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from noisyfl.core.artifacts import Results
from noisyfl.core.checked_yaml import checked, read_yaml
from noisyfl.core.options import BadInput, find, reading
from noisyfl.core.typed import choices_of
from noisyfl.data.noise.human_labels import LabelsMissing
from noisyfl.data.roots import Roots, checked_folder, data_roots
from noisyfl.experiments.expansion import USED, Expansion
from noisyfl.experiments.headers import only
from noisyfl.experiments.kept_plans import kept_plan
from noisyfl.experiments.overlay import check_methods
from noisyfl.experiments.plan import Plan
from noisyfl.experiments.scale import Scale
from noisyfl.runs.events import check_tensorboard
from noisyfl.specs.published import Published, read_published

ROOT = Path(__file__).parents[3]

EXECUTORS = choices_of(Scale.model_fields["executor"]) or ()
"""The names in :data:`noisyfl.runs.train.EXECUTORS`, whose import would need torch."""

PUBLISHED = ROOT / "config" / "published.csv"

DEFAULTS: dict[str, Any] = Scale.model_construct().to_json()
"""By key of a scale, its default."""


TAKEN = sorted(
    {
        path.relative_to("results").parts[0]
        for path in (
            Results(Path("results")).data("x", "train"),
            Results(Path("results")).partition("x"),
            Results(Path("results")).run("x").folder,
            Results(Path("results")).stored("x").folder,
            Results(Path("results")).checkpoint("x"),
            Results(Path("results")).log("x"),
            Results(Path("results")).status("x"),
            Path("results/benchmarks"),
        )
    }
)
"""Folders of the results that all scales share; no scale may have one of these names."""


def check_config(config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A scale's configuration, checked, with defaults filled in.

    Environment variables and ``~`` in the names of folders are expanded.

    Raises:
        BadInput: naming ``where``, the key, the value and what was expected.
    """
    with reading(where):
        return _checked_config(config, where)


def _checked_config(config: Mapping[str, Any], where: str) -> dict[str, Any]:
    given = checked(dict(config), Scale, where).to_json()
    if given["scale"] in TAKEN:
        raise BadInput(
            f"{where}: scale: got {given['scale']!r}, expected another name than those of the "
            f"folders that scales share ({', '.join(TAKEN)})"
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
    check_device(given["device"], f"{where}: device")
    if given["tensorboard"]:
        check_tensorboard(f"{where}: tensorboard")
    results = checked_folder(given["results"], f"{where}: results", to_be_made=True)
    if set(results) & set("{}"):
        raise BadInput(
            f"{where}: results: got {given['results']!r}, expected a folder without braces, which "
            "Snakemake takes for wildcards"
        )
    if Path(results).resolve() == Path(results).resolve().parent:
        raise BadInput(
            f"{where}: results: got {given['results']!r}, expected a folder below the root"
        )
    return {**given, "results": results, "data": data}


def check_device(name: str, where: str) -> None:
    """Raise :class:`BadInput` unless ``name`` can be a device, on this machine or another one."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", name):
        raise BadInput(f"{where}: got {name!r}, expected auto, cpu, cuda or cuda:<number>")


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


def make_plan(
    config: Mapping[str, Any], experiments: Path, where: str, published: Path = PUBLISHED
) -> Plan:
    """Expand a checked configuration.

    Args:
        config: as :func:`check_config` returns it.
        experiments: the folder of the experiments' YAML files.
        where: what the error messages call the configuration.
        published: the file of the papers' own numbers.

    Raises:
        BadInput: naming the file, the key, the value and what was expected; of missing human labels
            only if there is nothing else to be made.
    """
    plan = Plan(config["scale"])
    with reading(where):
        check_methods(config["overlay"].get("methods", {}), f"{where}: overlay.methods")
    known = {path.stem: path for path in sorted(experiments.glob("*.yaml"))}
    used = {key: config[key] for key in USED}

    @functools.cache
    def numbers() -> list[Published]:
        with reading(str(published)):
            return read_published(published)

    def expand(name: str, path: Path, roots: Roots | None) -> Plan:
        with reading(str(path)):
            return Expansion(used, roots, where, name, path, numbers()).expand()

    for name in config["experiments"]:
        path = find(known, name, "experiment", f"{where}: experiments")
        try:
            part = kept_plan(functools.partial(expand, name, path, None), used, path, published)
            # Ids depend on the checksums of human labels, for which their files must be read.
            if not all(
                spec["label_noise"].get("sha256", True) for spec in part.partitions.values()
            ):
                part = expand(name, path, data_roots(config))
            plan.add(part)
        except LabelsMissing as error:
            plan.left_out[name] = str(error)
    if plan.left_out and not (plan.tables or plan.figures):
        raise BadInput(next(iter(plan.left_out.values())))
    names = (*plan.tables, *plan.figures)
    for key in config["overlay"].get("experiments", {}):
        if "/" not in key:
            find(known, key, "experiment", f"{where}: overlay.experiments")
        elif not plan.why_left_out(key):
            find(dict.fromkeys(names), key, "table or figure", f"{where}: overlay.experiments")
    plan.targets = [name for name in config["targets"] or [] if not plan.why_left_out(name)]
    only([*config["experiments"], *names], plan.targets, "target", f"{where}: targets")
    for kind in ("columns", "rows", "trials"):
        for key in config["overlay"].get(kind, {}):
            if plan.why_left_out(key):
                continue
            find(plan.tables, key, "table", f"{where}: overlay.{kind}")
    return plan
