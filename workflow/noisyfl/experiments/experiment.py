"""An experiment (``config/papers/*.yaml``): settings, and the tables and figures made of them."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag

from noisyfl.analysis.metrics import METRICS, OF_CLIENTS
from noisyfl.analysis.summaries import STATISTICS
from noisyfl.core.options import BadInput, check_keys, find
from noisyfl.core.typed import Typed, each_once
from noisyfl.experiments.setting import (
    Heading,
    Line,
    Method,
    Methods,
    Name,
    Names,
    Setting,
    TrialCount,
    schema_of,
)


def _one_of(known: Mapping[str, Any], kind: str) -> Any:
    def check(name: Any) -> Any:
        find(known, name, kind)
        return name

    return BeforeValidator(check)


Metric = Annotated[str, _one_of(METRICS, "metric"), schema_of("metric")]
Statistic = Annotated[str, _one_of(STATISTICS, "statistic"), schema_of("statistic")]
Published = Annotated[
    dict[str, str],
    Field(description="columns of config/published.csv and the values that select a cell's row"),
]
EachOnce = AfterValidator(each_once)


def _names_once(items: list[Any]) -> list[Any]:
    each_once([one.name for one in items])
    return items


NamesOnce = AfterValidator(_names_once)
OfClients = Annotated[str, _one_of(OF_CLIENTS, "metric of clients"), schema_of("of_clients")]
Number = int | float


class NamedOverride(Typed):
    """Something with a name and, under ``with``, a part of a setting that it overrides."""

    name: Line
    with_: Setting = Field(default_factory=Setting.model_construct, alias="with")


class RowOrColumn(NamedOverride):
    """What rows and columns share."""

    group: Line = ""
    setting: str = ""
    metric: Metric = ""
    statistic: Statistic = ""
    published: Published | None = Field(default_factory=dict)


class Column(RowOrColumn):
    """A column."""

    method: dict[str, Any] = Field({}, description="options added to every row's method")
    x: Number | None = Field(None, description="where a figure draws it")
    mean_of: Names = Field([])
    average_rank: bool = Field(False, description="of the rows in the columns with runs")

    def verify(self, context: Mapping[str, Any]) -> None:
        """Raise :class:`BadInput` if a column without runs says what its runs are."""
        if self.mean_of and self.average_rank:
            raise BadInput("got true beside mean_of, expected one of them", "average_rank")
        if named := {"name", "parts"} & self.method.keys():
            raise BadInput(
                f"got {named.pop()!r}, expected options that are added to the rows' methods",
                "method",
            )
        computed = "mean_of" if self.mean_of else "average_rank" if self.average_rank else ""
        runs = {"with": self.with_.as_given(), "setting": self.setting, "method": self.method}
        for key, value in runs.items():
            if computed and value:
                raise BadInput(
                    f"got {value!r}, expected none in a column with {computed}, which has no runs",
                    key,
                )


class RowEntry(RowOrColumn):
    """A row."""

    method: Method
    method_in: dict[str, Method] = Field(
        {}, description="by setting: the method there, if it differs"
    )
    ranked: bool | None = Field(
        None, description="null: unless the method needs the true labels, or pools all samples"
    )


def _form(columns: Any) -> str:
    is_product = isinstance(columns, list) and all(isinstance(axis, list) for axis in columns)
    return "product" if is_product and columns else "list"


Columns = Annotated[list[Column], Field(min_length=1)]


class Table(Typed):
    """A table."""

    title: Heading
    note: str = ""
    setting: str
    trials: TrialCount
    metric: Metric = "test_accuracy"
    statistic: Statistic
    published: Published | None = None
    columns: Annotated[
        Annotated[Columns, Tag("list")] | Annotated[list[Columns], Tag("product")],
        Discriminator(_form),
        Field(description="columns; or lists of them, whose product they are, the outermost first"),
    ]
    rows: Annotated[list[RowEntry], Field(min_length=1)]


class Figure(Typed):
    """What all figures have."""

    kind: str
    title: Heading
    caption: str
    footer: bool = Field(True, description="whether a small line below names its source")


class MarkEntry(Typed):
    """A vertical line after so many rounds, or at the value of an option."""

    at: Number | str
    label: Line


class OfTable(Figure):
    """A figure of a table's rows and columns."""

    table: str
    rows: Names = Field([])
    columns: Names = Field([])


