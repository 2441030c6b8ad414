"""Read tables, runs, noisy partitions and models in Python.

Everything is in the same artifacts that the command line reads, and in what is tracked in the
repository. Tables are pandas data frames, a client's samples a torch ``Dataset``.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from noisyfl.analysis.cells import collect
from noisyfl.analysis.clients import accuracies_by_client, client_features
from noisyfl.analysis.frame import join_frames
from noisyfl.analysis.published_cells import published_cells
from noisyfl.analysis.runs import Run, read_run, read_runs
from noisyfl.core.options import BadInput, find
from noisyfl.core.plugins import load as load_plugins
from noisyfl.data import noisy_partition
from noisyfl.data.client_images import FederatedData
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.data.datasets.own_kinds import KINDS
from noisyfl.data.datasets.parts import read_part
from noisyfl.data.datasets.prepared import prepared
from noisyfl.data.own_files import OwnFiles
from noisyfl.experiments.config import Configuration, published_files
from noisyfl.experiments.places import Places
from noisyfl.experiments.plan import Plan
from noisyfl.experiments.plan_file import read_plan
from noisyfl.experiments.scale import Scale
from noisyfl.experiments.scale_file import named_scale
from noisyfl.runs.final_model import FinalModel, why_no_model
from noisyfl.runs.final_model import load_model_file as model_in
from noisyfl.specs.catalogue import method_summary, methods
from noisyfl.specs.published import read_published

if TYPE_CHECKING:
    from noisyfl.specs.descriptions import TableDescription

Folders = str | Path | Sequence[str | Path]
"""One folder, or several that are searched in turn."""

ScaleName = str | Path | Sequence[str | Path]
"""A scale's name, its file, or several files, of which later ones override earlier ones."""


def plan(scale: ScaleName, results: str | Path | None = None) -> Plan:
    """What a scale asks for: its tables and figures, and the spec of each run by id.

    Args:
        scale: its name, its file, or several files, of which later ones override earlier ones.
        results: the folder of all artifacts; None: as the scale's file says.

    Raises:
        BadInput: something is wrong with the scale or its experiments.
    """
    return _read(scale, results)[1]


def load_table(
    name: str, scale: ScaleName = "reduced", results: str | Path | None = None
) -> pd.DataFrame:
    """A table of the existing runs, one row per table, row, column and run.

    The columns are those of :mod:`noisyfl.analysis.frame`; ``frame.pivot_table("value", "row",
    "column", sort=False)`` is the table as it is printed, and ``"published"`` the paper's.

    Args:
        name: ``<experiment>/<table>``, such as ``fednoil/table1``.
        scale: its name, its file, or several files, of which later ones override earlier ones.
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


def load_cells(scale: ScaleName = "reduced", results: str | Path | None = None) -> pd.DataFrame:
    """Every published number, with ours from existing runs: ``cells.csv`` as a frame.

    Args:
        scale: its name, its file, or several files, of which later ones override earlier ones.
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


def load_clients(run: str, results: str | Path = "results") -> pd.DataFrame:
    """The clients of a run, one row each: their data, and how well the run serves them.

    Columns: ``client``; ``samples``; ``noise_level`` (percent of wrong labels, NaN if unknown);
    ``imbalance`` (0: as many samples of each class, 1: of one class); ``accuracy``: percent, after
    the last round, on test images in the proportions of the client's classes, NaN if the run has
    no confusion matrix. If several models are tested, as by ``apfl``, it is their mean.

    Args:
        run: its id.
        results: the folder of all artifacts; the tracked ones are looked at, too.

    Raises:
        BadInput: the run or its noisy partition is not there.
    """
    found = load_run(run, results)
    partition = noisy_partition.read(Places(Path(results)).partition_file(found.partition))
    features = client_features(partition)
    features = {"samples": features.pop("samples").astype(int), **features}
    frame = pd.DataFrame(features).rename_axis("client").reset_index()
    confusion = found.confusion
    frame["accuracy"] = (
        math.nan if confusion is None else accuracies_by_client(confusion, partition)
    )
    return frame


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
    places = Places(Path(results))
    files = places.files(run)
    if not files.model.exists():
        raise BadInput(f"{files.model}: {why_no_model(files, places.results.stored(run))}")
    return model_in(files.model)


def load_partition(
    partition: str,
    results: str | Path = "results",
    data: Folders = "data",
    download: bool = False,
) -> FederatedData:
    """A noisy partition: clients with their images, given labels and true labels.

    Args:
        partition: its id, which ``plan(...).partitions`` and ``plan(...).facts[run]`` have.
        results: the folder of all artifacts; the tracked ones are looked at, too.
        data: the folders of official data files, from which the dataset is prepared if need be.
        download: fetch official files that are missing.

    Raises:
        BadInput: there is no such partition, or its dataset is not there.
    """
    found = noisy_partition.read(Places(Path(results)).partition_file(partition))
    own = OwnFiles(folders_of(data), Path(results))
    parts = prepared(found.spec["dataset"], own, download)
    train, test = map(read_part, parts)
    return FederatedData(found, train, test)


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


def folders_of(data: Folders) -> list[Path]:
    """Folders of data files; :class:`BadInput` if one is the name of a dataset."""
    folders = [Path(data)] if isinstance(data, str | Path) else [Path(folder) for folder in data]
    for folder in folders:
        name = str(folder)
        if not folder.exists() and name.partition("(")[0] in (*DATASETS, *KINDS):
            hint = f"did you mean dataset={name!r}?"
            raise BadInput(f"data: got {name!r}, expected a folder of data files; {hint}")
    return folders


def _finished(scale: ScaleName, results: str | Path | None) -> Scale:
    """A scale without what its tables lack."""
    return Scale(*_read(scale, results, train_missing=False))


def _read(
    scale: ScaleName, results: str | Path | None, **changes: Any
) -> tuple[Configuration, Plan]:
    """A scale, with results in a folder or, if it is None, where the scale's file says."""
    if results is not None:
        changes["results"] = Path(results)
    files = [scale] if isinstance(scale, str | Path) else scale
    return read_plan([named_scale(file) for file in files], **changes)


def _frame(scale: Scale, table: TableDescription) -> pd.DataFrame:
    """The tidy frame of a table."""
    return collect(table, read_runs({run: scale.run_files(run) for run in table.run_ids()})).frame
