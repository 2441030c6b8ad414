"""The command that compares methods in one setting, and what it shares with the notebook."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import pandas as pd
from rich.console import Console
from rich.live import Live
from rich.text import Text

from noisyfl.analysis.compared import frame_of, summarise
from noisyfl.analysis.runs import Run, read_run
from noisyfl.commands.parser import FLAGS
from noisyfl.commands.runs import make_inputs
from noisyfl.core.artifacts import DamagedArtifact, Results, RunFiles
from noisyfl.core.options import BadInput, check_count
from noisyfl.core.tracked import REPRODUCED, find_run
from noisyfl.data.own_files import OwnFiles
from noisyfl.data.roots import Roots, each
from noisyfl.experiments.compare import MethodComparison, check_target, compare
from noisyfl.experiments.config import check_file
from noisyfl.figures.draw import draw_figure
from noisyfl.pages.compared import LEGEND, as_markdown, as_text
from noisyfl.runs.job import TrainingJob
from noisyfl.runs.pool import most_at_once, train_all
from noisyfl.runs.status import read_status
from noisyfl.specs.identity import identity
from noisyfl.specs.run_words import describe_run

FORMATS = (".png", ".pdf")
"""How the name of a figure's file may end."""

VALIDATION = "validation"
"""What ``--choose-on`` takes."""

Show = Callable[[pd.DataFrame, TrainingJob | None, str | None], None]
"""Shows how far a comparison is: takes the runs that there are, and the one that has ended, with
its error if it failed."""


def print_comparison(
    methods: list[str],
    results: Path,
    data: Roots,
    download: bool,
    device: str,
    setting: Mapping[str, Any] = MappingProxyType({}),
    like: str | None = None,
    scale: str | None = None,
    seeds: int | None = None,
    choose_on: str | None = None,
    at_once: int | None = None,
    csv: Path | None = None,
    markdown: Path | None = None,
    figure: Path | None = None,
    save: Path | None = None,
    dry_run: bool = False,
    plugins: Sequence[str] = (),
) -> None:
    """Train methods in one setting, several runs at once, and print a table of them.

    A list as an option's value is a sweep: 'fedprox(mu=[0.01, 0.1])' is two rows. The runs are
    those of the workflow: existing ones are not trained again, and after Ctrl-C the same command
    continues.
    """
    places = Places(results, data, download, device, at_once, plugins)
    wanted = compare(methods, setting, places.own, seeds, like, scale, FLAGS)
    on_validation = choose_first(wanted, choose_on, "--choose-on")
    if save is not None:
        check_target(save)
    for flag, path in (("--csv", csv), ("--markdown", markdown), ("--figure", figure)):
        if path is not None:
            check_file(path, flag)
    if figure is not None:
        check_format(figure, "--figure")
    console = Console(stderr=True, highlight=False)
    print(f"Setting: {wanted.describe()}", flush=True)
    for remark in wanted.remarks():
        print(f"Warning: {remark}", file=sys.stderr)
    if dry_run or not choose_on:
        _save(wanted, save, places)
    if dry_run:
        first = on_validation.runs if on_validation is not None else {}
        for run, spec in {**first, **wanted.runs}.items():
            print(f"{run}  {'exists ' if places.find(run) else 'missing'}  {describe_run(spec)}")
        return
    failures: list[str] = []
    chosen: list[pd.DataFrame] = []
    if on_validation is not None:
        with _Display(console, on_validation, places, failures) as display:
            found = places.train(on_validation, display, VALIDATION)
        if failures:
            _exit_for(failures)
        chosen = [found]
        wanted = wanted.choose(worth_of(found))
        for row in wanted.rows:
            if row.note:
                print(f"{row.note} on the validation part: {row.name}")
        _save(wanted, save, places)
    with _Display(console, wanted, places, failures) as display:
        frame = places.train(wanted, display)
    print(f"\n{display.table(frame)}\n\n{LEGEND}")
    if csv:
        pd.concat([frame, *chosen]).to_csv(csv, index=False, float_format="%.10g")
    if markdown:
        markdown.write_text(
            as_markdown(display.summarise(frame), display.notes, wanted.seeds, wanted.describe())
        )
    if figure:
        places.draw(wanted, figure)
    if failures:
        _exit_for(failures)