class ByRound(OfTable):
    """Curves by round."""

    kind: Literal["by_round"]
    metrics: Annotated[list[Metric], Field(min_length=1), EachOnce] = Field(["test_accuracy"])
    x: Literal["ordinary_rounds", "batches"] = "ordinary_rounds"
    xlabel: Line = Field("", description="replaces the text about what a round or batch is")
    marks: list[MarkEntry] = Field([])

    def verify(self, context: Mapping[str, Any]) -> None:
        """Raise :class:`BadInput` if there are marks on an axis of batches."""
        if self.marks and self.x != "ordinary_rounds":
            raise BadInput(
                f"got {self.x!r}, expected 'ordinary_rounds', since there are marks, which lie at "
                "rounds",
                "x",
            )


class BySetting(OfTable):
    """Curves by setting."""

    kind: Literal["by_setting"]
    xlabel: Line


class Compared(OfTable):
    """All methods of a table, compared."""

    kind: Literal["tradeoff"]


class OfCell(Figure):
    """A figure of the clients of a table's cell."""

    table: str
    row: str
    column: str

    @property
    def rows(self) -> list[str]:
        """Its row alone."""
        return [self.row]

    @property
    def columns(self) -> list[str]:
        """Its column alone."""
        return [self.column]


class ByClient(OfCell):
    """What is measured of clients, by what they are."""

    kind: Literal["by_client"]
    x: Annotated[
        list[Literal["noise_level", "samples", "imbalance"]], Field(min_length=1), EachOnce
    ]
    y: Annotated[list[OfClients], Field(min_length=1), EachOnce]


class AmongClients(OfCell):
    """What is measured of clients, as distributions."""

    kind: Literal["among_clients"]
    xlabel: Line = Field("", description="replaces the text about what a round is")
    metrics: Annotated[list[OfClients], Field(min_length=1), EachOnce]


class OfMethod(Typed):
    """A method and what it is called."""

    name: Line
    method: Method


class LocalEpochs(Figure):
    """The local epochs of methods, by round."""

    kind: Literal["local_epochs"]
    rounds: int = Field(ge=1, le=100_000)
    methods: Annotated[list[OfMethod], Field(min_length=1), NamesOnce]


class OfSetting(Figure):
    """A figure with runs or noisy partitions of its own."""

    setting: str
    seed: int = Field(1, ge=0)


class LidScores(OfSetting):
    """LID scores of clients."""

    kind: Literal["lid_scores"]
    with_: Setting = Field(default_factory=Setting.model_construct, alias="with")
    method: Method


class Partitions(OfSetting):
    """Noisy partitions."""

    kind: Literal["class_counts", "noisy_partition"]
    panels: Annotated[list[NamedOverride], Field(min_length=1), NamesOnce]


class OverrideWithMethod(NamedOverride):
    """A method in a setting."""

    method: Method


class ProbePanel(OverrideWithMethod):
    """A panel of what a run measures after its last round."""

    classes: Literal["majority", "minority"] = "majority"
    score: Literal["loss", "similarity"] = "loss"


class Probes(OfSetting):
    """What runs measure after their last rounds."""

    kind: Literal["similarity", "detection", "features"]
    panels: Annotated[list[ProbePanel], Field(min_length=1), NamesOnce]


class LinesPanel(NamedOverride):
    """A panel with several runs."""

    lines: Annotated[list[OverrideWithMethod], Field(min_length=1), NamesOnce]


class LocalModels(OfSetting):
    """Accuracies of local models."""

    kind: Literal["local_models"]
    y: Literal["test_accuracy", "own_classes_accuracy", "train_accuracy"]
    panels: Annotated[list[LinesPanel], Field(min_length=1), NamesOnce]


OfAnyKind = (
    ByRound
    | BySetting
    | ByClient
    | AmongClients
    | Compared
    | LocalEpochs
    | LidScores
    | Partitions
    | Probes
    | LocalModels
)


def _with_kind(raw: Any) -> Any:
    """What was given, if it has a kind, on which the other keys of a figure depend."""
    if isinstance(raw, Mapping) and "kind" not in raw:
        keys = (key for one in typing.get_args(OfAnyKind) for key in list(one.keys()))
        check_keys(raw, dict.fromkeys(keys), "")
        raise BadInput("key 'kind' is missing")
    return raw


AnyFigure = Annotated[OfAnyKind, Field(discriminator="kind"), BeforeValidator(_with_kind)]


class Experiment(Typed):
    """An experiment."""

    title: Heading
    settings: dict[str, Setting]
    methods: Methods = Field({}, description="by method: the options that this paper runs it with")
    tables: dict[Name, Table] = Field({})
    figures: dict[Name, AnyFigure] = Field({})
