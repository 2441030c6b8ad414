"""The text of docs/conformance.md, from the recorded numbers and comments on them."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterator
from typing import Any

import jinja2
import yaml

from conformance import COMMITS, FOLDER
from conformance.record import recorded
from conformance.recorders import MODULES, steps
from conformance.runs import CAUSES, FEWER, FEWEST_SEEDS, LAST, PAIRS, RECORDED, SETTING
from conformance.runs.statistics import Comparison, decided, flagged_alike

PAGE = FOLDER.parent / "docs" / "conformance.md"

DIFFERENCES = FOLDER / "differences.json"
"""The file with the difference between ours and the official code in each step, as last recorded,
by repository and step."""

TEXTS: dict[str, Any] = yaml.safe_load((FOLDER / "texts.yaml").read_text(encoding="utf-8"))
"""Comments on the numbers."""

Row = tuple[str, ...]


def page() -> str:
    """The page's text."""
    environment = jinja2.Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["wrap"] = wrap
    template = environment.from_string((FOLDER / "page.md.jinja").read_text(encoding="utf-8"))
    records = {name: record for name in PAIRS if (record := run_record(name))}
    comparisons = {name: Comparison.of(record) for name, record in records.items()}
    methods, by_step = _steps()
    return template.render(
        commits=COMMITS,
        texts=TEXTS,
        setting=SETTING,
        last=LAST,
        methods=methods,
        steps=by_step,
        compared=[_compared(name, one) for name, one in comparisons.items()],
        beyond=[
            name
            for name, one in comparisons.items()
            if one.seeds >= FEWEST_SEEDS and not one.inside
        ],
        decisions=[row for name, record in records.items() for row in _decisions(name, record)],
        left=[name for name in PAIRS if name not in records],
        settings=_settings(),
        trials=[_trial(name) for name in CAUSES],
    )


def run_record(name: str) -> dict[str, Any] | None:
    """The recorded complete runs of a method, or None if no seed has been run on both sides."""
    path = FOLDER / "runs" / RECORDED / f"{name}.json"
    record = json.loads(path.read_text()) if path.exists() else None
    return record if record and record["ours"].keys() & record["official"].keys() else None


def _steps() -> tuple[list[Row], list[Row]]:
    """The rows of the table of methods, and of that of steps."""
    vectors = {repository: recorded(repository) for repository in MODULES}
    apart = json.loads(DIFFERENCES.read_text())
    found = sorted(
        ((step.method, repository, step) for repository in MODULES for step in steps(repository)),
        key=lambda row: row[0],
    )
    methods: list[Row] = []
    for method in sorted({method for method, *_ in found}):
        own = [(repository, step) for name, repository, step in found if name == method]
        codes = dict.fromkeys(repository for repository, _ in own)
        largest = max(apart[repository][step.name] for repository, step in own)
        names = ", ".join(map(_repository, codes))
        methods.append((f"`{method}`", names, str(len(own)), below(largest), _verdict(method)))
    by_step: list[Row] = []
    for method, repository, step in found:
        address = _permalink(repository, vectors[repository]["steps"][step.name])
        place = f"[{step.function or step.file}]({address})"
        by_step.append((f"`{method}`", step.what, place, below(apart[repository][step.name])))
    return methods, by_step


def _settings() -> list[Row]:
    """The settings of complete runs, each after the methods that use it."""
    methods: dict[Row, list[str]] = {}
    for name, pair in PAIRS.items():
        schedule = pair.setting["schedule"]
        row = (
            f"`{pair.setting['label_noise']}`",
            f"`{pair.setting['noise_level']}`",
            str(schedule["participation"]),
            str(schedule["batch_size"]),
            str(schedule["momentum"]),
            str(schedule.get("clip_norm", "")),
        )
        methods.setdefault(row, []).append(f"`{name}`")
    return [(", ".join(names), *row) for row, names in methods.items()]


