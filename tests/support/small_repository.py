"""A copy of the repository with two tables that share runs of seconds, and Snakemake run in it."""

import os
import re
import shutil
import subprocess
import sys
from types import SimpleNamespace

import yaml

from noisyfl.core.places import ROOT

SETTING = """
title: Two tables that share runs
settings:
  tiny:
    dataset: digits
    clients: 4
    partition: iid
    label_noise: symmetric
    noise_level: constant(level=0.4)
    model: cnn
    augmentation: none
    normalization: dataset
    schedule: {rounds: 2, participation: 0.5, local_epochs: 1, batch_size: 20, learning_rate: 0.1}
"""
TABLES = """
tables:
  one:
    title: Table one
    setting: tiny
    trials: 1
    statistic: best
    columns: [{name: noisy}]
    rows:
      - {name: FedAvg, method: fedavg}
      - {name: FedProx, method: fedprox(mu=0.1)}
  two:
    title: Table two
    setting: tiny
    trials: 1
    statistic: last
    columns: [{name: noisy}]
    rows:
      - {name: FedAvg, method: fedavg}
figures:
  curves:
    kind: by_round
    title: Curves
    caption: By round
    table: one
"""


HOSTILE = "</script><script>planted()</script><!--<img src=x onerror=planted()>"
"""Ends a script, if it stands in one as it is."""


def hostile():
    """A scale and an experiment of which every text that a user may choose is hostile."""
    scale = {
        "scale": "hostile",
        "note": HOSTILE,
        "experiments": ["hostile"],
        "overlay": {"datasets": {"cifar10": {"dataset": "digits"}}},
    }
    experiment = yaml.safe_load(SETTING + TABLES)
    experiment["title"] = HOSTILE
    for name, table in experiment["tables"].items():
        table["title"] = table["note"] = HOSTILE + name
        for one in (*table["columns"], *table["rows"]):
            one["name"] += HOSTILE
            one["group"] = HOSTILE
    experiment["figures"]["curves"]["marks"] = [{"at": 1, "label": HOSTILE}]
    for text in ("title", "xlabel"):
        experiment["figures"]["curves"][text] = HOSTILE
    experiment["figures"]["curves"]["caption"] = f"By round\n\n.. raw:: html\n\n   {HOSTILE}"
    return yaml.safe_dump(scale), yaml.safe_dump(experiment)


class Repository:
    """A copy of the repository's workflow, and Snakemake run in it.

    ``cache`` is the shared cache's folder as a user names it; None names none, whoever runs the
    tests may have one of their own.
    """

    def __init__(self, folder, cache=None):
        self.folder = folder
        self.cache = cache
        for name in ("Snakefile", "rules", "workflow", "config", "profiles", "reproduced"):
            source = ROOT / name
            if source.is_dir():
                leave = ("runs", "partitions") if name == "reproduced" else ()
                ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", *leave)
                shutil.copytree(source, folder / name, ignore=ignored)
            elif source.exists():
                shutil.copy(source, folder / name)
        self.write("config/tiny.yaml", "scale: tiny\nexperiments: [tiny]\n")
        self.write("config/papers/tiny.yaml", SETTING + TABLES)

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def edit(self, name, old, new):
        """Change a file of the copy; returns how to undo it."""
        path = self.folder / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        return lambda: path.write_text(text)

    def start(self, *command):
        """Start a module of Python's in the copy, without waiting for its end."""
        environment = {**os.environ, "PYTHONPATH": str(self.folder / "workflow")}
        environment.pop("SNAKEMAKE_OUTPUT_CACHE", None)
        if self.cache is not None:
            environment["SNAKEMAKE_OUTPUT_CACHE"] = str(self.cache)
        return subprocess.Popen(
            [sys.executable, "-m", *map(str, command)],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def start_snakemake(self, *arguments, config="config/tiny.yaml"):
        return self.start("snakemake", "--cores", "2", *arguments, "--configfile", config)

    def snakemake(self, *arguments, config="config/tiny.yaml"):
        return ended(self.start_snakemake(*arguments, config=config))

    def fails(self, *arguments, config="config/tiny.yaml"):
        """All that a command prints that ends in an error in words."""
        run = self.snakemake(*arguments, config=config)
        said = run.stdout + run.stderr
        assert run.returncode == 1, said
        assert "Traceback" not in said
        return said

    def dry_run(self, *arguments):
        """What a dry run prints, and would do: the number of jobs by rule."""
        dry = self.snakemake("--dry-run", *arguments)
        assert dry.returncode == 0, dry.stdout + dry.stderr
        counts = re.search(r"^rule +jobs\n((?:\w+ +\d+\n)*)", dry.stdout, re.MULTILINE)
        found = dict(re.findall(r"(\w+) +(\d+)", counts[1])) if counts else {}
        jobs = {rule: int(count) for rule, count in found.items() if rule != "all"}
        return SimpleNamespace(said=dry.stdout + dry.stderr, jobs=jobs)

    def jobs(self, *arguments):
        """The number of jobs by rule of a dry run."""
        return self.dry_run(*arguments).jobs


def ended(process):
    """A process that was started, when it has ended, with all that it printed."""
    stdout, stderr = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)
