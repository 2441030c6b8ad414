"""The files of a scale, by which the rules are written: of targets, runs and noisy partitions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from noisyfl.analysis.names import BASELINE
from noisyfl.core.artifacts import Results, RunFiles
from noisyfl.core.options import BadInput, find
from noisyfl.core.tracked import REPRODUCED, find_partition
from noisyfl.data.datasets.dataset import dataset
from noisyfl.experiments.config import RULES, Configuration
from noisyfl.experiments.plan import Plan, partial_plan
from noisyfl.experiments.targets import name_of, runs_of, unknown_target
from noisyfl.pages.evidence_paths import METHODS_PAGE
from noisyfl.specs.cost import Estimate
from noisyfl.specs.descriptions import Description, TableDescription, description_text
from noisyfl.specs.identity import canonical_json

TABLE_ENDINGS = ("parquet", "csv", "md", "html", "tex")
FIGURE_ENDINGS = ("png", "pdf")

METHOD_TABLES = ("grand/common", "grand/memorised")
"""The tables of every method in common settings, which a page of each method is written of."""


def layouts_of(config: Configuration) -> list[Results]:
    """The folders in which runs and noisy partitions may lie; they are trained in the first."""
    return [Results(config.results), *([REPRODUCED] if config.reproduced else [])]


class Scale:
    """What a configuration asks for, as files.

    Args:
        files: of the configuration, as a person names them on the command line.
        options: with which Snakemake takes the configuration, see
            :func:`noisyfl.runs.status.scale_words`.
        plan_with: returns another plan that has the run of an id, see
            :meth:`noisyfl.experiments.plan_file.PlanFile.plan_with`.

    Attributes:
        asked_parts: by name, the tables and figures that Snakemake has asked for the inputs of, so
            that they are part of what it makes.
        asked_runs: the runs that were asked for.
    """

    def __init__(
        self,
        config: Configuration,
        plan: Plan,
        files: str = "",
        options: Sequence[str] = (),
        plan_with: Callable[[str], Plan] | None = None,
    ) -> None:
        self.config = config
        self.files = files
        self.options = options
        self.asked_parts: dict[str, Description] = {}
        self.asked_runs: dict[str, None] = {}
        self.results = Results(config.results)
        self.folder = self.results.root / plan.scale
        self.run_files = cache(self._run_files)
        self.partition_file = cache(self._partition_file)
        self._prepared = cache(self._prepared_files)
        self._plan_with = plan_with
        self._other_plans: list[Plan] = []
        self._texts: dict[str, str] = {}
        if not config.train_missing:
            plan = partial_plan(
                plan,
                lambda run: self.run_files(run).provenance.exists(),
                lambda partition: self.partition_file(partition).exists(),
            )
        self.plan = plan
        self.parts: dict[str, Description] = {**plan.tables, **plan.figures}

    def _run_files(self, run: str) -> RunFiles:
        """A run in results, or the tracked one if only that exists and may be used."""
        places = [layout.run(run) for layout in self.layouts]
        return next((one for one in places if one.provenance.exists()), places[0])

    def _partition_file(self, partition: str) -> Path:
        """A noisy partition in results, or the tracked one if only that exists and may be used."""
        return find_partition(partition, self.layouts) or self.results.partition(partition)

    @property
    def layouts(self) -> list[Results]:
        """The folders in which runs and noisy partitions may lie."""
        return layouts_of(self.config)

    def _plan_of(self, name: str) -> Plan:
        """The plan that has the run or noisy partition of an id.

        A job may find its run only in another plan: it has none of its own, or an experiment was
        edited since it was submitted.
        """
        for plan in (self.plan, *self._other_plans):
            if name in plan.runs or name in plan.partitions:
                return plan
        if self._plan_with is not None:
            found = self._plan_with(name)
            if name in found.runs or name in found.partitions:
                self._other_plans.append(found)
                return found
        raise BadInput(f"the scale {self.plan.scale} has no run and no noisy partition {name}")

    def _partition_of(self, run: str) -> str:
        return self._plan_of(run).facts[run].partition

    def _dataset_of(self, partition: str) -> str:
        return dataset(self._plan_of(partition).partitions[partition]["dataset"]).name

    # Tables and figures.

    @cached_property
    def wanted(self) -> dict[str, Description]:
        """By name, the tables and figures that the scale makes if no target is given."""
        targets = self.config.targets or self.config.experiments
        wanted = map(self.parts_in, targets)
        return {name: part for parts in wanted for name, part in parts.items()}

    @cached_property
    def wanted_tables(self) -> dict[str, TableDescription]:
        """By name, the tables among them."""
        parts = self.wanted.items()
        return {name: part for name, part in parts if isinstance(part, TableDescription)}

    @property
    def method_tables(self) -> list[TableDescription]:
        """The tables of every method in common settings, as far as the scale makes them; none
        without the baseline, beside which methods are put.
        """
        found = [self.wanted_tables[name] for name in METHOD_TABLES if name in self.wanted_tables]
        rows = [row.method_name for table in found for row in table.rows]
        return found if BASELINE in rows else []

    @cached_property
    def claimed(self) -> dict[str, Description]:
        """By name, the wanted tables and figures that claims are checked against."""
        return {name: self.wanted[name] for name in self.plan.claim_parts if name in self.wanted}

    def parts_in(self, target: str) -> dict[str, Description]:
        """The tables and figures of an experiment, or the one of that name, by name."""
        return {
            name: part for name, part in self.parts.items() if target in (name, part.experiment)
        }

    def files_of(self, parts: Iterable[Description]) -> list[Path]:
        """The files of tables and figures."""
        found = []
        for part in parts:
            table = isinstance(part, TableDescription)
            folder = self.folder / ("tables" if table else "figures") / part.experiment
            endings = TABLE_ENDINGS if table else FIGURE_ENDINGS
            found += [folder / f"{part.name}.{ending}" for ending in endings]
        return found

    def frames(self, tables: Iterable[str] | None = None) -> list[Path]:
        """The frames of tables by name; of the wanted ones by default."""
        names = self.wanted_tables if tables is None else tables
        return [self.folder / "tables" / f"{name}.parquet" for name in names]

    @property
    def compared(self) -> bool:
        """Whether a wanted table has published numbers."""
        return any(table.published is not None for table in self.wanted_tables.values())

    def overviews(self) -> list[Path]:
        """The files that compare wanted tables with the papers, or show every method."""
        names = ["cells.csv", "claims.html"] if self.compared else []
        if self.method_tables:
            names.append(METHODS_PAGE)
        return [self.folder / name for name in (*names, *(["explorer.html"] if names else []))]

    def explorer_of(self, target: str) -> Path:
        """The explorer of the tables of an experiment, or of the one of that name."""
        return self.folder / "explorer" / f"{target}.html"

    def tables_in(self, target: str) -> dict[str, TableDescription]:
        """By name, the tables of an experiment, or the one of that name."""
        parts = self.parts_in(target).items()
        return {name: part for name, part in parts if isinstance(part, TableDescription)}

    def explorers(self) -> list[Path]:
        """The explorers that there may be of the tables that Snakemake was asked for: that of the
        scale if it has all of them and there is one, else those of experiments and tables.
        """
        asked = {name for name in self.asked_parts if name in self.plan.tables}
        page = self.folder / "explorer.html"
        if asked and asked == self.wanted_tables.keys() and page.exists():
            return [page]
        experiments = dict.fromkeys(self.plan.tables[name].experiment for name in asked)
        whole = [one for one in experiments if self.tables_in(one).keys() <= asked]
        single = [name for name in asked if self.plan.tables[name].experiment not in whole]
        return [self.explorer_of(target) for target in (*whole, *sorted(single))]

    def targets(self) -> dict[str, list[Path]]:
        """The files of each target with a name: an experiment, or one of its tables or figures.
        Those with tables have an explorer.
        """
        names = {
            experiment: experiment
            for experiment in self.config.experiments
            if experiment not in self.plan.wrong_experiments
        }
        names |= {name_of(part): name for name, part in self.parts.items()}
        found = {}
        for target, name in names.items():
            explorer = [self.explorer_of(name)] if self.tables_in(name) else []
            found[target] = [*self.files_of(self.parts_in(name).values()), *explorer]
        return found

    def wrong_target(self, word: str, rule_names: str = "*") -> str:
        """Why a word of the command line is no target: it names the nearest, or says what is wrong
        with it; empty if the word is a target, a file, or none at all.

        Args:
            rule_names: what a workflow that imports the rules calls them; ``*`` stands for a name.
        """
        parts = self.parts.values()
        own = {*RULES, *map(name_of, parts), *(part.experiment for part in parts)}
        own -= self.plan.wrong_experiments.keys()
        known = {rule_names.replace("*", name) for name in own}
        if not re.fullmatch(r"[a-z]\w*(=.*)?", word) or word in known or Path(word).exists():
            return ""
        why = self.plan.why_wrong(word)
        return why or unknown_target(word, self.plan.scale, known)

    def part(self, wildcards: Any) -> Description:
        """The table or figure that files with these wildcards belong to."""
        name = f"{wildcards.experiment}/{wildcards.name}"
        part = find(self.parts, name, "table or figure")
        self.asked_parts[name] = part
        return part

    def text(self, part: Description) -> str:
        """What a table or a figure says and shows, as the canonical JSON that jobs are given."""
        name = f"{part.experiment}/{part.name}"
        if name not in self._texts:
            self._texts[name] = description_text(part)
        return self._texts[name]

    # Runs and noisy partitions.

    def artifacts(self, *parts: Description) -> list[Path]:
        """The files that stand for the runs of tables and figures as inputs: of every run the one
        that is written last, and if that is there, those of its other files that are lost.

        The fewer files are named, the faster Snakemake plans thousands of runs.
        """
        paths = []
        for files in map(self.run_files, runs_of(parts)):
            paths.append(files.provenance)
            lost = [files.provenance]
            if files.provenance.exists():
                lost = [path for path in files.all() if not path.exists()]
                paths += lost
            # Links to what a shared cache has lost, whose time Snakemake would want.
            for path in filter(Path.is_symlink, lost):
                path.unlink(missing_ok=True)
        return paths

    def folders(self, *parts: Description) -> dict[str, str]:
        """The folder of each run of tables and figures."""
        return {run: str(self.run_files(run).folder) for run in runs_of(parts)}

    def partitions(self, *parts: Description) -> list[Path]:
        """The noisy partitions of the runs of tables and figures, each once."""
        found = dict.fromkeys(map(self._partition_of, runs_of(parts)))
        return list(map(self.partition_file, found))

    def train_inputs(self, run: str) -> list[Path]:
        """The files that a run is trained and tested on; for a complete run, only those that exist.

        Otherwise Snakemake would make the lost ones again for it, although they are marked as
        ancient. The run's id covers what these files hold, so equal files made again retrain
        nothing.
        """
        self.asked_runs[run] = None
        files, there = self._prepared(self._partition_of(run))
        return there if self.results.run(run).provenance.exists() else files

    def _prepared_files(self, partition: str) -> tuple[list[Path], list[Path]]:
        """The files that runs on a noisy partition are made from, and those that are there."""
        name = self._dataset_of(partition)
        files = [self.results.data(name, part) for part in ("train", "test")]
        files.append(self.results.partition(partition))
        return files, [file for file in files if file.exists()]

    def partition_input(self, partition: str) -> Path | list[Path]:
        """The training part that a noisy partition is made from.

        Nothing if the part is lost and the partition is there: otherwise Snakemake would make both
        again, although the part is marked as ancient.
        """
        name = self._dataset_of(partition)
        file = self.results.data(name, "train")
        made = self.results.partition(partition)
        return [] if made.exists() and not file.exists() else file

    def estimate(self, run: str) -> Estimate:
        """What a run should take on the configured device."""
        return self._plan_of(run).estimate(run, self.config.device)

    def run_text(self, run: str) -> str:
        """The spec of a run as canonical JSON: one text, so that params compare well."""
        return canonical_json(self._plan_of(run).runs[run])

    def partition_text(self, partition: str) -> str:
        """The spec of a noisy partition as canonical JSON."""
        return canonical_json(self._plan_of(partition).partitions[partition])
