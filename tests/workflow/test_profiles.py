"""The profiles for one machine: Snakemake takes them, and they limit what runs at once."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from noisyfl.core.places import ROOT

# Each job says when it began and ended. Like ours, the workflow has a scale if none is given.
WORKFLOW = """
import json
from pathlib import Path

if "scale" not in config:
    configfile: "config/config.yaml"

Path("config.json").write_text(json.dumps(config))

rule all:
    input: expand("{job}.json", job=range(len(config["needs"])))

rule train:
    output: "{job}.json"
    resources: **{config["of"]: lambda wildcards: int(config["needs"][int(wildcards.job)])}
    shell:
        "begin=$(date +%s.%N); sleep {config[seconds]}; end=$(date +%s.%N);"
        'printf "[%s, %s]" $begin $end > {output}'
"""


def limit(profile: str, resource: str) -> int:
    """What a profile has of a resource."""
    text = (ROOT / "profiles" / profile / "profile.v9+.yaml").read_text()
    return yaml.safe_load(text)["resources"][resource]


@pytest.fixture
def folder(tmp_path):
    """A folder with our profiles, and that workflow."""
    shutil.copytree(ROOT / "profiles", tmp_path / "profiles")
    (tmp_path / "Snakefile").write_text(WORKFLOW)
    (tmp_path / "config").mkdir()
    return tmp_path


def scale(folder: Path, name: str, file: str, resource: str, needs: list[int]) -> None:
    """A scale whose runs need so much of a resource each."""
    text = {"scale": name, "device": "auto", "of": resource, "needs": needs, "seconds": 2}
    (folder / "config" / file).write_text(yaml.safe_dump(text))


def snakemake(folder: Path, *arguments: str) -> dict:
    """Run it; the configuration that it ended up with."""
    command = [sys.executable, "-m", "snakemake", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "config.json").read_text())


def at_once(folder: Path, jobs: int) -> list[int]:
    """Of each job, how many ran when it began."""
    times = [json.loads((folder / f"{job}.json").read_text()) for job in range(jobs)]
    return [sum(b <= begin < e for b, e in times) for begin, _ in times]


@pytest.mark.slow
def test_another_scale_takes_the_place_of_the_papers(folder):
    scale(folder, "smoke", "smoke.yaml", "mem_mb", [1])
    smoke = ["-n", "--configfile", "config/smoke.yaml"]
    assert snakemake(folder, "--profile", "profiles/gpus", *smoke)["scale"] == "smoke"


@pytest.mark.parametrize("profile", ["profiles/gpus", "slurm"])
@pytest.mark.slow
def test_a_profile_finds_the_papers_scale_from_any_folder(folder, tmp_path_factory, profile):
    shutil.copytree(ROOT / "slurm", folder / "slurm")
    scale(folder, "paper", "paper.yaml", "mem_mb", [1])
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    shutil.copy(folder / "Snakefile", elsewhere)
    words = ["-n", "--profile", str(folder / profile), "--cores", "1"]
    assert snakemake(elsewhere, *words)["scale"] == "paper"


@pytest.mark.slow
def test_a_laptop_has_cores_and_memory_left(folder):
    whole = limit("laptop", "mem_mb")
    scale(folder, "quick", "config.yaml", "mem_mb", [whole // 4] * 4)
    config = snakemake(folder, "--profile", "profiles/laptop")
    assert (config["scale"], config["device"]) == ("quick", "cpu")
    assert max(at_once(folder, 4)) == 2
    for job in range(4):
        (folder / f"{job}.json").unlink()
    scale(folder, "quick", "config.yaml", "mem_mb", [whole * 3 // 5] * 3)
    snakemake(folder, "--profile", "profiles/laptop", "--cores", "4")
    assert max(at_once(folder, 3)) == 1
