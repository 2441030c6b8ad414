"""docs/conformance.md, from what is recorded."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from conformance import COMMITS, FOLDER
from conformance.record import recorded
from conformance.recorders import MODULES, steps
from conformance.runs import FEWEST_SEEDS, LAST, PAIRS, RECORDED, SETTING
from conformance.runs.statistics import Comparison, decided, flagged_alike

PAGE = FOLDER.parent / "docs" / "conformance.md"
DIFFERENCES = FOLDER / "differences.json"
"""How far each step was from ours when it was last recorded, by repository and step."""

WITHOUT = {
    "rofl": "no official code; the unofficial one does not work ([why](fidelity.md#rofl)), and "
    "FedRN's repository no longer has its port",
    "fedcni": "no official code is public",
    "fednoil": "no official code is public",
    "deep_self_learning": "no official code that works is public",
    "poc": "no official code; tested against the rule worked out by hand",
    "oracle": "FedAvg on a part of the samples",
    "distributed": "FedAvg's local update alone",
    "centralized": "FedAvg with one client",
    "bootstrapping": "tested against numbers worked out by hand",
    "coteaching_plus": "its code's numbers stand in its test, with repository, commit and function",
    "elr": "its code's numbers stand in its test, with repository, commit and function",
    "feddiv": "its authors have withdrawn the code; tested against numbers worked out by hand",
    "fedelc": "its code's numbers stand in its test, with repository, commit and function",
    "fedfixer": "its code's numbers stand in its test, with repository, commit and function",
    "fedlsr": "its code's numbers stand in its test, with repository, commit and function",
    "fednoro": "its code's numbers stand in its test, with repository, commit and function",
    "gce": "tested against numbers worked out by hand",
    "label_smoothing": "tested against numbers worked out by hand",
    "mae": "tested against numbers worked out by hand",
    "masked_optim": "its code's numbers stand in its test, with repository, commit and function",
    "mixup": "tested against numbers worked out by hand",
    "rfa": "its code's numbers stand in its test, with repository, commit and function",
    "sce": "its code's numbers stand in its test, with repository, commit and function",
    "trimmed_mean": "tested against numbers worked out by hand",
}
"""Methods that have no recorded steps here, and why."""

FOUND = {
    "apfl": "the order of the steps. In the code the mixture sees the shared model after its "
    "step; in the paper's Algorithm 1, and in ours, before. With the code's order and its "
    "slope of the share, patched in for a trial, ours reaches 86.3 and 85.5 on seeds 1 "
    "and 2, and shares of 0.19 and 0.21, as the code does",
    "fedproto": "prototypes are read after the local update, in the code while its last epoch "
    "still moves the weights. With the code's read afterwards too, patched in for a trial, it "
    "gains 0.26, 0.48, 0.46 and 0.34 points on seeds 1, 2, 3 and 5, most of the "
    "difference",
}
"""Of whole runs whose difference lies beyond the interval, what it comes from."""

NOT_RUN = {
    "litian96/FedProx": "needs TensorFlow 1.10, which no Python of today runs; FedProx is run in "
    "FedDyn's repository",
    "lishenghui/arfl": "needs TensorFlow 1; ARFL, the median and the trimmed mean are run in the "
    "repository of ARFL's own authors",
    "LiJunnan1992/DivideMix": "one place, no federation; run as a client side in FedRN's "
    "repository",
    "bhanML/Co-teaching": "the same",
    "DaikiTanaka-UT/JointOptimization": "the same, and Chainer",
    "NUST-Machine-Intelligence-Laboratory/Jo-SRC": "one place, no federation, and no repository "
    "that has made it federated",
    "lijichang/FLNL-FedDiv": "withdrawn by its authors",
}
"""Repositories whose code is not run whole, and why."""

NAMES = {
    "label_precision": "precision of what is taken for clean",
    "label_recall": "recall of what is taken for clean",
    "refurbished": "share of samples with a new label",
    "refurbished_accuracy": "new labels that are true",
    "label_accuracy": "labels at the end that are true",
    "flagged": "clients flagged as noisy",
    "estimated_noise_level": "estimated noise level, mean of clients",
    "clusters": "clusters at the end",
    "largest_cluster": "clients of the largest one",
    "mixing_share": "share of the private model, mean of clients",
}
"""Of decisions, in the page."""

OTHERS = (
    ("mixtures of two Gaussians", "scikit-learn's `GaussianMixture`",
     "tests/methods/estimators/test_mixture.py"),
    ("RandAugment", "torchvision's operations on Pillow's images",
     "tests/data/augmentation/test_randaugment.py"),
)  # fmt: skip
"""Libraries that tests hold us against as they run."""


def page() -> str:
    """The page's text."""
    return "\n".join([*_head(), *_steps(), *_without(), *_runs(), *_again(), ""])


