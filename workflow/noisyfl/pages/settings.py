"""How a table's numbers were made, in words: settings, methods, machines and substitutions."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from noisyfl.analysis.cells import Cell, Content
from noisyfl.analysis.metrics import ACCURACY, REPORTED, SYMBOLS
from noisyfl.analysis.names import BASELINE
from noisyfl.analysis.runs import Run
from noisyfl.analysis.statistics import (
    LEVEL,
    NOT_RUN,
    OTHER_SCALE,
    PARTLY_SPREADS,
    POINTS,
    SIGNS,
    differences,
)
from noisyfl.analysis.summaries import WORDS
from noisyfl.core.artifacts import TRACKED
from noisyfl.core.registry import parts_of
from noisyfl.data.datasets.dataset import dataset
from noisyfl.specs.words import Words, component, describe_setting, plain

CLIENTS = re.compile(r"\bn=(\d+)")
"""The number of clients in a published partition."""

NOT_NOTED = "not noted"
"""What stands for the share of wrong labels in runs whose provenance does not have it."""

LEGEND = "In bold: what differs from its default. What has no default is never bold."
"""The sentence above the settings and methods of a page."""


@dataclass(frozen=True)
class Item:
    """One item of a setting, such as the model, and its values in the cells of a table.

    Attributes:
        values: each value by the names of the columns, rows or cells that have it, separated by
            semicolons; a single value, under an empty name, if all cells have the same.
    """

    name: str
    values: Mapping[str, Words]


def settings(content: Content) -> list[Item]:
    """The settings of the cells that have runs; each value is listed once, with its places."""
    rows = content.trained_rows
    by_cell = {
        (row.name, column): _setting_of_cell(content, cell)
        for row in rows
        for column, cell in zip(content.columns, row.cells, strict=True)
        if cell.runs
    }
    found = [
        Item(name, _by_place({at: setting[name] for at, setting in by_cell.items()}))
        for name in next(iter(by_cell.values()), {})
    ]
    return [item for item in found if set(item.values.values()) != {plain(NOT_NOTED)}]


def _setting_of_cell(content: Content, cell: Cell) -> dict[str, Words]:
    """The setting of a cell, and the share of wrong labels as a mean over its trials, if noted."""
    trials = content.runs_of(cell)
    found = describe_setting(trials[0].spec, content.described(cell).changed_options)
    shares = [run.provenance.realised_noise for run in trials]
    known = [share for share in shares if share is not None]
    if not all("realised_noise" in run.provenance.model_fields_set for run in trials):
        wrong = NOT_NOTED
    else:
        wrong = "not known" if None in shares else f"{100 * sum(known) / len(known):.1f} %"
    rest = list(found.items())
    place = list(found).index("noise level") + 1
    return dict([*rest[:place], ("wrong labels", plain(wrong)), *rest[place:]])


def _by_place(values: Mapping[tuple[str, str], Words]) -> dict[str, Words]:
    """Group values by (row, column) under the shortest names of places that tell them apart."""
    for naming in (lambda at: "", lambda at: at[1], lambda at: at[0], ", ".join):
        found: dict[str, set[Words]] = {}
        for at, value in values.items():
            found.setdefault(naming(at), set()).add(value)
        if all(len(group) == 1 for group in found.values()):
            break
    places: dict[Words, list[str]] = {}
    for name, group in found.items():
        places.setdefault(group.pop(), []).append(name)
    return {"; ".join(names): value for value, names in places.items()}


def methods_shown(content: Content) -> dict[str, list[tuple[Words, int]]]:
    """The methods of each of our rows with every option as it was run, and their revisions."""
    found = {}
    for row in content.trained_rows:
        words = [
            (component(part, changed.get(part["name"], ())), part["revision"])
            for cell in row.cells
            for changed in ([content.described(cell).changed_options] if cell.runs else [])
            for run in content.runs_of(cell)
            for part in parts_of(run.spec["method"])
        ]
        found[row.name] = list(dict.fromkeys(words))
    return found


def banner(content: Content) -> list[str]:
    """What a reader must know before comparing our numbers with the paper's.

    It is empty if every cell is in the paper's setting. The first sentence is a warning, the others
    say in what the settings differ from the paper's, and which of them are one at this scale.
    """
    foreign = [cell for cell in content.cells if not cell.as_published]
    if not foreign:
        return []
    scale = content.description.scale
    has_paper = content.description.published is not None
    if not has_paper:
        warning = f"Scale “{scale}”: it overrides some of this experiment's settings."
    elif len(foreign) == len(content.cells):
        warning = (
            f"Scale “{scale}”: not the paper's settings. Compare our numbers with each other, and "
            "not with the published ones in brackets."
        )
    else:
        warning = (
            f"Scale “{scale}”: the numbers marked † were not made in the paper's settings, and are "
            "not to be compared with the published ones in brackets."
        )
    note = content.description.scale_note
    return [
        warning,
        *([note] if note else []),
        *_stand_ins(content, foreign),
        _size(content, foreign),
        *_same_runs(content),
    ]


def _stand_ins(content: Content, cells: list[Cell]) -> list[str]:
    """Sentences on how the datasets, clients and trials are known to differ from the paper's."""
    found: dict[str, None] = {}
    for cell in cells:
        if cell.published is None:
            continue
        paper, setting = cell.facts, content.runs[cell.runs[0]].spec["noisy_partition"]
        clients = str(setting["partition"]["clients"])
        if paper["dataset"] != setting["dataset"]:
            found[f"{dataset(setting['dataset']).title} replaces {paper['dataset']}."] = None
        there = CLIENTS.search(paper["partition"])
        if there and there[1] != clients:
            found[f"{clients} clients; the paper has {there[1]}."] = None
        if paper["published_trials"] not in (0, len(cell.runs)):
            trials = paper["published_trials"]
            found[f"{count(len(cell.runs), 'trial')}; the paper has {trials}."] = None
    return list(found)


