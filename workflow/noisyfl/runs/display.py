"""A display of runs in training: lines that stay, and on a terminal a progress bar below them.

Nothing here needs Snakemake or torch: whoever trains runs says how far they are
(:class:`Progress`), and a :class:`Display` shows it. Where the output is not a terminal, the same
is printed as a line from time to time, without control characters.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from noisyfl.core.text import one_line, printable

REFRESH_SECONDS = 1.0
"""Time between two looks at how far the runs are, on a terminal."""

LINE_SECONDS = 30.0
"""Shortest time between two lines about the progress where there is no terminal."""

LINE_SHARE = 0.02
"""That time as a share of the time so far, so that days of training do not print for ever."""

MOST_RUNS = 12
"""If more runs than this are in training, the display shows the first ones and counts the rest."""


@dataclass(frozen=True)
class RunInTraining:
    """A run in training.

    Attributes:
        name: what it is called.
        rounds_done: complete rounds; None before the first.
        rounds: of the complete run; None before the first is known.
        accuracy: on the test part, of 1, in the last round that was evaluated; None if none was.
    """

    name: str
    rounds_done: int | None = None
    rounds: int | None = None
    accuracy: float | None = None

    @property
    def round(self) -> str:
        """Which round it is in, in words."""
        if self.rounds is None:
            return "starting"
        return f"round {self.rounds_done} of {self.rounds}"

    @property
    def percent(self) -> str:
        """The accuracy in words; empty if there is none."""
        return "" if self.accuracy is None else f"{100 * self.accuracy:.1f} %"


@dataclass(frozen=True)
class Progress:
    """How far a command is.

    Attributes:
        done: finished runs.
        total: all runs that the command trains.
        seconds_left: until all is done; None if nobody knows.
        running: the runs in training.
        note: what else there is to do, in words; empty for nothing.
    """

    done: int
    total: int
    seconds_left: float | None = None
    running: Sequence[RunInTraining] = ()
    note: str = ""

    @property
    def counts(self) -> str:
        """The counts and the time left, in words."""
        words = [f"{self.done:,} of {self.total:,} runs"] if self.total else []
        words += [self.note] if self.note else []
        if self.seconds_left is not None:
            words.append(f"{rough_duration(self.seconds_left)} left")
        return ", ".join(words)

    def line(self) -> str:
        """All of it in one line."""
        runs = [
            f"{run.name}: {', '.join(filter(None, (run.round, run.percent)))}"
            for run in self.running[:MOST_RUNS]
        ]
        more = len(self.running) - len(runs)
        return "; ".join([self.counts, *runs, *([f"{more:,} more in training"] if more else [])])


class Display:
    """Lines that stay, and a progress bar below them while :meth:`showing`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.RLock()
        self._live: Live | None = None

    def say(self, text: str) -> None:
        """Print lines that stay."""
        with self._lock:
            if self._live is not None:
                self._live.console.print(Text(printable(text)), soft_wrap=True)
            else:
                self._stream.write(f"{printable(text)}\n")
                self._stream.flush()

    @property
    def is_terminal(self) -> bool:
        """Whether a person sees the stream in a terminal that can move its cursor."""
        return self._stream.isatty() and os.environ.get("TERM") != "dumb"

    @contextmanager
    def showing(self, progress: Callable[[], Progress]) -> Iterator[None]:
        """Show the progress until the block ends.

        On a terminal the output of child processes is shown as lines above the bar.

        Args:
            progress: returns how far the runs are. It is called about once a second by a thread,
                and with each line that is said.
        """
        end = threading.Event()
        if not self.is_terminal:
            thread = threading.Thread(target=self._lines, args=(progress, end), daemon=True)
            thread.start()
            try:
                yield
            finally:
                end.set()
                thread.join(timeout=5)
            return
        with _child_output(self._stream, self.say) as terminal:
            console = Console(file=terminal, highlight=False)
            live = Live(
                console=console,
                get_renderable=lambda: _bar(progress(), console.height),
                refresh_per_second=1 / REFRESH_SECONDS,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            live.start()
            with self._lock:
                self._live = live
            atexit.register(live.stop)  # a program that fails leaves the terminal with its cursor
            try:
                yield
            finally:
                with self._lock:
                    self._live = None
                    live.stop()
                atexit.unregister(live.stop)

    def _lines(self, progress: Callable[[], Progress], end: threading.Event) -> None:
        """Print a line from time to time, if it says something new."""
        begun, last = time.monotonic(), ""
        while not end.wait(max(LINE_SECONDS, LINE_SHARE * (time.monotonic() - begun))):
            found = progress()
            line = one_line(found.line())
            state = line.replace(found.counts, str(found.done))  # the time left alone is no news
            if state != last:
                self.say(line)
                last = state


def _bar(progress: Progress, height: int) -> Group:
    """The progress bar, and a line for each run in training as far as the terminal is high."""
    first = Table.grid(padding=(0, 1))
    total, done = (progress.total, progress.done) if progress.total else (1, 0)
    first.add_row(ProgressBar(total=total, completed=done, width=24), _text(progress.counts))
    most = max(1, min(MOST_RUNS, height - 4))
    runs = Table.grid(padding=(0, 2))
    for run in progress.running[:most]:
        texts = ("  " + one_line(run.name), run.round, run.percent)
        runs.add_row(*map(_text, texts))
    more = len(progress.running) - most
    rest = [Text(f"  and {more:,} more in training")] if more > 0 else []
    return Group(first, *([runs] if progress.running else []), *rest)


def _text(line: str) -> Text:
    return Text(line, no_wrap=True, overflow="ellipsis")


@contextmanager
def _child_output(stream: TextIO, say: Callable[[str], None]) -> Iterator[TextIO]:
    """Say the lines that this process and its children write to standard output and error, since
    they would otherwise be written into the bar; yield the terminal itself.

    Args:
        stream: that is the terminal.
        say: takes a line.
    """
    reading, writing = os.pipe()
    terminal = os.fdopen(os.dup(stream.fileno()), "w", encoding="utf-8")
    replaced = {number: os.dup(number) for number in (1, 2) if os.isatty(number)}
    for number in replaced:
        os.dup2(writing, number)
    os.close(writing)

    def read() -> None:
        with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                say(line.rstrip("\n"))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield terminal
    finally:
        for number, original in replaced.items():
            os.dup2(original, number)
            os.close(original)
        # It ends with the last writer; a child that lives on keeps its end of the pipe.
        thread.join(timeout=1)
        with suppress(OSError):
            terminal.close()


def rough_duration(seconds: float) -> str:
    """A time in words, as exactly as an estimate deserves: ``about 4 minutes``."""
    if seconds < 50:
        return f"about {max(10, 10 * round(seconds / 10))} seconds"
    for unit, size, most in (("minute", 60, 90), ("hour", 3600, 48), ("day", 86_400, None)):
        count = max(1, round(seconds / size))
        if most is None or count <= most:
            return f"about {count:,} {unit}{'s' if count > 1 else ''}"
    raise AssertionError
