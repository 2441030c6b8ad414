"""What every command has: an example, defaults, and a quiet end."""

import argparse
import inspect
import re
import subprocess
import sys

import pytest

from noisyfl.__main__ import main
from noisyfl.commands.arguments import function_of
from noisyfl.commands.parser import parser


@pytest.mark.slow
def test_the_command_prints_the_plan_of_the_default_scale(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["noisyfl", "plan"])
    main()
    told = capsys.readouterr().out
    assert "fedcorr_table2" in told
    assert told.splitlines()[0].startswith("The scale “quick”")


def test_every_command_has_an_example_that_it_understands():
    (commands_of,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    assert {"plan", "progress", "specs", "train", "runs", "archive"} < set(commands_of.choices)
    for name, command in commands_of.choices.items():
        example = command.epilog.removeprefix("example: python -m noisyfl ").split(" | ")[0]
        assert vars(parser().parse_args(example.split()))["command"], name
        assert example.startswith(name)


def test_every_command_takes_what_its_arguments_are():
    (commands_of,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    for name, command in commands_of.choices.items():
        given = {action.dest for action in command._actions} - {"help"}
        takes = inspect.signature(function_of(command.get_default("command"))).parameters
        # Plugins are loaded before, except for what reads a configuration or trains.
        assert given - {"plugins"} <= set(takes), name
        needed = {key for key, one in takes.items() if one.default is one.empty}
        assert needed <= given, name


@pytest.mark.slow
def test_a_reader_who_has_seen_enough_ends_a_command_quietly():
    command = f"{sys.executable} -m noisyfl methods | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1


def test_a_device_that_there_is_not_is_refused_at_once(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["noisyfl", "plan", "--device", "gpu"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == (
        "error: --device: got 'gpu', expected auto, cpu, cuda or cuda:<number>"
    )


def test_help_says_each_default_once_and_none_that_is_nothing():
    (commands_of,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    for name, command in commands_of.choices.items():
        text = " ".join(command.format_help().split())
        assert "default: None" not in text, name
        assert not re.search(r"\(default[^)]*\) \(default", text), name
    assert "(default: fast)" in commands_of.choices["train"].format_help()
