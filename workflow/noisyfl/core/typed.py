"""Models of what users configure, and pydantic's errors as :class:`BadInput`."""

from __future__ import annotations

import functools
import re
import types
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
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
            where: what the error messages call it; a file's name ends with ``": "``.
            context: what :meth:`prepare` and :meth:`verify` are given; with ``partial``, keys may
                be missing, and the model is good for nothing but to have been checked; with
                ``typed``, a text is no number.

        Raises:
            BadInput: naming ``where``, the key, the value and what was expected.
        """
        try:
            return cls.model_validate(raw, context=context)
        except ValidationError as error:
            raise bad_input(error, cls, raw).within(where=where) from None

    def as_given(self) -> dict[str, Any]:
        """The keys that were given, and their values."""
        return self.model_dump(exclude_unset=True, by_alias=True)

    @classmethod
    def keys(cls) -> dict[str, FieldInfo]:
        """The fields by the keys that a user writes."""
        return {field.alias or name: field for name, field in cls.model_fields.items()}

    @classmethod
    def prepare(cls, raw: Any, context: Mapping[str, Any]) -> Any:
        """Return what is validated instead of what was given."""
        return raw

    def verify(self, context: Mapping[str, Any]) -> None:
        """Raise :class:`BadInput` if values that are valid by themselves do not fit together."""

    @classmethod
    @functools.cache
    def _readers(cls) -> dict[str, Callable[[Any], Any]]:
        found = {key: _from_text(field) for key, field in cls.keys().items()}
        return {key: read for key, read in found.items() if read is not None}

    @model_validator(mode="wrap")
    @classmethod
    def _check(
        cls, raw: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:
        context = info.context or NO_CONTEXT
        prepared = cls.prepare(raw, context)
        if isinstance(prepared, Mapping):
            readers = {} if context.get("typed") else cls._readers()
            prepared = {k: readers[k](v) if k in readers else v for k, v in prepared.items()}
            for key, value in prepared.items():
                if isinstance(value, int) and abs(value) >= LARGEST:
                    raise BadInput(f"got {value!r}, expected a whole number below 2^63", key)
        try:
            made = handler(prepared)
        except ValidationError as error:
            missing = [problem["type"] == "missing" for problem in error.errors()]
            if context.get("partial") and all(missing):
                return cls.model_construct()
            raise bad_input(error, cls, prepared, context.get("partial", False)) from None
        if not context.get("partial"):
            made.verify(context)
        return made


def _from_text(field: FieldInfo) -> Callable[[Any], Any] | None:
    """What reads a value of a field that may be written as text; None for a field of text.

    Within a mapping or a list of ``--config``, Snakemake takes every value for text, and so does
    YAML 1.1 ``1e-5``. A whole number may be written as ``4.0``.
    """
    kind = _scalar(field.annotation)
    nullable = is_nullable(field)

    def read(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [read(one) for one in value]
        if isinstance(value, Mapping):
            return {key: read(one) for key, one in value.items()}
        if kind is bool and isinstance(value, str):
            return {"true": True, "false": False}.get(value, value)
        number = value
        if isinstance(value, str):
            with suppress(ValueError):
                number = float(value)
                number = int(value)  # exact, where it is one
        if isinstance(number, float) and kind is int:
            return int(number) if number.is_integer() else value
        return number

    if kind not in (bool, int, float):
        return (lambda value: None if value == "null" else value) if nullable else None
    return (lambda value: None if value == "null" else read(value)) if nullable else read


def _scalar(annotation: Any) -> Any:
    """The type of a value, or of the values in a list or a mapping."""
    annotation = _without_null(annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return type(arguments[0])
    if origin in (list, dict) or hasattr(annotation, "__metadata__"):
        return _scalar(arguments[-1] if origin is dict else arguments[0])
    return annotation


def bad_input(
    error: ValidationError, cls: type[Typed], raw: Any, partial: bool = False
) -> BadInput:
    """The first of pydantic's errors, with the value and the closest name; those about unknown keys
    come first.
    """
    problems = error.errors(include_url=False)
    problems = [p for p in problems if not (partial and p["type"] == "missing")]
    one = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    path, value = _locate(one, raw, cls)
    # Of the errors of a union's members, that of the member which was nearest to being right.
    within = [p for p in problems if _locate(p, raw, cls)[0][: len(path)] == path]
    one = max(within, key=lambda p: (len(_locate(p, raw, cls)[0]), _cause(p) is not None))
    path, value = _locate(one, raw, cls)
    if (cause := _cause(one)) is not None:
        return cause.within(*path)
    if one["type"] == "extra_forbidden":
        return BadInput(unknown(path[-1], cls.keys(), cls.key_word), *path[:-1])
    if one["type"] == "missing":
        field = cls.keys().get(str(path[-1])) if len(path) == 1 else None
        if field is None or not field.description:
            return BadInput(one["msg"], *path)
        values = " or ".join(map(repr, choices_of(field) or ()))
        meaning = f"{field.description}: {values}" if values else field.description
        return BadInput(f"{one['msg']} ({meaning})", *path)
    same = [p["msg"] for p in problems if _locate(p, raw, cls)[0] == path]
    message = " or ".join([same[0], *(m.removeprefix("Input should be ") for m in same[1:])])
    context = one.get("ctx", {})
    if one["type"] == "union_tag_invalid":
        message, value = f"Input should be {context['expected_tags']}", context["tag"]
        path = (*path, context["discriminator"].strip("'"))
    choices = context.get("expected", context.get("expected_tags", ""))
    hint = did_you_mean(str(context.get("tag", value)), re.findall("'(.*?)'", str(choices)))
    shown = repr(value)
    shown = shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}…"
    return BadInput(f"{message} (got {shown}){hint}", *path)


def _cause(problem: Mapping[str, Any]) -> BadInput | None:
    """What a validator of ours raised."""
    cause = problem.get("ctx", {}).get("error")
    return cause if isinstance(cause, BadInput) else None


def _locate(
    problem: Mapping[str, Any], raw: Any, cls: type[Typed]
) -> tuple[tuple[int | str, ...], Any]:
    """The path to a value and the value; pydantic's place, without its names of union members."""
    path: list[int | str] = []
    # A wrong default has its field's name, and no key in what was given.
    aliases = {name: field.alias or name for name, field in cls.model_fields.items()}
    last = next(reversed(problem["loc"]), "")
    for n, key in enumerate(problem["loc"]):
        is_item = isinstance(raw, list | tuple) and isinstance(key, int) and key < len(raw)
        if is_item or (isinstance(raw, Mapping) and key in raw):
            raw = raw[key]
        elif n == 0 and key in aliases:
            key = aliases[str(key)]
        elif problem["type"] != "missing" or key != last:
            continue
        path.append(key)
    if last == "[key]":
        return tuple(path[:-1]), path[-1]
    return tuple(path), raw


