"""What one Snakemake command makes, in the words of the tables that it was asked for.

:class:`Campaign` is given what Snakemake's logger plugin interface reports of jobs, and answers
what a person asks: how much there is to do, how far it is, what failed and why, where the results
are. It knows runs by the row and the column of the requested tables, by their statuses and by
their provenance.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from noisyfl.core.artifacts import DamagedArtifact
from noisyfl.core.provenance import read_provenance
from noisyfl.core.text import aligned, one_line
from noisyfl.experiments.progress import Pace, RunProgress, read_progress
from noisyfl.experiments.scale import Scale
from noisyfl.experiments.targets import name_of, runs_of
from noisyfl.pages.markdown import page_table
from noisyfl.runs.devices import has_gpu
from noisyfl.runs.display import Progress, RunInTraining, rough_duration
from noisyfl.runs.status import StatusRecord, failure_text, read_status, snakemake_alone
from noisyfl.specs.cost import likely_seconds
from noisyfl.specs.descriptions import TableDescription
from noisyfl.specs.speeds import DEVICES, LEAST, MOST

MOST_FAILURES = 10
"""How many failed jobs are named at the end."""

JOB_SECONDS = 5.0
"""What a job takes that trains nothing: most of it is the start of Python."""

LONG_HOURS = 48.0
"""From so many hours of a GPU on, their number is given instead of a time."""

MOST_TABLES, MOST_FIGURES = 12, 6
"""If there are more tables or figures than this, their folder is named instead of each file."""

SIGNAL = re.compile(r"Signals\.(SIG\w+)|non-zero exit status (1[3-9]\d)\b")
"""How Python's ``CalledProcessError`` says that a signal ended a program, or its shell."""

UNEXPLAINED = "SLURM status is: 'FAILED'"
"""What Snakemake says of a Slurm job of which Slurm knows no more than that it failed."""


@dataclass(frozen=True)
class Job:
    """A job, as Snakemake reports its start or its error.

    Attributes:
        log: empty if it has no log file.
        last_log: after it failed in a Slurm job, the log of that; else the last log file, if any.
    """

    rule: str
    output: tuple[str, ...]
    log: str
    wildcards: Mapping[str, str]
    last_log: str = ""


