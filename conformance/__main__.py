"""``python -m conformance OFFICIAL``: record the official codes' numbers, and print what changed.

OFFICIAL is a folder of checkouts, each called OWNER+NAME and at the commit that is named in
``conformance.COMMITS``. Without it nothing is recorded. In either case our code is compared with
the recorded numbers, and docs/conformance.md is written again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from conformance.page import DIFFERENCES, PAGE, page
from conformance.record import VECTORS, difference, path_of, record, recorded, text_of
from conformance.recorders import MODULES, steps
from conformance.steps import relative

SLOW = ["torch._dynamo", "sklearn.mixture"]
"""Modules that are slow to import, and are therefore imported once for all repositories. The
first is needed by an optimizer of torch's."""


def main() -> None:
    """Record every repository, or only those named, if OFFICIAL is given; then write the page."""
    parser = argparse.ArgumentParser(prog="python -m conformance", description=__doc__)
    parser.add_argument("official", type=Path, nargs="?", help="the folder of checkouts")
    parser.add_argument("repositories", nargs="*", default=[], help=f"of {', '.join(MODULES)}")
    given = parser.parse_args()
    VECTORS.mkdir(exist_ok=True)
    if given.official:
        record_all(given.official, given.repositories or list(MODULES))
    apart = {
        repository: {
            step.name: float(f"{difference(step, recorded(repository)['steps'][step.name]):.1e}")
            for step in steps(repository)
        }
        for repository in MODULES
    }
    if given.official or not DIFFERENCES.exists():
        DIFFERENCES.write_text(json.dumps(apart, indent=1) + "\n")
    PAGE.write_text(page())
    worst = max(max(own.values()) for own in apart.values())
    print(f"{sum(map(len, apart.values()))} steps, largest difference from ours {worst:.1e}")


def record_all(official: Path, repositories: list[str]) -> None:
    """Record each repository in a process of its own, as modules of different ones share names."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["conformance.record", *SLOW])
    with ProcessPoolExecutor(1, server, max_tasks_per_child=1) as pool:
        for repository in repositories:
            found = pool.submit(record, repository, official).result()
            path = path_of(repository)
            before = json.loads(path.read_text())["steps"] if path.exists() else {}
            path.write_text(text_of(found))
            for name, step in found["steps"].items():
                if name not in before or before[name]["inputs"] != step["inputs"]:
                    said = "new"
                elif before[name]["outputs"] == step["outputs"]:
                    said = "the same"
                else:
                    apart = relative(step["outputs"], before[name]["outputs"], name)
                    said = f"changed by {apart:.1e}"
                print(f"{repository} {name}: {said}", flush=True)
            for name in before.keys() - found["steps"].keys():
                print(f"{repository} {name}: gone", flush=True)


if __name__ == "__main__":
    main()
