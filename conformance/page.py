"""The text of docs/conformance.md, made from the recorded numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from conformance import COMMITS, FOLDER
from conformance.causes import causes
from conformance.markdown import NAMES, percent, run_record, signed, table_row, text
from conformance.record import recorded
from conformance.recorders import MODULES, steps
from conformance.runs import FEWEST_SEEDS, LAST, PAIRS, SETTING
from conformance.runs.statistics import Comparison, decided, flagged_alike

PAGE = FOLDER.parent / "docs" / "conformance.md"
DIFFERENCES = FOLDER / "differences.json"
"""The file with the difference between ours and the official code in each step, as last recorded,
by repository and step."""

WITHOUT = {
    "rofl": "no official code; the unofficial one does not work "
    "([why](../workflow/reasons/methods/rofl.yaml)), and "
    "FedRN's repository no longer contains its port of RoFL",
    "fedcni": "no official code is public",
    "fednoil": "no official code is public",
    "deep_self_learning": "no working official code is public",
    "poc": "no official code; tested against its rule, worked out by hand",
    "oracle": "FedAvg on a subset of the samples",
    "distributed": "FedAvg's local update alone",
    "centralized": "FedAvg with one client",
    "bootstrapping": "tested against numbers worked out by hand",
    "coteaching_plus": "its test has the official numbers, with repository, commit and function",
    "elr": "its test has the official numbers, with repository, commit and function",
    "feddiv": "its authors have withdrawn the code; tested against numbers worked out by hand",
    "fedelc": "its test has the official numbers, with repository, commit and function",
    "fedfixer": "its test has the official numbers, with repository, commit and function",
    "fedlsr": "its test has the official numbers, with repository, commit and function",
    "fednoro": "its test has the official numbers, with repository, commit and function",
    "gce": "tested against numbers worked out by hand",
    "label_smoothing": "tested against numbers worked out by hand",
    "mae": "tested against numbers worked out by hand",
    "masked_optim": "its test has the official numbers, with repository, commit and function",
    "mixup": "tested against numbers worked out by hand",
    "rfa": "its test has the official numbers, with repository, commit and function",
    "sce": "its test has the official numbers, with repository, commit and function",
    "trimmed_mean": "tested against numbers worked out by hand",
}
"""Methods that have no recorded steps here, and why."""

FOUND = {
    "apfl": "the order of the steps. In the official code, the mixture uses the shared model after "
    "that model's step; in the paper's Algorithm 1 and in ours, it uses the model before the step. "
    "In a trial, ours was patched to use the code's order and its gradient of the share: it "
    "reaches 86.3 and 85.5 on seeds 1 and 2, with shares of 0.19 and 0.21, as in the code",
    "fedproto": "the moment at which prototypes are read. Ours reads them after the local update; "
    "the official code reads them during its last epoch, while the weights still move. In a trial, "
    "the official code was patched to read them afterwards too: it then gains 0.26, 0.48, 0.46 and "
    "0.34 points on seeds 1, 2, 3 and 5, which is most of the difference",
}
"""The cause of the difference, for each whole run whose difference lies beyond its interval."""

NOT_RUN = {
    "litian96/FedProx": "needs TensorFlow 1.10, which runs on no current Python; FedProx is run in "
    "FedDyn's repository",
    "lishenghui/arfl": "needs TensorFlow 1; ARFL, the median and the trimmed mean are run in the "
    "repository of ARFL's own authors",
    "LiJunnan1992/DivideMix": "central training without federation; run as a client side in "
    "FedRN's repository",
    "bhanML/Co-teaching": "as for DivideMix",
    "DaikiTanaka-UT/JointOptimization": "as for DivideMix; it also needs Chainer",
    "NUST-Machine-Intelligence-Laboratory/Jo-SRC": "central training without federation, and no "
    "repository has a federated version",
    "lijichang/FLNL-FedDiv": "withdrawn by its authors",
}
"""Repositories whose code is not run whole, and why."""

OTHERS = (
    ("mixtures of two Gaussians", "scikit-learn's `GaussianMixture`",
     "tests/methods/estimators/test_mixture.py"),
    ("RandAugment", "torchvision's operations on Pillow's images",
     "tests/data/augmentation/test_randaugment.py"),
)  # fmt: skip
"""What tests compare with a library as they run: part, library, and test file."""


def page() -> str:
    """The page's text."""
    return "\n".join([*_head(), *_steps(), *_without(), *_runs(), *causes(), *_again(), ""])


def _head() -> Iterator[str]:
    yield "# Conformance\n"
    yield text(
        "Where a paper has public code, that code produced the published numbers. This page "
        "compares recorded results of the official code with those of this project's code "
        "(*ours*). No line of official code is part of this project: a recorder imports it from a "
        "checkout and writes down its numbers (`conformance/vectors/`), and tests give the same "
        "inputs to the project's code (`tests/conformance/`). The page is generated from the "
        "recorded files."
    )
    yield text(
        "Intended differences are listed in "
        "[Fidelity](../workflow/reasons/differences.yaml), each with the option "
        "that follows the official code, or the reason why there is none."
    )


