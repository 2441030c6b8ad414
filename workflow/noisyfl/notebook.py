"""What ``import noisyfl`` gives: tables, runs, noisy partitions and training, for a notebook.

Everything reads the same artifacts as the command line, and what is tracked in the repository too.
Tables are pandas data frames, a client's samples a torch ``Dataset``.
"""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from noisyfl.analysis.cells import collect
from noisyfl.analysis.compared import significance as significance
from noisyfl.analysis.frame import join_frames
from noisyfl.analysis.published_cells import published_cells
from noisyfl.analysis.runs import Run, read_run, read_runs
from noisyfl.commands.data import partition_file
from noisyfl.commands.scales import read_plan
from noisyfl.core.options import BadInput, find, within
from noisyfl.core.plugins import load as load_plugins
from noisyfl.core.tracked import REPRODUCED
from noisyfl.data import noisy_partition
from noisyfl.data.client_images import FederatedData
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.data.datasets.own_kinds import KINDS
from noisyfl.data.datasets.parts import read_part
from noisyfl.data.datasets.prepared import prepared
from noisyfl.data.own_files import OwnFiles
from noisyfl.experiments.audit import Audit, audit_runs, specs_to_audit, what_to_audit
from noisyfl.experiments.comparison import read_comparison
from noisyfl.experiments.comparison_files import check_target, write_scale
from noisyfl.experiments.comparison_runs import (
    VALIDATION,
    check_format,
    choose_first,
    draw_comparison,
    train_comparison,
    worth_of,
)
from noisyfl.experiments.config import check_device, check_file, load_config, published_files
from noisyfl.experiments.places import Places
from noisyfl.experiments.plan import Plan
from noisyfl.experiments.plan_file import PlanFile
from noisyfl.experiments.scale import Scale
from noisyfl.experiments.scale_file import named_scale
from noisyfl.runs.final_model import NO_MODEL, FinalModel
from noisyfl.runs.final_model import load_model_file as model_in
from noisyfl.runs.inputs import make_inputs
from noisyfl.runs.job import TrainingJob
from noisyfl.specs.catalogue import method_summary, methods
from noisyfl.specs.identity import identity
from noisyfl.specs.published import read_published
from noisyfl.specs.run_words import describe_run
from noisyfl.specs.spec import canonical_run, check_run

if TYPE_CHECKING:
    from noisyfl.specs.descriptions import TableDescription

Folders = str | Path | Sequence[str | Path]
"""One folder, or several that are searched in turn."""


def plan(scale: str | Path, results: str | Path | None = None) -> Plan:
    """What a scale asks for: its tables and figures, and the spec of each run by id.

    Args:
        scale: its name, or its file.
        results: the folder of all artifacts; None: as the scale's file says.

    Raises:
        BadInput: something is wrong with the scale or its experiments.
    """
    return read_plan(named_scale(scale), Path(results) if results is not None else None)


def load_table(
    name: str, scale: str | Path = "reduced", results: str | Path | None = None
) -> pd.DataFrame:
    """A table of the existing runs, one row per table, row, column and run.

    The columns are those of :mod:`noisyfl.analysis.frame`; ``frame.pivot_table("value", "row",
    "column", sort=False)`` is the table as it is printed, and ``"published"`` the paper's.

    Args:
        name: ``<experiment>/<table>``, such as ``fednoil/table1``.
        scale: its name, or its file.
        results: the folder of all artifacts; None: as the scale's file says. Runs that it lacks are
            taken from the tracked ones.

    Raises:
        BadInput: there is no such scale or table, or none of its runs exists.
    """
    finished = _finished(scale, results)
    table = finished.plan.tables.get(name)
    if table is None or not table.run_ids():
        known = plan(scale, results).tables
        find(known, name, "table", f"the scale {finished.plan.scale}")
        raise BadInput(f"{name}: none of its runs exists; train it first")
    return _frame(finished, table)


