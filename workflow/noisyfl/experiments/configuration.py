"""A scale (``config/*.yaml``): which experiments are run, how large, and on what data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from noisyfl.core.typed import Typed, each_once
from noisyfl.experiments.setting import FileName, Methods, Name, Names, Setting, Trials

BOOLEANS = {"true": True, "false": False}

Folders = Annotated[list[str], AfterValidator(each_once)]


class Data(Typed):
    """Where datasets are."""

    folder: str | Annotated[Folders, Field(min_length=1)] = Field(
        "data",
        description="official files, as torchvision lays them out; of several folders the first "
        "that has a file is read, and the last is where downloads go",
    )
    download: bool = Field(
        False, description="fetch missing or damaged files into the last of these folders"
    )
    prepared: Folders = Field(
        [], description="folders with datasets that are prepared already, as results/data/ has them"
    )


class Overlay(Typed):
    """The last word on every setting of every experiment.

    Its form is checked here, and what it names when the scale is planned
    (:func:`noisyfl.experiments.overlay.check_overlay`).
    """

    setting: Setting = Field(
        default_factory=Setting.model_construct, description="values laid over every setting"
    )
    datasets: dict[str, Setting] = Field(
        {}, description="by the dataset of the paper: what stands in for it"
    )
    experiments: dict[str, Setting] = Field(
        {},
        description="by experiment, or <experiment>/<table or figure>: values of a setting that go "
        "before those of the overlay's own",
    )
    methods: Methods = Field({}, description="by method: options")
    columns: dict[str, Names] = Field(
        {}, description="by <experiment>/<table>: the columns to keep"
    )
    rows: dict[str, Names] = Field({}, description="by <experiment>/<table>: the rows to keep")
    trials: dict[str, Trials] = Field(
        {}, description="by <experiment>/<table>: trials that differ from the scale's"
    )


class Configuration(Typed):
    """The file of a scale."""

    scale: Name = Field(description="names results/<scale>/")
    note: str = Field("", description="what the scale's numbers are worth; printed with each table")
    experiments: Annotated[list[FileName], AfterValidator(each_once)] = Field(
        min_length=1,
        description="files of config/papers/, or of the experiment_folders, without .yaml",
    )
    experiment_folders: Folders = Field(
        [],
        description="folders with experiments of one's own (NAME.yaml) and published numbers "
        "(published.csv); what they have goes before what config/ has",
    )
    targets: Names | None = Field(
        None,
        description="what is made if no target is given: <experiment>, <experiment>/<table or "
        "figure>; null: all",
    )
    plugins: list[str] = Field(
        [], description="Python files with methods, models and other components of one's own"
    )
    results: str = Field("results", min_length=1, description="the folder of all artifacts")
    data: Data = Field(default_factory=Data.model_construct)
    device: str = Field("auto", description="auto, cpu, cuda, cuda:1, ...")
    executor: Literal["fast", "loop"] = Field("fast", description="loop is the plain reference")
    checkpoint_seconds: float = Field(
        60, gt=0, description="the least time between two checkpoints of a run"
    )
    most_minutes: int | None = Field(
        None,
        ge=1,
        description="minutes that a training job asks a cluster for at most, as its partition "
        "allows; a longer run goes on in the next attempt",
    )
    reproduced: bool = Field(
        True, description="take runs that results lack from reproduced/, where it has them"
    )
    keep_models: bool = Field(
        False,
        description="write the global model that each run ends with as safetensors, beside the run",
    )
    trackers: Annotated[
        list[Literal["tensorboard", "mlflow", "wandb"]], AfterValidator(each_once)
    ] = Field([], description="what also takes the numbers of a run while it is trained")
    train_missing: bool = Field(
        True,
        description="train what tables and figures lack; else make them of the runs that are there",
    )
    trials: Trials | None = Field(None, description="null: as many as the paper ran")
    allow_years: bool = Field(
        False, description="take runs that no machine of today ends in a year"
    )
    overlay: Overlay = Field(
        default_factory=Overlay.model_construct,
        description="the last word on every setting of every experiment",
    )

    @classmethod
    def prepare(cls, raw: Any, context: Mapping[str, Any]) -> Any:
        """What was given; Snakemake's ``--config key=true`` gives the text ``true``."""
        if not isinstance(raw, Mapping):
            return raw
        return {k: BOOLEANS.get(v, v) if isinstance(v, str) else v for k, v in raw.items()}

    def to_json(self) -> dict[str, Any]:
        """All keys and their values; of the overlay those that were given."""
        overlay = self.overlay.model_dump(exclude_unset=True)
        return {**self.model_dump(exclude={"overlay"}), "overlay": overlay}
