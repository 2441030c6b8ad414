"""Training in Python: what ``import noisyfl`` gives besides :mod:`noisyfl.loading`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from noisyfl.analysis.runs import Run
from noisyfl.core.options import BadInput, within
from noisyfl.core.plugins import load as load_plugins
from noisyfl.experiments.audit import Audit, audit_runs, specs_to_audit, what_to_audit
from noisyfl.experiments.comparison_files import check_target, write_scale
from noisyfl.experiments.comparison_input import read_comparison
from noisyfl.experiments.comparison_runs import (
    VALIDATION,
    check_format,
    choose_first,
    draw_comparison,
    train_comparison,
    worth_of,
)
from noisyfl.experiments.config import check_device, check_file
from noisyfl.experiments.places import Places
from noisyfl.loading import Folders, folders_of, load_run
from noisyfl.runs.inputs import make_inputs
from noisyfl.runs.job import TrainingJob
from noisyfl.specs.identity import identity
from noisyfl.specs.run_words import describe_run
from noisyfl.specs.spec import canonical_run, check_run


def train(
    spec: Mapping[str, Any],
    results: str | Path = "results",
    data: Folders = "data",
    download: bool = False,
    device: str = "auto",
    keep_model: bool = False,
    echo: bool = False,
) -> Run:
    """Train a run in this process unless it exists already, and return it.

    Args:
        spec: canonical, as a plan has it; or what a person writes: ``dataset``, ``partition``,
            ``label_noise``, ``noise_level``, ``model``, ``augmentation``, ``normalization``,
            ``schedule``, ``method`` and ``seed``.
        results: where it goes, with its data and its noisy partition.
        data: the folders of data files.
        download: fetch official files that are missing.
        device: ``auto``, ``cpu``, ``cuda``, ...
        keep_model: also save the final model, which :func:`noisyfl.load_model` reads; an existing
            run without one is trained once more.
        echo: print what happens.

    Warns:
        UserWarning: the run diverged, so that it has no accuracies after that round; or it has kept
            no model.

    Raises:
        BadInput: something is wrong with the spec or its data.
        RuntimeError: the training failed or was interrupted.
    """
    places = _places(results, data, download, device)
    if "noisy_partition" in spec:
        check_run(spec, "spec")
        canonical = dict(spec)
    else:
        canonical = canonical_run(spec, "spec", places.own)
    run = identity(canonical)
    job = places.job(canonical, keep_models=keep_model)
    existing = places.find(run)
    if existing is None or not job.has_all(existing):
        make_inputs(job, places.own)
        outcome = job.run(echo=echo)
        if outcome.error is not None:
            raise RuntimeError(job.failure(outcome.error))
    trained = load_run(run, results)
    if trained.diverged:
        _warn_of_divergence(describe_run(canonical), len(trained.rounds["round"]))
    elif keep_model and not trained.files.model.exists():
        text = f"{describe_run(canonical)}: no model: it is tested with its clients' own models"
        warnings.warn(text, stacklevel=2)
    return trained


def compare(
    methods: Sequence[str | Mapping[str, Any]] = (),
    *,
    like: str | None = None,
    scale: str | None = None,
    seeds: int | None = None,
    choose_on: str | None = None,
    figure: str | Path | None = None,
    save: str | Path | None = None,
    results: str | Path = "results",
    data: Folders = "data",
    download: bool = False,
    device: str = "auto",
    jobs: int | None = None,
    plugins: Sequence[str] = (),
    keep_models: bool = False,
    **setting: Any,
) -> pd.DataFrame:
    """Train methods, several runs at once, and return what they reached.

    Existing runs are not trained again. After an interrupt the same call continues.

    Args:
        methods: such as ``fedavg`` or ``fedprox(mu=[0.01, 0.1])``, whose list stands for a method
            for each value; none: FedAvg and the five papers' methods.
        like: take the setting of a table's column: ``fedcorr/table2:ρ=0.6 τ=0.5``.
        scale: in which that table is; its name, or its file; None: ``quick``.
        seeds: train with the seeds 1 to this; None: as many as the table, or 3.
        choose_on: ``validation``: choose among the values of an option on the validation part.
        figure: draw the test accuracy by round into this file, ``.png`` or ``.pdf``.
        save: write a scale of this name, and an experiment, of which Snakemake makes the same runs.
        results: the folder of all artifacts; runs that it lacks are taken from the tracked ones.
        data: the folders of data files.
        download: fetch missing data files.
        device: ``auto``, ``cpu``, ``cuda``, ...
        jobs: runs at once; None: one a core, or as many as share the GPUs.
        plugins: files of plugins; those that this process has loaded are known.
        keep_models: also save the final models; existing runs without one are trained once more.
        setting: ``dataset``, ``clients``, ``partition``, ``label_noise``, ``noise_level`` (or a
            number), ``model``, ``augmentation``, ``normalization``, and options of the schedule,
            such as ``rounds``. A list stands for one setting a value, or of an option of the
            schedule for one row a value of each method.

    Returns:
        The columns of :mod:`noisyfl.analysis.compared`, one row per run.

    Warns:
        UserWarning: a run diverged, or something is odd about the setting or the data.

    Raises:
        BadInput: something is wrong with what was given.
        RuntimeError: runs failed; the others are kept.
    """
    places = _places(results, data, download, device, jobs, plugins)
    wanted = read_comparison(methods, setting, places.own, seeds, like, scale)
    for remark in wanted.remarks():
        warnings.warn(remark, stacklevel=2)
    first = choose_first(wanted, choose_on, "choose_on")
    if save is not None:
        check_target(Path(save))
    if figure is not None:
        check_file(Path(figure), "figure")
        check_format(Path(figure), "figure")
    failures: list[str] = []

    def note(frame: pd.DataFrame, job: TrainingJob | None, error: str | None) -> None:
        if job is not None and error is not None:
            failures.append(job.failure(error))

    frames = []
    if first is not None:
        frames.append(train_comparison(first, places, note, VALIDATION))
        if failures:
            raise RuntimeError("\n".join(failures))
        wanted = wanted.choose(worth_of(frames[0]))
    if save is not None:
        write_scale(wanted, Path(save), places, keep_models)
    frames.insert(0, train_comparison(wanted, places, note, keep_models=keep_models))
    if figure is not None:
        draw_comparison(wanted, places, Path(figure))
    frame = pd.concat(frames, ignore_index=True)
    if failures:
        raise RuntimeError("\n".join(failures))
    for _, row in frame[frame["status"] == "diverged"].iterrows():
        _warn_of_divergence(f"{row['method']}, seed {row['seed']}")
    return frame


def audit(
    methods: Sequence[str | Mapping[str, Any]] = (),
    *,
    runs: Sequence[str] = (),
    like: str | None = None,
    scale: str | None = None,
    seeds: int | None = None,
    results: str | Path = "results",
    data: Folders = "data",
    download: bool = False,
    device: str = "auto",
    jobs: int | None = None,
    plugins: Sequence[str] = (),
    **setting: Any,
) -> Audit:
    """Say which given labels are probably wrong, as ``noisyfl audit`` does.

    Existing runs that have kept what they found of each label are not trained again.

    Args:
        methods: which to train, as :func:`compare` takes them; none: FedRN and FedCorr.
        runs: the ids of runs to audit, instead of methods and a setting.
        like: see :func:`compare`; so are all arguments below.
        seeds: train with the seeds 1 to this; None: one seed.

    Returns:
        ``samples``, ``clients`` and ``classes`` as frames, whose columns docs/audit.md explains;
        ``scores``, where the true labels are known; ``write(folder)`` writes them with the images.

    Warns:
        UserWarning: a run diverged, and is left out; or something is odd about the data.

    Raises:
        BadInput: something is wrong with what was given.
        RuntimeError: runs failed; the others are kept.
    """
    places = _places(results, data, download, device, jobs, plugins)
    if runs:
        specs = specs_to_audit(runs, bool(methods or setting or like or scale or seeds), places)
    else:
        wanted = what_to_audit(methods, setting, places.own, seeds, like, scale)
        specs = [*wanted.runs.values()]
        for remark in wanted.remarks():
            warnings.warn(remark, stacklevel=2)

    def warn(line: str) -> None:
        warnings.warn(line, stacklevel=4)

    return audit_runs(specs, places, lambda line: None, warn)


def _warn_of_divergence(what: str, rounds: int | None = None) -> None:
    after = "" if rounds is None else f" after {rounds} rounds"
    text = f"{what}: diverged{after}: the global model is not finite; a smaller learning rate helps"
    warnings.warn(text, stacklevel=3)


def _places(
    results: str | Path,
    data: Folders,
    download: bool,
    device: str,
    jobs: int | None = None,
    plugins: Sequence[str] = (),
) -> Places:
    if isinstance(plugins, str):
        raise BadInput(f"plugins: got {plugins!r}, expected a list of files")
    load_plugins(plugins)
    with within("device"):
        check_device(device)
    return Places(Path(results), folders_of(data), download, device, jobs)
