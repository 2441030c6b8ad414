"""The file of a plan: one process makes it, all others load it.

It lies in ``<results>/<scale>/plans/``, named by the digest of everything that the plan follows
from. So it never changes: an edited experiment, another value of ``--config`` or other sources have
another file. Snakemake's jobs look for their run by its id in any of a scale's plans, since the id
is the digest of the run's spec. So you can edit experiments and plan again while they wait.

A file has three lines of JSON: the checksums of the other two; the runs; and tables, figures and
everything else, which no training job reads.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noisyfl.core import plugins
from noisyfl.core.artifacts import write_text
from noisyfl.core.options import reading
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.data.own_files import OwnFiles
from noisyfl.experiments.config import (
    Configuration,
    Overlay,
    experiment_files,
    load_config,
    published_files,
)
from noisyfl.experiments.plan import Plan
from noisyfl.specs.sources import DIGESTS, digest_of

DECIDING: dict[str, Any] = {
    **dict.fromkeys(("scale", "note", "plugins", "trials", "overlay"), True),
    **dict.fromkeys(("experiments", "experiment_folders", "targets"), True),
    "data": {"folders"},
}
"""The keys of a configuration that decide its plan."""

SOURCES = (
    *("analysis", "claims", "core", "data", "experiments"),
    *("methods", "models", "simulation", "specs"),
)
"""The subpackages whose sources decide a plan."""

PARTS = ("rows", "columns", "trials")
"""Keys of an overlay that say how much of a table is kept; all others change settings."""


def print_to_stderr(line: str) -> None:
    """Print a line for the user."""
    print(line, file=sys.stderr)


def read_plan(
    files: Sequence[Path],
    say: Callable[[str], None] = print_to_stderr,
    plugins: Sequence[str] = (),
    **changes: Any,
) -> tuple[Configuration, Plan]:
    """The configuration of a scale, and its plan, the same that Snakemake reads.

    Args:
        files: the scale's, see :func:`~noisyfl.experiments.config.load_config`.
        say: takes a line for the user.
        plugins: files of plugins, beside those of the scale.
        changes: values of the configuration that override the files'.

    Raises:
        BadInput: something is wrong with the scale or with what it makes.
    """
    config = load_config(files)
    every = [*dict.fromkeys([*config.plugins, *plugins])]
    config = config.model_copy(update={"plugins": every, **changes})
    plan = PlanFile(config, ", ".join(map(str, files))).plan(say)
    plan.check_targets()
    return config, plan


@dataclass(frozen=True)
class PlanFile:
    """The file of the plan that a configuration asks for.

    Attributes:
        where: what the error messages call the configuration.
    """

    config: Configuration
    where: str

    @property
    def folder(self) -> Path:
        """Where it lies, with those of other inputs."""
        return self.config.results / self.config.scale / "plans"

    def plan(self, say: Callable[[str], None]) -> Plan:
        """The plan, which is made and written if there is none; say what it warns of in a user's
        own files. ``say`` takes a line for the user.
        """
        inputs = self._digest()
        plan = self._found(inputs) or self._make(inputs, say)
        for warning in plan.warnings:
            say(f"Warning: {warning}")
        return plan

    def plan_with(self, run: str, say: Callable[[str], None]) -> Plan:
        """The runs of the newest plan that has a run, without tables and figures; if none has it,
        the plan of :meth:`plan`. ``run`` is its id, or that of a noisy partition.
        """
        for path in sorted(self.folder.glob("*.jsonl"), key=os.path.getmtime, reverse=True):
            plan = self._read(path, tables=False)
            if plan is not None and (run in plan.runs or run in plan.partitions):
                return plan
        return self.plan(say)

    def _found(self, inputs: str) -> Plan | None:
        """The plan of these inputs and of a user's own files as they are, if it is in a file."""
        own = OwnFiles(self.config.data.folders, self.config.results)
        for path in self.folder.glob(f"{inputs}*.jsonl"):
            plan = self._read(path)
            # What is wrong may not follow from the inputs, such as a file that could not be read.
            if plan is None or plan.wrong or own.stale(plan.own_files, plan.own_images):
                continue
            return plan
        return None

    def _make(self, inputs: str, say: Callable[[str], None]) -> Plan:
        # Here alone, since it imports every method and model, and with them torch.
        from noisyfl.experiments.planning import make_plan

        say(f"Planning the scale “{self.config.scale}”")
        plugins.load(self.config.plugins)
        plan = make_plan(self.config, self.where)
        own = [plan.own_files, plan.own_images]
        name = f"{inputs}-{_sha256(json.dumps(own))[:8]}" if any(own) else inputs
        path, lines = self.folder / f"{name}.jsonl", plan.to_json()
        try:
            sums = json.dumps([*map(_sha256, lines)])
            write_text(path, "\n".join([sums, *lines, ""]))
        except OSError as error:
            say(f"{path}: cannot be written ({error.strerror}), so every job plans for itself")
        return plan

    def _read(self, path: Path, tables: bool = True) -> Plan | None:
        """The plan in a file, with or without tables and figures; None if the file is damaged."""
        try:
            with path.open(encoding="utf-8") as file:
                sums = json.loads(file.readline())
                lines = [file.readline().rstrip("\n") for _ in range(2 if tables else 1)]
            if [*map(_sha256, lines)] != sums[: len(lines)]:
                return None
            plan = Plan.from_json(*lines)
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            return None
        # What a run costs depends on its dataset, and on no other component beside the plan.
        names = [spec["dataset"] for spec in plan.partitions.values()]
        if any(isinstance(name, str) and name not in DATASETS for name in names):
            plugins.load(self.config.plugins)
        return plan

    def _digest(self) -> str:
        """The digest of everything that decides the plan but a user's own files."""
        text = self.config.model_dump_json(include=DECIDING)
        digest = hashlib.sha256(text.encode() + digest_of(*SOURCES).encode())
        digest.update(DIGESTS.read_bytes())
        # Syntax trees, of which methods' digests are made, are printed otherwise by others.
        digest.update(".".join(platform.python_version_tuple()[:2]).encode())
        for plugin in plugins.find_plugins(self.config.plugins):
            digest.update(f"{plugin} {plugin.sha256}".encode())
        known = experiment_files(self.config)
        used = [known[name] for name in sorted(self.config.experiments) if name in known]
        for path in (*published_files(self.config), *used):
            with reading(str(path)):
                digest.update(path.read_bytes())
        return digest.hexdigest()[:16]


def in_both(
    config: Configuration,
    where: str,
    experiments: Iterable[str],
    say: Callable[[str], None],
) -> tuple[Plan, Plan]:
    """The plan of a scale, and the plan of the same cells of some of its experiments in the papers'
    own settings; the arguments are those of :class:`PlanFile` and :meth:`PlanFile.plan`.

    Raises:
        BadInput: something is wrong with what the scale makes.
    """
    wanted = [name for name in config.experiments if name in set(experiments)]
    kept = {
        key: {name: one for name, one in by_table.items() if name.partition("/")[0] in wanted}
        for key, by_table in config.overlay.as_given().items()
        if key in PARTS
    }
    theirs = {"experiments": wanted, "overlay": Overlay.read(kept)}
    papers = config.model_copy(update={**theirs, "targets": None})
    plans = PlanFile(config, where).plan(say), PlanFile(papers, where).plan(say)
    for plan in plans:
        plan.check_targets()
    return plans


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
