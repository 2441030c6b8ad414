"""Read YAML files, with errors in plain words."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml

from noisyfl.core.options import LARGEST, BadInput, not_utf8
from noisyfl.core.text import one_line
from noisyfl.core.typed import Typed

T = TypeVar("T", bound=Typed)

FASTEST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's loader where PyYAML was built with it: ten times as fast."""


DEEPEST = 40
"""Most levels of nested lists and mappings in a file; the deepest value of a figure has nine."""

MOST = 200_000
"""Most values in a file; those that aliases repeat are counted each time."""


YAML11_NUMBERS = {
    r"[-+]?\d[\d_]*(:[0-5]?\d)+(\.\d*)?": "a number in base 60",
    r"[-+]?0[\d_]+": "a number in base 8",
}
"""What YAML 1.1, which PyYAML and Snakemake read, reads as other numbers than YAML 1.2."""


class _Loader(FASTEST):
    """A loader that rejects a key given twice in a mapping, of which PyYAML's own takes the last
    value, and numbers that are others in the current version of YAML.
    """

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Replace merge keys by what they merge. PyYAML repeats a key as often as it is merged, so
        that a few lines of nested merges exhaust the memory: here it is kept once.
        """
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
                continue
            if key.value in seen:
                problem = f"the key {key.value!r} is given twice, expected it once"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value)
        super().flatten_mapping(node)
        # In the order of their first, with the value of the last, as a dict has them.
        node.value = list(
            {
                (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else id(key): (key, value)
                for key, value in node.value
            }.values()
        )

    def construct_number(self, node: yaml.ScalarNode) -> Any:
        """A whole number or a float, as its tag says."""
        for pattern, read in YAML11_NUMBERS.items():
            if re.fullmatch(pattern, node.value):
                problem = (
                    f"got {node.value}, which is read as {read}, expected a decimal number, or "
                    "text in quotes"
                )
                raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        whole = node.tag.endswith(":int")
        return (self.construct_yaml_int if whole else self.construct_yaml_float)(node)


for kind in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{kind}", _Loader.construct_number)


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML file's keys and values.

    Raises:
        BadInput: there is no such file, it is not YAML, not a mapping, or has a key twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
        content = yaml.load(text, _Loader)
    except FileNotFoundError as error:
        raise BadInput(f"{path}: there is no such file") from error
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise not_utf8(path, error) from error
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise BadInput(f"{path}{line}: {error.problem} (YAML)") from error
    except BadInput:
        raise
    except Exception as error:  # PyYAML raises many kinds, such as for a date that does not exist
        raise BadInput(f"{path}: cannot be read ({one_line(str(error))})") from error
    if not isinstance(content, dict):
        raise BadInput(f"{path}: got {type(content).__name__}, expected keys and values")
    return content


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The values of ``after`` that ``before`` has not; of a mapping in both, again only these."""
    found = {}
    for key, value in after.items():
        old = before.get(key, ...)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            value = changes(old, value)
            if not value:
                continue
        elif value == old:
            continue
        found[key] = value
    return found


def check_values(content: Any, where: str) -> None:
    """Check that content consists of text, numbers, true, false, null, lists and mappings.

    Raises:
        BadInput: a key is not text, a number is not finite or too large, a value is a date, or
            there are more values or levels than any configuration needs.
    """
    for count, (place, value) in enumerate(_values((), content)):
        problem = ""
        if isinstance(value, float):
            problem = "" if math.isfinite(value) else f"got {value}, expected a finite number"
        elif isinstance(value, int):  # bool is a kind of int
            problem = "" if abs(value) < LARGEST else "got a number of 2^63 or more"
        elif not isinstance(value, str | list | Mapping | bool | None):
            problem = f"got {value!r}, expected text (in quotes) or a number"
        if isinstance(value, Mapping):
            strange = [key for key in value if not isinstance(key, str)]
            problem = f"got the key {strange[0]!r}, expected text (in quotes)" if strange else ""
        if len(place) > DEEPEST:
            problem = f"got more than {DEEPEST} levels of lists and mappings, expected fewer"
        elif count > MOST:
            problem = f"got more than {MOST:,} values, expected fewer"
        if problem:
            raise BadInput(problem, *place[:10], where=f"{where}: ")


def _values(place: tuple[Any, ...], value: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """A value and all values in it, each with its place; a container precedes its content."""
    yield place, value
    if isinstance(value, Mapping):
        for key, held in value.items():
            yield from _values((*place, key), held)
    elif isinstance(value, list):
        for number, held in enumerate(value):
            yield from _values((*place, number), held)


def as_model(content: dict[str, Any], model: type[T], where: str, **context: Any) -> T:
    """A file's content as a model.

    Args:
        context: as :meth:`noisyfl.core.typed.Typed.read` takes it.

    Raises:
        BadInput: naming ``where``, the key, the value and what was expected.
    """
    check_values(content, where)
    return model.read(content, f"{where}: ", **context)
