"""Snakemake's output as a person wants to read it: `snakemake --logger noisyfl`.

Snakemake finds this package by its name. It translates Snakemake's log events for
:class:`noisyfl.experiments.campaign.Campaign`, which knows what a run is called and how long it
takes, and for :class:`noisyfl.runs.display.Display`, which shows it. The scales come in a log
record with the attribute ``noisyfl``, which the rules write (rules/common.smk). Everything that
Snakemake says is in its own log file, `.snakemake/log/`.
"""

from __future__ import annotations

import logging
import re
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

# Snakemake imports this at each start, so what is slow to import is imported where it is used.
if TYPE_CHECKING:
    from noisyfl.experiments.campaign import Campaign, Job
    from noisyfl.experiments.scale import Scale

REJECTED = "sbatch failed"
"""How the Slurm executor begins what it says of a job that sbatch rejects."""

PLACE = re.compile(r'WorkflowError( in file ".*", line \d+)?:$|  File ".*", line \d+, in ')
"""A line by which Snakemake says where in the rules an error was raised, which is a message for a
user and not a mistake in the rules."""

LISTED_JOBS = 20
"""If a dry run has more jobs than this, it lists their number by rule only."""


class LogHandler(LogHandlerBase):
    """The handler of all records that Snakemake logs."""

    writes_to_stream = True
    writes_to_file = False
    has_filter = True
    has_formatter = False
    needs_rulegraph = False

    def __post_init__(self) -> None:
        from noisyfl.runs.display import Display

        dry = self.common_settings.dryrun
        self._display = Display(sys.stdout if dry else sys.stderr)
        self._quiet = {choice.name.lower() for choice in self.common_settings.quiet or ()}
        self._scales: list[Scale] = []
        self._rule_names: list[str] = []
        self._campaign: Campaign | None = None
        self._started = self._failed = self._job_failed = False
        self._words: list[str] = []
        self._at_once, self._remote = 1, False
        self._exceptions: dict[int | None, str] = {}
        self._rejections: set[str] = set()
        self._jobs: list[str] = []
        self._shown = ExitStack()

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record, or take note of it."""
        try:
            self._emit(record)
        except Exception:
            self.handleError(record)

    def _emit(self, record: logging.LogRecord) -> None:
        event = getattr(record, "event", None)
        if hasattr(record, "noisyfl"):
            self._scales.append(record.noisyfl)
            self._rule_names.append(vars(record)["rule_names"])
        elif self.common_settings.verbose or (self.common_settings.debug_dag and event):
            self._say(self.format(record))
        methods: dict[Any, Callable[[dict[str, Any]], None]] = {
            LogEvent.WORKFLOW_STARTED: self._on_start,
            LogEvent.RESOURCES_INFO: self._on_resources,
            LogEvent.RUN_INFO: self._on_plan,
            LogEvent.JOB_INFO: self._on_job,
            LogEvent.JOB_FINISHED: self._on_finished,
            LogEvent.JOB_ERROR: self._on_job_error,
            LogEvent.ERROR: self._on_error,
            LogEvent.SHELLCMD: self._on_command,
        }
        if event in methods:
            methods[event](vars(record))
        elif event is None and not hasattr(record, "noisyfl"):
            self._on_text(record)

    def _say(self, text: str) -> None:
        if text and "all" not in self._quiet:
            self._display.say(text)

    def _on_text(self, record: logging.LogRecord) -> None:
        """A text that is no event. What Snakemake says of its own steps goes to its log file alone,
        and so do its remarks after a job has failed.
        """
        own_step = record.levelno < logging.WARNING and (self._started or record.module == "api")
        if not own_step and not (self._job_failed and record.module == "job_scheduler"):
            self._say(record.getMessage() if record.msg else "")

    # Events.

    def _on_start(self, record: dict[str, Any]) -> None:
        self._started = True
        self._words = shlex.split(record["cmd"])[1:]

    def _on_resources(self, record: dict[str, Any]) -> None:
        if record.get("cores"):
            self._at_once = record["cores"]
        if record.get("nodes"):
            self._at_once, self._remote = record["nodes"], True

    def _on_plan(self, record: dict[str, Any]) -> None:
        """The jobs are known: say how much there is to do, and begin to show how far it is."""
        if self._campaign is not None or not self._scales:
            return
        from noisyfl.experiments.campaign import Campaign
        from noisyfl.runs.status import slurm_profiles

        self._campaign = Campaign(self._scales)
        counts: Counter[str] = Counter()
        for rule, count in record["stats"].items():
            counts[self._own_name(rule)] += count
        remote = self._remote or "slurm" in self._words
        profiles = slurm_profiles(self._words)
        self._say(self._campaign.plan(counts, self._at_once, remote, profiles))
        if self.common_settings.dryrun:
            self._say(self._campaign.counts_text(counts))
        elif not self._quiet & {"progress", "all"}:
            self._shown.enter_context(self._display.showing(self._campaign.progress))

    def _on_job(self, record: dict[str, Any]) -> None:
        if self._campaign is None:
            return
        self._campaign.start(record["jobid"], self._job(record))
        if self.common_settings.dryrun:
            self._jobs.append(self._campaign.name(record["jobid"]))

    def _on_finished(self, record: dict[str, Any]) -> None:
        # What failed may have been an earlier attempt of this job. If another job failed, Snakemake
        # logs an error at its end.
        self._failed = False
        if self._campaign is not None:
            self._say(self._campaign.finish(record["job_id"]))

    def _on_job_error(self, record: dict[str, Any]) -> None:
        """A job has failed. The exception that it ended with, if any, was logged before, by the
        same thread.
        """
        self._failed = self._job_failed = True
        said = record["rule_msg"] or self._exceptions.pop(record.get("thread"), "")
        if self._campaign is None:
            self._say(self.format(logging.makeLogRecord(record)))
            return
        if said.startswith(REJECTED) or f" {REJECTED}" in said:
            said = said.partition("\n    sbatch call")[0].partition("error message was ")[2]
            said = f"sbatch rejects the job: {said.strip('. ')}"
        line = self._campaign.fail(record["jobid"], self._job(record), said)
        if said.startswith("sbatch"):
            line = "" if said in self._rejections else said
            self._rejections.add(said)
        self._say(line)
        if self.common_settings.show_failed_logs and line:
            self._show_logs(record["log"])

    def _job(self, record: dict[str, Any]) -> Job:
        from noisyfl.experiments.campaign import Job

        rule = self._own_name(record["rule_name"])
        logs = [log for log in record["log"] if Path(log).suffix == ".log"] or [""]
        wildcards = dict(record.get("wildcards") or {})
        return Job(rule, tuple(record["output"]), logs[0], wildcards, logs[-1])

    def _own_name(self, rule: str) -> str:
        """What these rules call a rule that an importing workflow may have renamed."""
        for names in self._rule_names:
            before, _, after = names.partition("*")
            if names != "*" and rule.startswith(before) and rule.endswith(after):
                return rule.removeprefix(before).removesuffix(after)
        return rule

    def _show_logs(self, logs: list[str]) -> None:
        for log in logs:
            path = Path(log)
            if path.is_file():
                self._say(f"{log}:\n{path.read_text(encoding='utf-8', errors='replace').rstrip()}")

    def _on_error(self, record: dict[str, Any]) -> None:
        kind, text = record["exception"], str(record["msg"])
        if kind == "RuleException" and "CalledProcessError" in text:
            self._exceptions[record.get("thread")] = text
            return
        self._failed = True
        if kind == "KeyboardInterrupt" or (self._job_failed and kind == "WorkflowError"):
            return  # the end of the output says more
        if kind == "LockException":
            text = _locked(self._scales)
        elif kind == "MissingRuleException" and (wrong := self._wrong_target(text)):
            text = wrong
        elif kind == "WorkflowError":
            text = "\n".join(line for line in text.splitlines() if not PLACE.match(line))
        self._say(text)

    def _wrong_target(self, said: str) -> str:
        """Why a target is wrong that Snakemake finds no rule for."""
        missing = set(said.split())
        words = [word for word in self._words if word in missing]
        scales = zip(self._scales, self._rule_names, strict=True)
        found = (scale.wrong_target(word, names) for scale, names in scales for word in words)
        return next(filter(None, found), "")

    def _on_command(self, record: dict[str, Any]) -> None:
        if self.common_settings.printshellcmds:
            self._say(record.get("cmd") or record.get("shellcmd") or "")

    def close(self) -> None:
        """Say how it ended."""
        self._shown.close()
        try:
            self._end()
        except Exception:
            self.handleError(logging.makeLogRecord({"msg": "the end"}))
        super().close()

    def _end(self) -> None:
        started, self._started = self._started, False
        if not started or not self._scales:
            return
        if self.common_settings.dryrun:
            if len(self._jobs) <= LISTED_JOBS:
                self._say("\n".join(f"  {name}" for name in self._jobs))
            if not self._failed:
                self._say("This was a dry run: no job was started.")
            return
        from noisyfl.experiments.campaign import Campaign

        campaign = self._campaign
        if campaign is None and not self._failed:
            self._say("Nothing to be done: all files are up to date.")
            campaign = Campaign(self._scales)
        if campaign is None:
            return
        self._say(campaign.interrupted())
        if failures := campaign.failures():
            self._say(failures)
        elif not self._failed:
            self._say(campaign.results(*shutil.get_terminal_size((100, 40))))


def _locked(scales: list[Scale]) -> str:
    files = scales[0].files if scales else "config/config.yaml"
    return (
        f"{Path.cwd()} is locked: another Snakemake is running there, or was killed. "
        f"`noisyfl progress --config {files}` shows its progress; if none is running, "
        "the same command with `--unlock` unlocks the folder."
    )
