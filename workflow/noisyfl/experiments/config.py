"""A scale (``config/<scale>.yaml``): which experiments are run, how large, and on what data.

What can be checked by itself is checked while it is read, before any job starts.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, WithJsonSchema

from noisyfl.core.checked_yaml import as_model, read_yaml
from noisyfl.core.options import BadInput, find, reading, within
from noisyfl.core.places import ROOT
from noisyfl.core.plugins import find_plugins
from noisyfl.core.registry import split_component
from noisyfl.core.typed import Typed, each_once
from noisyfl.data.roots import checked_folder
from noisyfl.experiments.setting import (
    FileName,
    Methods,
    Name,
    Names,
    Setting,
    TrialCount,
    check_declared,
)
from noisyfl.simulation.schedule import Schedule

EXPERIMENTS = ROOT / "config" / "papers"
"""The folder of the experiments that come with the package."""

PUBLISHED = ROOT / "config" / "published.csv"
"""The file of the reproduced papers' own numbers."""

ExecutorName = Literal["fast", "loop"]
"""The names in :data:`noisyfl.runs.train.EXECUTORS`, whose import would need torch."""

TrackerName = Literal["tensorboard", "mlflow", "wandb"]
"""The names in :data:`noisyfl.runs.trackers.TRACKERS`, in its order."""

EXECUTORS: tuple[str, ...] = get_args(ExecutorName)
TRACKERS: tuple[str, ...] = get_args(TrackerName)

RULES = (
    *("all", "cells", "claims", "data", "evidence", "evidence_methods", "explorer"),
    *("figure", "partition", "table", "table_explorer", "train"),
)
"""The names of Snakemake's rules, which targets must not have."""

RESERVED_FOLDERS = (
    *("benchmarks", "checkpoints", "data", "files", "logs", "mlflow", "partitions"),
    *("runs", "status", "store", "tensorboard", "wandb"),
)
"""Folders of the results that all scales share; no scale may have one of these names."""