def _steps() -> Iterator[str]:
    kept = {repository: recorded(repository) for repository in MODULES}
    apart = json.loads(DIFFERENCES.read_text())
    yield "\n## Step by step\n"
    yield text(
        "A step is a function of the official code, or a block of one of its scripts, together "
        "with inputs. Its difference is the largest one of any number, relative to the largest "
        "number of the same array. The tables give the power of ten that the difference lies "
        "below; *equal* means equal to the last bit. Tests allow 1e-5 at most (of a ResNet 5e-4)."
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
        yield table_row(
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
        yield table_row(f"`{method}`", step.what, place, below(apart[repository][step.name]))
    yield "\nSome parts are compared with libraries, which the tests call as they run:\n"
    yield "| what | compared with | test |"
    yield "|---|---|---|"
    for what, library, file in OTHERS:
        yield table_row(what, library, f"[{Path(file).name}](../{file})")


def _without() -> Iterator[str]:
    yield "\n## Without recorded steps\n"
    yield "| method | why, or how it is tested |"
    yield "|---|---|"
    for method, why in WITHOUT.items():
        yield table_row(f"`{method}`", why)


def _runs() -> Iterator[str]:
    records = {name: record for name in PAIRS if (record := run_record(name))}
    rounds = SETTING["schedule"]["rounds"]
    yield "\n## Whole runs\n"
    yield text(
        f"The official code and ours get the same noisy partition of {SETTING['dataset']} "
        f"(`{SETTING['partition']}`), the same initial weights of `{SETTING['model']}` and the "
        f"same participants in each of {rounds} rounds. Each side draws batches and mixup for "
        "itself. The settings, listed below the results, differ between methods where the official "
        f"code requires it. The accuracy is the mean over the last {LAST} rounds, in per cent, "
        "with the standard deviation over seeds. The difference is ours minus official, with the "
        "half-width of the 95 % interval of its mean over seeds (Student's t on pairs); the "
        "verdict is *within the interval* if the interval contains 0. Seconds are CPU time on one "
        "thread, evaluation included."
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
        yield table_row(f"[{repository}](https://github.com/{repository})", why)


def _settings() -> Iterator[str]:
    """The table of the whole runs' settings, each with the methods that use it."""
    yield "\nThe settings:\n"
    yield (
        "| methods | label noise | noise level | participation | batch size | momentum | clipping |"
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
        yield table_row(", ".join(names), *row)


def _compared(records: dict[str, dict[str, Any]]) -> Iterator[str]:
    """The results of the recorded whole runs, the causes of differences, and the decisions."""
    yield (
        "| method | official code | seeds | official | ours | difference | seconds, official "
        "| ours | verdict |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for name, record in records.items():
        told = Comparison.of(record)
        yield table_row(
            f"`{PAIRS[name].ours}`",
            _repository(PAIRS[name].repository),
            str(told.seeds),
            percent(*told.official),
            percent(*told.ours),
            signed(told),
            *(f"{seconds:.0f}" for seconds in told.seconds),
            _verdict(name),
        )
    yield "\nCauses of the differences beyond the interval:\n"
    for name, record in records.items():
        told = Comparison.of(record)
        if told.seeds >= FEWEST_SEEDS and not told.inside:
            yield text(f"- `{name}`: {FOUND[name]}.")
    yield "\nWhat the methods decide about samples and clients, as means over seeds:\n"
    yield "| method | what | official | ours |"
    yield "|---|---|---|---|"
    for name, record in records.items():
        official, ours = decided(record, "official"), decided(record, "ours")
        for key in (key for key in official if key in ours):
            yield table_row(f"`{name}`", NAMES[key], f"{official[key]:.3f}", f"{ours[key]:.3f}")
        if "flagged" in official:
            same, asked = flagged_alike(record)
            yield table_row(f"`{name}`", "clients on which both agree", f"{same} of {asked}", "")


def _again() -> Iterator[str]:
    yield "\n## Again\n\n```"
    yield "make conformance OFFICIAL=checkouts                # records all steps: what changed"
    yield "python -m conformance.runs --official checkouts    # whole runs that are not recorded"
    yield "```\n"
    yield text(
        "`checkouts` is a folder that contains each repository as `OWNER+NAME`, at the commit "
        "below. To write this page anew, run `python -m conformance`. The repositories and their "
        "commits:"
    )
    for repository, commit in COMMITS.items():
        yield f"- {repository} at {commit}"


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
    return "beyond the interval, cause found"


def below(difference: float) -> str:
    """The power of ten that a difference lies below, or ``equal`` if it is 0."""
    return "equal" if difference == 0 else f"1e{math.floor(math.log10(difference)) + 1}"


def _repository(repository: str) -> str:
    commit = COMMITS[repository]
    return f"[{repository}](https://github.com/{repository}/tree/{commit}) at {commit[:7]}"


def _permalink(repository: str, held: dict[str, Any]) -> str:
    first, last = held["lines"]
    place = f"{COMMITS[repository]}/{held['file']}#L{first}-L{last}"
    return f"https://github.com/{repository}/blob/{place}"


def missing(methods: Iterable[str]) -> set[str]:
    """Return those of the methods that the page does not mention."""
    told = {step.method for repository in MODULES for step in steps(repository)}
    return set(methods) - told - WITHOUT.keys()