def _head() -> Iterator[str]:
    yield "# Conformance\n"
    yield _text(
        "Where a paper has public code, that code made the published numbers. Here is what it "
        "gives and what ours gives, on record. No line of official code is part of this project: "
        "a recorder imports it from a checkout and writes down numbers (`conformance/vectors/`), "
        "and tests give the same inputs to our code (`tests/conformance/`). This page is made from "
        "those files."
    )
    yield _text(
        "What is not the same on purpose stands in "
        "[Fidelity](fidelity.md#where-the-official-codes-numbers-differ), with the switch that "
        "does as the code does, or the reason why there is none."
    )


def _steps() -> Iterator[str]:
    kept = {repository: recorded(repository) for repository in MODULES}
    apart = json.loads(DIFFERENCES.read_text())
    yield "\n## Step by step\n"
    yield _text(
        "A step is a function of the official code, or a block of a script, with its inputs. The "
        "largest difference is that of any number, relative to the largest one of its array, as "
        "the power of ten that it is below; *equal* is to the last bit. Tests allow 1e-5."
    )
    rows = [
        (step.method, repository, step, kept[repository]["steps"][step.name])
        for repository in MODULES
        for step in steps(repository)
    ]
    yield "| method | official code | steps | largest difference | whole runs |"
    yield "|---|---|---|---|---|"
    for method in sorted({row[0] for row in rows}):
        own = [row for row in rows if row[0] == method]
        codes = dict.fromkeys(repository for _, repository, *_ in own)
        largest = max(apart[repository][step.name] for _, repository, step, _ in own)
        yield _row(
            f"`{method}`",
            ", ".join(map(_repository, codes)),
            str(len(own)),
            below(largest),
            _verdict(method),
        )
    yield "\n| method | step | official code | difference |"
    yield "|---|---|---|---|"
    for method, repository, step, held in sorted(rows, key=lambda row: row[0]):
        place = f"[{step.function or step.file}]({_permalink(repository, held)})"
        yield _row(f"`{method}`", step.what, place, below(apart[repository][step.name]))
    yield "\nLibraries are an oracle as well, which tests ask as they run:\n"
    yield "| what | held against | in |"
    yield "|---|---|---|"
    for what, library, file in OTHERS:
        yield _row(what, library, f"[{Path(file).name}](../{file})")


def _without() -> Iterator[str]:
    yield "\n## Without recorded steps\n"
    yield "| method | |"
    yield "|---|---|"
    for method, why in WITHOUT.items():
        yield _row(f"`{method}`", why)


def _runs() -> Iterator[str]:
    records = {name: record for name in PAIRS if (record := run_record(name))}
    rounds = SETTING["schedule"]["rounds"]
    yield "\n## Whole runs\n"
    yield _text(
        f"The official code and ours get the same noisy partition of {SETTING['dataset']} "
        f"(`{SETTING['partition']}`), the same first weights of `{SETTING['model']}` and the same "
        f"participants in each of {rounds} rounds. What each draws for itself, batches and mixup, "
        "is its own. The settings, which differ where a code asks for it, are below the table. The "
        f"accuracy is the mean of the last {LAST} rounds, in per cent, with the standard deviation "
        "over seeds. The difference is ours less theirs, with the 95 % interval of its mean over "
        "seeds (Student's t on pairs). Seconds are the processor's, on one thread, tests included."
    )
    if records:
        yield from _compared(records)
    left = [name for name in PAIRS if name not in records]
    if left:
        yield (
            f"\nNot run yet: {', '.join(f'`{name}`' for name in left)} "
            "(`python -m conformance.runs`, below)."
        )
    yield from _settings()
    yield "\nCode that is not run whole:\n"
    yield "| official code | why |"
    yield "|---|---|"
    for repository, why in NOT_RUN.items():
        yield _row(f"[{repository}](https://github.com/{repository})", why)


