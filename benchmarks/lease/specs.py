"""``specs.py CONFIG FOLDER QUEUE``: the specs that a borrowed GPU trains, in order of value.

Those that are stored already are left out. QUEUE names specs for the processor's other cores.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noisyfl.core.artifacts import Results
from noisyfl.core.tracked import REPRODUCED, done_in
from noisyfl.experiments.plan_file import read_plan
from noisyfl.experiments.targets import runs_of, tables_and_figures

ORDER = [
    # FedRN and random neighbours beside the robust methods, on shards of two classes; the rest.
    *(("fedrn", "2", 0.4), ("random", "2", 0.8), ("jointopt", "2", 0.8)),
    *(("selfie", "2", 0.8), ("rofl", "2", 0.8)),
    *(("fedavg", "dirichlet", 0.8), ("fedrn", "dirichlet", 0.8), ("random", "2", 0.4)),
    *(("fedavg", "5", 0.8), ("fedrn", "5", 0.8), ("random", "dirichlet", 0.8)),
    *(("fedavg", "dirichlet", 0.4), ("fedrn", "dirichlet", 0.4)),
    *(("fedavg", "5", 0.4), ("fedrn", "5", 0.4)),
]
"""Method, partition and highest noise level of FedRN's Table 2."""


def kind(spec: Mapping[str, Any]) -> tuple[str, str, float | None] | None:
    """Where a run stands in :data:`ORDER`, if it is a main one of the table."""
    method, cut = spec["method"], spec["noisy_partition"]["partition"]
    if spec["noisy_partition"]["label_noise"]["name"] != "symmetric" or spec.get("probes"):
        return None
    name = method["name"]
    if name == "fedrn":
        if (method["neighbours"], method["alpha"], method["finetune"]) != (2, 0.6, True):
            return None
        name = "random" if method["neighbour_choice"] == "random" else name
    where = str(cut.get("shards", cut["name"].partition("_")[0]))
    return name, where, spec["noisy_partition"]["noise_level"].get("high")


def main(config: Path, folder: Path, queue: Path) -> None:
    """Write ``specs/`` and ``cpu_specs/`` into a folder, numbered by their order."""
    _, plan = read_plan([config], results=Path("results"))
    done = done_in(REPRODUCED, Results(Path("results")))
    found: dict[Any, str] = {}
    for table in tables_and_figures(plan, None).values():
        for run in runs_of([table]):
            found.setdefault(kind(plan.runs[run]), run)
    left = [found[each] for each in ORDER if each in found and not done(found[each])]
    for name in ("specs", "cpu_specs"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir(parents=True)
    for number, run in enumerate(left, 1):
        (folder / "specs" / f"{number:02}_{run}.json").write_text(json.dumps(plan.runs[run]))
        print(f"{number:2} {run} {kind(plan.runs[run])}")
    for number, path in enumerate(map(Path, queue.read_text().split()), 1):
        shutil.copy(path, folder / "cpu_specs" / f"{number:03}_{path.name}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
