"""The command that says which given labels may be wrong."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
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
from noisyfl.commands.compare import Places
from noisyfl.commands.parser import FLAGS
from noisyfl.commands.runs import make_inputs, make_partition
from noisyfl.core.artifacts import replacing
from noisyfl.core.options import BadInput, within
from noisyfl.core.registry import parts_of, split_component
from noisyfl.core.text import printable
from noisyfl.core.typed import each_once
from noisyfl.data import noisy_partition
from noisyfl.data.datasets.dataset import dataset, is_own
from noisyfl.data.datasets.own_images import RequestedImages
from noisyfl.data.datasets.parts import read_part
from noisyfl.data.datasets.prepared import prepared
from noisyfl.data.noisy_partition import UNKNOWN, NoisyPartition
from noisyfl.data.own_files import OwnFiles
from noisyfl.data.roots import Roots
from noisyfl.experiments.compare import compare
from noisyfl.experiments.config import check_folder
from noisyfl.pages.audit import write_pages
from noisyfl.runs.artifact import read_spec
from noisyfl.runs.job import TrainingJob
from noisyfl.runs.kept_labels import has_labels
from noisyfl.runs.pool import train_all
from noisyfl.specs.catalogue import methods as catalogue
from noisyfl.specs.identity import identity
from noisyfl.specs.run_words import describe_run
from noisyfl.specs.spec import check_level_is_given, check_run

METHODS = ("fedrn", "fedcorr")
"""What is trained if nobody says what: together they are ahead of FedAvg in all measured settings
(docs/audit.md), and neither needs to know how many labels are wrong.
"""

SHOWN = 10
"""How many samples and pairs of classes are printed."""


def audit_labels(
    runs: list[str],
    to: Path,
    results: Path,
    data: Roots,
    download: bool,
    device: str,
    setting: Mapping[str, Any] = MappingProxyType({}),
    methods: Sequence[str] = (),
    like: str | None = None,
    scale: str | None = None,
    seeds: int | None = None,
    at_once: int | None = None,
    plugins: Sequence[str] = (),
) -> None:
    """List the given labels that are probably wrong, in tables of samples, clients and classes, and
    on pages with the images.

    Give the ids of runs, or methods that are trained on the dataset as it is. Runs that have not
    kept what they found of each label (train --keep-labels) are trained once more for it.
    """
    check_folder(to, "--to")
    places = Places(results, data, download, device, at_once, plugins)
    own = OwnFiles(data, results)
    if runs and (methods or setting or like or scale or seeds):
        raise BadInput("RUN: expected either runs, or a method and its setting")
    if runs:
        with within("RUN"):
            each_once(runs)
        specs = [_spec(run, places) for run in runs]
    else:
        as_it_is = like is None and "label_noise" not in setting
        given = _as_it_is(setting) if as_it_is else dict(setting)
        seeds = 1 if seeds is None else seeds
        wanted = compare(methods or METHODS, given, own, seeds, like, scale, NAMES)
        print(f"Setting: {wanted.describe()}", flush=True)
        for remark in wanted.remarks():
            print(f"Warning: {remark}", file=sys.stderr)
        specs = list(wanted.runs.values())
        if as_it_is:
            for spec in specs:
                with within("--method"):
                    check_level_is_given(spec["method"], "is what an audit is to find")
    _check_clients(specs, own, download)
    _train([replace(places.job(spec), keep_labels=True) for spec in specs], places, own)
    found = not_diverged(
        [read_run(identity(spec), places.results.run(identity(spec))) for spec in specs]
    )
    judgements = read_label_judgements(found)
    facts = dataset(specs[0]["noisy_partition"]["dataset"])
    samples = samples_of(judgements, facts.classes)
    clients, confused = clients_of(judgements, samples, found), confused_classes(samples)
    train, _ = prepared(specs[0]["noisy_partition"]["dataset"], own, download)
    part = read_part(train)
    known = own.image_names(facts.name) if is_own(facts.name) else None
    rows = known.train if known else [f"row {row}" for row in range(len(part.labels))]
    names = [*map(printable, rows)]
    samples.insert(2, "image", [names[row] for row in samples["sample"]])

    def picture(row: int) -> np.ndarray:
        images = part.images
        if isinstance(images, np.ndarray):
            return images[row]
        return images.decoded(row).transpose(1, 2, 0)

    about = [f"{describe_run(run.spec)} (run {run.id})" for run in found]
    for name, table in (("samples", samples), ("clients", clients), ("classes", confused)):
        with replacing(to / f"{name}.csv") as draft:
            table.to_csv(draft, index=False)
        write_frame(to / f"{name}.parquet", table)
    write_pages(to, samples, clients, confused, names, picture, about)
    print(_text(samples, clients, confused))
    if (wrong := _wrong(samples, make_partition(specs[0], own, download))) is not None:
        scores = ", ".join(
            f"{name} {score:.1%}" for name, score in scores_of(samples, wrong).items()
        )
        print(f"Compared with the true labels, which are known here: {scores}")
    print(f"wrote {to}/samples.csv, clients.csv, classes.csv (and .parquet), and {to}/index.html")


NAMES = {**FLAGS, "methods": "--method"}
"""What the command line calls the keys of a setting."""


def _as_it_is(setting: Mapping[str, Any]) -> dict[str, Any]:
    """The setting of an audit: without a label noise, the labels are those that the dataset has, or
    the given ones beside them, and nobody knows the true ones of a user's own images.
    """
    given = {"dataset": "digits", **setting}
    name, options = split_component(given["dataset"], "dataset")
    if name == RequestedImages.name and options.get("given"):
        return {**given, "label_noise": "file"}
    if name == RequestedImages.name:
        given["dataset"] = {"name": name, "true_labels": False, **options}
    return {**given, "label_noise": "none"}


def _spec(run: str, places: Places) -> dict[str, Any]:
    """The spec of a run, in the results or tracked; :class:`BadInput` if there is none that the
    present code can make.
    """
    files = places.find(run)
    if files is None:
        raise BadInput(f"{run}: no run in {places.results.root} or reproduced/ has this id")
    spec = read_spec(run, files)
    if not has_labels(run, places.results.run(run)):
        check_run(spec, run)
    return spec


def _check_clients(specs: Sequence[Mapping[str, Any]], own: OwnFiles, download: bool) -> None:
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
        (spec, _labels(noisy_partition.read(make_partition(spec, own, download))))
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


def _train(jobs: Sequence[TrainingJob], places: Places, own: OwnFiles) -> None:
    """Train the runs of which it is not known what they found; exit if one fails."""
    missing = [job for job in jobs if not job.done]
    if not missing:
        return
    for job in missing:
        make_inputs(job, own)
    failures = []
    try:
        ended = train_all(missing, places.at_once, places.plugins)
        for done, (job, outcome) in enumerate(ended, 1):
            if outcome.error is not None:
                failures.append(job.failure(outcome.error))
                continue
            words = f"{done} of {len(missing)} runs trained: {describe_run(job.spec)}"
            print(words, file=sys.stderr)
    except KeyboardInterrupt:
        print("stopped; finished runs are kept, and the same command continues", file=sys.stderr)
        sys.exit(130)
    if failures:
        sys.exit("\n".join(failures))


def not_diverged(runs: Sequence[Run]) -> list[Run]:
    """The runs that have an audit; :class:`BadInput` if all diverged."""
    remedy = "diverged, so that it says nothing of labels; a smaller --learning-rate helps"
    diverged = [f"{describe_run(run.spec)} {remedy}" for run in runs if run.diverged]
    if len(diverged) == len(runs):
        raise BadInput(diverged[0])
    for words in diverged:
        print(f"Warning: {words}", file=sys.stderr)
    return [run for run in runs if not run.diverged]


def _text(samples: pd.DataFrame, clients: pd.DataFrame, confused: pd.DataFrame) -> str:
    """The first samples, the most confused classes and all clients, as text."""
    shown = samples.head(SHOWN)[
        ["client", "image", "given_label", "suggested_label", "given_probability"]
    ]
    columns = ["client", "samples", "suspected", "noise_level", "left_out", "flagged", "in_sample"]
    return "\n\n".join(
        table.to_string(index=False, float_format=lambda value: f"{value:.2f}", na_rep="")
        for table in (shown, confused.head(SHOWN), clients[columns])
        if len(table)
    )
