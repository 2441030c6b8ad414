"""Check the configuration on Snakemake's command line before Snakemake reads it.

Snakemake takes every word after ``--configfile`` or ``--config``, even a target, as a further value
of that option, and ends in a traceback if the word is not one. Of an option that is given twice it
takes the last, without a message. Before that it reads ``profiles/default``, which calls
:func:`check_command_line`.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from noisyfl.core.options import BadInput, did_you_mean


def check_command_line(words: Sequence[str] = tuple(sys.argv)) -> None:
    """Exit with a one-line error if a word given as configuration cannot be one, or if Snakemake
    would overlook one.

    Raises:
        SystemExit: naming the word, what was expected, and how to write it.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for names in (("--configfile", "--configfiles"), ("--config", "-C")):
        parser.add_argument(*names, nargs="*", action="append", default=[])
    given, _ = parser.parse_known_args(words[1:])
    _check_option("--configfile", given.configfile, _problem_of_file)
    _check_option("--config", given.config, _problem_of_value)


def _check_option(
    option: str, every: Sequence[Sequence[str]], problem_of: Callable[[str], str]
) -> None:
    """Check all occurrences of an option, each with its values."""
    values = [value for one in every for value in one]
    keys = [value.partition("=")[0] for value in values if "=" in value]
    if len(every) > 1:
        sys.exit(
            f"error: {option}: given {len(every)} times, and Snakemake takes only the last; give "
            f"all values after one, before other options or `--`: {option} {shlex.join(values)}"
        )
    if twice := [key for key in keys if keys.count(key) > 1]:
        sys.exit(f"error: {option}: got {twice[0]!r} twice, expected each key once")
    for problem in filter(None, map(problem_of, values)):
        advice = (
            f". Snakemake reads every word after `{option} ` as a further value, even a target, "
            f"but not after an equals sign: {option}={values[0]}"
        )
        sys.exit(f"error: {option}: {problem}{advice if len(values) > 1 else ''}")


def _problem_of_value(word: str) -> str:
    return "" if "=" in word else f"got {word!r}, expected key=value"


def _problem_of_file(word: str) -> str:
    path = Path(word)
    if path.exists():
        from noisyfl.core.checked_yaml import read_yaml  # slow to import, and needed only here

        try:
            read_yaml(path)
        except BadInput as error:
            return str(error)
        return ""
    there = [*path.parent.glob("*.yaml"), *Path("config").glob("*.yaml")]
    known = sorted({str(file) for file in there if not file.name.startswith(".")})
    hint = did_you_mean(word, known)
    listed = f" (known: {', '.join(known)})" if known and not hint else ""
    return f"there is no file {word!r}{hint}{listed}"