def _size(content: Content, cells: list[Cell]) -> str:
    """A sentence on the size of the cells' runs: dataset, clients, rounds and the like."""
    every = [describe_setting(content.runs[cell.runs[0]].spec) for cell in cells]

    def values(name: str) -> str:
        return " or ".join(dict.fromkeys(str(setting[name]) for setting in every))

    def some(name: str, noun: str) -> str:
        return f"{values(name)} {noun if values(name) == '1' else noun + 's'}"

    return (
        f"Here: {values('dataset')}, {some('clients', 'client')}, {some('rounds', 'round')}, "
        f"participation {values('participation')}, {some('local epochs', 'local epoch')}, "
        f"model {values('model')}."
    )


def _same_runs(content: Content) -> list[str]:
    """Sentences on columns, and on rows, whose names differ though their runs and metric do not."""
    rows = content.trained_rows
    lines = [row.cells for row in rows]
    found = []
    for kind, names, parts in (
        ("columns", content.columns, list(zip(*lines, strict=True))),
        ("rows", [row.name for row in rows], lines),
    ):
        alike = defaultdict(list)
        for name, cells in zip(names, parts, strict=True):
            if any(cell.runs for cell in cells):
                shown = tuple((cell.metric, cell.statistic, *cell.runs) for cell in cells)
                alike[shown].append(name)
        found += [
            f"At this scale these {kind} are the same runs: {'; '.join(same)}."
            for same in alike.values()
            if len(same) > 1
        ]
    return found


def notes(content: Content) -> list[str]:
    """Notes on how to read the cells; they explain only what occurs in the table."""
    several = any(len(cell.runs) > 1 for cell in content.cells)
    spread = "mean ± sample standard deviation over the trials" if several else "a single trial"
    measures = ", or ".join(dict.fromkeys(_measure_in_words(cell) for cell in content.cells))
    found = missing(content)
    if content.cells:
        groups = {row.group for row in content.trained_rows if row.ranked}
        rivals = "each group of rows" if len(groups) > 1 else "a column"
        ranked = any(cell.measure.is_ranked for cell in content.cells)
        best = f" The best of {rivals} is in bold." if ranked else ""
        found.append(f"Ours: {measures}; {spread}.{best}")
        if content.on_fewer_seeds:
            shared = f"the seeds that all ranked rows of {rivals} have"
            found.append(f"A number is over {shared}; the CSV file has all.")
        found += _not_recorded(content)
        others = [row.name for row in content.trained_rows if not row.ranked]
        found += [f"Not ranked, and never in bold: {'; '.join(others)}."] if others and best else []
    if any(cell.averages for row in content.rows for cell in row.cells):
        found.append(
            "Of a mean of columns, ± is the deviation over these, and counts for no verdict."
        )
    if any(cell.published for row in content.rows for cell in row.cells):
        found.append("In brackets: the number that the paper prints.")
    compared = {
        word: n for word, n in content.verdicts.items() if word not in (NOT_RUN, OTHER_SCALE)
    }
    if compared:
        words = ", ".join(f"{n} {word} {SIGNS[word]}".strip() for word, n in compared.items())
        found.append(
            f"Of {sum(content.verdicts.values())} published numbers: {words}. Supported: off by "
            f"at most the published spread ({POINTS:g} points where none is printed) and our "
            f"standard error (of one trial: the published spread, or 0); partly: by at most "
            f"{PARTLY_SPREADS:g} published spreads and that."
        )
    if not all(row.trained for row in content.rows):
        found.append("Not run: lines of the paper's table that are not trained here.")
    if any(cell.diverged for cell in content.cells):
        found.append(
            "Diverged: in so many trials the global model ceased to be finite; the number is that "
            "of the other trials, and never the best."
        )
    starred = any(cell.summary and cell.summary.starred for cell in content.cells)
    starred_there = any(c.published and c.published.starred for r in content.rows for c in r.cells)
    if starred or starred_there:
        found.append("*: the maximum, since at least half of the runs did not converge.")
    found += _significant(content)
    remarks = (remark for cell in content.cells for remark in content.described(cell).remarks)
    found += [f"{remark}." for remark in dict.fromkeys(remarks)]
    note = content.description.note
    return [*found, note] if note else found