LIMITS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
"""By pydantic's name of a bound, its words in tables of options."""


def each_once(names: list[T]) -> list[T]:
    """The names, if none stands twice; else raise :class:`BadInput`."""
    if len(set(names)) < len(names):
        raise BadInput(f"got {[*map(str, names)]!r}, expected each once")
    return names


# ---------------------------------------------------------------- what a field declares


def limits_of(field: FieldInfo) -> dict[str, float]:
    """The bounds of a field, or of the items of its lists, by word ("at least", "above", ...)."""
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
    """The type of a field, or of the items of its lists, without null."""
    kind = _item(field.annotation)
    return typing.get_args(kind)[0] if hasattr(kind, "__metadata__") else kind


def is_nullable(field: FieldInfo) -> bool:
    """Whether null is allowed."""
    return types.NoneType in typing.get_args(field.annotation)


def is_option_type(annotation: Any) -> bool:
    """Whether an option may have a type: of a number, a text or a choice, of a list of these, or of
    one of them and null.
    """
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (types.UnionType, typing.Union):
        return all(part is types.NoneType or is_option_type(part) for part in arguments)
    if origin in (list, typing.Annotated):
        return is_option_type(arguments[0])
    return origin is Literal or annotation in (bool, int, float, str)


def is_list(field: FieldInfo) -> bool:
    """Whether the value is a list."""
    return typing.get_origin(_without_null(field.annotation)) is list


def extra_of(field: FieldInfo, name: str) -> Any:
    """What a field declares under a name that pydantic does not know; None if it does not."""
    extra = field.json_schema_extra
    return extra.get(name) if isinstance(extra, dict) else None


def _item(annotation: Any) -> Any:
    kind = _without_null(annotation)
    while typing.get_origin(kind) is list:
        kind = typing.get_args(kind)[0]
    return kind


def _without_null(annotation: Any) -> Any:
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return next(part for part in typing.get_args(annotation) if part is not types.NoneType)
    return annotation
