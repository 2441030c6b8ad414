"""What all tests share."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

# Before torch is imported, here and in what the tests start: its threads would only take the cores
# from the other test processes.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest

from noisyfl.core.artifacts import Results
from written_runs import Runs, write_partition

LONGEST = (
    "slurm/test_faults",  # waits most of the time, and one Slurm is all that a machine can have
    "simulation/test_executors",
    "simulation/test_rounds",
    "simulation/test_graphs",
    "workflow/test_pipeline",
    "simulation/",
    "workflow/",
    "runs/test_shared_cache",
    "methods/test_behaviour",
)
"""Begun first, as a file is one process's: none shall be left with one of these at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        path = item.path.as_posix()
        found = (n for n, part in enumerate(LONGEST) if f"/tests/{part}" in path)
        return next(found, len(LONGEST))

    items.sort(key=place)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Results that hold the digits."""
    from noisyfl.checks.small_run import prepare_digits  # with torch, which few tests need

    return prepare_digits(tmp_path_factory.mktemp("data"))


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    """Writes small runs into a folder of the test's own."""
    return Runs(tmp_path / "results")


@pytest.fixture(scope="session")
def runs_in() -> type[Runs]:
    """Gives runs in a folder, for tests that share them."""
    return Runs


@pytest.fixture
def make_partition(tmp_path: Path) -> Callable[..., Path]:
    """Writes a noisy partition into the test's own folder."""
    return partial(write_partition, tmp_path)


@pytest.fixture
def forgotten() -> Iterator[None]:
    """What a test registers or loads is forgotten after it."""
    from outside import as_before  # imports every method, which few tests need

    with as_before():
        yield