class Campaign:
    """What one Snakemake command makes.

    Args:
        scales: of the workflow, or of each module that another workflow imports.
    """

    def __init__(self, scales: Sequence[Scale]) -> None:
        self._scales = scales
        self._names = {run: name for scale in scales for run, name in run_names(scale).items()}
        self._jobs: dict[int, Job] = {}
        self._failed: dict[int, str] = {}
        self._training: dict[int, str] = {}
        self._interrupted: set[int] = set()
        self._done: set[str] = set()
        self._runs: list[str] = []
        self._count = self._others = self._others_done = 0
        self._at_once = 1
        self._remote = False
        self._profiles: Sequence[str] = ()
        self._paces: dict[str, Pace] = {}
        self._progress: dict[str, dict[str, RunProgress]] = {}

    # Before the first job.

    def plan(
        self, counts: Mapping[str, int], at_once: int, remote: bool, profiles: Sequence[str] = ()
    ) -> str:
        """Take note of what is to be done; return it in one line.

        Args:
            counts: jobs by rule, and their sum under ``total``.
            at_once: how many jobs run at a time at most.
            remote: whether runs are trained on other machines.
            profiles: with which Snakemake trains them there.
        """
        rules = self._rules(counts)
        self._count = rules.get("train", 0)
        self._others = sum(rules.values()) - self._count
        self._at_once, self._remote, self._profiles = max(1, at_once), remote, profiles
        now = datetime.now(UTC)
        missing = []
        for scale in self._scales:
            known = runs_of(scale.asked_parts.values())
            runs = list(dict.fromkeys([*scale.asked_runs, *known]))
            found = read_progress(runs, scale.layouts, now)
            self._progress[scale.plan.scale] = found
            self._set_pace(scale)
            missing += [run for run in scale.asked_runs if found[run].state != "done"]
        asked = [run for scale in self._scales for run in scale.asked_runs]
        # Runs that exist are trained too if Snakemake is forced to.
        self._runs = missing if len(missing) >= self._count else asked
        return self._summary(sum(rules.values()))

    def _summary(self, jobs: int) -> str:
        parts = [f"{jobs:,} job{'s' if jobs != 1 else ''}"]
        if not self._count:
            return f"{parts[0]}, no run to train"
        parts.append(f"{self._count:,} run{'s' if self._count != 1 else ''} to train")
        hours = self._gpu_hours()
        if hours is None or (not self._remote and hours[1] < LONG_HOURS):
            where = f"{self._at_once:,} core{'s' if self._at_once != 1 else ''}"
            if hours is not None:
                where = f"this machine's GPUs, {self._at_once:,} at a time"
            parts.append(f"{rough_duration(self._seconds_left())} on {where}")
            return ", ".join(parts)
        time = f"{_rounded(hours[0])} to {_rounded(hours[1])} H100 hours"
        parts.append(time if hours[1] > 1 else "less than 1 H100 hour")
        return f"{', '.join(parts)}; `noisyfl plan --config {self._scales[0].files}` lists them"

    def counts_text(self, counts: Mapping[str, int]) -> str:
        """The number of jobs of each rule, and of runs of each table, as of a dry run."""
        rules = self._rules(counts)
        shown: list[list[object]] = [[rule, f"{n:,}"] for rule, n in rules.items()]
        lines = aligned([["rule", "jobs"], *shown, ["all", f"{sum(rules.values()):,}"]])
        left, tables = set(self._runs), list[list[object]]()
        for scale in self._scales:
            for part in scale.asked_parts.values():
                if isinstance(part, TableDescription):
                    runs = part.run_ids()
                    train = len(left.intersection(runs))
                    tables.append([name_of(part), f"{len(runs):,}", f"{train:,}"])
        if tables:
            lines += ["", *aligned([["table", "runs", "to train"], *tables])]
        return "\n".join(lines)

    def _rules(self, counts: Mapping[str, int]) -> dict[str, int]:
        """The number of jobs of each rule that makes files."""
        others = {"total", *self._targets}
        return {rule: count for rule, count in counts.items() if rule not in others}

    @cached_property
    def _targets(self) -> set[str]:
        """Rules that only name other files."""
        named = {name for scale in self._scales for name in scale.targets()}
        return {"all", *named}

    # While jobs run.

    def start(self, number: int, job: Job) -> None:
        """Take note that Snakemake starts a job."""
        self._jobs[number] = job
        if job.rule == "train":
            self._training[number] = job.wildcards["run"]

    def finish(self, number: int) -> str:
        """Take note that a job has finished; return what its log warns of, in lines."""
        job = self._jobs.get(number)
        if job is None or job.rule in self._targets:
            return ""
        self._training.pop(number, None)
        self._failed.pop(number, None)  # of an earlier attempt
        self._interrupted.discard(number)
        if job.rule == "train":
            run = job.wildcards["run"]
            self._done.add(run)
            self._measure(run)
            return ""
        self._others_done += 1
        warnings = [line for line in _log_lines(job.log) if line.startswith("Warning: ")]
        return "\n".join(f"{self.name(number)}: {line}" for line in warnings)

    def fail(self, number: int, job: Job, said: str) -> str:
        """Take note that a job has failed; return why, in one line.

        The line is empty if the job was interrupted, or failed in the same way before. ``said`` is
        what Snakemake says about its end.
        """
        # Snakemake names no wildcards when it reports an error.
        job = replace(self._jobs.setdefault(number, job), last_log=job.last_log)
        self._training.pop(number, None)
        why = self._why(job, said)
        if why is None:
            self._interrupted.add(number)
            self._failed.pop(number, None)
            return ""
        self._interrupted.discard(number)
        known = self._failed.get(number) == why
        self._failed[number] = why
        return "" if known else one_line(f"failed: {self.name(number)}: {why}")

    def _why(self, job: Job, said: str) -> str | None:
        """Why a job failed; None if it was asked to end."""
        status = self._status(job)
        if status is not None and status.state == "interrupted":
            return None
        if status is not None and status.state == "failed" and status.error:
            return status.error
        errors = [line.removeprefix("error: ") for line in _log_lines(job.log) if "error: " in line]
        if job.rule != "train" and errors:
            return errors[-1]
        log = _log_text(job.last_log) if UNEXPLAINED in said else ""
        if found := SIGNAL.search(said) or SIGNAL.search(log):
            return f"ended by the signal {found[1] or _signal(int(found[2]))}"
        return one_line(said) or "it ended without an error message"

    def _status(self, job: Job) -> StatusRecord | None:
        if job.rule == "train":
            scale = self._scale_of(job.wildcards["run"])
            with suppress(OSError, DamagedArtifact):
                return read_status(scale.results.status(job.wildcards["run"]))
        return None

    def name(self, number: int) -> str:
        """What a job is called."""
        job = self._jobs[number]
        if job.rule == "train":
            return self._names.get(job.wildcards["run"], f"run {job.wildcards['run']}")
        if "experiment" in job.wildcards:
            return f"{job.rule} {job.wildcards['experiment']}/{job.wildcards['name']}"
        return " ".join([job.rule, *job.wildcards.values()])

    def progress(self) -> Progress:
        """How far the command is."""
        running = [self._in_training(run) for run in [*self._training.values()]]
        left = self._others - self._others_done
        return Progress(
            done=len(self._done),
            total=self._count,
            seconds_left=self._seconds_left() if self._count or left else None,
            # Runs that wait in a cluster's queue have no status.
            running=[one for one in running if one is not None],
            note=f"{left:,} other job{'s' if left != 1 else ''}" if left else "",
        )

    def _in_training(self, run: str) -> RunInTraining | None:
        scale, status = self._scale_of(run), None
        with suppress(OSError, DamagedArtifact):
            status = read_status(scale.results.status(run))
        if status is None and self._remote:
            return None
        progress = self._progress[scale.plan.scale]
        known = progress[run].status
        if status is None:  # not begun yet, or complete and about to end
            status = known
        elif status.seconds_left is None and known and known.seconds_left is not None:
            progress[run] = RunProgress("left", known)  # the speed of an earlier attempt
        else:
            state = "running" if status.state == "running" else "left"
            progress[run] = RunProgress(state, status)
        name = self._names.get(run, run)
        if status is None or status.state != "running":  # of an earlier attempt
            return RunInTraining(name, None, None, None)
        return RunInTraining(name, status.rounds_done, status.rounds, status.accuracy)

    # How long it takes.

    def _scale_of(self, run: str) -> Scale:
        return next((one for one in self._scales if run in one.plan.runs), self._scales[0])

    def _device(self, scale: Scale) -> str:
        device = scale.config.device
        return "cpu" if device == "auto" and not self._remote and not has_gpu() else device

    def _set_pace(self, scale: Scale) -> None:
        name = scale.plan.scale
        self._paces[name] = Pace(scale.plan, self._progress[name], self._device(scale))

    def _measure(self, run: str) -> None:
        """Correct the estimates by the time that a run took."""
        scale = self._scale_of(run)
        provenance = None
        with suppress(OSError, DamagedArtifact):
            provenance = read_provenance(scale.results.run(run).provenance, run)
        self._progress[scale.plan.scale][run] = RunProgress("done", provenance=provenance)
        self._set_pace(scale)

    def _seconds_left(self) -> float:
        """Seconds until all is done, with as many jobs at once as there may be."""
        now, each = datetime.now(UTC), []
        for run in self._runs:
            if run not in self._done:
                scale = self._scale_of(run)
                one = self._progress[scale.plan.scale][run]
                state = RunProgress("left") if one.state == "done" else one
                each.append(self._paces[scale.plan.scale].seconds_left(run, state, now))
        at_once = min(self._at_once, max(1, len(each)))
        runs = max([sum(each) / at_once, *each])
        return runs + JOB_SECONDS * (self._others - self._others_done) / self._at_once

    def _gpu_hours(self) -> tuple[float, float] | None:
        """Least and most likely hours of one H100 for all runs; None if a CPU trains them."""
        if any(self._device(scale) == "cpu" for scale in self._scales):
            return None
        works = [self._scale_of(run).plan.facts[run].work for run in self._runs]
        hours = sum(likely_seconds(work, DEVICES["H100"]) for work in works) / 3600
        return LEAST * hours, MOST * hours

    # At the end.

    def failures(self) -> str:
        """All jobs that failed, each with its error, its log and how to run it alone."""
        numbers = list(self._failed)
        if not numbers:
            return ""
        many = f"{len(numbers):,} jobs" if len(numbers) > 1 else "1 job"
        lines = [f"{many} failed:", *map(self._failure, numbers[:MOST_FAILURES])]
        if len(numbers) > MOST_FAILURES:
            command = f"noisyfl progress --config {self._scales[0].files}"
            lines.append(f"and {len(numbers) - MOST_FAILURES:,} more: `{command}` lists them")
        return "\n".join(lines)

    def _failure(self, number: int) -> str:
        job = self._jobs[number]
        if job.rule == "train":
            run = job.wildcards["run"]
            scale = self._scale_of(run)
            target = scale.results.run(run).provenance
        else:
            scale, target = self._scales[0], Path(job.output[0])
        profiles = self._profiles if self._remote and job.rule == "train" else ()
        alone = snakemake_alone(target, scale.options, profiles)
        return failure_text(self.name(number), self._failed[number], job.log or None, alone)

    def interrupted(self) -> str:
        """A line about runs that were asked to end; empty if there is none."""
        count = len(self._interrupted)
        if not count:
            return ""
        runs = (
            f"{count:,} runs keep their checkpoints" if count > 1 else "1 run keeps its checkpoint"
        )
        return f"Interrupted: {runs}; the same command continues from there."

    def results(self, width: int, height: int) -> str:
        """The tables, if they fit into so many columns and lines, and where the results are."""
        tables, figures, texts = [], [], []
        for scale in self._scales:
            for part in scale.asked_parts.values():
                files = scale.files_of([part])
                if isinstance(part, TableDescription):
                    tables += [path for path in files if path.suffix == ".md" and path.exists()]
                else:
                    figures += [path for path in files if path.suffix == ".png" and path.exists()]
        if len(tables) == 1:
            table = page_table(tables[0].read_text(encoding="utf-8"))
            if len(table) < height and max(map(len, table), default=0) <= width:
                texts += [*table, ""]
        pages = [page for scale in self._scales for page in scale.explorers() if page.exists()]
        texts += _listed("table", tables, MOST_TABLES)
        texts += _listed("figure", figures, MOST_FIGURES)
        texts += [f"explorer: {page}" for page in pages]
        return "\n".join(texts)