def _compared(name: str, comparison: Comparison) -> Row:
    """The result of a method's complete runs."""
    return (
        f"`{PAIRS[name].ours}`",
        _repository(PAIRS[name].repository),
        str(comparison.seeds),
        percent(*comparison.official),
        percent(*comparison.ours),
        signed(comparison),
        *(f"{seconds:.0f}" for seconds in comparison.seconds),
        _verdict(name),
    )


def _decisions(name: str, record: dict[str, Any]) -> Iterator[Row]:
    """What a method's runs decided on both sides."""
    official, ours = decided(record, "official"), decided(record, "ours")
    for key in (key for key in official if key in ours):
        words = TEXTS["decisions"][key]
        yield f"`{name}`", words, f"{official[key]:.3f}", f"{ours[key]:.3f}"
    if "flagged" in official:
        same, asked = flagged_alike(record)
        yield f"`{name}`", "clients on which both agree", f"{same} of {asked}", ""


def _trial(name: str) -> dict[str, Any]:
    """What runs of an official code with one or two changes show about a difference."""
    pair, record = CAUSES[name], run_record(name)
    setting = {**pair.setting, **pair.setting["schedule"], "last": FEWER}
    trial = TEXTS["trials"][name]
    trial = {**trial, "before": trial["before"].format(**setting), "headers": (), "rows": ()}
    if record is None:
        return trial
    keys = list(decided(record, "official"))
    names = [TEXTS["decisions"][key] for key in keys]
    rows = []
    for side in ("official", *pair.changes, "ours"):
        moved, left = Comparison.of(record, ours=side), Comparison.of(record, official=side)
        own = decided(record, side)
        rows.append(
            (
                TEXTS["sides"][side],
                str(left.seeds),
                percent(*moved.ours),
                "" if side == "official" else signed(moved),
                "" if side == "ours" else signed(left),
                *(f"{own[key]:.3f}" if key in own else "" for key in keys),
            )
        )
    headers = ("run", "seeds", "accuracy", "minus official", "ours minus it", *names)
    return {**trial, "headers": headers, "rows": rows}


def _verdict(name: str) -> str:
    record = run_record(name)
    if name not in PAIRS:
        return ""
    if record is None:
        return "not run yet"
    comparison = Comparison.of(record)
    if comparison.seeds < FEWEST_SEEDS:
        return f"{comparison.seeds} of {FEWEST_SEEDS} seeds"
    return "within the interval" if comparison.inside else "beyond the interval, cause found"


def below(difference: float) -> str:
    """The power of ten that a difference lies below, or ``equal`` if it is 0."""
    return "equal" if difference == 0 else f"1e{math.floor(math.log10(difference)) + 1}"


def percent(mean: float, spread: float) -> str:
    """A mean share in per cent, with its spread."""
    return f"{100 * mean:.2f}{_width(spread)}"


def signed(comparison: Comparison) -> str:
    """A difference in points, with its interval."""
    return f"{100 * comparison.difference:+.2f}{_width(comparison.half_width)}"


def _width(width: float) -> str:
    """A width in points, as it stands after a number; nothing if it is not finite."""
    return f" ± {100 * width:.2f}" if math.isfinite(width) else ""


def wrap(paragraph: str) -> str:
    """A paragraph wrapped at 100 characters."""
    lines = textwrap.fill(
        " ".join(paragraph.split()), 100, break_on_hyphens=False, break_long_words=False
    )
    return f"{lines}\n"


def _repository(repository: str) -> str:
    commit = COMMITS[repository]
    return f"[{repository}](https://github.com/{repository}/tree/{commit}) at {commit[:7]}"


def _permalink(repository: str, step: dict[str, Any]) -> str:
    first, last = step["lines"]
    place = f"{COMMITS[repository]}/{step['file']}#L{first}-L{last}"
    return f"https://github.com/{repository}/blob/{place}"
