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
    resources: mem_mb=lambda wildcards: int(config["needs"][int(wildcards.job)])
    shell:
        "begin=$(date +%s.%N); sleep 2; end=$(date +%s.%N);"
        'printf "[%s, %s]" $begin $end > {output}'
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with our profiles, and that workflow."""
    shutil.copytree(ROOT / "profiles", tmp_path / "profiles")
    (tmp_path / "Snakefile").write_text(WORKFLOW)
    (tmp_path / "config").mkdir()
    return tmp_path


def scale(folder: Path, name: str, file: str, needs: list[int]) -> None:
    """A scale whose runs need so much memory each."""
    text = {"scale": name, "device": "auto", "needs": needs}
    (folder / "config" / file).write_text(yaml.safe_dump(text))


def snakemake(folder: Path, *arguments: str) -> dict:
    """Run it; the configuration that it ended up with."""
    command = [sys.executable, "-m", "snakemake", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "config.json").read_text())


@pytest.mark.parametrize("profile", ["profiles/gpus", "slurm"])
@pytest.mark.slow
def test_a_profile_finds_the_papers_scale_from_any_folder(folder, tmp_path_factory, profile):
    shutil.copytree(ROOT / "slurm", folder / "slurm")
    scale(folder, "paper", "paper.yaml", [1])
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    shutil.copy(folder / "Snakefile", elsewhere)
    words = ["-n", "--profile", str(folder / profile), "--cores", "1"]
    assert snakemake(elsewhere, *words)["scale"] == "paper"


@pytest.mark.slow
def test_a_laptop_has_cores_and_memory_left(folder):
    """Two small runs train at once, or a small one and a large one, but no two large ones."""
    profile = (ROOT / "profiles" / "laptop" / "profile.v9+.yaml").read_text()
    whole = yaml.safe_load(profile)["resources"]["mem_mb"]
    scale(folder, "quick", "config.yaml", [whole // 4] * 3 + [whole * 3 // 5] * 2)
    config = snakemake(folder, "--profile", "profiles/laptop")
    assert (config["scale"], config["device"]) == ("quick", "cpu")
    times = [json.loads((folder / f"{job}.json").read_text()) for job in range(5)]
    assert max(sum(b <= begin < e for b, e in times) for begin, _ in times) == 2
    (_, end), (begin, _) = sorted(times[3:])
    assert end <= begin