def load_cells(scale: str | Path = "reduced", results: str | Path | None = None) -> pd.DataFrame:
    """Every published number, with ours from existing runs: ``cells.csv`` as a frame.

    Args:
        scale: its name, or its file.
        results: see :func:`load_table`.
    """
    finished = _finished(scale, results)
    numbers = published_cells(
        join_frames([_frame(finished, table) for table in finished.wanted_tables.values()]),
        read_published(*published_files(finished.config)),
    )
    return pd.read_csv(io.StringIO(numbers.to_csv(index=False)))


def load_run(run: str, results: str | Path = "results") -> Run:
    """A run: its spec, its provenance, and its columns by round.

    ``run.rounds`` and ``pd.DataFrame(run.clients)`` are its two tables.

    Args:
        run: its id.
        results: the folder of all artifacts; the tracked ones are looked at, too.

    Raises:
        BadInput: it is not there.
        DamagedArtifact: its files are damaged.
    """
    return read_run(run, Places(Path(results)).files(run))


def load_model(
    run: str, results: str | Path = "results", plugins: Sequence[str] = ()
) -> FinalModel:
    """The model that a run has kept, a torch module that takes uint8 images, or vectors.

    Args:
        run: its id.
        results: the folder of all artifacts; the tracked ones are looked at, too.
        plugins: files of plugins, such as that of its network.

    Raises:
        BadInput: there is no such run, or it has kept no model (``train(spec, keep_model=True)``).
    """
    load_plugins(plugins)
    path = Places(Path(results)).files(run).model
    if not path.exists():
        raise BadInput(f"{path}: {NO_MODEL}")
    return model_in(path)


def load_partition(
    partition: str,
    results: str | Path = "results",
    data: Folders = "data",
    download: bool = False,
) -> FederatedData:
    """A noisy partition: clients with their images, given labels and true labels.

    Args:
        partition: its id, which ``plan(...).partitions`` and ``plan(...).facts[run]`` have.
        results: see :func:`load_table`.
        data: the folders of official data files, from which the dataset is prepared if need be.
        download: fetch official files that are missing.

    Raises:
        BadInput: there is no such partition, or its dataset is not there.
    """
    found = noisy_partition.read(partition_file(partition, Path(results)))
    own = OwnFiles(_folders(data), Path(results))
    parts = prepared(found.spec["dataset"], own, download)
    train, test = map(read_part, parts)
    return FederatedData(found, train, test)


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
        keep_model: also save the final model, which :func:`load_model` reads; an existing run
            without one is trained once more.
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
    """Train methods in one setting, several runs at once, and return what they reached.

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
            such as ``rounds``.

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
        write_scale(wanted, Path(save), places)
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


def load_methods() -> pd.DataFrame:
    """Every method: its name, what it is, its sides, and its options with their defaults."""
    return pd.DataFrame(
        {
            "method": name,
            "title": method_summary(name),
            "server": one.is_server,
            "client": one.is_client,
            "networks": one.networks,
            "options": one.defaults(),
        }
        for name, one in methods().items()
    ).set_index("method")


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
    return Places(Path(results), _folders(data), download, device, jobs)


def _folders(data: Folders) -> list[Path]:
    folders = [Path(data)] if isinstance(data, str | Path) else [Path(folder) for folder in data]
    for folder in folders:
        name = str(folder)
        if not folder.exists() and name.partition("(")[0] in (*DATASETS, *KINDS):
            hint = f"did you mean dataset={name!r}?"
            raise BadInput(f"data: got {name!r}, expected a folder of data files; {hint}")
    return folders


def _finished(scale: str | Path, results: str | Path | None) -> Scale:
    """A scale without what its tables lack."""
    file = named_scale(scale)
    given = load_config(file)
    here = {"results": given.results if results is None else Path(results)}
    config = given.model_copy(update={**here, "train_missing": False})
    found = PlanFile(config, str(file)).plan(lambda line: print(line, file=sys.stderr))
    return Scale(config, found, REPRODUCED)


def _frame(scale: Scale, table: TableDescription) -> pd.DataFrame:
    """The tidy frame of a table."""
    return collect(table, read_runs({run: scale.run_files(run) for run in table.run_ids()})).frame
