"""How far a scale is, and when it should be done."""

import json
import os
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
import yaml
from small_paper import DIGITS, PAPER, edited
from small_paper import plan as small_plan
from small_repository import Repository

from noisyfl import commands, progress
from noisyfl.artifacts import Results, write_json
from noisyfl.cost import CPU, GPU, estimate
from noisyfl.options import BadInput
from noisyfl.planning import runs_by_target
from noisyfl.progress import Pace, look, progress_text, rows
from noisyfl.spec import describe_run
from noisyfl.status import KEYS, failure_text

NOW = datetime(2027, 3, 1, 12, tzinfo=UTC)
START = GPU.start

# Table 1: FedAvg and FedProx in two settings, twice each. Table 2: FedAvg, shared, and Krum.
TWO = edited(
    PAPER,
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


@pytest.fixture
def place(tmp_path):
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


def training(place, run, device="cuda"):
    """The estimate of what a run's training takes, in seconds."""
    start = (CPU if device == "cpu" else GPU).start
    return estimate(place.plan.runs[run], device).seconds - start


def done(place, run, factor=1.0, setup=10.0, device="NVIDIA H200", status="finished", ended=0):
    """A run that took a factor of its estimate."""
    kind = "cpu" if "CPU" in device else "cuda"
    path = place.results.run(run).provenance
    seconds = factor * training(place, run, kind)
    said = {"status": status, "device": device, "setup_seconds": setup, "training_seconds": seconds}
    write_json(path, said)
    os.utime(path, (1_800_000_000 + ended, 1_800_000_000 + ended))


def says(place, run, state="running", age=10.0, **more):
    """A run that said of itself so many seconds ago how it is."""
    said = {
        "state": state,
        "setting": describe_run(place.plan.runs[run]),
        "host": "node7",
        "process": 1,
        "allocation": None,
        "begun": (NOW - timedelta(seconds=age + 30)).isoformat(),
        "updated": (NOW - timedelta(seconds=age)).isoformat(),
        "rounds_done": 25,
        "rounds": 100,
        "resumed_after": 0,
        "seconds_left": None,
        "error": None,
        "log": f"logs/{run}.log",
        "alone": f"snakemake {run}",
        **more,
    }
    assert set(said) == set(KEYS)
    write_json(place.results.status(run), said)


def seen(place):
    return look(place.plan.runs, [place.results], NOW)


def counts(place):
    found = seen(place)
    pace = Pace(place.plan.runs, found, "cuda")
    return {row.target: row.counts for row in rows(place.by_target, found, pace, NOW)}


def pace_of(place, device="cuda"):
    return Pace(place.plan.runs, seen(place), device)


def row_of(place, target="all"):
    found = seen(place)
    pace = Pace(place.plan.runs, found, "cuda")
    return next(row for row in rows(place.by_target, found, pace, NOW) if row.target == target)


def text_of(place, **more):
    return progress_text(place.plan, [place.results], "cuda", now=NOW, **more)


def test_every_run_is_counted_once_a_table(place):
    done(place, place.fedavg[0])  # shared by both tables
    says(place, place.krum[0])
    says(place, place.fedprox[0], "failed", error="e")
    says(place, place.fedprox[1], age=3600)
    says(place, place.fedprox[2], "interrupted")
    found = counts(place)
    assert {target: sum(states.values()) for target, states in found.items()} == {
        "paper_one": 8,
        "paper_two": 4,
        "all": 10,
    }
    one = {"done": 1, "running": 0, "lost": 1, "failed": 1, "left": 5}
    assert found["paper_one"] == one
    assert found["paper_two"] == {"done": 1, "running": 1, "lost": 0, "failed": 0, "left": 2}
    assert found["all"] == {"done": 1, "running": 1, "lost": 1, "failed": 1, "left": 6}
    line = next(line for line in text_of(place).splitlines() if line.startswith("paper_one"))
    assert line.split()[1:7] == ["8", "1", "0", "1", "1", "5"]


@pytest.mark.parametrize(("age", "state"), [(-30, "running"), (290, "running"), (310, "lost")])
def test_a_run_without_a_sign_of_life_is_lost(place, age, state):
    says(place, place.krum[0], age=age)
    assert seen(place)[place.krum[0]].state == state
    assert ("last heard of" in text_of(place)) == (state == "lost")


def test_a_run_that_failed_once_and_is_whole_is_done(place):
    says(place, place.krum[0], "failed", error="RuntimeError: once")
    assert "RuntimeError: once" in text_of(place)
    done(place, place.krum[0])
    assert seen(place)[place.krum[0]].state == "done"
    assert "RuntimeError: once" not in text_of(place)


def test_a_run_that_becomes_whole_while_it_is_looked_at_is_not_left(place, monkeypatch):
    says(place, place.krum[0])

    def read(path):
        done(place, place.krum[0])
        path.unlink()

    monkeypatch.setattr(progress, "read_status", read)
    assert seen(place)[place.krum[0]].state == "done"


def test_a_reproduced_run_is_done_and_tells_nothing_of_this_machine(place, tmp_path):
    tracked = Results(tmp_path / "reproduced")
    there = SimpleNamespace(plan=place.plan, results=tracked)
    done(there, place.krum[0], factor=9)
    found = look(place.plan.runs, [place.results, tracked], NOW)
    assert found[place.krum[0]].state == "done"
    assert Pace(place.plan.runs, found, "cuda").observed == 0


def test_a_run_that_was_never_seen_takes_its_estimate(place):
    pace = pace_of(place)
    run = place.krum[0]
    span = pace.seconds(run)
    assert span.likely == pytest.approx(estimate(place.plan.runs[run], "cuda").seconds)
    assert span.high - START == pytest.approx(3 * (span.likely - START))
    assert span.low - START == pytest.approx((span.likely - START) / 3)
    assert "mere estimates" in text_of(place)


def test_runs_take_what_runs_like_them_took(place):
    for run in place.fedavg[:3]:
        done(place, run, factor=0.5, setup=10)
    for run in place.fedprox[:3]:
        done(place, run, factor=2.0, setup=20)
    pace = pace_of(place)
    assert pace.observed == 6
    for run, factor in ((place.fedavg[3], 0.5), (place.fedprox[3], 2.0)):
        span = pace.seconds(run)
        assert 10 <= span.likely - factor * training(place, run) <= 20
        assert span.low == span.likely == span.high
    # Krum was never seen: from what the fast ones took to what the slow ones took.
    krum = pace.seconds(place.krum[0])
    once = training(place, place.krum[0])
    assert 10 <= krum.low - 0.5 * once <= 20
    assert 10 <= krum.high - 2.0 * once <= 20


def test_runs_that_differ_say_from_when_to_when(place):
    for run, factor in zip(place.fedprox, (3.0, 1.0, 2.0), strict=False):
        done(place, run, factor)
    span = pace_of(place).seconds(place.fedprox[3])
    whole = training(place, place.fedprox[3])
    found = [(seconds - 10) / whole for seconds in (span.low, span.likely, span.high)]
    assert found == pytest.approx([1, 2, 3])


def test_a_process_that_slept_is_outvoted(place):
    for run in place.fedavg[:3]:
        done(place, run, factor=0.5)
    done(place, place.fedprox[0], factor=300)
    span = pace_of(place).seconds(place.krum[0])
    assert span.likely == pytest.approx(10 + 0.5 * training(place, place.krum[0]))


def test_two_runs_are_too_few_to_be_sure(place):
    for run in place.fedavg[:2]:
        done(place, run, factor=0.5)
    span = pace_of(place).seconds(place.fedavg[2])
    assert span.likely == pytest.approx(10 + 0.5 * training(place, place.fedavg[2]))
    assert span.high - 10 == pytest.approx(3 * (span.likely - 10))


def test_runs_that_diverged_tell_nothing(place):
    for run in place.fedavg[:3]:
        done(place, run, factor=0.5)
    for run in place.fedprox:
        done(place, run, factor=0.01, status="diverged")
    assert pace_of(place).observed == 3
    assert counts(place)["all"]["done"] == 7


def test_runs_of_another_kind_of_device_tell_nothing(place):
    for number, run in enumerate(place.fedavg):
        done(place, run, factor=0.5, ended=number)
    for number, run in enumerate(place.fedprox[:3]):
        done(place, run, factor=3, device="x86_64 CPU, 8 cores", ended=100 + number)
    # Whatever the configuration says, the last runs were made on processors.
    pace = pace_of(place, "auto")
    assert pace.observed == 3
    expected = 10 + 3 * training(place, place.krum[0], "cpu")
    assert pace.seconds(place.krum[0]).likely == pytest.approx(expected)


def test_runs_under_way_tell_how_long_runs_take(place):
    for run in place.fedavg[:3]:
        # An hour for the first quarter of what is left after half of all rounds.
        begun = (NOW - timedelta(hours=1)).isoformat()
        says(place, run, age=0, begun=begun, resumed_after=50, seconds_left=3 * 3600.0)
    pace = pace_of(place)
    assert pace.observed == 3
    assert pace.seconds(place.fedavg[3]).likely == pytest.approx(START + 2 * 4 * 3600)
    # Of a lost run nobody knows how long it was at work.
    says(place, place.fedavg[0], age=400, begun=begun, resumed_after=50, seconds_left=9.0)
    assert pace_of(place).observed == 2


def test_a_run_that_has_just_begun_tells_nothing(place):
    says(place, place.krum[0], age=0, seconds_left=9.0)
    says(place, place.krum[1], age=0, rounds=None, rounds_done=None, resumed_after=None)
    assert pace_of(place).observed == 0
    assert "before its first round" in text_of(place)


def test_what_is_left_of_a_run_is_its_own_word_or_its_share_of_rounds(place):
    for run in place.fedavg[:3]:
        done(place, run, factor=0.5)
    run = place.krum[0]
    whole = 10 + 0.5 * training(place, run)
    found = {}
    for name, more in {
        "running": {"age": 100, "seconds_left": 1000.0},
        "overdue": {"age": 200, "seconds_left": 90.0},
        "lost": {"age": 4000, "seconds_left": 1000.0},
        "interrupted": {"state": "interrupted", "age": 4000},
        "fresh": {"rounds": None, "rounds_done": None},
    }.items():
        says(place, run, **more)
        sight = seen(place)[run]
        found[name] = pace_of(place).left(run, sight, NOW).likely
    assert found == {
        "running": pytest.approx(900),
        "overdue": 0,
        "lost": pytest.approx(1000),
        "interrupted": pytest.approx(0.75 * whole),
        "fresh": pytest.approx(whole),
    }


def settled(place):
    """All runs of FedAvg are done, each in half its estimate and ten seconds."""
    for run in place.fedavg:
        done(place, run, factor=0.5)


def test_the_end_scales_with_the_work_left(place):
    settled(place)
    says(place, place.krum[0], age=0, seconds_left=1000.0)

    def end():
        row = row_of(place)
        earliest, latest = row.end
        assert earliest == pytest.approx(latest)
        assert row.hours == pytest.approx(earliest / 3600)  # one at a time
        return earliest

    others = [*place.fedprox, place.krum[1]]
    expected = 1000 + sum(10 + 0.5 * training(place, run) for run in others)
    assert end() == pytest.approx(expected)
    for run in others:
        done(place, run, factor=0.5)
        expected -= 10 + 0.5 * training(place, run)
        assert end() == pytest.approx(expected)
    assert expected == pytest.approx(1000)


def test_what_is_not_known_exactly_has_an_earliest_and_a_latest_end(place):
    for run in place.fedavg[:2]:
        done(place, run, factor=0.5)
    says(place, place.krum[0], age=0, seconds_left=1000.0)
    others = [*place.fedavg[2:], *place.fedprox, place.krum[1]]
    whole = sum(0.5 * training(place, run) for run in others)
    setups = 10 * len(others)
    earliest, latest = row_of(place).end
    assert earliest == pytest.approx(1000 + setups + whole / 3)
    assert latest == pytest.approx(1000 + setups + whole * 3)
    assert row_of(place).hours == pytest.approx((1000 + setups + whole) / 3600)


def test_more_runs_at_a_time_end_sooner(place):
    settled(place)
    waiting = 10 + 0.5 * training(place, place.fedprox[2])
    says(place, place.krum[0], age=0, seconds_left=1000.0)
    says(place, place.krum[1], age=0, seconds_left=1000.0)
    # Four runs of FedProx, all as long, for two that go on at a time.
    assert row_of(place).end[1] == pytest.approx(1000 + 2 * waiting)
    says(place, place.fedprox[0], age=0, seconds_left=1000.0)
    says(place, place.fedprox[1], age=0, seconds_left=1000.0)
    assert row_of(place).end[1] == pytest.approx(1000 + waiting)


def test_a_table_may_be_next_or_last(place):
    for run in place.fedavg[1:]:
        done(place, run, factor=0.5)
    says(place, place.fedprox[0], age=0, seconds_left=1000.0)
    two, everything = row_of(place, "paper_two"), row_of(place, "all")
    missing = [place.fedavg[0], *place.krum]
    next_one = 1000 + sum(10 + 0.5 * training(place, run) for run in missing)
    assert two.end == (pytest.approx(next_one), everything.end[1])
    assert two.end[0] < two.end[1]
    # What is under way is this table's own alone.
    one = row_of(place, "paper_one")
    left = 1000 + sum(
        10 + 0.5 * training(place, run) for run in [place.fedavg[0], *place.fedprox[1:]]
    )
    assert one.end == (pytest.approx(left), pytest.approx(left))


def test_a_table_whose_last_runs_are_under_way_waits_for_no_other(place):
    settled(place)
    says(place, place.krum[0], age=0, seconds_left=500.0)
    says(place, place.krum[1], age=0, seconds_left=700.0)
    says(place, place.fedprox[0], age=0, seconds_left=100.0)
    assert row_of(place, "paper_two").end == (700, 700)
    text = text_of(place)
    line = next(line for line in text.splitlines() if line.startswith("paper_two"))
    local = (NOW + timedelta(seconds=700)).astimezone()
    assert line.endswith(f"  {local:%Y-%m-%d %H:%M}")
    assert f"{place.krum[1]}  krum on cifar10, iid(clients=10), no label noise" in text
    assert f"round 25 of 100, until {local:%Y-%m-%d %H:%M}" in text


def test_no_end_is_promised_when_nothing_is_under_way(place):
    settled(place)
    says(place, place.krum[0], age=3000, seconds_left=10.0)
    assert row_of(place).end is None
    text = text_of(place)
    assert "Ends: no run is under way, so nobody knows." in text
    assert [line.split()[-1] for line in text.splitlines()[3:6]] == ["unknown"] * 3
    for run in place.plan.runs:
        done(place, run)
    text = text_of(place)
    assert [line.split()[-1] for line in text.splitlines()[3:6]] == ["done"] * 3
    assert "Ends" not in text


def test_what_failed_is_told_in_three_lines(place):
    says(place, place.krum[0], "failed", error="RuntimeError: no memory")
    said = json.loads(place.results.status(place.krum[0]).read_text())
    words = [said[key] for key in ("setting", "error", "log", "alone")]
    assert text_of(place).endswith("\n\n" + failure_text(*words))


def test_no_more_runs_are_listed_than_can_be_read(place, monkeypatch):
    monkeypatch.setattr(progress, "SHOWN", 3)
    for run in place.fedprox[:3]:
        says(place, run)
    assert text_of(place).count("round 25 of 100") == 3
    says(place, place.fedprox[3])
    text = text_of(place)
    assert "round 25 of 100" not in text
    assert "as long as 4 at a time" in text
    for run in place.fedprox:
        says(place, run, age=9999)
    text = text_of(place)
    assert text.count("round 25 of 100, on node7") == 3
    assert "and 1 more" in text


def test_the_command_counts_a_target(place, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(commands, "EXPERIMENTS", tmp_path)
    monkeypatch.setattr(commands, "REPRODUCED", Results(tmp_path / "reproduced"))
    config = tmp_path / "tiny.yaml"
    config.write_text(yaml.safe_dump({"scale": "tiny", "experiments": ["paper"]}))
    done(place, place.krum[0])

    def printed(target):
        commands.print_progress(config, target, place.results.root, "auto")
        lines = capsys.readouterr().out.splitlines()
        return [line.split()[:3] for line in lines[3 : lines.index("", 3)]]

    one, two = ["paper_one", "8", "0"], ["paper_two", "4", "1"]
    assert printed("all") == [one, two, ["all", "10", "1"]]
    assert printed("paper") == printed("all")
    assert printed("paper_two") == [two, ["all", "4", "1"]]
    with pytest.raises(BadInput, match="no target is called 'paper_too'; did you mean 'paper_two'"):
        printed("paper_too")


def test_a_figure_of_a_few_runs_is_a_target_too(tmp_path, monkeypatch, capsys):
    digits = edited(PAPER, ["settings", "base"], {**PAPER["settings"]["base"], **DIGITS})
    scores = {"kind": "lid_scores", "title": "t", "caption": "c"}
    figure = {**scores, "setting": "base", "method": "fedcorr"}
    paper = edited(digits, ["figures"], {"scores": figure})
    paper["tables"]["one"]["rows"].append({"name": "FedCorr", "method": "fedcorr"})
    plan = small_plan(tmp_path, paper)
    assert "paper_scores" not in runs_by_target(plan)
    monkeypatch.setattr(commands, "EXPERIMENTS", tmp_path)
    config = tmp_path / "tiny.yaml"
    config.write_text(yaml.safe_dump({"scale": "tiny", "experiments": ["paper"]}))
    commands.print_progress(config, "paper_scores", tmp_path / "results", "cpu")
    assert "\npaper_scores     1     0" in capsys.readouterr().out


def test_the_rule_works_beside_another_snakemake_and_leaves_its_lock(tmp_path):
    repository = Repository(tmp_path)
    lock = tmp_path / ".snakemake" / "locks" / "0.output.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text("results/runs/0123456789abcdef/provenance.json\n")
    for target in ("progress", "plan"):
        refused = repository.snakemake(target)
        assert refused.returncode == 1
        assert "add --nolock" in refused.stdout + refused.stderr
        assert lock.exists()
    made = repository.snakemake("progress", "--nolock")
    assert made.returncode == 0, made.stdout + made.stderr
    assert lock.exists()
    log = (tmp_path / "results" / "tiny" / "logs" / "progress.log").read_text()
    assert log in made.stdout
    assert log.splitlines()[3].split()[:3] == ["tiny_one", "2", "0"]
