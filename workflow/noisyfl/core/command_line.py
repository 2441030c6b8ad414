"""Check the configuration on Snakemake's command line before Snakemake reads it.

Snakemake takes every word after ``--configfile`` or ``--config``, even a target, as a further value
of that option, and ends in a traceback if the word is not one. Of an option that is given twice it
takes the last, without a word. Before that it reads ``profiles/default``, which calls
:func:`check_command_line`.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from noisyfl.core.options import BadInput, did_you_mean

FILES, VALUES = ("--configfile", "--configfiles"), ("--config", "-C")


def check_command_line(words: Sequence[str] = tuple(sys.argv)) -> None:
    """Exit with a one-line error if a word given as configuration cannot be one, or if Snakemake
    would overlook one.

    Raises:
        SystemExit: naming the word, what was expected, and how to write it.
    """
    every = list(_given(words))
    for options in (FILES, VALUES):
        _check_once([given for given in every if given[0] in options])
    for option, *given in every:
        problem = _of_file if option in FILES else _of_value
        for word in given:
            if found := problem(word):
                sys.exit(f"error: {option}: {found}{_advice(option, given)}")


def _given(words: Sequence[str]) -> Iterator[list[str]]:
    """Each option for a configuration, followed by the words that Snakemake takes as its values: a
    single one if it is given with an equals sign.
    """
    taken: list[str] | None = None
    for word in words:
        if word == "--":  # only targets follow
            break
        name, equals, value = word.partition("=")
        if word.startswith("-C") and name != "-C":
            name, equals, value = "-C", "=", word[2:]
        if word.startswith("-"):
            if taken:
                yield taken
            taken = [name] if name in FILES + VALUES else None
            if taken and equals:
                yield [name, value]
                taken = None
        elif taken:
            taken.append(word)
    if taken:
        yield taken


def _check_once(every: Sequence[Sequence[str]]) -> None:
    """Exit with an error if an option is there twice, or a key twice among the values."""
    values = [value for _, *given in every for value in given]
    if len(every) > 1:
        option = every[-1][0].replace("-C", "--config")
        sys.exit(
            f"error: {option}: given {len(every)} times, and Snakemake takes only the last; give "
            f"all values behind one, before other options or `--`: {option} {shlex.join(values)}"
        )
    keys = [value.partition("=")[0] for value in values if "=" in value]
    for key in keys:
        if keys.count(key) > 1:
            sys.exit(f"error: {every[0][0]}: got {key!r} twice, expected each key once")


def _of_file(word: str) -> str:
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
    listed = f" (there are: {', '.join(known)})" if known and not hint else ""
    return f"there is no file {word!r}{hint}{listed}"


def _of_value(word: str) -> str:
    return "" if word.partition("=")[1] else f"got {word!r}, expected key=value"


def _advice(option: str, raw: Sequence[str]) -> str:
    if len(raw) < 2:
        return ""
    return (
        f". Snakemake takes every word behind `{option} ` for one more of them, a target too, but "
        f"not behind an equals sign: {option}={raw[0]}"
    )