def run_names(scale: Scale) -> dict[str, str]:
    """By run, its row and column in the first requested table that has it, and its seed if the
    cell has several; else what the plan calls it.
    """
    plan = scale.plan
    found: dict[str, str] = {}
    for part in scale.asked_parts.values():
        if isinstance(part, TableDescription):
            for row, line in zip(part.rows, part.runs, strict=True):
                for column, runs in zip(part.columns, line, strict=True):
                    for run in runs:
                        seed = f", seed {plan.runs[run]['seed']}" if len(runs) > 1 else ""
                        found.setdefault(run, f"{row.name}, {column.name}{seed}")
    return {**{run: plan.words_of(run) for run in plan.facts}, **found}


def _listed(kind: str, paths: Sequence[Path], most: int) -> list[str]:
    if len(paths) <= most:
        return [f"{kind}: {path}" for path in paths]
    folders = sorted({path.parent.parent for path in paths})
    return [f"{len(paths)} {kind}s: {', '.join(f'{folder}/' for folder in folders)}"]


def _log_lines(log: str) -> list[str]:
    """The lines of a job's log, without their times."""
    return [line.partition("  ")[2] for line in _log_text(log).splitlines()]


def _log_text(log: str) -> str:
    with suppress(OSError, ValueError):
        if log:
            return Path(log).read_text(encoding="utf-8")
    return ""


def _signal(status: int) -> str:
    """The name of the signal that a shell's exit status stands for."""
    with suppress(ValueError):
        return signal.Signals(status - 128).name
    return str(status - 128)


def _rounded(hours: float) -> str:
    """Hours with two significant digits."""
    return f"{float(f'{hours:.2g}'):,.0f}" if hours >= 10 else f"{hours:.1f}"
