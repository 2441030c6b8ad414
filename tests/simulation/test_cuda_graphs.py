"""What captures real graphs, held against a driver that is as strict as CUDA and torch are."""

import gc
import weakref
from collections import Counter

import pytest
import torch

from noisyfl.simulation.graphs import CHECKS, CudaGraphs, GraphCache, differing
from noisyfl.simulation.usage import Usage


class Driver:
    """Memory pools, which end with their last graph, and one capture at a time."""

    def __init__(self):
        self.users, self.used = Counter(), set()
        self.capturing = None
        self.ends = self.begins = self.emptied = 0
        self.fail_begin = self.fail_end = False
        self.ended_by_hand = []

    def graph(self):
        return Graph(self)


class Graph:
    """In the place of ``torch.cuda.CUDAGraph``."""

    def __init__(self, driver):
        self.driver, self.pool = driver, None

    def capture_begin(self, pool, capture_error_mode):
        driver = self.driver
        driver.begins += 1
        if driver.fail_begin:
            raise RuntimeError("CUDA error: cannot begin")
        assert capture_error_mode == "thread_local"
        assert driver.capturing is None
        # torch asserts so of a pool that it knows: what has no user was given up.
        assert pool not in driver.used or driver.users[pool] > 0, "use_count > 0"
        driver.used.add(pool)
        driver.users[pool] += 1
        self.pool = pool
        driver.capturing = self

    def capture_end(self):
        assert self.driver.capturing is self
        self.driver.capturing = None
        self.driver.ends += 1
        if self.driver.fail_end:
            raise RuntimeError("CUDA error: cannot end")

    def replay(self):
        return "replayed"

    def __del__(self):
        if self.pool is not None:
            self.driver.users[self.pool] -= 1


@pytest.fixture
def driver(monkeypatch):
    driver, pools = Driver(), iter(range(100))
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: next(pools))
    monkeypatch.setattr(torch.cuda, "CUDAGraph", driver.graph)

    def empty():
        assert driver.capturing is None
        driver.emptied += 1

    def over(device, pool):
        driver.ended_by_hand.append((device, pool))

    monkeypatch.setattr(torch.cuda, "empty_cache", empty)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", over)
    return driver


@pytest.mark.slow
def test_a_pool_is_used_again_after_its_last_graph_is_gone(driver):
    capture, done = CudaGraphs(), []
    for number in range(3):
        again = capture(lambda number=number: done.append(number))
        assert again() == "replayed"
        del again
        gc.collect()
    assert done == [0, 1, 2]
    assert driver.users == {0: 1}  # the graph of nothing


def test_nothing_is_collected_during_a_capture(driver):
    collecting = []
    CudaGraphs()(lambda: collecting.append(gc.isenabled()))
    assert collecting == [False]
    assert gc.isenabled()


@pytest.mark.parametrize("fault", ["fail_begin", "fail_end"])
def test_the_collector_is_on_again_after_a_fault(driver, fault):
    capture = CudaGraphs()
    capture(lambda: None)
    setattr(driver, fault, True)
    with pytest.raises(RuntimeError, match="CUDA error"):
        capture(lambda: None)
    assert gc.isenabled()


def test_work_that_fails_leaves_its_slot_as_it_was(driver):
    capture = CudaGraphs()

    def reads():
        raise RuntimeError("operation not permitted")

    with pytest.raises(RuntimeError, match="not permitted"):
        capture(reads)
    assert driver.capturing is None
    assert capture(lambda: None)() == "replayed"


def test_after_a_capture_that_could_not_be_ended_there_is_no_other(driver):
    capture = CudaGraphs()
    capture(lambda: None)
    driver.fail_end = True
    with pytest.raises(RuntimeError, match="cannot end"):
        capture(lambda: None)
    driver.fail_end = False
    begins = driver.begins
    with pytest.raises(RuntimeError, match="an earlier capture could not be ended"):
        capture(lambda: None)
    assert driver.begins == begins
    assert driver.ended_by_hand == [(0, 0)]
    gc.collect()
    assert driver.users[0] == 2  # the failed graph is alive, beside the one of nothing


def test_a_capture_without_room_is_tried_again_once_the_cache_is_empty(driver):
    capture, tries = CudaGraphs(), []

    def work():
        tries.append(driver.emptied)
        if not driver.emptied:
            raise torch.OutOfMemoryError("no room")

    assert capture(work)() == "replayed"
    assert tries == [0, 1]

    def never():
        tries.append("never")
        raise torch.OutOfMemoryError("no room")

    with pytest.raises(torch.OutOfMemoryError):
        capture(never)
    assert tries == [0, 1, "never", "never"]
    assert driver.capturing is None


def test_the_second_try_has_the_memory_of_the_first(driver, monkeypatch):
    tensors, alive = [], []

    class Activation:
        pass

    def work():
        activation = Activation()
        tensors.append(weakref.ref(activation))
        if len(tensors) == 1:
            raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: alive.append(tensors[0]()))
    CudaGraphs()(work)
    assert alive == [None]


# ---------------------------------------------------------------- which replays are checked


def test_the_first_replays_of_a_key_are_checked_once_for_all_slots():
    usage = Usage()
    slots = [GraphCache(usage) for _ in range(3)]
    checked = [slots[place % 3].is_to_be_checked("key") for place in range(6)]
    assert checked == [True] * CHECKS + [False] * (6 - CHECKS)
    assert slots[2].is_to_be_checked("another key")


def test_tensors_of_many_kinds_are_compared_as_one_by_one():
    generator = torch.Generator().manual_seed(1)
    kinds = {
        "weights": [torch.randn(3, 4, generator=generator), torch.randn(2, generator=generator)],
        "loss": [torch.randn((), generator=generator, dtype=torch.float64)],
        "memory": [torch.arange(5), torch.tensor([True, False])],
    }
    after = {kind: [value + 1 for value in values] for kind, values in kinds.items()}
    assert differing(kinds, after, after, after, 1e-3) == []
    for kind, values in after.items():
        for place, value in enumerate(values):
            wrong = [each.clone() for each in values]
            wrong[place] = value + 1
            assert differing(kinds, after, *[{**after, kind: wrong}] * 2, 1e-3) == [kind]