def _not_recorded(content: Content) -> list[str]:
    """A note on metrics of which no run has a value: the name may be mistyped."""
    found = []
    for metric in dict.fromkeys(cell.metric for cell in content.cells):
        cells = [cell for cell in content.cells if cell.metric == metric]
        if any(cell.summary or cell.diverged for cell in cells):
            continue
        note = f"No run here records {metric}"
        if REPORTED.fullmatch(metric):
            runs = [run for cell in cells for run in content.runs_of(cell)]
            columns = dict.fromkeys(name for run in runs for name in run.clients)
            known = [f"clients.{name}" for name in columns if name not in ("round", "client")]
            note += f"; they record {', '.join(known) or 'nothing of their clients'}"
        found.append(f"{note}.")
    return found


def _significant(content: Content) -> list[str]:
    """A note on which rows differ significantly from FedAvg's; none without several seeds."""
    names = [row.method_name for row in content.description.rows]
    runs = content.frame[(content.frame["run"] != "") & (content.frame["status"] == "finished")]
    runs = runs[runs["metric"] == ACCURACY].set_index("seed")
    if names.count(BASELINE) != 1 or runs.empty:
        return []
    accuracies = {
        (int(cell["row_number"].iloc[0]), int(cell["column_number"].iloc[0])): cell["mean_last_10"]
        for _, cell in runs.groupby(["row_number", "column_number"])
    }
    found = differences(accuracies, names.index(BASELINE))
    if not found.deviations:
        return []
    parts = []
    for c in found.deviations:
        at = sorted(r for r, column in found.significant if column == c)
        for words, sign in (("better", 1), ("worse", -1)):
            if rows := [r for r in at if sign * found.mean((r, c)) > 0]:
                methods = ", ".join(content.description.rows[r].name for r in rows)
                parts.append(f"{words} in {content.columns[c]}: {methods}")
    return [
        "Significantly better or worse than FedAvg, by a paired t-test of the mean of the last ten "
        f"evaluations with the standard deviation pooled over a column (a method's own if that is "
        f"larger), at {LEVEL:g} for all "
        f"{len(found.chances)} differences (Holm): {'; '.join(parts) or 'none'}."
    ]


def missing(content: Content) -> list[str]:
    """A note on how many runs are missing, and what they would cost; empty if none is."""
    table = content.description
    if not table.missing:
        return []
    there = len(table.run_ids())
    return [
        f"{there} of {count(there + table.missing, 'run')} are there; a cell without one is not "
        f"run. The others would take about {table.missing_hours:g} hours of one CPU core: "
        "snakemake --config train_missing=true trains them."
    ]


def _measure_in_words(cell: Cell) -> str:
    """What a cell shows, in words."""
    symbol = SYMBOLS[cell.measure.unit].replace("%", "percent")
    unit = f", in {symbol}" if symbol else ""
    return f"{cell.measure.label}, {WORDS[cell.statistic]}{unit}"


def making(content: Content) -> dict[str, list[str]]:
    """How the runs were made, by heading: their number, training time, machines and software."""
    runs = {run: content.runs[run] for run in content.description.run_ids()}
    return {
        "runs": [f"{count(len(runs), 'run')}, {_trials(content)} a cell" if runs else "none"],
        "training time": [duration(sum(r.provenance.training_seconds for r in runs.values()))],
        "device": _distinct(runs.values(), lambda run: ", then ".join(run.provenance.devices)),
        "software": _distinct(runs.values(), _software),
        "source digest": _distinct(runs.values(), lambda run: run.provenance.source_digest[:16]),
        "folder": _distinct(runs.values(), lambda run: f"{run.folder.parent.as_posix()}/<run>/"),
    }


def origin(run: Run) -> str:
    """The remark after a run's id if it is of the tracked ones; else empty."""
    return " (reproduced)" if run.folder.parents[1].name == TRACKED else ""


def _trials(content: Content) -> str:
    trials = {len(cell.runs) for row in content.trained_rows for cell in row.cells if cell.runs}
    *fewer, most = sorted(trials)
    return " or ".join([*map(str, fewer), count(most, "trial")])


def _software(run: Run) -> str:
    made = run.provenance
    return f"noisyfl {made.noisyfl}, torch {made.torch}, Python {made.python}"


def _distinct(runs: Iterable[Run], what: Any) -> list[str]:
    """The distinct values of a fact of the runs, with the number of runs if there are several."""
    found = Counter(what(run) for run in runs)
    if len(found) < 2:
        return list(found)
    listed = [f"{value} ({count(number, 'run')})" for value, number in found.most_common()]
    return [f"{len(found)} different ones", *listed]


def count(number: int, noun: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def duration(seconds: float) -> str:
    """A time in words, in its two largest units."""
    whole = round(seconds)
    for unit, size, part, smaller in (("d", 86400, "h", 3600), ("h", 3600, "min", 60)):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // smaller} {part}"
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"
