"""A plan of ten runs, each of which is where a test puts it: done, under way, failed."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

from noisyfl.core.artifacts import Results, write_json
from noisyfl.core.provenance import write_provenance
from noisyfl.experiments.progress import Pace, progress_text, read_progress
from noisyfl.experiments.targets import runs_by_target
from noisyfl.runs.status import StatusRecord
from noisyfl.specs.run_words import describe_run
from small_paper import PAPER, edited
from small_paper import plan as small_plan

NOW = datetime(2027, 3, 1, 12, tzinfo=UTC)

# Table 1: FedAvg and FedProx in two settings, twice each. Table 2: FedAvg, shared, and Krum.
TWO = edited(
    edited(PAPER, ["settings", "base", "schedule", "participation"], 0.3),  # Krum takes three
    ["tables", "two"],
    {
        "title": "Table 2",
        "setting": "base",
        "trials": 2,
        "statistic": "best",
        "columns": [{"name": "clean"}],
        "rows": [{"name": "FedAvg", "method": "fedavg"}, {"name": "Krum", "method": "krum"}],
    },
)


def place_in(tmp_path):
    """A plan of ten runs, and a folder of results that files of runs are put into."""
    plan = small_plan(tmp_path, TWO)
    results = Results(tmp_path / "results")
    by_target = runs_by_target(plan)
    assert {name: len(runs) for name, runs in by_target.items()} == {"paper_one": 8, "paper_two": 4}
    by_method = {
        name: [run for run, spec in plan.runs.items() if spec["method"]["name"] == name]
        for name in ("fedavg", "fedprox", "krum")
    }
    assert [len(runs) for runs in by_method.values()] == [4, 4, 2]
    return SimpleNamespace(plan=plan, results=results, by_target=by_target, **by_method)


def expected(place, run, device="cuda"):
    """The estimate of what a run takes, in seconds."""
    return place.plan.estimate(run, device).seconds


def done(place, run, factor=1.0, setup=10.0, device="NVIDIA H200", status="finished"):
    """A run that took a factor of its estimate, of which some seconds before its first round."""
    kind = "cpu" if "CPU" in device else "cuda"
    seconds = factor * expected(place, run, kind) - setup
    said = {"run": run, "rounds": 2, "status": status, "device": device, "setup_seconds": setup}
    said |= dict.fromkeys(("noisyfl", "source_digest", "python", "torch"), "1")
    files = place.results.run(run)
    files.folder.mkdir(parents=True, exist_ok=True)
    for path in files.all():
        path.touch()
    write_provenance(files.provenance, {**said, "training_seconds": seconds})


def says(place, run, state="running", age=10.0, **more):
    """A run that said of itself so many seconds ago how it is."""
    said = {
        "state": state,
        "setting": describe_run(place.plan.runs[run]),
        "host": "node7",
        "process": 1,
        "begun": (NOW - timedelta(seconds=age + 30)).isoformat(),
        "updated": (NOW - timedelta(seconds=age)).isoformat(),
        "rounds_done": 25,
        "rounds": 100,
        "resumed_after": 0,
        "seconds_left": None,
        "error": None,
        "accuracy": None,
        "permanent": False,
        "log": f"logs/{run}.log",
        "slurm_job": None,
        **more,
    }
    assert set(said) == set(StatusRecord.model_fields) - {"traceback"}
    write_json(place.results.status(run), said)


def progress_of(place):
    return read_progress(place.plan.runs, [place.results], NOW)


def pace_of(place, device="cuda"):
    return Pace(place.plan, progress_of(place), device)


def text_of(place, device="cuda"):
    return progress_text(place.plan, [place.results], device, place.by_target, now=NOW)


def counts(place):
    """Of each target its runs, and those done, running, failed and left, as they are printed."""
    lines = text_of(place).splitlines()[3:6]
    return {line.split()[0]: [int(word) for word in line.split()[1:6]] for line in lines}


def hours(place, target="all"):
    """What is left of a target, as it is printed."""
    line = next(line for line in text_of(place).splitlines() if line.startswith(target))
    return float(line.split()[-1].replace(",", ""))