def check_device(name: str) -> str:
    """The name; :class:`BadInput` if no device, on this machine or elsewhere, can have it."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", name):
        raise BadInput(f"got {name!r}, expected auto, cpu, cuda or cuda:<number>")
    return name


def check_tracker(name: str) -> str:
    """The name of a tracker, which is also that of its module and of the package's extra;
    :class:`BadInput` if it is not installed.
    """
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:  # a folder of that name, as W&B makes one
        raise BadInput(
            f'got {name!r}, which is not installed; install it with: pip install "noisyfl[{name}]"'
        )
    return name


def check_folder(path: Path, where: str = "", to_be_made: bool = True) -> None:
    """Raise :class:`BadInput` unless a path is a folder, or one that can still be made."""
    got = f"got {str(path)!r}, expected a folder"
    with within(where=where):
        try:
            there = next(one for one in (path, *path.absolute().parents) if one.exists())
            if not there.is_dir():
                raise BadInput(f"{got}, and {there} is none")
        except OSError as error:
            raise BadInput(f"{got} that can be read ({error.strerror})") from error
        if there != path and not to_be_made:
            raise BadInput(f"{got}, and there is none")


def check_file(path: Path, where: str) -> None:
    """Raise :class:`BadInput` unless a path is a file, or one that can be made in its folder."""
    check_folder(path.parent, where, to_be_made=False)
    if path.is_dir():
        raise BadInput(f"{where}: got {str(path)!r}, expected a file, and it is a folder")
    check_writable(path, where)


def check_writable(path: Path, where: str) -> None:
    """Raise :class:`BadInput` if what is to be written there cannot be."""
    there = next(one for one in (path, *path.absolute().parents) if one.exists())
    if not os.access(there, os.W_OK):
        raise BadInput(f"{where}: got {str(path)!r}, and {there} may not be written to")


def _fit_for_reports(path: Path) -> Path:
    if "<" in str(path):
        raise BadInput(
            f"got {str(path)!r}, expected no '<', which could end a script of Snakemake's report"
        )
    return path


def _experiment_folder(given: Any) -> Path:
    return _fit_for_reports(checked_folder(given))


def _data_folders(given: Any) -> list[Path]:
    """The folders of a text or a list; the last one, where downloads go, need not exist yet."""
    if not isinstance(given, list):
        return [checked_folder(given, to_be_made=True)]
    if not given:
        raise BadInput("got [], expected at least one folder")
    folders = []
    for n, one in enumerate(given):
        with within(n):
            folders.append(checked_folder(one, to_be_made=n == len(given) - 1))
    each_once(given)
    return folders


def _results_folder(given: Any) -> Path:
    if given == "":
        raise BadInput("got '', expected the path of a folder")
    path = checked_folder(given, to_be_made=True)
    check_folder(path)
    if set(str(path)) & set("{}"):
        raise BadInput(
            f"got {str(given)!r}, expected a folder without braces, which Snakemake takes for "
            "wildcards"
        )
    return _fit_for_reports(path)


def _not_reserved(scale: str) -> str:
    if scale in RESERVED_FOLDERS:
        raise BadInput(
            f"got {scale!r}, expected another name than those of the folders that scales share "
            f"({', '.join(RESERVED_FOLDERS)})"
        )
    return scale


def _no_rules(experiments: list[str]) -> list[str]:
    for name in experiments:
        if name in RULES:
            raise BadInput(
                f"got {name!r}, expected another name than those of the pipeline's rules "
                f"({', '.join(RULES)})"
            )
    return experiments


def _of_settings(reasons: dict[str, str]) -> dict[str, str]:
    known = dict.fromkeys((*Setting.model_fields, *Schedule.model_fields, "options"))
    for name in reasons:
        find(known, name, "setting")
    return reasons


def _known_datasets(raw: dict[str, Setting], info: ValidationInfo) -> dict[str, Setting]:
    for name in raw:
        check_declared("dataset", name, info)
    return raw


TEXT = {"type": "string"}

EachOnce = AfterValidator(each_once)
InstalledTracker = Annotated[TrackerName, AfterValidator(check_tracker)]
Folder = Annotated[Path, BeforeValidator(checked_folder), WithJsonSchema(TEXT)]
ExperimentFolder = Annotated[Path, BeforeValidator(_experiment_folder), WithJsonSchema(TEXT)]
ResultsFolder = Annotated[
    Path, BeforeValidator(_results_folder), WithJsonSchema({**TEXT, "minLength": 1})
]
DataFolders = Annotated[
    list[Path],
    BeforeValidator(_data_folders),
    WithJsonSchema({"anyOf": [TEXT, {"type": "array", "items": TEXT, "minItems": 1}]}),
]


class Data(Typed):
    """Where datasets are."""

    folders: DataFolders = Field(
        [Path("data")],
        alias="folder",
        validate_default=True,
        description="folder of the official data files, laid out as by torchvision; or a list of "
        "folders: the first one with a file is read, downloads go to the last",
        json_schema_extra={"default": "data"},
    )
    download: bool = Field(
        False, description="download missing or damaged files into the last of these folders"
    )
    prepared: Annotated[list[Folder], EachOnce] = Field(
        [], description="folders with prepared datasets, laid out like results/data/"
    )


class Overlay(Typed):
    """Values that override the settings of all experiments.

    Its form is checked when the scale is read, and what it names when the scale is planned.
    """

    setting: Setting = Field(
        default_factory=Setting.model_construct, description="values that override every setting"
    )
    datasets: Annotated[dict[str, Setting], AfterValidator(_known_datasets)] = Field(
        {}, description="by the experiment's dataset: values that override settings with it"
    )
    experiments: dict[str, Setting] = Field(
        {},
        description="by experiment, or <experiment>/<table or figure>: values that override its "
        "settings, and those of datasets and setting above",
    )
    methods: Methods = Field(
        {},
        description="by method: options in every row with it; the key centralized+dividemix "
        "has options of DivideMix in this combination; an option that a row, its variant or its "
        "column gives as 0 stays 0",
    )
    columns: dict[str, Names] = Field(
        {}, description="by <experiment>/<table>: full names of the columns to keep"
    )
    rows: dict[str, Names] = Field(
        {}, description="by <experiment>/<table>: full names of the rows to keep"
    )
    add_rows: dict[str, list[dict[str, Any]]] = Field(
        {},
        description="by <experiment>/<table>: rows that are added at its end, such as that of a "
        "method of your own",
    )
    trials: dict[str, TrialCount] = Field(
        {}, description="by <experiment>/<table>: number of trials; overrides the scale's"
    )

    def settings_for(self, dataset: Any, experiment: str, part: str) -> list[Setting]:
        """What overrides a setting of a table or figure, ``part``; later ones take precedence.

        Args:
            dataset: the setting's, as its file has it. Values for the same options take precedence
                of those for the name alone.
        """
        found = (
            *(self._of_dataset(dataset), self.setting),
            *(self.experiments.get(experiment), self.experiments.get(part)),
        )
        return [setting for setting in found if setting is not None]

    def _of_dataset(self, dataset: Any) -> Setting | None:
        if isinstance(dataset, str) and dataset in self.datasets:
            return self.datasets[dataset]
        with suppress(BadInput):  # who checks the setting says where it is wrong
            name, options = split_component(dataset, "dataset")
            for key, setting in self.datasets.items():
                if split_component(key, "dataset") == (name, options):
                    return setting
            return self.datasets.get(name)
        return None

    @property
    def changes_runs(self) -> bool:
        """Whether it may change a run, and not only which rows, columns and trials there are."""
        changes = (self.setting.as_given(), self.datasets, self.experiments, self.methods)
        return any(changes)


class Configuration(Typed):
    """The file of a scale."""

    scale: Annotated[Name, AfterValidator(_not_reserved)] = Field(
        description="name of the scale and of results/<scale>/: lower-case letters, digits and _, "
        "a letter first"
    )
    note: str = Field("", description="how to read the scale's numbers; printed with each table")
    reasons: Annotated[dict[str, str], AfterValidator(_of_settings)] = Field(
        {},
        description="why the scale overrides a setting, by the setting's name; `options`: those of "
        "methods; the explorer shows it with each changed setting",
    )
    experiments: Annotated[list[FileName], EachOnce, AfterValidator(_no_rules)] = Field(
        min_length=1,
        description="names of files in config/papers/ or in experiment_folders, without .yaml",
    )
    experiment_folders: Annotated[list[ExperimentFolder], EachOnce] = Field(
        [],
        description="folders with your own experiments (NAME.yaml) and published numbers "
        "(published.csv); they override those in config/",
    )
    targets: Names | None = Field(
        None,
        description="what is built if no target is given: <experiment>, <experiment>/<table or "
        "figure>; null: all; other targets can be requested by name",
    )
    plugins: list[str] = Field(
        [], description="Python files with your own methods, models and other components"
    )
    results: ResultsFolder = Field(
        Path("results"), validate_default=True, description="folder of all artifacts"
    )
    data: Data = Field(default_factory=Data.model_construct)
    device: Annotated[str, AfterValidator(check_device)] = Field(
        "auto",
        description="auto: the GPU with the fewest of your runs, or the CPU if there is none; cpu; "
        "cuda: like auto, but an error without a GPU; cuda:1: this GPU",
    )
    executor: ExecutorName = Field("fast", description="fast, or loop, the plain reference")
    checkpoint_seconds: float = Field(
        60,
        gt=0,
        description="minimum time between two checkpoints of a run; longer if writing one takes "
        "more than a twentieth of it",
    )
    most_minutes: int | None = Field(
        None,
        ge=1,
        description="maximum minutes that a training job requests from a cluster: the limit of its "
        "partition; a longer run resumes in the next attempt; null: no limit",
    )
    reproduced: bool = Field(
        True, description="use the runs stored in reproduced/ for those missing in results"
    )
    keep_models: bool = Field(
        False,
        description="store the final global model of each run that is trained as model.safetensors",
    )
    keep_labels: bool = Field(
        False,
        description="write what each run that is trained found of every sample's label, beside the "
        "run, for `noisyfl audit`",
    )
    trackers: Annotated[list[InstalledTracker], EachOnce] = Field(
        [], description="experiment trackers that receive each round's numbers during training"
    )
    train_missing: bool = Field(
        True,
        description="train the missing runs of tables and figures; false: build them from the "
        "existing runs, and mark other cells as not run",
    )
    trials: TrialCount | None = Field(
        None, description="trials in every table, with seeds 1, 2, ...; null: as many as the paper"
    )
    overlay: Overlay = Field(
        default_factory=Overlay.model_construct,
        description="values that override the settings of all experiments",
    )

    @classmethod
    def prepare(cls, raw: Any, context: Mapping[str, Any]) -> Any:
        """What was given, with ``data``, so that its default folder is checked, too."""
        return {"data": {}, **raw} if isinstance(raw, Mapping) else raw

    def verify(self, context: Mapping[str, Any]) -> None:
        """Raise :class:`BadInput` if a plugin is missing, or two have the same name."""
        find_plugins(self.plugins)


DEFAULTS = Configuration.model_construct()
"""The default of every key of a scale that has one."""


def check_config(config: Mapping[str, Any], where: str) -> Configuration:
    """A scale's configuration, checked; :class:`BadInput` names ``where`` and the key."""
    with reading(where):
        return as_model(dict(config), Configuration, where)


def load_config(files: Sequence[Path]) -> Configuration:
    """Read and check a scale's YAML file; of several, later ones override earlier ones, as with
    Snakemake's ``--configfile``.
    """
    config: dict[str, Any] = {}
    for path in files:
        _override(config, read_yaml(path))
    return check_config(config, ", ".join(map(str, files)))


def _override(config: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Override values, within mappings key by key."""
    for key, value in values.items():
        if isinstance(value, Mapping) and isinstance(config.get(key), dict):
            _override(config[key], value)
        else:
            config[key] = value


def experiment_files(config: Configuration) -> dict[str, Path]:
    """The files of experiments by name; of two with one name, that of a scale's own folder."""
    folders = [EXPERIMENTS, *reversed(config.experiment_folders)]
    return {path.stem: path for one in folders for path in sorted(one.glob("*.yaml"))}


def published_files(config: Configuration) -> list[Path]:
    """The files of published numbers: those in the scale's own folders, then the package's."""
    own = [folder / PUBLISHED.name for folder in config.experiment_folders]
    return [*(path for path in own if path.exists()), PUBLISHED]
