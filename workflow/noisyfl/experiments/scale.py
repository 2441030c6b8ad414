"""The files of a scale, by which the rules are written: of targets, runs and noisy partitions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from noisyfl.analysis.room import BASELINE
from noisyfl.core.artifacts import Results, RunFiles
from noisyfl.core.options import BadInput, find
from noisyfl.data.datasets.dataset import dataset
from noisyfl.experiments.config import RULES
from noisyfl.experiments.partial import partial_plan
from noisyfl.experiments.plan import Plan
from noisyfl.experiments.targets import name_of, runs_of, unknown_target
from noisyfl.specs.cost import Estimate
from noisyfl.specs.descriptions import Description, TableDescription, description_text
from noisyfl.specs.identity import canonical_json

TABLE_ENDINGS = ("parquet", "csv", "md", "html", "tex")
FIGURE_ENDINGS = ("png", "pdf")

GRAND = ("grand/common", "grand/memorised")
"""The tables of every method in common settings, of which the evidence is written."""


def layouts_of(config: Mapping[str, Any], tracked: Results) -> list[Results]:
    """The folders in which runs and noisy partitions may lie; they are trained in the first.

    Args:
        config: as :func:`noisyfl.experiments.config.check_config` returns it.
        tracked: where the tracked ones lie, which the configuration may not want.
    """
    return [Results(Path(config["results"])), *([tracked] if config["reproduced"] else [])]


class Scale:
    """What a configuration asks for, as files.

    Args:
        config: as :func:`noisyfl.experiments.config.check_config` returns it.
        plan: of the configuration.
        reproduced: where tracked runs and noisy partitions lie.
    """

    def __init__(self, config: Mapping[str, Any], plan: Plan, reproduced: Results) -> None:
        self.config = config
        self.results = Results(Path(config["results"]))
        self.reproduced = reproduced
        self.folder = self.results.root / plan.scale
        self.run_files = cache(self._run_files)
        self.partition_file = cache(self._partition_file)
        self._prepared = cache(self._prepared_files)
        self._texts: dict[str, str] = {}
        if not config["train_missing"]:
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
        places = [layout.partition(partition) for layout in self.layouts]
        return next((path for path in places if path.exists()), places[0])

    @property
    def layouts(self) -> list[Results]:
        """The folders in which runs and noisy partitions may lie."""
        return layouts_of(self.config, self.reproduced)

    # Tables and figures.

    @cached_property
    def wanted(self) -> dict[str, Description]:
        """By name, the tables and figures that the scale makes if no target is given."""
        targets = self.config["targets"] or self.config["experiments"]
        wanted = map(self.tables_and_figures, targets)
        return {name: part for parts in wanted for name, part in parts.items()}

    @cached_property
    def wanted_tables(self) -> dict[str, TableDescription]:
        """By name, the tables among them."""
        parts = self.wanted.items()
        return {name: part for name, part in parts if isinstance(part, TableDescription)}

    @property
    def evidence(self) -> list[TableDescription]:
        """The tables of every method in common settings, as far as the scale makes them; none
        without the baseline, beside which methods are put.
        """
        found = [self.wanted_tables[name] for name in GRAND if name in self.wanted_tables]
        rows = [row.method_name for table in found for row in table.rows]
        return found if BASELINE in rows else []

    @cached_property
    def claimed(self) -> dict[str, Description]:
        """By name, the wanted tables and figures that claims are held against."""
        return {name: self.wanted[name] for name in self.plan.claim_parts if name in self.wanted}

    def tables_and_figures(self, target: str) -> dict[str, Description]:
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

    def frames(self) -> list[Path]:
        """The frames of the wanted tables."""
        return [self.folder / "tables" / f"{name}.parquet" for name in self.wanted_tables]

    @property
    def compared(self) -> bool:
        """Whether a wanted table has published numbers."""
        return any(table.published is not None for table in self.wanted_tables.values())

    def comparisons(self) -> list[Path]:
        """The files that compare wanted tables with the papers, if any has published numbers."""
        if not self.compared:
            return []
        names = ["cells.csv", "claims.html", "explorer.html"]
        if self.evidence:
            names.append("evidence.md")
        return [self.folder / name for name in names]

    def explorer_of(self, experiment: str) -> list[Path]:
        """The explorer, if the wanted tables are all of one experiment: others would be trained."""
        experiments = {table.experiment for table in self.wanted_tables.values()}
        return [self.folder / "explorer.html"] if experiments == {experiment} else []

    def targets(self) -> dict[str, list[Path]]:
        """The files of each target with a name: an experiment, or one of its tables or figures."""
        found = {
            experiment: [
                *self.files_of(self.tables_and_figures(experiment).values()),
                *self.explorer_of(experiment),
            ]
            for experiment in self.config["experiments"]
            if experiment not in self.plan.left_out
        }
        return found | {name_of(part): self.files_of([part]) for part in self.parts.values()}

    def check_targets(self, words: Iterable[str], targets: Callable[[], Iterable[str]]) -> None:
        """Check the targets that a person has typed.

        Args:
            words: of the command line.
            targets: returns those that Snakemake takes for targets. Its own parser is slow, so it
                is asked only if a word might be a wrong one.

        Raises:
            BadInput: a target is neither known nor a file; names the nearest, or says why its
                experiment is left out.
        """
        parts = self.parts.values()
        known = {*RULES, *map(name_of, parts), *(part.experiment for part in parts)}
        wrong = {word for word in words if re.fullmatch(r"[a-z]\w*(=.*)?", word)} - known
        for target in targets() if wrong else ():
            if target in wrong and (why := self.plan.why_left_out(target)):
                raise BadInput(why)
            if target in wrong and not Path(target).exists():
                choice = "--config=scale={scale}"
                raise BadInput(unknown_target(target, self.plan.scale, known, choice))

    def part(self, wildcards: Any) -> Description:
        """The table or figure that files with these wildcards belong to."""
        return find(self.parts, f"{wildcards.experiment}/{wildcards.name}", "table or figure")

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
            if files.provenance.exists():
                paths += [path for path in files.all() if not path.exists()]
        return paths

    def folders(self, *parts: Description) -> dict[str, str]:
        """The folder of each run of tables and figures."""
        return {run: str(self.run_files(run).folder) for run in runs_of(parts)}

    def partitions(self, *parts: Description) -> list[Path]:
        """The noisy partitions of the runs of tables and figures, each once."""
        found = dict.fromkeys(self.plan.partition[run] for run in runs_of(parts))
        return list(map(self.partition_file, found))

    def train_inputs(self, run: str) -> list[Path]:
        """The files that a run is trained and tested on; for a whole run, only those that exist.

        Otherwise Snakemake would make the lost ones again for it, although they are marked as
        ancient. The run's id covers what these files hold, so equal files made anew retrain
        nothing.
        """
        files, there = self._prepared(self.plan.partition[run])
        return there if self.results.run(run).provenance.exists() else files

    def _prepared_files(self, partition: str) -> tuple[list[Path], list[Path]]:
        """The files that runs on a noisy partition are made from, and those that are there."""
        name = dataset(self.plan.partitions[partition]["dataset"]).name
        files = [self.results.data(name, part) for part in ("train", "test")]
        files.append(self.results.partition(partition))
        return files, [file for file in files if file.exists()]

    def partition_input(self, partition: str) -> Path | list[Path]:
        """The training part that a noisy partition is made from.

        Nothing if the part is lost and the partition is there: otherwise Snakemake would make both
        again, although the part is marked as ancient.
        """
        name = dataset(self.plan.partitions[partition]["dataset"]).name
        file = self.results.data(name, "train")
        made = self.results.partition(partition)
        return [] if made.exists() and not file.exists() else file

    def estimate(self, run: str) -> Estimate:
        """What a run should take on the configured device."""
        return self.plan.estimate(run, self.config["device"])

    def run_text(self, run: str) -> str:
        """The spec of a run as canonical JSON: one text, so that params compare well."""
        return canonical_json(self.plan.runs[run])

    def partition_text(self, partition: str) -> str:
        """The spec of a noisy partition as canonical JSON."""
        return canonical_json(self.plan.partitions[partition])


class RunWords:
    """What a run is called on the console: ``{RUN_WORDS:<id>}`` in a rule's message.

    The words are not in the rule's params, since a change of these would train the run anew.
    """

    def __init__(self) -> None:
        self._words: dict[str, str] = {}

    def add(self, words: Mapping[str, str]) -> None:
        """Name runs.

        Args:
            words: by run.
        """
        self._words |= words

    def __format__(self, run: str) -> str:
        return self._words[run]