def check_format(figure: Path, where: str) -> None:
    """Raise :class:`BadInput` unless a figure can be written to a file of this name."""
    if figure.suffix not in FORMATS:
        raise BadInput(f"{where}: got {str(figure)!r}, expected a name in {' or '.join(FORMATS)}")


def _exit_for(failures: Sequence[str]) -> NoReturn:
    many = f"{len(failures)} runs" if len(failures) > 1 else "1 run"
    sys.exit(f"{many} failed; the same command tries again")


def choose_first(
    wanted: MethodComparison, choose_on: str | None, where: str
) -> MethodComparison | None:
    """What is to be trained first, if values of options are to be chosen; :class:`BadInput` if they
    cannot be chosen on the validation part.
    """
    if choose_on is None:
        return None
    if choose_on != VALIDATION:
        raise BadInput(f"{where}: got {choose_on!r}, expected {VALIDATION!r}")
    try:
        return wanted.on_validation()
    except BadInput as error:
        raise error.within(where=f"{where}: ") from None


def worth_of(frame: pd.DataFrame) -> dict[str, float]:
    """What each row is worth: the mean accuracy of its runs, as which -1 counts if one diverged."""
    accuracy = frame["accuracy"].fillna(-1.0)
    means = accuracy.groupby(frame["method"], sort=False).mean()
    return {str(method): float(mean) for method, mean in means.items()}


class Places:
    """Where the runs of a comparison lie, and how they are trained.

    Args:
        device: as :func:`noisyfl.runs.train.choose_device` takes it.
        at_once: how many runs are trained at once; None: as many as the machine has room for.
    """

    def __init__(
        self,
        results: Path,
        folders: Roots,
        download: bool,
        device: str,
        at_once: int | None = None,
        plugins: Sequence[str] = (),
    ) -> None:
        if at_once is not None:
            check_count(at_once, "jobs")
        self.results = Results(results)
        self.folders = each(folders)
        self.own = OwnFiles(folders, results)
        self.download = download
        self.device = device
        self.at_once = at_once or most_at_once(device)
        self.plugins = list(plugins)

    def find(self, run: str) -> RunFiles | None:
        """The files of a run, in the results or tracked; None if there is none."""
        return find_run(run, (self.results, REPRODUCED))

    def job(self, spec: Mapping[str, Any]) -> TrainingJob:
        """The training job of a run."""
        return TrainingJob(
            spec=dict(spec),
            results=str(self.results.root),
            data=[str(root) for root in self.folders],
            download=self.download,
            device=self.device,
        )

    def save(self, wanted: MethodComparison, path: Path) -> list[Path]:
        """Write a comparison as a scale and an experiment, see :meth:`MethodComparison.write`."""
        return wanted.write(
            path, self.results.root, self.folders, self.download, self.device, self.plugins
        )

    def draw(self, wanted: MethodComparison, path: Path) -> None:
        """Draw the curves of the runs of a comparison that there are."""
        there = {run: files for run in wanted.runs if (files := self.find(run))}
        draw_figure(wanted.curves(there), there, [], path)

    def train(self, wanted: MethodComparison, show: Show, split: str = "test") -> pd.DataFrame:
        """Train the runs of a comparison that are missing, and read all.

        Args:
            show: is called at the beginning, and when a run has ended.
            split: what the frame says of the runs.

        Returns:
            The frame of the runs that there are; those that failed are missing.

        Raises:
            BadInput: the data or a noisy partition cannot be made.
        """
        found: dict[str, Run] = {}
        jobs = []
        for run, spec in wanted.runs.items():
            if files := self.find(run):
                found[run] = read_run(run, files)
            else:
                jobs.append(self.job(spec))
        jobs.sort(key=lambda job: job.spec["seed"])  # so that each row soon has a number
        for job in jobs:
            make_inputs(job, wanted.own)

        def frame() -> pd.DataFrame:
            by_row = {name: map(identity, specs) for name, specs in wanted.specs.items()}
            there = {
                name: [found[run] for run in runs if run in found] for name, runs in by_row.items()
            }
            return frame_of(there, split)

        plugins = [*wanted.plugins, *self.plugins]
        show(frame(), None, None)
        for job, outcome in train_all(jobs, self.at_once, plugins) if jobs else ():
            run, error = identity(job.spec), outcome.error
            if error is None:
                try:
                    found[run] = read_run(run, self.results.run(run))
                except DamagedArtifact as damage:
                    error = str(damage)
            show(frame(), job, error)
        return frame()


