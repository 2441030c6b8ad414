"""The Slurm profile as users get it, on a real Slurm: two nodes with one pretended GPU each."""

import os
import shutil
from pathlib import Path

import pytest
from on_slurm import REPOSITORY, ended_jobs, jobs, snakemake, succeed

ONE_TRIAL = ["--configfile", "config/smoke.yaml", "--config", "trials=1"]

SMALL_WORKFLOW = """
rule all:
    localrule: True
    input: f"{config['scale']}.txt"

rule simulate:
    output: "{scale}.txt"
    resources:
        mem_mb=lambda wildcards, attempt: 1000 * attempt,
        runtime=lambda wildcards, attempt: 30 * attempt
    shell:
        "echo $SLURMD_NODENAME >> lives;"
        "[ $(wc -l < lives) -gt 1 ] || {config[first]};"
        "touch {output}"
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A folder with our profiles, and a workflow whose only job does what its config says first."""
    for profile in ("slurm", "profiles", "workflow"):
        shutil.copytree(REPOSITORY / profile, tmp_path / profile)
    (tmp_path / "Snakefile").write_text(SMALL_WORKFLOW)
    (tmp_path / "config").mkdir()
    (tmp_path / "config/paper.yaml").write_text("scale: paper\nexperiments: []\nfirst: sleep 600\n")
    (tmp_path / "config/smoke.yaml").write_text("scale: smoke\nexperiments: []\nfirst: exit 1\n")
    return tmp_path


def test_another_rule_is_a_slurm_job_of_its_own_with_more_memory_and_time_if_it_failed(
    small: Path,
) -> None:
    with snakemake(small, "--configfile", "config/smoke.yaml") as running:
        succeed(running, small, seconds=300)
    assert (small / "smoke.txt").exists()
    first, second = ended_jobs(small)
    assert (first["JobState"], second["JobState"]) == ("FAILED", "COMPLETED")
    assert (first["MinMemoryNode"], second["MinMemoryNode"]) == ("1000M", "2000M")
    assert (first["TimeLimit"], second["TimeLimit"]) == ("00:30:00", "01:00:00")


def clone(folder: Path) -> Path:
    """A user's copy of the repository."""
    for name in ("config", "profiles", "rules", "slurm", "workflow"):
        shutil.copytree(REPOSITORY / name, folder / name)
    shutil.copy(REPOSITORY / "Snakefile", folder)
    return folder


def test_a_table_is_made_in_one_allocation_and_another_user_has_it_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setitem(os.environ, "SNAKEMAKE_OUTPUT_CACHE", str(cache))
    first, second = clone(tmp_path / "first"), clone(tmp_path / "second")
    with snakemake(first, "fedcorr_table2", *ONE_TRIAL) as running:
        log = succeed(running, first, seconds=400)
    table = first / "results/smoke/tables/fedcorr/table2.csv"
    assert table.read_text().count("\n") > 1
    runs = list(first.glob("results/runs/*/rounds.parquet"))
    assert len(runs) > 10
    (allocation,) = ended_jobs(first)
    assert allocation["Comment"] == "rule_allocation"
    assert allocation["JobState"] == "COMPLETED"
    assert allocation["TresPerJob"] == "gres:gpu:1"
    assert allocation["CPUs/Task"] == "2"
    assert allocation["TimeLimit"] == "01:00:00"
    used = log.partition("Allocations, and what runs used of them:")[2].splitlines()[3]
    assert f" {len(runs)} " in used

    with snakemake(first, "fedcorr_table2", *ONE_TRIAL) as running:
        assert "Nothing to be done" in succeed(running, first, seconds=300)

    with snakemake(second, "fedcorr_table2", *ONE_TRIAL) as running:
        succeed(running, second, seconds=300)
    assert jobs(second) == []
    assert all(path.is_symlink() for path in second.glob("results/runs/*/*"))

    # What is there already makes room for a run that is asked for again; without the cache it is
    # trained.
    monkeypatch.delitem(os.environ, "SNAKEMAKE_OUTPUT_CACHE")
    run = next(second.glob("results/runs/*"))
    again = str((run / "provenance.json").relative_to(second))
    with snakemake(second, again, "--forcerun", "train", *ONE_TRIAL[:2]) as running:
        succeed(running, second, seconds=300)
    assert not any(path.is_symlink() for path in run.iterdir())
    assert len(jobs(second)) == 1
    assert (second / table.relative_to(first)).read_text() == table.read_text()


def test_a_request_that_slurm_refuses_is_told_at_once(tmp_path: Path) -> None:
    folder = clone(tmp_path)
    profile = folder / "slurm/config.v9+.yaml"
    profile.write_text(
        profile.read_text().replace("# slurm_partition: gpu", "slurm_partition: moon")
    )
    with snakemake(folder, "fedcorr_table2", *ONE_TRIAL, "--retries", "0") as running:
        assert running.wait(timeout=300) == 1
    assert "invalid partition specified: moon" in (folder / "log").read_text()
