"""The folder through which Snakemake and allocations speak."""

import multiprocessing
from collections import Counter
from pathlib import Path

import pytest

from noisyfl.cluster.pool import End, Order, Pool

KIND = "gpu"


def order(run: str, memory: int = 4000, seconds: int = 60) -> Order:
    return Order(run, KIND, memory, seconds, {"spec": {"seed": 1}})


@pytest.fixture
def pool(tmp_path: Path) -> Pool:
    return Pool(tmp_path / "pool")


def test_a_run_is_taken_once_and_ends_once(pool: Pool) -> None:
    pool.add(order("a"))
    assert (pool.waiting(), pool.waiting_runs()) == ([order("a")], {"a"})
    assert pool.take(KIND, "7", 4000, 3600) == order("a")
    assert (pool.waiting(), pool.waiting_runs(), pool.taken()) == ([], set(), {"a": "7"})
    assert pool.take(KIND, "8", 4000, 3600) is None
    assert pool.how_ended("a") is None
    pool.end("a", End(None, "7"))
    assert pool.how_ended("a") == End(None, "7")
    assert pool.taken() == {}


def test_the_most_demanding_run_that_fits_is_taken(pool: Pool) -> None:
    for each in (order("small", 1000), order("long", 4000, 3000), order("large", 8000)):
        pool.add(each)
    pool.add(Order("other", "cpu", 1000, 1, {}))
    taken = [pool.take(KIND, "7", 4000, left) for left in (3600.0, 600.0, 600.0)]
    assert [each and each.run for each in taken] == ["long", "small", None]


def test_an_end_is_forgotten_when_the_run_is_added_again(pool: Pool) -> None:
    pool.add(order("a"))
    pool.take(KIND, "7", 4000, 3600)
    pool.end("a", End("no memory", "7"))
    pool.add(order("a", memory=8000))
    assert pool.how_ended("a") is None
    assert [each.memory_mb for each in pool.waiting()] == [8000]


def test_an_allocation_that_starts_anew_leaves_its_runs_to_all(pool: Pool) -> None:
    for run in ("done", "lost"):
        pool.add(order(run))
        pool.take(KIND, "7", 4000, 3600)
    # The node was lost between the two steps of ending a run.
    (pool.folder / "ended").mkdir()
    (pool.folder / "ended/done.json").write_text('{"error": null, "allocation": "7"}')
    pool.recover("7")
    assert [each.run for each in pool.waiting()] == ["lost"]
    assert pool.taken() == {}


def test_a_forgotten_allocation_says_what_it_had_not_ended(pool: Pool) -> None:
    pool.add(order("a"))
    pool.take(KIND, "7", 4000, 3600)
    pool.ask("7", {"kind": KIND})
    assert pool.forget("7") == ["a"]
    assert (pool.taken(), pool.asked(), pool.waiting()) == ({}, {}, [])


def test_clearing_leaves_what_allocations_are_at(pool: Pool) -> None:
    for run in ("a", "b"):
        pool.add(order(run))
    pool.take(KIND, "7", 4000, 3600)
    pool.clear()
    assert (pool.waiting(), list(pool.taken().values())) == ([], ["7"])


def test_the_name_stays(pool: Pool) -> None:
    assert pool.name() == Pool(pool.folder).name()
    assert len(pool.name()) > 20


def take_all(folder: Path, allocation: str, taken) -> None:
    while order := Pool(folder).take(KIND, allocation, 4000, 3600):
        taken.put(order.run)
    taken.put(None)


def test_many_allocations_reach_for_the_same_runs(pool: Pool) -> None:
    runs = {f"run{number}" for number in range(60)}
    for run in runs:
        pool.add(order(run))
    context = multiprocessing.get_context("spawn")
    taken = context.Queue()
    processes = [
        context.Process(target=take_all, args=(pool.folder, str(number), taken))
        for number in range(4)
    ]
    for process in processes:
        process.start()
    counted: Counter[str] = Counter()
    for _ in processes:
        while run := taken.get(timeout=60):
            counted[run] += 1
    for process in processes:
        process.join()
    assert counted == dict.fromkeys(runs, 1)
