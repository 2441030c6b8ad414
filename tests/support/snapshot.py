"""What the project prints, in a folder: ``python tests/support/snapshot.py FOLDER [SCALE ...]``.

Two of them, of before and after a change, show with ``diff -r`` whether it changes anything that a
user sees: tables, figures' data, claims, evidence, ids of runs, and the messages about bad input.
The scales are ``reduced``, of runs that are tracked, and ``quick``, whose runs are trained in
FOLDER/results the first time; copy that folder to the next snapshot's to train nothing again.
"""

from __future__ import annotations

import copy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from checked_plan import checked_plan
from noisyfl.core.options import BadInput
from noisyfl.core.places import ROOT
from noisyfl.experiments.config import EXPERIMENTS, check_config, load_config
from noisyfl.specs.identity import identity

SCALES = {"reduced": "reduced.yaml", "quick": "config.yaml"}
PRINTED = (".parquet", ".md", ".csv", ".json", ".tex", ".html")
MESSAGES = 4
"""Of as many places in a mapping at most each kind of mistake is tried."""


def main(folder: Path, scales: list[str]) -> None:
    """Write the snapshot."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted((ROOT / "config").glob("*.yaml")):
        plan = checked_plan(load_config([path]), path.name)
        ids = [*plan.runs, *(identity(spec) for spec in plan.partitions.values())]
        (folder / f"ids_{path.stem}.txt").write_text("".join(f"{one}\n" for one in sorted(ids)))
    (folder / "messages.txt").write_text("".join(f"{line}\n" for line in messages()))
    for scale in scales:
        results = folder / "results"
        shutil.rmtree(results / scale, ignore_errors=True)
        command = ["snakemake", "--cores", "all", "--quiet", "all", "--configfile"]
        command += [f"config/{SCALES[scale]}", "--config", f"results={results.resolve()}"]
        subprocess.run([sys.executable, "-m", *command], check=True, cwd=ROOT)
        for path in sorted((results / scale).rglob("*")):
            if path.suffix in PRINTED and not {"logs", "plans"} & {*path.parts}:
                kept = folder / scale / path.relative_to(results / scale)
                kept.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, kept)


def messages() -> Iterator[str]:
    """What is said of mistakes: each value of a scale and of an experiment in turn is wrong."""
    scale = yaml.safe_load((ROOT / "config" / "smoke.yaml").read_text())
    for where, wrong in mistakes(scale):
        yield f"{where}: {refused(wrong)}"
    experiment = yaml.safe_load((EXPERIMENTS / "fedrn.yaml").read_text())
    config = {**scale, "experiments": ["fedrn"], "overlay": {}}
    for where, wrong in mistakes(experiment):
        own = Path("snapshot_experiments")
        own.mkdir(exist_ok=True)
        (own / "fedrn.yaml").write_text(yaml.safe_dump(wrong, sort_keys=False))
        yield f"{where}: {refused(config, own)}"
        shutil.rmtree(own)


def mistakes(given: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Copies of a configuration with one value or one key wrong, and which one."""
    places = list(given.items()) if isinstance(given, dict) else list(enumerate(given))
    for key, value in places[:MESSAGES] if where else places:
        here = f"{where}.{key}"
        for wrong in ("nonsense", -1, []):
            changed = copy.copy(given)
            changed[key] = wrong
            yield f"{here}={wrong!r}", changed
        if isinstance(given, dict):
            yield f"{here} misspelt", {f"{k}x" if k == key else k: v for k, v in given.items()}
        if isinstance(value, dict | list):
            for there, wrong in mistakes(value, here):
                changed = copy.copy(given)
                changed[key] = wrong
                yield there, changed


def refused(config: Any, experiments: Path | None = None) -> str:
    """What is said of a configuration; ``accepted`` if nothing is."""
    try:
        checked_plan(check_config(config, "config"), "config", experiments)
    except BadInput as error:
        return " ".join(str(error).split())
    return "accepted"


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] or list(SCALES))