class _Display:
    """Shows a comparison: on a terminal a table that grows, elsewhere a line for each run."""

    def __init__(
        self, console: Console, wanted: MethodComparison, places: Places, failures: list[str]
    ) -> None:
        self.console, self.wanted, self.places, self.failures = console, wanted, places, failures
        self.notes = {row.name: row.note for row in wanted.rows}
        self.frame = frame_of({})
        self.live: Live | None = None

    def __enter__(self) -> _Display:
        if self.console.is_terminal:
            self.live = Live(
                get_renderable=self._now, console=self.console, refresh_per_second=1, transient=True
            )
            self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.live is not None:
            self.live.stop()
        if error[0] is KeyboardInterrupt:
            self.console.print("stopped; finished runs are kept, and the same command continues")
            sys.exit(130)  # as a shell expects it of Ctrl-C

    def __call__(self, frame: pd.DataFrame, job: TrainingJob | None, error: str | None) -> None:
        """See :data:`Show`."""
        self.frame = frame
        said = f"{len(frame)} of {len(self.wanted.runs)} runs"
        if error is not None and job is not None:
            self.failures.append(error)
            self.console.print(Text(job.failure(error)), soft_wrap=True)
        elif self.live is None and job is not None:
            last = frame[frame["run"] == identity(job.spec)].iloc[0]
            reached = f"{last['split']} accuracy {last['accuracy']:.1f} %"
            if last["status"] == "diverged":
                reached = f"diverged in round {last['rounds']}"
            self.console.print(
                f"{said}: {last['method']}, seed {last['seed']}: {reached}, "
                f"{last['seconds']:.0f} s",
                soft_wrap=True,
                markup=False,
            )
        elif self.live is None and len(frame):
            self.console.print(f"{said} exist already")

    def summarise(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The frame with one row per method."""
        return summarise(frame, [row.name for row in self.wanted.rows])

    def table(self, frame: pd.DataFrame) -> str:
        """The table as text."""
        return as_text(self.summarise(frame), self.notes, self.wanted.seeds)

    def _now(self) -> Text:
        lines = [
            f"{len(self.frame)} of {len(self.wanted.runs)} runs, {self.places.at_once} at once"
        ]
        there = set(self.frame["run"])
        for run in self.wanted.runs.keys() - there:
            with suppress(OSError, DamagedArtifact):
                status = read_status(self.places.results.status(run))
                if status and status.state == "running" and status.rounds:
                    done = f"round {status.rounds_done} of {status.rounds}"
                    lines.append(f"  {describe_run(self.wanted.runs[run])}: {done}")
        return Text(
            f"{self.table(self.frame)}\n\n" + "\n".join(lines), no_wrap=True, overflow="crop"
        )


def _save(wanted: MethodComparison, path: Path | None, places: Places) -> None:
    if path is not None:
        written = places.save(wanted, path)
        print(f"wrote {' and '.join(map(str, written))}: snakemake --cores all --configfile={path}")
