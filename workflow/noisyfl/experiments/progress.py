"""The progress of a scale: for each table, the runs done, under way, failed and left."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from noisyfl.core.artifacts import DamagedArtifact, Results
from noisyfl.core.provenance import Provenance, read_provenance
from noisyfl.core.text import aligned, one_line
from noisyfl.experiments.plan import Plan
from noisyfl.runs.devices import has_gpu
from noisyfl.runs.status import (
    StatusRecord,
    failure_text,
    read_statuses,
    slurm_profiles,
    snakemake_alone,
)

LOST_SECONDS = 300.0
"""Time without a sign of life after which a run counts as lost: its process or node is gone."""

FEW = 3
"""If fewer runs of a method and model are done, their pace is that of all finished runs."""

MOST_LINES = 20
"""If more runs than this are under way, they are not listed one by one."""

STATES = ("done", "running", "failed", "left")


@dataclass(frozen=True)
class RunProgress:
    """How far a run is, as its files say.

    Attributes:
        state: one of :data:`STATES`.
        status: the content of its status file, if it was begun and is not done.
        provenance: of the run, if it is done and was trained here.
        damage: what is wrong with a file of the run, which was passed over; empty if nothing is.
    """

    state: str
    status: StatusRecord | None = None
    provenance: Provenance | None = None
    damage: str = ""

    @property
    def is_lost(self) -> bool:
        """Whether the run was killed, alone or with its node."""
        return bool(self.state == "left" and self.status and self.status.state == "running")


def read_progress(
    runs: Iterable[str], layouts: Sequence[Results], now: datetime
) -> dict[str, RunProgress]:
    """How far each run is, by id.

    Args:
        layouts: first where runs are trained, then where else finished runs may lie.
        now: in UTC.
    """
    results, *others = layouts
    # Read before the artifacts, so that a run which ends meanwhile is seen as done, not as left.
    statuses, damage = read_statuses(results)
    found = {}
    for run in runs:
        try:
            provenance = read_provenance(results.run(run).provenance, run)
            found[run] = RunProgress("done", provenance=provenance)
            continue
        except FileNotFoundError:
            pass
        except (OSError, DamagedArtifact) as error:
            damage[run] = str(error)
        if any(layout.run(run).provenance.exists() for layout in others):
            found[run] = RunProgress("done", damage=damage.get(run, ""))
        else:
            status = statuses.get(run)
            found[run] = RunProgress(_state(status, now), status, damage=damage.get(run, ""))
    return found


def _state(status: StatusRecord | None, now: datetime) -> str:
    if status is None or status.state == "interrupted":
        return "left"
    if status.state == "failed":
        return "failed"
    return "running" if status.age(now) < LOST_SECONDS else "left"


class Pace:
    """How long runs take: their estimates, times the ratio of real to estimated time so far.

    The ratio is the median over the runs of the same method and model that finished on the same
    kind of device, or over all runs that did if the former are fewer than :data:`FEW`. A median
    ignores the odd process that was suspended.

    Args:
        progress: of the plan's runs, by id.
        device: as the configuration has it.
    """

    def __init__(self, plan: Plan, progress: Mapping[str, RunProgress], device: str) -> None:
        self._plan = plan
        self._device = "cpu" if device == "cpu" else "cuda"
        ratios: dict[tuple[str, str] | None, list[float]] = defaultdict(list)
        for run, one in progress.items():
            provenance = one.provenance
            if not provenance or provenance.status != "finished":
                continue
            if _kind(provenance) == self._device:
                seconds = provenance.setup_seconds + provenance.training_seconds
                for group in (None, self._group(run)):
                    ratios[group].append(seconds / plan.estimate(run, self._device).seconds)
        self.finished = len(ratios[None])
        self.overall = float(np.median(ratios[None])) if ratios[None] else 1.0
        self._groups = {g: float(np.median(r)) for g, r in ratios.items() if len(r) >= FEW}

    def seconds(self, run: str) -> float:
        """What a run should take from its start to its end."""
        slower = self._groups.get(self._group(run), self.overall)
        return slower * self._plan.estimate(run, self._device).seconds

    def seconds_left(self, run: str, one: RunProgress, now: datetime) -> float:
        """Seconds that a run still takes: by its own status, or else by its estimate."""
        if one.state == "done":
            return 0.0
        status = one.status
        if status is not None and status.seconds_left is not None:
            since = status.age(now) if one.state == "running" else 0.0
            return max(0.0, status.seconds_left - since)
        share = 0.0
        if status is not None and status.rounds and status.rounds_done is not None:
            share = status.rounds_done / status.rounds
        return self.seconds(run) * (1 - share)

    def _group(self, run: str) -> tuple[str, str]:
        spec = self._plan.runs[run]
        return spec["method"]["name"], spec["model"]["name"]


def device_of(progress: Mapping[str, RunProgress], device: str) -> str:
    """The kind of device that runs are made on. ``auto`` becomes the kind that made most of the
    runs that are done here; if there are none, it is a CPU on a machine without a GPU, unless that
    may be a cluster's.
    """
    if device != "auto":
        return device
    kinds = Counter(_kind(one.provenance) for one in progress.values() if one.provenance)
    if kinds:
        return kinds.most_common(1)[0][0]
    return "cuda" if has_gpu() or shutil.which("sbatch") else "cpu"


def _kind(provenance: Provenance) -> str:
    return "cpu" if " CPU, " in provenance.device else "cuda"


def progress_text(
    plan: Plan,
    layouts: Sequence[Results],
    device: str,
    by_target: Mapping[str, Sequence[str]],
    now: datetime | None = None,
    options: Sequence[str] = (),
) -> str:
    """The progress of a scale, as text.

    Args:
        layouts: see :func:`read_progress`.
        device: as the configuration has it.
        by_target: the ids of the runs of each table and figure to be shown.
        now: in UTC; the present time by default.
        options: with which Snakemake takes the scale, see
            :func:`noisyfl.runs.status.scale_words`.
    """
    now = now or datetime.now(UTC)
    every = list(dict.fromkeys(run for runs in by_target.values() for run in runs))
    progress = read_progress(every, layouts, now)
    kind = device_of(progress, device)
    pace = Pace(plan, progress, kind)
    seconds = {run: pace.seconds_left(run, one, now) for run, one in progress.items()}

    def line(target: str, runs: Iterable[str]) -> list[object]:
        counts = Counter(progress[run].state for run in runs)
        hours = sum(seconds[run] for run in runs) / 3600
        return [target, counts.total(), *(counts[state] for state in STATES), f"{hours:,.1f}"]

    header: list[object] = ["target", "runs", *STATES]
    header.append("CPU hours left" if kind == "cpu" else "GPU hours left")
    lines = [*(line(*item) for item in by_target.items()), line("all", every)]
    return "\n".join(
        [
            f"The scale “{plan.scale}” on {_date(now)} ({now.astimezone().tzname()}):",
            "",
            *aligned([header, *lines]),
            "",
            "A run that several tables share is counted with each of them, and once in `all`. "
            "Hours are those of one run at a time.",
            *_end(progress, seconds, pace, now),
            *_under_way(plan, progress, seconds, now),
            *_failures(plan, progress, layouts[0], options),
            *_damage(progress),
        ]
    )


def _end(
    progress: Mapping[str, RunProgress], seconds: Mapping[str, float], pace: Pace, now: datetime
) -> list[str]:
    """Lines that say when all runs should be done, and what this and the hours are based on."""
    if not any(seconds.values()):
        return []
    running = sum(one.state == "running" for one in progress.values())
    hours = (
        f"Runs take {pace.overall:.2g} times their estimate (median of {pace.finished})"
        if pace.finished
        else "Hours are only estimates (docs/speed.md), as no run was trained here yet"
    )
    end = "no run is under way, so the end is unknown"
    if running:
        last = now + timedelta(seconds=sum(seconds.values()) / running)
        end = f"with {running} at a time, all should be done about {_date(last)}"
    lost = sum(one.is_lost for one in progress.values())
    again = (
        f"{lost} started, but gave no sign of life for {LOST_SECONDS / 60:.0f} minutes; Snakemake "
        "resumes them when it is started again."
    )
    return [f"{hours}; {end}.", *([again] if lost else [])]


def _date(moment: datetime) -> str:
    return f"{moment.astimezone():%Y-%m-%d %H:%M}"


def _under_way(
    plan: Plan,
    progress: Mapping[str, RunProgress],
    seconds: Mapping[str, float],
    now: datetime,
) -> list[str]:
    found = {run: s.status for run, s in progress.items() if s.state == "running" and s.status}
    if len(found) > MOST_LINES or not found:
        return []
    lines = []
    for run, status in found.items():
        rounds = "before its first round"
        if status.rounds is not None:
            rounds = f"round {status.rounds_done} of {status.rounds}"
        if status.accuracy is not None:
            rounds += f", accuracy {100 * status.accuracy:.1f} %"
        end = _date(now + timedelta(seconds=seconds[run]))
        line = f"{plan.words_of(run)}: {rounds}, on {status.host}, until {end}"
        lines.append(f"  {run}  {one_line(line)}")
    return ["", "Under way:", *lines]


def _failures(
    plan: Plan, progress: Mapping[str, RunProgress], results: Results, options: Sequence[str]
) -> list[str]:
    lines = []
    for run, one in progress.items():
        if one.state == "failed" and one.status:
            status = one.status
            error = status.error or "for an unknown reason"
            target = results.run(run).provenance
            profiles = slurm_profiles() if status.slurm_job is not None else ()
            alone = snakemake_alone(target, options, profiles)
            lines += ["", failure_text(plan.words_of(run), error, status.log, alone)]
    return lines


def _damage(progress: Mapping[str, RunProgress]) -> list[str]:
    lines = [one_line(one.damage) for one in progress.values() if one.damage]
    return ["", "Cannot be read:", *(f"  {line}" for line in lines)] if lines else []
