"""Models of what users configure, and pydantic's errors in the words of this project."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Mapping, Set
from typing import Any, ClassVar, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.fields import FieldInfo

from noisyfl.core.options import LARGEST, BadInput, did_you_mean, unknown

T = TypeVar("T")

LONGEST = 300
"""Most characters of a value that a message quotes."""

NO_CONTEXT: Mapping[str, Any] = types.MappingProxyType({})


class Typed(BaseModel):
    """A mapping with known keys, each with a type; it never changes.

    Attributes:
        key_word: what the error messages call a key.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        arbitrary_types_allowed=True,
        protected_namespaces=(),
    )

    key_word: ClassVar[str] = "key"

    @classmethod
    def read(cls, raw: Any, where: str = "", **context: Any) -> Self:
        """Check what a user gave.

        Args:
            raw: keys and values.
            where: what the error messages call it; a file's name ends with ``": "``.
            context: what :meth:`prepare` and :meth:`verify` are given; with ``partial``, keys may
                be missing, and the model is good for nothing but to have been checked.

        Raises:
            BadInput: naming ``where``, the key, the value and what was expected.
        """
        try:
            return cls.model_validate(raw, context=context)
        except ValidationError as error:
            raise in_words(error, cls, raw).within(where=where) from None

    @classmethod
    def keys(cls) -> dict[str, FieldInfo]:
        """The fields by the keys that stand for them."""
        return {field.alias or name: field for name, field in cls.model_fields.items()}

    @classmethod
    def prepare(cls, raw: Any, context: Mapping[str, Any]) -> Any:
        """What is validated in place of what was given."""
        return raw

    def verify(self, context: Mapping[str, Any]) -> None:
        """Raise :class:`BadInput` if values that are right by themselves do not fit together."""

    @model_validator(mode="wrap")
    @classmethod
    def _check(
        cls, raw: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:
        context = info.context or NO_CONTEXT
        try:
            made = handler(cls.prepare(raw, context))
        except ValidationError as error:
            missing = [problem["type"] == "missing" for problem in error.errors()]
            if context.get("partial") and all(missing):
                return cls.model_construct()
            raise in_words(error, cls, raw, context.get("partial", False)) from None
        if not context.get("partial"):
            made.verify(context)
        return made


EXPECTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "string_too_short": "text that is not empty",
    "list_type": "a list",
    "tuple_type": "a tuple",
    "dict_type": "keys and values",
    "model_type": "keys and values",
    "model_attributes_type": "keys and values",
    "too_short": "a list that is not empty",
}
"""By pydantic's name of an error, what was expected."""

LIMITS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
"""By pydantic's name of a bound, its words."""

BOUNDS = {"greater_than_equal", "greater_than", "less_than_equal", "less_than"}


def in_words(error: ValidationError, cls: type[Typed], raw: Any, partial: bool = False) -> BadInput:
    """The first of pydantic's errors as our own; those about unknown keys come first.

    Args:
        error: of the validation.
        cls: what was validated.
        raw: what it was given.
        partial: whether keys may be missing.
    """
    problems = error.errors(include_url=False)
    problems = [p for p in problems if not (partial and p["type"] == "missing")]
    one = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    path, value = _locate(one, raw)
    # Of the errors of a union's members, that of the member which was nearest to being right.
    within = [p for p in problems if _locate(p, raw)[0][: len(path)] == path]
    one = max(within, key=lambda p: (len(_locate(p, raw)[0]), _cause(p) is not None))
    path, value = _locate(one, raw)
    if (cause := _cause(one)) is not None:
        return cause.within(*path)
    field = cls.keys().get(str(path[0])) if path else None
    if field is not None and len(path) > 1 + is_list(field):
        field = None  # it is another model's
    match one["type"]:
        case "extra_forbidden":
            return BadInput(unknown(path[-1], cls.keys(), cls.key_word), *path[:-1])
        case "missing" if isinstance(path[-1], int):  # of a tuple's items
            return BadInput(f"got {value!r}, expected more than {path[-1]} items", *path[:-1])
        case "missing":
            meaning = f" ({field.description})" if field and field.description else ""
            return BadInput(f"{cls.key_word} {path[-1]!r} is missing{meaning}", *path[:-1])
        case "union_tag_invalid":
            key, known = one["ctx"]["discriminator"].strip("'"), one["ctx"]["expected_tags"]
            hint = did_you_mean(str(value[key]), known.replace("'", "").split(", "))
            return BadInput(f"got {value[key]!r}, expected one of {known}{hint}", *path, key)
    same = [p for p in problems if _locate(p, raw)[0] == path]
    expected = " or ".join(dict.fromkeys(_expected(p, field) for p in same))
    if field is not None and len(path) == 1 and is_nullable(field):
        expected += ", or null"
    expected += _instead(value, {p["type"] for p in same})
    shown = repr(value)
    shown = shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}…"
    choices = choices_of(field) if field and one["type"] == "literal_error" else None
    hint = did_you_mean(str(value), map(str, choices or ()))
    return BadInput(f"got {shown}, expected {expected}{hint}", *path)


