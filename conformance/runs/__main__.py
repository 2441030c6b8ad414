"""``python -m conformance.runs --official FOLDER --data FOLDER``: run pairs, and record them.

What is recorded already is left alone. Each side of a pair has a process of its own, on one thread.
"""

from __future__ import annotations

import argparse
import multiprocessing
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from conformance import FOLDER
from conformance.runs import CAUSES, PAIRS, RECORDED
from noisyfl.core.artifacts import read_json, write_json

RUNS = PAIRS | CAUSES


def main() -> None:
    """Run what is not recorded yet."""
    parser = argparse.ArgumentParser(prog="python -m conformance.runs", description=__doc__)
    parser.add_argument("methods", nargs="*", help=f"of {', '.join(RUNS)}; all of them")
    parser.add_argument("--official", type=Path, required=True, help="checkouts, OWNER+NAME")
    parser.add_argument("--data", type=Path, default=Path("data"), help="as for noisyfl")
    parser.add_argument("--results", type=Path, default=Path("results/conformance"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--jobs", type=int, default=1, help="pairs at a time")
    given = parser.parse_args()
    # The official codes have modules of the same names, and are changed. A server that has imported
    # what all need forks each process, since importing takes longer than a run.
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["conformance.runs.side", "torch._dynamo", "sklearn.mixture"])
    with ProcessPoolExecutor(given.jobs, server, max_tasks_per_child=1) as pool:
        from conformance.runs.side import run

        folders = (given.official, given.data, given.results)
        pending = {
            pool.submit(run, name, side, seed, *folders): (name, side, seed)
            for seed in given.seeds
            for name in given.methods or RUNS
            for side in RUNS[name].sides
            if str(seed) not in recorded(name)[side]
        }
        for done in as_completed(pending):
            name, side, seed = pending[done]
            if done.exception():
                print(f"{name} {side} {seed}: {done.exception()!r}", flush=True)
                continue
            record, said = recorded(name), done.result()
            record[side][str(seed)] = said
            mean = sum(said["accuracy"]) / len(said["accuracy"])
            print(f"{name} {side} {seed}: {mean:.4f}, {said['seconds']:.0f} s", flush=True)
            path_of(name).parent.mkdir(exist_ok=True)
            write_json(path_of(name), record)


def path_of(name: str) -> Path:
    """A method's file."""
    return FOLDER / "runs" / RECORDED / f"{name}.json"


def recorded(name: str) -> dict:
    """What a method's file holds, by side and seed."""
    path = path_of(name)
    record = read_json(path) if path.exists() else {}
    return {side: record.get(side, {}) for side in RUNS[name].sides}


if __name__ == "__main__":
    main()
