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
        description="folder of the official data files, laid out as by torchvision; or a list of "
        "folders: the first one with a file is read, downloads go to the last",
    )
    download: bool = Field(
        False, description="download missing or damaged files into the last of these folders"
    )
    prepared: Folders = Field(
        [], description="folders with prepared datasets, laid out like results/data/"
    )


class Overlay(Typed):
    """Values that override the settings of all experiments.

    Its form is checked here, and what it names when the scale is planned
    (:func:`noisyfl.experiments.overlay.check_overlay`).
    """

    setting: Setting = Field(
        default_factory=Setting.model_construct, description="values that override every setting"
    )
    datasets: dict[str, Setting] = Field(
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
    trials: dict[str, Trials] = Field(
        {}, description="by <experiment>/<table>: number of trials; overrides the scale's"
    )


class Configuration(Typed):
    """The file of a scale."""

    scale: Name = Field(
        description="name of the scale and of results/<scale>/: lower-case letters, digits and _, "
        "a letter first"
    )
    note: str = Field("", description="how to read the scale's numbers; printed with each table")
    experiments: Annotated[list[FileName], AfterValidator(each_once)] = Field(
        min_length=1,
        description="names of files in config/papers/ or in experiment_folders, without .yaml",
    )
    experiment_folders: Folders = Field(
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
    results: str = Field("results", min_length=1, description="folder of all artifacts")
    data: Data = Field(default_factory=Data.model_construct)
    device: str = Field(
        "auto",
        description="auto: the GPU with the most free memory, or the CPU if there is none; cpu; "
        "cuda: like auto, but an error without a GPU; cuda:1: this GPU",
    )
    executor: Literal["fast", "loop"] = Field(
        "fast", description="fast, or loop, the plain reference"
    )
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
        description="store the final global model of each new run as model.safetensors",
    )
    keep_labels: bool = Field(
        False,
        description="write what each run that is trained found of every sample's label, beside the "
        "run, for `noisyfl audit`",
    )
    trackers: Annotated[
        list[Literal["tensorboard", "mlflow", "wandb"]], AfterValidator(each_once)
    ] = Field(
        [], description="experiment trackers that receive each round's numbers during training"
    )
    train_missing: bool = Field(
        True,
        description="train the missing runs of tables and figures; false: build them from the "
        "existing runs, and mark other cells as not run",
    )
    trials: Trials | None = Field(
        None, description="trials in every table, with seeds 1, 2, ...; null: as many as the paper"
    )
    allow_years: bool = Field(
        False, description="allow runs that no current device finishes within a year"
    )
    overlay: Overlay = Field(
        default_factory=Overlay.model_construct,
        description="values that override the settings of all experiments",
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
