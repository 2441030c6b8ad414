"""Say which given labels may be wrong, from runs that keep what they find of each label."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from noisyfl.analysis.audit import (
    clients_of,
    confused_classes,
    read_label_judgements,
    samples_of,
    scores_of,
)
from noisyfl.analysis.frame import write_frame
from noisyfl.analysis.runs import Run, read_run
from noisyfl.core.artifacts import replacing
from noisyfl.core.options import BadInput, within
from noisyfl.core.registry import parts_of, split_component
from noisyfl.core.text import printable
from noisyfl.core.typed import each_once
from noisyfl.data import noisy_partition
from noisyfl.data.datasets.dataset import dataset, is_own
from noisyfl.data.datasets.own_kinds import KINDS
from noisyfl.data.datasets.parts import DatasetPart, read_part
from noisyfl.data.datasets.prepared import prepared
from noisyfl.data.noisy_partition import UNKNOWN, NoisyPartition
from noisyfl.data.own_files import OwnFiles
from noisyfl.experiments.comparison import MethodComparison
from noisyfl.experiments.comparison_input import OPTIONS, naming, read_comparison
from noisyfl.experiments.config import check_folder
from noisyfl.experiments.places import Places
from noisyfl.experiments.sweeps import options_of
from noisyfl.pages.audit import write_pages
from noisyfl.runs.artifact import read_spec
from noisyfl.runs.inputs import make_partition, naming_plugins
from noisyfl.runs.job import TrainingJob
from noisyfl.runs.kept_labels import has_labels
from noisyfl.specs.catalogue import methods as catalogue
from noisyfl.specs.identity import identity
from noisyfl.specs.run_words import describe_run
from noisyfl.specs.spec import check_level_is_given, check_run

DEFAULT_METHODS = ("fedrn", "fedcorr")
"""What is trained if nobody says what: together they are ahead of FedAvg in all measured settings
(docs/audit.md), and neither needs to know how many labels are wrong.
"""


class RunsFailed(RuntimeError):
    """Runs of an audit failed, with a line on each."""


@dataclass(frozen=True)
class Audit:
    """What runs say of the given labels.

    Attributes:
        samples: a row for each sample, the most suspicious first, with the columns of
            :mod:`noisyfl.analysis.audit`.
        clients: a row for each client, the noisiest first.
        classes: a row for each given and suggested class, most suspected labels first.
        scores: shares that say how well the wrong labels are found, by name; empty unless the true
            labels are known.
        runs: the runs, without those that are left out.
        names: of the training samples, by row.
        part: the training samples.
    """

    samples: pd.DataFrame
    clients: pd.DataFrame
    classes: pd.DataFrame
    scores: dict[str, float]
    runs: list[Run] = field(repr=False)
    names: list[str] = field(repr=False)
    part: DatasetPart = field(repr=False)

    def picture(self, row: int) -> np.ndarray | None:
        """The pixels of a training image, uint8 [height, width, channels]; None of a vector."""
        images = self.part.images
        if self.part.facts.vectors:
            return None
        if isinstance(images, np.ndarray):
            return images[row]
        return images.decoded(row).transpose(1, 2, 0)

    def write(self, to: str | Path) -> None:
        """Write the tables, as CSV and Parquet, and pages with the images into a folder."""
        folder = Path(to)
        check_folder(folder, "to")
        frames = (self.samples, self.clients, self.classes)
        for name, table in zip(("samples", "clients", "classes"), frames, strict=True):
            with replacing(folder / f"{name}.csv") as draft:
                table.to_csv(draft, index=False)
            write_frame(folder / f"{name}.parquet", table)
        with replacing(folder / "labels.csv") as draft:
            self.labels.to_csv(draft, index=False)
        write_pages(folder, *frames, self.names, self.picture, self.about)

    @property
    def labels(self) -> pd.DataFrame:
        """Every training sample once, in the dataset's order, with its ``corrected_label``: that of
        the dataset if it is on no client. The label noise ``file`` reads this table.
        """
        names = np.array(self.part.facts.classes, dtype=object)[self.part.labels]
        corrected = self.samples.set_index("sample")["corrected_label"]
        found = pd.DataFrame({"sample": range(len(names)), "corrected_label": names})
        if self.part.facts.own is not None:
            found.insert(1, "image", self.names)
        found["corrected_label"] = found["sample"].map(corrected).fillna(found["corrected_label"])
        return found

    @property
    def about(self) -> list[str]:
        """A line on each run."""
        return [
            f"{describe_run(run.spec)} (run {run.id}, test accuracy {run.accuracies[-1]:.1%})"
            for run in self.runs
        ]


def specs_to_audit(
    runs: Sequence[str], more: bool, places: Places, where: str = "runs"
) -> list[dict[str, Any]]:
    """The specs of runs by id.

    Args:
        more: whether methods or a setting were given, too.
        where: what error messages call the runs.

    Raises:
        BadInput: more was given, an id is given twice, or there is no such run.
    """
    if isinstance(runs, str):
        raise BadInput(f"{where}: got {runs!r}, expected a list of ids")
    if more:
        called = [run for run in runs if run.partition("(")[0] in catalogue()]
        hint = f"; {called[0]} is a method, so give it as one" if called else ""
        raise BadInput(f"{where}: expected either runs, or a method and its setting{hint}")
    with within(where):
        each_once([*runs])
    return [_spec(run, places) for run in runs]


def what_to_audit(
    methods: Sequence[str | Mapping[str, Any]],
    setting: Mapping[str, Any],
    own: OwnFiles,
    seeds: int | None = None,
    like: str | None = None,
    scale: str | None = None,
    names: Mapping[str, str] | None = None,
) -> MethodComparison:
    """The runs of an audit, read as :func:`read_comparison` does, with other defaults:
    :data:`DEFAULT_METHODS`, one seed, and the labels as they are.
    """
    with naming(names or {}):
        variant, *others = options_of({key: setting[key] for key in OPTIONS if key in setting})
        for key in variant.swept if others else ():
            raise BadInput("got several values, expected one: an audit has one setting", key)
    setting = {**setting, **variant.options}
    as_it_is = like is None and "label_noise" not in setting
    given = _as_it_is(setting) if as_it_is else dict(setting)
    seeds = 1 if seeds is None else seeds
    wanted = read_comparison(methods or DEFAULT_METHODS, given, own, seeds, like, scale, names)
    for spec in wanted.runs.values() if as_it_is else ():
        with within((names or {}).get("methods", "methods")):
            check_level_is_given(spec["method"], "is what an audit is to find")
    return wanted


def audit_runs(
    specs: Sequence[Mapping[str, Any]],
    places: Places,
    say: Callable[[str], object],
    warn: Callable[[str], object],
) -> Audit:
    """Audit the labels of the clients that all runs have; missing runs are trained.

    Args:
        say: takes a line for each run that was trained.
        warn: takes a line for each run that is left out, see :func:`worth_reading`.

    Raises:
        BadInput: the runs have no clients, or not the same, or all diverged.
        RunsFailed: a run failed; those that have finished are kept.
    """
    own, download = places.own, places.download
    _check_clients(specs, places)
    _train([places.job(spec, keep_labels=True) for spec in specs], places, say)
    ids = map(identity, specs)
    found = worth_reading([read_run(run, places.results.run(run)) for run in ids], warn)
    judgements = read_label_judgements(found)
    facts = dataset(specs[0]["noisy_partition"]["dataset"])
    samples = samples_of(judgements, facts.classes)
    clients, confused = clients_of(judgements, samples, found), confused_classes(samples)
    train, _ = prepared(specs[0]["noisy_partition"]["dataset"], own, download)
    part = read_part(train)
    known = own.image_names(facts.name) if is_own(facts.name) else None
    rows = known.train if known else [f"row {row}" for row in range(len(part.labels))]
    names = [*map(printable, rows)]
    if called := own.client_names(specs[0]["noisy_partition"]["partition"]):
        for table in (samples, clients):
            table.insert(1, "client_name", [called[client] for client in table["client"]])
    after_sample = [*samples.columns].index("sample") + 1
    samples.insert(after_sample, "image", [names[row] for row in samples["sample"]])
    wrong = _wrong(samples, make_partition(specs[0], own, download))
    scores = {} if wrong is None else scores_of(samples, wrong)
    return Audit(samples, clients, confused, scores, found, names, part)


def _as_it_is(setting: Mapping[str, Any]) -> dict[str, Any]:
    """The setting of an audit: without a label noise, the labels are those that the dataset has, or
    the given ones beside them, and nobody knows the true ones of a user's own data.
    """
    given = {"dataset": "digits", **setting}
    name, options = split_component(given["dataset"], "dataset")
    if name in KINDS and options.get("given"):
        return {**given, "label_noise": "file"}
    if name in KINDS:
        given["dataset"] = {"name": name, "true_labels": False, **options}
    return {**given, "label_noise": "none"}


def _spec(run: str, places: Places) -> dict[str, Any]:
    """The spec of a run, in the results or tracked; :class:`BadInput` if there is none that the
    present code can make.
    """
    files = places.files(run)
    spec = read_spec(run, files)
    if not has_labels(run, places.results.run(run)):
        with naming_plugins(run, files):
            check_run(spec, run)
    return spec


def _check_clients(specs: Sequence[Mapping[str, Any]], places: Places) -> None:
    """Raise :class:`BadInput` if runs have no clients, or others than the first run."""
    for spec in specs:
        for part in parts_of(spec["method"]):
            if catalogue()[part["name"]].pools_samples:
                raise BadInput(
                    f"{part['name']} pools the samples of all clients, which an audit looks at one "
                    f"by one ({describe_run(spec)})"
                )
    partitions: dict[str, Mapping[str, Any]] = {}
    for spec in specs:
        partitions.setdefault(identity(spec["noisy_partition"]), spec)
    if len(partitions) == 1:
        return
    (first, expected), *others = (
        (spec, _labels(noisy_partition.read(make_partition(spec, places.own, places.download))))
        for spec in partitions.values()
    )
    for spec, labels in others:
        if labels != expected:
            raise BadInput(
                f"{describe_run(spec)}: it has other clients or given labels than "
                f"{describe_run(first)}; audit them one by one. Several seeds need clients from a "
                "file (--partition 'file(...)') and no drawn noise"
            )


def _labels(partition: NoisyPartition) -> list[dict[int, int]]:
    """The given label of each sample of each client."""
    return [
        dict(zip(client.samples.tolist(), client.given_label.tolist(), strict=True))
        for client in partition.clients
    ]


def _wrong(samples: pd.DataFrame, partition: Path) -> pd.Series | None:
    """Whether the label of each row is wrong; None unless true labels are known, and some wrong."""
    clients = noisy_partition.read(partition).clients
    true = {
        (number, sample): label
        for number, client in enumerate(clients)
        for sample, label in zip(
            client.samples.tolist(), (client.true_label != client.given_label).tolist(), strict=True
        )
    }
    if any((client.true_label == UNKNOWN).any() for client in clients) or not any(true.values()):
        return None
    return samples[["client", "sample"]].apply(tuple, axis=1).map(true).astype(bool)


def _train(jobs: Sequence[TrainingJob], places: Places, say: Callable[[str], object]) -> None:
    """Train the runs of which it is not known what they found; :class:`RunsFailed` if one fails."""
    missing = [job for job in jobs if not job.done]
    if not missing:
        return
    failures = []
    for done, (job, outcome) in enumerate(places.train(missing), 1):
        if outcome.error is not None:
            failures.append(job.failure(outcome.error))
            continue
        say(f"{done} of {len(missing)} runs trained: {describe_run(job.spec)}")
    if failures:
        raise RunsFailed("\n".join(failures))


def worth_reading(runs: Sequence[Run], warn: Callable[[str], object]) -> list[Run]:
    """The runs that say something of labels: not those that diverged, nor those whose models are
    hardly better than guesses, unless all are.

    Raises:
        BadInput: all diverged.
    """
    remedy = "diverged, so that it says nothing of labels; a smaller learning rate helps"
    diverged = [f"{describe_run(run.spec)} {remedy}" for run in runs if run.diverged]
    if len(diverged) == len(runs):
        raise BadInput(diverged[0])
    finished = [run for run in runs if not run.diverged]
    learned = [run for run in finished if not _guesses(run)]
    outcome = "it is left out" if learned else "what it says of labels is worth nothing"
    for words in diverged:
        warn(words)
    for run in filter(_guesses, finished):
        warn(
            f"{describe_run(run.spec)} has a test accuracy of {run.accuracies[-1]:.1%}, which is "
            f"little more than chance: {outcome}"
        )
    return learned or finished


def _guesses(run: Run) -> bool:
    chance = 1 / len(dataset(run.spec["noisy_partition"]["dataset"]).classes)
    return run.accuracies[-1] <= min(1.5 * chance, chance + 0.05)
