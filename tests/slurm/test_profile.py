"""The Slurm profile as users get it, on a real Slurm."""

import os
from pathlib import Path

import pytest
from on_slurm import TABLE, artifacts, jobs, repository, snakemake, succeed


def test_a_table_is_made_and_another_user_has_its_runs_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setitem(os.environ, "SNAKEMAKE_OUTPUT_CACHE", str(cache))
    users = [repository(tmp_path / name, runs=2) for name in ("first", "second")]
    for folder in users:
        with snakemake(folder, *TABLE) as running:
            succeed(running, folder)
        assert [job["JobState"] for job in jobs(folder)] == ["COMPLETED"] * 2
        assert all(path.is_symlink() for path in folder.glob("results/runs/*/*"))
    first, second = users
    (job, _) = jobs(first)
    asked = (job["TresPerJob"], job["CPUs/Task"], job["Requeue"])
    assert asked == ("gres:gpu:1", "2", "1")
    assert len(artifacts(first)) == 2
    assert artifacts(second) == artifacts(first)
    trained = [
        sum(bool(log.read_text()) for log in folder.glob("results/logs/runs/*.log"))
        for folder in users
    ]
    assert trained == [2, 0]
    table = "results/tiny/tables/tiny/one.csv"
    assert (second / table).read_text() == (first / table).read_text()

    with snakemake(first, *TABLE) as running:
        assert "Nothing to be done" in succeed(running, first)


def test_a_request_that_slurm_refuses_is_told(tmp_path: Path) -> None:
    folder = repository(tmp_path, runs=1)
    profile = folder / "slurm/profile.v9+.yaml"
    profile.write_text(
        profile.read_text().replace("# slurm_partition: gpu", "slurm_partition: moon")
    )
    with snakemake(folder, *TABLE) as running:
        assert running.wait(timeout=300) == 1
    log = (folder / "log").read_text()
    assert "invalid partition specified: moon" in log
    assert jobs(folder) == []
