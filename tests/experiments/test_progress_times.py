"""When a scale should be done, by what its runs have taken so far."""

from datetime import timedelta

import pytest

from noisyfl.experiments.progress import device_of
from small_progress import NOW, done, expected, hours, pace_of, place_in, progress_of, says, text_of


@pytest.fixture
def place(tmp_path):
    return place_in(tmp_path)


def test_a_run_that_was_never_seen_takes_its_estimate(place):
    assert pace_of(place).seconds(place.krum[0]) == pytest.approx(expected(place, place.krum[0]))
    assert "only estimates" in text_of(place)


def test_runs_take_what_runs_like_them_took(place):
    for run in place.fedavg[:3]:
        done(place, run, factor=0.5)
    for run, factor in zip(place.fedprox, (2.0, 3.0, 90.0), strict=False):
        done(place, run, factor)  # the last one slept
    pace = pace_of(place)
    assert pace.finished == 6
    for run, factor in ((place.fedavg[3], 0.5), (place.fedprox[3], 3.0), (place.krum[0], 1.25)):
        assert pace.seconds(run) == pytest.approx(factor * expected(place, run))


def test_two_runs_speak_for_all_and_not_for_their_own_kind(place):
    for run in place.fedavg[:2]:
        done(place, run, factor=0.5)
    done(place, place.krum[0], factor=0.7)
    pace = pace_of(place)
    for run in (place.fedavg[2], place.fedprox[0]):
        assert pace.seconds(run) == pytest.approx(0.5 * expected(place, run))


def test_runs_that_diverged_tell_nothing(place):
    done(place, place.fedavg[0], factor=0.5)
    for run in place.fedprox:
        done(place, run, factor=0.01, status="diverged")
    assert pace_of(place).finished == 1
    assert pace_of(place).overall == pytest.approx(0.5)


def test_runs_of_another_kind_of_device_tell_nothing(place, monkeypatch):
    done(place, place.fedavg[0], factor=0.5)
    for run in place.fedprox[:3]:
        done(place, run, factor=3, device="x86_64 CPU, 8 cores")
    pace = pace_of(place, "cpu")
    assert pace.finished == 3
    krum = place.krum[0]
    assert pace.seconds(krum) == pytest.approx(3 * expected(place, krum, "cpu"))
    # Where the configuration leaves it open, most runs tell.
    assert device_of(progress_of(place), "auto") == "cpu"
    assert device_of(progress_of(place), "cuda:1") == "cuda:1"
    for cluster, kind in (("/usr/bin/sbatch", "cuda"), (None, "cpu")):
        monkeypatch.setattr("shutil.which", lambda name, found=cluster: found)
        assert device_of({}, "auto") == kind
    assert "CPU hours left" in text_of(place, "auto")
    assert "GPU hours left" in text_of(place, "cuda:1")


def test_what_is_left_of_a_run_is_its_own_word_or_its_share_of_rounds(place):
    for run in place.fedavg[:3]:
        done(place, run, factor=0.5)
    run = place.krum[0]
    whole = 0.5 * expected(place, run)
    found = {}
    for name, more in {
        "running": {"age": 100, "seconds_left": 1000.0},
        "overdue": {"age": 200, "seconds_left": 90.0},
        "lost": {"age": 4000, "seconds_left": 1000.0},
        "interrupted": {"state": "interrupted", "age": 4000},
        "fresh": {"rounds": None, "rounds_done": None},
    }.items():
        says(place, run, **more)
        found[name] = pace_of(place).seconds_left(run, progress_of(place)[run], NOW)
    assert found == {
        "running": pytest.approx(900),
        "overdue": 0,
        "lost": pytest.approx(1000),
        "interrupted": pytest.approx(0.75 * whole),
        "fresh": pytest.approx(whole),
    }


def test_the_end_is_that_of_all_with_as_many_runs_at_a_time_as_now(place):
    for run in (*place.fedavg, *place.fedprox[1:]):
        done(place, run, factor=0.5)
    says(place, place.krum[0], age=0, seconds_left=9000.0)
    says(place, place.krum[1], age=0, seconds_left=9000.0)
    left = 18_000 + 0.5 * expected(place, place.fedprox[0])
    assert hours(place) == pytest.approx(left / 3600, abs=0.06)
    assert hours(place, "paper_two") == 5.0
    end = (NOW + timedelta(seconds=left / 2)).astimezone()
    assert f"with 2 at a time, all should be done about {end:%Y-%m-%d %H:%M}." in text_of(place)


def test_no_end_is_promised_when_nothing_is_under_way(place):
    says(place, place.krum[0], age=3000, seconds_left=10.0)
    assert "no run is under way, so the end is unknown" in text_of(place)
    for run in place.plan.runs:
        done(place, run)
    assert "nobody knows" not in text_of(place)
    assert hours(place) == 0
