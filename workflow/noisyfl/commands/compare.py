"""The command that compares methods."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd
from rich.console import Console
from rich.live import Live
from rich.text import Text

from noisyfl.analysis.compared import frame_of, summarise
from noisyfl.commands.parser import FLAGS
from noisyfl.core.artifacts import DamagedArtifact
from noisyfl.data.roots import Roots
from noisyfl.experiments.comparison import MethodComparison
from noisyfl.experiments.comparison_files import check_target, write_scale
from noisyfl.experiments.comparison_input import read_comparison
from noisyfl.experiments.comparison_runs import (
    VALIDATION,
    check_format,
    choose_first,
    draw_comparison,
    train_comparison,
    worth_of,
)
from noisyfl.experiments.config import check_file
from noisyfl.experiments.places import Places
from noisyfl.experiments.sweeps import in_words
from noisyfl.pages.compared import ComparisonTable
from noisyfl.runs.job import TrainingJob
from noisyfl.runs.status import read_status
from noisyfl.specs.identity import identity


def print_comparison(
    methods: list[str],
    results: Path,
    data: Roots,
    download: bool,
    device: str,
    *,
    setting: Mapping[str, Any],
    like: str | None,
    scale: str | None,
    seeds: int | None,
    choose_on: str | None,
    at_once: int | None,
    csv: Path | None,
    markdown: Path | None,
    figure: Path | None,
    save: Path | None,
    dry_run: bool,
    keep_models: bool,
) -> None:
    """Train methods, several runs at once, and print a table of them.

    A list as an option's value is a sweep: 'fedprox(mu=[0.01, 0.1])' is two rows, and --level
    '[0.2, 0.4]' two columns. The runs are those of the workflow: existing ones are not trained
    again, and after Ctrl-C the same command continues.
    """
    places = Places(results, data, download, device, at_once)
    wanted = read_comparison(methods, setting, places.own, seeds, like, scale, FLAGS)
    on_validation = choose_first(wanted, choose_on, "--choose-on")
    if save is not None:
        check_target(save)
    for flag, path in (("--csv", csv), ("--markdown", markdown), ("--figure", figure)):
        if path is not None:
            check_file(path, flag)
    if figure is not None:
        check_format(figure, "--figure")

    def say_saved() -> None:
        if save is not None:
            written = write_scale(wanted, save, places, keep_models)
            files = " and ".join(map(str, written))
            outside = "" if Path("Snakefile").exists() else ' -s "$(noisyfl where)/Snakefile"'
            print(f"wrote {files}: snakemake{outside} --cores all --configfile={save}")

    console = Console(stderr=True, highlight=False)
    print(f"Setting: {wanted.describe()}", flush=True)
    for remark in wanted.remarks():
        print(f"Warning: {remark}", file=sys.stderr)
    if dry_run or not choose_on:
        say_saved()
    if dry_run:
        for part in filter(None, (on_validation, wanted)):
            names = part.names
            for one in part.settings:
                for run in map(identity, itertools.chain(*one.specs.values())):
                    there = "exists " if places.find(run) else "missing"
                    print(f"{run}  {there}  {names[run]}, on {in_words(one.setting['dataset'])}")
        return
    failures: list[str] = []
    chosen: list[pd.DataFrame] = []
    if on_validation is not None:
        with _Display(console, on_validation, places, failures) as display:
            found = train_comparison(on_validation, places, display, VALIDATION)
        if failures:
            _exit_for(failures)
        chosen = [found]
        wanted = wanted.choose(worth_of(found))
        for row in wanted.rows:
            if row.note:
                print(f"{row.note} on the validation part: {row.name}")
        say_saved()
    with _Display(console, wanted, places, failures) as display:
        frame = train_comparison(wanted, places, display, keep_models=keep_models)
    table = display.table(frame)
    print(f"\n{table.as_text()}\n\n{table.legend}")
    if csv:
        pd.concat([frame, *chosen]).to_csv(csv, index=False, float_format="%.10g")
    if markdown:
        markdown.write_text(table.as_markdown(wanted.describe()))
    if figure:
        draw_comparison(wanted, places, figure)
    if failures:
        _exit_for(failures)


def _exit_for(failures: Sequence[str]) -> NoReturn:
    many = f"{len(failures)} runs" if len(failures) > 1 else "1 run"
    sys.exit(f"{many} failed; the same command tries again")


class _Display:
    """Shows a comparison: on a terminal a table that grows, elsewhere a line for each run."""

    def __init__(
        self, console: Console, wanted: MethodComparison, places: Places, failures: list[str]
    ) -> None:
        self.console, self.wanted, self.places, self.failures = console, wanted, places, failures
        self.notes = {row.name: row.note for row in wanted.rows}
        self.names = wanted.names
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
            last = frame[frame["run"] == job.run_id].iloc[0]
            reached = f"{last['split']} accuracy {last['accuracy']:.1f} %"
            if last["status"] == "diverged":
                reached = f"diverged in round {last['rounds']}"
            self.console.print(
                f"{said}: {self.names[job.run_id]}: {reached}, {last['seconds']:.0f} s",
                soft_wrap=True,
                markup=False,
            )
        elif self.live is None and len(frame):
            self.console.print(f"{said} exist already")

    def table(self, frame: pd.DataFrame) -> ComparisonTable:
        """The table of these runs."""
        settings = [one.name for one in self.wanted.settings]
        methods = [row.name for row in self.wanted.rows]
        summary = summarise(frame, methods, settings if len(settings) > 1 else [""])
        return ComparisonTable(summary, self.notes, self.wanted.seeds)

    def _now(self) -> Text:
        lines = [
            f"{len(self.frame)} of {len(self.wanted.runs)} runs, {self.places.at_once} at once"
        ]
        there = set(self.frame["run"])
        for run in self.names.keys() - there:
            with suppress(OSError, DamagedArtifact):
                status = read_status(self.places.results.status(run))
                if status and status.state == "running" and status.rounds:
                    done = f"round {status.rounds_done} of {status.rounds}"
                    lines.append(f"  {self.names[run]}: {done}")
        return Text(
            f"{self.table(self.frame).as_text()}\n\n" + "\n".join(lines),
            no_wrap=True,
            overflow="crop",
        )