def _settings() -> Iterator[str]:
    """The settings of the whole runs, each with its methods."""
    yield "\nThe settings:\n"
    yield (
        "| methods | label noise | noise level | participation | batch size | momentum | clipped |"
    )
    yield "|---|---|---|---|---|---|---|"
    methods: dict[tuple[str, ...], list[str]] = {}
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
    for row, names in methods.items():
        yield _row(", ".join(names), *row)


def _compared(records: dict[str, dict[str, Any]]) -> Iterator[str]:
    """The tables of the whole runs that there are."""
    yield (
        "| method | official code | seeds | official | ours | difference | seconds, official "
        "| ours | verdict |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for name, record in records.items():
        told = Comparison.of(record)
        yield _row(
            f"`{PAIRS[name].ours}`",
            _repository(PAIRS[name].repository),
            str(told.seeds),
            _percent(*told.official),
            _percent(*told.ours),
            f"{100 * told.difference:+.2f}{_beside(told.half_width)}",
            *(f"{seconds:.0f}" for seconds in told.seconds),
            _verdict(name),
        )
    yield "\nWhat the differences beyond the interval come from:\n"
    for name, record in records.items():
        told = Comparison.of(record)
        if told.seeds >= FEWEST_SEEDS and not told.inside:
            yield _text(f"- `{name}`: {FOUND[name]}.")
    yield "\nWhat they decide, as means over seeds:\n"
    yield "| method | what | official | ours |"
    yield "|---|---|---|---|"
    for name, record in records.items():
        official, ours = decided(record, "official"), decided(record, "ours")
        for key in official:
            yield _row(f"`{name}`", NAMES[key], f"{official[key]:.3f}", f"{ours[key]:.3f}")
        if "flagged" in official:
            same, asked = flagged_alike(record)
            yield _row(f"`{name}`", "clients of which both say the same", f"{same} of {asked}", "")


def _again() -> Iterator[str]:
    yield "\n## Again\n\n```"
    yield "make conformance OFFICIAL=checkouts                # records all steps: what changed"
    yield "python -m conformance.runs --official checkouts    # whole runs that are not recorded"
    yield "```\n"
    yield _text(
        "`checkouts` is a folder with each repository at `OWNER+NAME`, at its commit; "
        "`python -m conformance` writes this page anew:"
    )
    for repository, commit in COMMITS.items():
        yield f"- {repository} at {commit}"


def run_record(name: str) -> dict[str, Any] | None:
    """The whole runs of a method, if there are any of both sides."""
    path = FOLDER / "runs" / RECORDED / f"{name}.json"
    record = json.loads(path.read_text()) if path.exists() else None
    return record if record and record["ours"].keys() & record["official"].keys() else None


def _verdict(name: str) -> str:
    record = run_record(name)
    if name not in PAIRS:
        return ""
    if record is None:
        return "not run yet"
    told = Comparison.of(record)
    if told.seeds < FEWEST_SEEDS:
        return f"{told.seeds} of {FEWEST_SEEDS} seeds"
    if told.inside:
        return "within the interval"
    return "beyond it, and found"


def below(difference: float) -> str:
    """The power of ten that a difference is below."""
    return "equal" if difference == 0 else f"1e{math.floor(math.log10(difference)) + 1}"


def _repository(repository: str) -> str:
    commit = COMMITS[repository]
    return f"[{repository}](https://github.com/{repository}/tree/{commit}) at {commit[:7]}"


def _permalink(repository: str, held: dict[str, Any]) -> str:
    first, last = held["lines"]
    place = f"{COMMITS[repository]}/{held['file']}#L{first}-L{last}"
    return f"https://github.com/{repository}/blob/{place}"


def _percent(mean: float, spread: float) -> str:
    return f"{100 * mean:.2f}{_beside(spread)}"


def _beside(width: float) -> str:
    return f" ± {100 * width:.2f}" if math.isfinite(width) else ""


def _text(paragraph: str) -> str:
    """A paragraph in lines, and an empty one after it."""
    return textwrap.fill(paragraph, 100, break_on_hyphens=False, break_long_words=False) + "\n"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def missing(methods: Iterable[str]) -> set[str]:
    """Methods that the page says nothing of."""
    told = {step.method for repository in MODULES for step in steps(repository)}
    return set(methods) - told - WITHOUT.keys()
