"""The plan of a scale as a file: one process makes it, all others load it.

It lies in ``<results>/<scale>/plans/`` under a name that follows from the configuration, so that
scales with other ``--config`` values have other plans. Snakemake keeps it under a further name for
its jobs, so that these load its own plan even if somebody plans anew while they wait: after an
experiment was edited, say. The first line holds checksums of what the plan was made from and of the
plan, which is the second line; both together are one JSON object.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from noisyfl.core import plugins
from noisyfl.core.artifacts import replacing
from noisyfl.core.options import reading
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.data.own_files import OwnFiles
from noisyfl.experiments.config import (
    EXPERIMENTS,
    Configuration,
    experiment_files,
    published_files,
)
from noisyfl.experiments.plan import Plan
from noisyfl.specs.sources import DIGESTS, digest_of

DECIDING: dict[str, Any] = {
    **dict.fromkeys(("scale", "note", "plugins", "trials", "allow_years", "overlay"), True),
    **dict.fromkeys(("experiments", "experiment_folders", "targets"), True),
    "data": {"folders"},
}
"""The keys of a configuration that decide its plan."""

SOURCES = (
    *("analysis", "claims", "core", "data", "experiments"),
    *("methods", "models", "simulation", "specs"),
)
"""The rooms whose sources decide a plan."""

KEPT = "NOISYFL_PLAN"
"""The environment variable that tells Snakemake's jobs the name that their plan is kept under."""

PLAN = ', "plan":'
"""The end of the first line."""


class PlanFile:
    """The file of the plan that a configuration asks for.

    Args:
        where: what the error messages call the configuration.
        experiments: the folder of the experiments' YAML files, besides the configuration's own.
    """

    def __init__(
        self,
        config: Configuration,
        where: str,
        experiments: Path = EXPERIMENTS,
    ) -> None:
        self.config = config
        self.where = where
        self.experiments = experiments
        text = config.model_dump_json(include=DECIDING)
        name = f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
        self.path = config.results / config.scale / "plans" / name

    def plan(self, say: Callable[[str], None]) -> Plan:
        """The plan, which is rebuilt and written if the file is missing, damaged or stale; say what
        it warns of in a user's own files.

        Raises:
            BadInput: what is wrong with the configuration, an experiment or a method.
        """
        plan = self._current(say)
        for warning in plan.warnings:
            say(f"Warning: {warning}")
        return plan

    def _current(self, say: Callable[[str], None]) -> Plan:
        inputs = self._digest()
        try:
            found, plan = self._read(self.path)
            own = OwnFiles(self.config.data.folders, self.config.results)
            if found == inputs and not own.stale(plan.own_files, plan.own_images):
                return plan
            why = "what it follows from has changed"
        except FileNotFoundError:
            why = "there is none yet"
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            why = "the file was altered or cannot be read"
        say(f"Planning the scale “{self.config.scale}”, since {why}: {self.path}")
        return self._make(inputs, say)

    def load(self, say: Callable[[str], None]) -> Plan:
        """The plan that another process has made, whatever has changed since; in a job, the plan
        that its Snakemake has kept.

        Only if the file is missing or damaged, it is made here.
        """
        kept = Path(os.environ.get(KEPT, ""))
        try:
            of_this = kept.name.startswith(f"{self.path.stem}.") and kept.exists()
            return self._read(kept if of_this else self.path)[1]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return self.plan(say)

    def keep(self) -> None:
        """Keep the plan for the jobs that are started from this process, which are told where."""
        with suppress(OSError):  # no file could be written, and every job plans for itself
            with self.path.open() as file:
                sums = json.loads(file.readline().rstrip().removesuffix(PLAN) + "}")
            kept = self.path.with_suffix(f".{sums['inputs'][:16]}.json")
            with replacing(kept) as draft:
                try:
                    os.link(self.path, draft)
                except OSError:
                    shutil.copyfile(self.path, draft)
            os.environ[KEPT] = str(kept)

    def _make(self, inputs: str, say: Callable[[str], None]) -> Plan:
        # Here alone, since it imports every method and model, and with them torch.
        from noisyfl.experiments.planning import make_plan

        plugins.load(self.config.plugins)
        plan = make_plan(self.config, self.experiments, self.where)
        text = plan.to_json()
        head = json.dumps({"inputs": inputs, "checksum": _sha256(text)}).removesuffix("}")
        try:
            with replacing(self.path) as draft:
                draft.write_text("\n".join([head + PLAN, text, "}", ""]))
        except OSError as error:
            say(f"{self.path}: cannot be written ({error.strerror}), so every job plans for itself")
        return plan

    def _read(self, path: Path) -> tuple[str, Plan]:
        """The digest of what the plan in a file was made from, and the plan.

        Raises:
            OSError: the file cannot be read.
            ValueError: it was altered; or another error that altered JSON leads to.
        """
        head, text, _ = path.read_text().split("\n", 2)
        sums = json.loads(head.removesuffix(PLAN) + "}")
        if sums["checksum"] != _sha256(text):
            raise ValueError("the plan does not fit its checksum")
        plan = Plan.from_json(text)
        # What a run costs depends on its dataset, and on no other component beside the plan.
        names = [spec["dataset"] for spec in plan.partitions.values()]
        if any(isinstance(name, str) and name not in DATASETS for name in names):
            plugins.load(self.config.plugins)
        return sums["inputs"], plan

    def _digest(self) -> str:
        """SHA-256 of everything that decides the plan but its configuration."""
        digest = hashlib.sha256(digest_of(*SOURCES).encode())
        digest.update(DIGESTS.read_bytes())
        # Syntax trees, of which methods' digests are made, are printed otherwise by others.
        digest.update(".".join(platform.python_version_tuple()[:2]).encode())
        for plugin in plugins.find_plugins(self.config.plugins):
            digest.update(f"{plugin} {plugin.sha256}".encode())
        known = experiment_files(self.config, self.experiments)
        used = [known[name] for name in sorted(self.config.experiments) if name in known]
        for path in (*published_files(self.config), *used):
            with reading(str(path)):
                digest.update(path.read_bytes())
        return digest.hexdigest()


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
