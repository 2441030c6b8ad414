"""Commands that train, test and list runs."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from noisyfl.core.artifacts import DamagedArtifact, Results, RunFiles, read_json, read_table
from noisyfl.core.checked_yaml import check_values
from noisyfl.core.options import BadInput, permitted
from noisyfl.core.provenance import Provenance, read_provenance
from noisyfl.core.text import printable
from noisyfl.data.datasets.parts import read_part
from noisyfl.data.datasets.prepared import prepared
from noisyfl.data.own_files import OwnFiles
from noisyfl.data.roots import Roots
from noisyfl.experiments.config import check_folder
from noisyfl.experiments.places import Places
from noisyfl.runs.artifact import read_spec, verify
from noisyfl.runs.evaluate import evaluate_model
from noisyfl.runs.final_model import why_no_model
from noisyfl.runs.inputs import make_inputs, naming_plugins
from noisyfl.runs.job import TrainingJob
from noisyfl.specs.run_words import describe_run
from noisyfl.specs.sources import source_digest
from noisyfl.specs.spec import check_run, plugins_of


def train_specs(
    specs: list[Path],
    results: Path,
    data: Sequence[Path],
    download: bool,
    device: str,
    executor: str,
    *,
    keep_models: bool,
    keep_labels: bool,
    trackers: Sequence[str],
    prepare: bool,
) -> None:
    """Train each spec that is not trained yet, after preparing missing data and partitions.

    All specs are read before the first is trained. If one fails, the others are still trained, and
    the exit status is 1. With --prepare, only prepare data and partitions.
    """
    places = Places(results, data, download, device)
    jobs = [
        places.job(
            _read_spec(path),
            executor=executor,
            keep_models=keep_models,
            keep_labels=keep_labels,
            trackers=tuple(trackers),
        )
        for path in specs
    ]
    failed = 0
    for job in jobs:
        try:
            with permitted():
                if prepare:
                    make_inputs(job, places.own)
                    continue
                error = train_job(job, places.own)
        except (BadInput, DamagedArtifact) as bad:
            error = f"error: {bad}"
        except Exception:  # of a plugin, say; the other runs do not suffer from it
            error = traceback.format_exc().rstrip()
        if error:
            print(error, file=sys.stderr)
            failed += 1
            if "CUDA error" in error:
                sys.exit("stopped: CUDA works again only in a new process; run the same command")
    if failed:
        sys.exit(f"{failed} of {len(jobs)} runs failed" if len(jobs) > 1 else 1)


def train_job(job: TrainingJob, own: OwnFiles) -> str:
    """Train one run unless it is trained already; make its data and partition if they are missing.

    Returns:
        The message about why the run failed; empty if it did not.

    Raises:
        BadInput: the data or the partition cannot be made.
        DamagedArtifact: the run, or a file that it needs, is damaged.
        SystemExit: the run was asked to end.
    """
    run = job.run_files
    if job.done:
        verify(job.run_id, run)
        print(f"{job.run_id} is already trained: {run.folder}")
        if job.keep_models and not run.model.exists():
            print(why_no_model(run, job.layout.stored(job.run_id)))
        return ""
    make_inputs(job, own)
    outcome = job.run(echo=True)
    if outcome.interrupted:
        sys.exit(f"{outcome.error}; run the same command to continue")
    return "" if outcome.error is None else job.failure(outcome.error)


def evaluate_runs(runs: list[str], results: Path, data: Roots, download: bool, device: str) -> None:
    """Test the saved models of runs again, and print the results next to the recorded ones."""
    for run in runs:
        layout = Results(results)
        files = layout.run(run)
        if not files.whole():
            raise BadInput(f"{run}: no run in {results} has this id")
        if not files.model.exists():
            raise BadInput(f"{files.model}: {why_no_model(files, layout.stored(run))}")
        spec = read_json(files.spec)
        own = OwnFiles(data, results)
        _, test = prepared(spec["noisy_partition"]["dataset"], own, download)
        with naming_plugins(run, files):
            found = evaluate_model(files, read_part(test), device)
        recorded = last_evaluation(files)
        print(f"{run}  {describe_run(spec)}")
        for name, value in recorded.items():
            print(f"  {name}: {found[name]!r}, recorded: {value!r}")


def last_evaluation(files: RunFiles) -> dict[str, float]:
    """The test results that a run recorded in its last round."""
    table = read_table(files.rounds)[0]
    names = [name for name in table.column_names if name.startswith("test_")]
    last = {name: table[name][-1].as_py() for name in names}
    return {name: value for name, value in last.items() if value is not None}


def _read_spec(path: Path) -> dict[str, Any]:
    try:
        spec = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise BadInput(f"{path}: there is no such file") from error
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"{path}: not a spec ({error})") from error
    check_values(spec, str(path))
    check_run(spec, str(path))
    return spec


def list_runs(results: Path) -> None:
    """List the runs of a results folder: how each ended, and whether its code has changed since.

    Runs that cannot be read are named at the end, and the exit status is then 1.
    """
    check_folder(results, "--results", to_be_made=False)
    damaged = []
    paths = sorted((results / "runs").glob("*/provenance.json"))
    if not paths:
        print(f"no finished run in {results}", file=sys.stderr)
    for path in paths:
        run = path.parent.name
        try:
            provenance, spec = read_provenance(path, run), read_spec(run, Results(results).run(run))
            words = f"{run}  {provenance.status:8}  "
            try:
                words += f"{_made_by(spec, provenance)}  {describe_run(spec)}"
            except BadInput:
                if not (used := provenance.plugins):
                    raise
                words += f"needs --plugin {' --plugin '.join(used)}"
            print(printable(words))
        except (BadInput, DamagedArtifact, FileNotFoundError) as error:
            damaged.append(f"{run} cannot be read: {error}")
    if damaged:
        sys.exit("\n".join(damaged))


def _made_by(spec: Mapping[str, Any], provenance: Provenance) -> str:
    """Whether a run was trained by the present code, in words."""
    if provenance.source_digest != source_digest():
        return f"other source {provenance.source_digest[:12]}"
    others = [
        name
        for name, facts in plugins_of(spec).items()
        if facts["sha256"] != provenance.plugins.get(name, {}).get("sha256")
    ]
    return f"other source of {', '.join(others)}" if others else "this source"
