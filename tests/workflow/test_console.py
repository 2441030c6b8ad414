"""What a person reads of Snakemake: of jobs that fail, in a terminal and a pipe, and of Ctrl-C."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from small_repository import Repository

pytestmark = pytest.mark.slow
EXPERIMENT = "config/papers/tiny.yaml"
FEDPROX = "      - {name: FedProx, method: fedprox(mu=0.1)}\n"


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return Repository(tmp_path_factory.mktemp("repository"))


def before_the_loss(repository, code):
    """Have FedProx do something before it computes a loss; returns how to undo it."""
    line = '        if self.prox_form == "norm":'
    return repository.edit("workflow/noisyfl/methods/fedprox.py", line, f"        {code}\n{line}")


def test_a_failed_run_is_one_line_and_three_at_the_end(repository):
    killed = FEDPROX.replace("FedProx", "Killed").replace("0.1", "0.8")
    old = repository.edit(EXPERIMENT, FEDPROX, FEDPROX + killed)
    kill = '__import__("os").kill(__import__("os").getpid(), 9)'
    undo = before_the_loss(repository, f"assert self.mu == 0.1 or {kill}; assert 0, 'a secret'")
    run = repository.snakemake("tiny_one", "--keep-going")
    undo()
    old()
    output = run.stdout + run.stderr
    assert run.returncode == 1
    for words in ("RuleException", "Error in rule", "CalledProcessError"):
        assert words not in output
    end = output.partition("2 jobs failed:\n")[2].splitlines()
    assert sorted(end[:6:3]) == [
        "failed: FedProx, noisy: AssertionError: a secret",
        "failed: Killed, noisy: ended by the signal SIGKILL",
    ]
    for number in (0, 3):
        assert output.count(f"{end[number]}\n") == 2
        assert end[number + 1].startswith("  log: results/logs/runs/")
        assert end[number + 2].startswith("  again, alone: snakemake results/runs/")
    # Snakemake's log file keeps what its console leaves out.
    (log,) = (repository.folder / ".snakemake" / "log").glob("*.log")
    assert "Error in rule train" in log.read_text()


class Terminal:
    """Snakemake in a pseudo-terminal, as a person sees it."""

    def __init__(self, repository, *arguments):
        self.main, other = os.openpty()
        environment = {**os.environ, "PYTHONPATH": str(repository.folder / "workflow")}
        environment["TERM"] = "xterm"
        environment.pop("SNAKEMAKE_OUTPUT_CACHE", None)
        words = ["snakemake", "--cores", "2", *arguments, "--configfile", "config/tiny.yaml"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=repository.folder,
            env=environment,
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
        )
        os.close(other)
        self.text = ""

    def until(self, *words):
        """Read until one of the words is there, or to the end."""
        end = time.monotonic() + 600
        while not any(word in self.text for word in words) and time.monotonic() < end:
            try:
                part = os.read(self.main, 10_000)
            except OSError:  # the end of a pseudo-terminal
                break
            self.text += part.decode(errors="replace")
        return self.text


def group(process):
    """A process and all that it has started, as a terminal's Ctrl-C reaches them."""
    found = [process]
    for each in found:  # which grows meanwhile
        for children in Path(f"/proc/{each}/task").glob("*/children"):
            found += map(int, children.read_text().split())
    return found


def test_in_a_terminal_there_is_a_bar_the_folder_is_locked_and_ctrl_c_is_no_error(repository):
    undo = before_the_loss(repository, '__import__("time").sleep(60)')
    terminal = Terminal(repository, "tiny_one")
    assert "FedProx, noisy  round 0 of 2" in terminal.until("round 0 of 2")
    assert re.search(r"0 of 1 runs, \d other jobs, about \d+ seconds left", terminal.text)
    locked = repository.fails("tiny_one")
    assert "`noisyfl progress --config config/tiny.yaml` shows its progress" in locked
    assert "LockException" not in locked
    for process in group(terminal.process.pid):
        os.kill(process, signal.SIGINT)
    said = terminal.until("the end that never comes")
    assert terminal.process.wait() != 0
    undo()
    end = said.rpartition("\x1b[?25h")[2]  # where the cursor is shown again
    assert "Interrupted: 1 run keeps its checkpoint; the same command continues from there." in end
    assert "failed" not in end
    assert "Traceback" not in said


def test_in_a_pipe_there_are_lines_without_control_characters(repository):
    run = repository.snakemake("tiny_one")
    assert run.returncode == 0, run.stderr
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", run.stdout + run.stderr)
    assert "3 jobs, 1 run to train, about " in run.stderr
    end = run.stderr.partition("Table one\n\n")[2].splitlines()
    assert end[0].split() == ["Method", "noisy"]
    assert re.fullmatch(r"FedAvg +\d+\.\d", end[1])
    assert end[-2:] == [
        "table: results/tiny/tables/tiny/one.md",
        "explorer: results/tiny/explorer/tiny/one.html",
    ]


def test_without_the_plugin_snakemake_speaks(repository):
    plugin = repository.folder / "workflow" / "snakemake_logger_plugin_noisyfl"
    away = plugin.rename(plugin.with_name("away"))
    # The installed package has one too, which this Python must not find.
    code = (
        "import runpy, sys; from importlib import util; real = util.find_spec;"
        "util.find_spec = lambda name, *a: None if 'plugin_noisyfl' in name else real(name, *a);"
        "sys.argv = ['snakemake', '-n', 'tiny_two', '--configfile', 'config/tiny.yaml'];"
        "runpy.run_module('snakemake', run_name='__main__')"
    )
    environment = {**os.environ, "PYTHONPATH": str(repository.folder / "workflow")}
    said = subprocess.run(
        [sys.executable, "-c", code],
        cwd=repository.folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    away.rename(plugin)
    assert said.returncode == 0, said.stderr
    assert "Job stats:" in said.stdout + said.stderr