def _cause(problem: Mapping[str, Any]) -> BadInput | None:
    """What a validator of ours raised."""
    cause = problem.get("ctx", {}).get("error")
    return cause if isinstance(cause, BadInput) else None


def _locate(problem: Mapping[str, Any], raw: Any) -> tuple[tuple[int | str, ...], Any]:
    """The path to a value and the value; pydantic's place, without its names of union members."""
    path: list[int | str] = []
    for key in problem["loc"]:
        is_item = isinstance(raw, list | tuple) and isinstance(key, int) and key < len(raw)
        if is_item or (isinstance(raw, Mapping) and key in raw):
            raw = raw[key]
        elif problem["type"] != "missing" or key != problem["loc"][-1]:
            continue
        path.append(key)
    if problem["loc"][-1:] == ("[key]",):
        return tuple(path[:-1]), path[-1]
    return tuple(path), raw


def _expected(problem: Mapping[str, Any], field: FieldInfo | None) -> str:
    if problem["type"] in BOUNDS:
        known = limits_of(field) if field else {}
        known = known or {LIMITS[key]: bound for key, bound in problem["ctx"].items()}
        return " and ".join(f"{word} {bound}" for word, bound in known.items())
    if problem["type"] == "literal_error":
        return f"one of {problem['ctx']['expected'].replace(' or ', ', ')}"
    message = problem["msg"].removeprefix("Input should be ")
    return EXPECTED.get(problem["type"], message[:1].lower() + message[1:])


def _instead(value: Any, wrong: Set[str]) -> str:
    """How a number that stands there as text is to be written; empty if none was expected.

    Args:
        value: what was given.
        wrong: the names of pydantic's errors about it.
    """
    try:
        number = float(value) if isinstance(value, str) else math.nan
    except ValueError:
        return ""
    whole = number.is_integer() and abs(number) < LARGEST
    fitting = {"int_type", "float_type"} if whole else {"float_type"}
    if not (math.isfinite(number) and wrong & fitting):
        return ""
    # YAML 1.1 reads 1.0e-05 as a number, and 1e-05 as text.
    digits, power, exponent = repr(number).partition("e")
    written = f"{digits}{'' if '.' in digits or not power else '.0'}{power}{exponent}"
    return f" (YAML reads this as text: write {int(number) if whole else written})"


def each_once(names: list[T]) -> list[T]:
    """The names, if none stands twice; else raise :class:`BadInput`."""
    if len(set(names)) < len(names):
        raise BadInput(f"got {names!r}, expected each once")
    return names


# ---------------------------------------------------------------- what a field declares


def limits_of(field: FieldInfo) -> dict[str, float]:
    """The bounds of a field, or of the items of its list, by word ("at least", "above", ...)."""
    metadata = [*field.metadata, *getattr(_item(field.annotation), "__metadata__", ())]
    flat = [one for held in metadata for one in getattr(held, "metadata", [held])]
    return {
        word: getattr(one, key)
        for key, word in LIMITS.items()
        for one in flat
        if getattr(one, key, None) is not None
    }


def choices_of(field: FieldInfo) -> tuple[Any, ...] | None:
    """The only values that a field may have besides null; None: there is no such list."""
    kind = type_of(field)
    return typing.get_args(kind) if typing.get_origin(kind) is Literal else None


def type_of(field: FieldInfo) -> Any:
    """The type of a field, or of the items of its list, without null."""
    kind = _item(field.annotation)
    return typing.get_args(kind)[0] if hasattr(kind, "__metadata__") else kind


def is_nullable(field: FieldInfo) -> bool:
    """Whether null is allowed."""
    return types.NoneType in typing.get_args(field.annotation)


def is_list(field: FieldInfo) -> bool:
    """Whether the value is a list."""
    return typing.get_origin(_without_null(field.annotation)) is list


def extra_of(field: FieldInfo, name: str) -> Any:
    """What a field declares under a name that pydantic does not know; None if it does not."""
    extra = field.json_schema_extra
    return extra.get(name) if isinstance(extra, dict) else None


def _item(annotation: Any) -> Any:
    kind = _without_null(annotation)
    return typing.get_args(kind)[0] if typing.get_origin(kind) is list else kind


def _without_null(annotation: Any) -> Any:
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return next(part for part in typing.get_args(annotation) if part is not types.NoneType)
    return annotation
