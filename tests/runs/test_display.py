"""What a display of runs in training shows, in a terminal and in a file."""

import io
import os
import subprocess
import sys
import time

import pytest

from noisyfl.runs import display
from noisyfl.runs.display import Display, Progress, RunInTraining, rough_duration

RUNS = [RunInTraining("FedAvg, clean, seed 1", 3, 20, 0.612), RunInTraining("Krum, clean, seed 1")]
SHOWN = Progress(7, 18, 95, RUNS, "12 of 27 jobs")


def test_progress_in_one_line():
    assert SHOWN.line() == (
        "7 of 18 runs, 12 of 27 jobs, about 2 minutes left; "
        "FedAvg, clean, seed 1: round 3 of 20, 61.2 %; Krum, clean, seed 1: starting"
    )
    assert Progress(0, 0, note="1 of 3 jobs").line() == "1 of 3 jobs"
    many = Progress(0, 100, None, [RunInTraining(f"run {n}") for n in range(30)])
    assert many.line().endswith("; run 11: starting; 18 more in training")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "about 10 seconds"),
        (44, "about 40 seconds"),
        (55, "about 1 minute"),
        (260, "about 4 minutes"),
        (7200, "about 2 hours"),
        (400_000, "about 5 days"),
    ],
)
def test_a_time_in_words(seconds, words):
    assert rough_duration(seconds) == words


def test_a_file_gets_lines_that_say_something_new_and_nothing_else(monkeypatch):
    monkeypatch.setattr(display, "LINE_SECONDS", 0.02)
    monkeypatch.setattr(display, "LINE_SHARE", 0.0)
    stream, left = io.StringIO(), [100.0]

    def progress():
        left[0] -= 1
        return Progress(1 if left[0] > 90 else 2, 3, left[0])

    shown = Display(stream)
    with shown.showing(progress):
        end = time.monotonic() + 60
        while left[0] > 80 and time.monotonic() < end:
            time.sleep(0.01)
        shown.say("failed: \x1b[2J")
    lines = stream.getvalue().splitlines()
    assert [line.partition(",")[0] for line in lines] == ["1 of 3 runs", "2 of 3 runs", lines[2]]
    assert lines[2] == r"failed: \x1b[2J"
    assert "\x1b" not in stream.getvalue()


PROGRAM = """
import subprocess, sys, time
from noisyfl.runs.display import *
shown = Display(sys.stderr)
with shown.showing(lambda: Progress(1, 3, 60, [RunInTraining("FedAvg, seed 1", 2, 9, 0.5)])):
    time.sleep(1.5)
    subprocess.run(["sh", "-c", "echo from a child >&2"])
    shown.say("a line that stays")
    time.sleep(0.5)
print("over", file=sys.stderr)
"""


def test_a_terminal_has_a_bar_and_lines_of_children_above_it():
    main, other = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=other, stdout=other, stderr=other
    )
    os.close(other)
    said = b""
    try:
        while part := os.read(main, 10_000):
            said += part
    except OSError:  # the end of a pseudo-terminal
        pass
    assert process.wait() == 0
    text = said.decode()
    assert "1 of 3 runs, about 1 minute left" in text
    assert "FedAvg, seed 1  round 2 of 9  50.0 %" in text
    for line in ("from a child", "a line that stays"):
        assert f"\x1b[2K{line}\r\n" in text, text  # above the bar, which was removed before it
    assert text.rpartition("\x1b[?25h")[2].endswith("over\r\n")  # with its cursor
