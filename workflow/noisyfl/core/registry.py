"""Components with options, known by name.

Every partition, label noise, noise level, model and method is a :class:`Component` in a
:class:`Registry`. A user writes one as ``dirichlet(alpha=0.5, clients=100)`` or as a mapping. From
its mapping with every default filled in the id of a run is made.
"""

from __future__ import annotations

import ast
import functools
import inspect
import math
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Generic, TypeVar

from pydantic import Field

from noisyfl.core.code import code_digest
from noisyfl.core.hooks import check_hooks, check_returned
from noisyfl.core.options import BadInput, check_keys, did_you_mean, find, within
from noisyfl.core.plugins import COMPONENTS, add, plugin_of
from noisyfl.core.typed import Typed, extra_of, is_option_type

LONGEST = 2_000
"""Most characters of a component that is given as text."""

UNREADABLE = (SyntaxError, ValueError, TypeError, MemoryError, RecursionError)
"""What Python's parser may raise; deep nesting in a text exhausts its stack or its memory."""

YAML_WORDS = {"true": True, "false": False, "null": None}
"""YAML's words for constants, which are accepted beside Python's own."""


class Component(Typed):
    """A component, with an option for each of its fields.

    Attributes:
        name: set by the registry.
        revision: of a method, or a plugin's component: raised when the arithmetic changes; runs of
            older revisions go stale. As long as it is 0, the component is being written, and each
            edit of its code makes new runs. A plugin's component that names none has 0.
        variants: named sets of options, as the papers' ablations have them.
    """

    key_word: ClassVar[str] = "option"

    name: ClassVar[str]
    revision: ClassVar[Annotated[int, Field(ge=0)]] = 1
    variants: ClassVar[dict[str, dict[str, Any]]] = {}

    @classmethod
    def prepare(cls, raw: Any, context: Mapping[str, Any]) -> Any:
        """The given options, those of a given variant, and defaults that scale with the run.

        Args:
            context: may have ``measures``, by name: what defaults scale with, and values are
                bounded by; and ``partial``: whether options may be missing.
        """
        if not isinstance(raw, Mapping):
            return raw
        options = dict(raw)
        revision = cls.revision_or_digest() if plugin_of(cls.__module__) else None
        if revision is not None and options.pop("revision", revision) != revision:
            raise BadInput(
                f"got {raw['revision']!r}, expected {revision!r}, that of the plugin here: it has "
                "changed",
                "revision",
            )
        if "variant" in options and cls.variants:
            variant = options.pop("variant")
            if not isinstance(variant, str) or variant not in cls.variants:
                known = ", ".join(cls.variants)
                hint = did_you_mean(str(variant), cls.variants)
                raise BadInput(f"got {variant!r}{hint} (known: {known})", "variant")
            options = {**cls.variants[variant], **options}
        for key, value in options.items():
            if isinstance(value, tuple):  # in a component that is written as text
                options[key] = list(value)
        if measures := context.get("measures"):
            for key, (measure, whole) in cls.extras("share_of").items():
                if key not in options and measure in measures:
                    default = cls.model_fields[key].default
                    scaled = math.floor(default * measures[measure] / whole + 0.5)
                    options[key] = max(1, scaled)
        return options

    def verify(self, context: Mapping[str, Any]) -> None:
        """Raise :class:`BadInput` if an option exceeds what it is bounded by."""
        for key, bound in self.extras("at_most_of").items():
            measures = context.get("measures") or {}
            most = getattr(self, bound) if bound in type(self).model_fields else measures.get(bound)
            value = getattr(self, key)
            if value is not None and most is not None and value > most:
                raise BadInput(f"got {value!r}, expected at most {most:g} ({bound})", key)

    def options(self) -> dict[str, Any]:
        """The value of every option, as JSON has it, but for those that specs leave out."""
        later = {
            key
            for key in self.extras("added_later")
            if getattr(self, key) == type(self).model_fields[key].default
        }
        return self.model_dump(mode="json", exclude=later)

    @classmethod
    def revision_or_digest(cls) -> int | str:
        """What stands for the component's arithmetic in a spec: its revision, or as long as that is
        0, part of the digest of its code, so that each edit makes other runs.
        """
        return cls.revision or f"0-{code_digest(cls.__module__)[:12]}"

    def canonical(self) -> dict[str, Any]:
        """``{"name": ..., option: value, ...}`` as JSON has it, and of a plugin's component the
        revision; this package's own, but for methods, have one revision together.
        """
        of_plugin = plugin_of(type(self).__module__) is not None
        revision = {"revision": self.revision_or_digest()} if of_plugin else {}
        return {"name": self.name, **self.options(), **revision}

    @classmethod
    def lacking(cls) -> list[str]:
        """The functions that a class has to define before it can be registered."""
        return sorted(getattr(cls, "__abstractmethods__", ()))

    @classmethod
    def check_options(cls, raw: Any) -> None:
        """Raise :class:`BadInput` if options are wrong; they may be missing."""
        cls.read(raw, partial=True)

    @classmethod
    def defaults(cls, measures: Mapping[str, float] | None = None) -> dict[str, Any]:
        """The defaults of all options that have one, as JSON has them.

        Args:
            measures: of a run, which some defaults scale with; without them, they are the paper's.
        """
        fields = cls.model_fields.items()
        found = {key: field.default for key, field in fields if not field.is_required()}
        return found | cls.prepare({}, {"measures": measures})

    @classmethod
    @functools.cache
    def extras(cls, name: str) -> dict[str, Any]:
        """What options declare under a name that pydantic does not know, such as ``share_of``."""
        found = {key: extra_of(field, name) for key, field in cls.model_fields.items()}
        return {key: value for key, value in found.items() if value is not None}


C = TypeVar("C", bound=Component)
D = TypeVar("D", bound=Component)


class Registry(Generic[C]):
    """Components of one kind by name.

    Args:
        kind: what they are, in the words of the error messages ("partition").
        bases: the classes of which each is a subclass of one.

    Attributes:
        classes: by name, in the order in which they were registered.
    """

    def __init__(self, kind: str, *bases: type) -> None:
        self.kind = kind
        self.bases = bases
        self.classes: dict[str, type[C]] = {}
        COMPONENTS[kind] = self.classes
        self._built: dict[str, C] = {}

    def register(self, name: str) -> Callable[[type[D]], type[D]]:
        """Class decorator: register the class as ``name``.

        Raises:
            BadInput: the class is not of this kind or lacks a function, a hook's name is misspelled
                (:func:`check_hooks`), an option has a type that no option may have, or the
                component's name is taken.
        """

        def register(cls: type[D]) -> type[D]:
            self._check(name, cls)
            add(self.classes, self.kind, name, cls)
            check_returned(cls, self.bases)
            cls.name = name
            # An inherited revision says nothing of the code here, which may change at any time.
            if plugin_of(cls.__module__) and "revision" not in vars(cls):
                cls.revision = 0
            return cls

        return register

    def _check(self, name: str, cls: type[Component]) -> None:
        if not issubclass(cls, self.bases):
            expected = " or a ".join(base.__name__ for base in self.bases)
            raise BadInput(f"{self.kind} {name!r}: {cls.__name__} is not a {expected}")
        if lacking := cls.lacking():
            raise BadInput(f"{self.kind} {name!r}: {cls.__name__} has no {lacking[0]}")
        of = f"{self.kind} {name!r}: "
        check_hooks(cls, self.bases, of)
        cls.read(cls.defaults(), f"{of}default: ", partial=True, typed=True)
        for option, field in cls.model_fields.items():
            if not is_option_type(field.annotation):
                raise BadInput(
                    f"{of}{option}: got the type {inspect.formatannotation(field.annotation)}, "
                    "expected int, float, bool, str, a Literal, a list of one of them, such as "
                    "list[float], or one of these with `| None`"
                )

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self.classes)

    def get(self, name: str, where: str = "") -> type[C]:
        """The class registered as ``name``; :class:`BadInput` if there is none."""
        return find(self.classes, name, self.kind, where)

    def build(self, raw: str | Mapping[str, Any], where: str = "") -> C:
        """The component that ``raw`` (text or mapping) describes.

        Components are cached, since a scale names few, thousands of times each.

        Raises:
            BadInput: unknown name or key, missing option, wrong type, or value out of range.
        """
        key = repr(raw)
        if key not in self._built:
            name, options = split_component(raw, self.kind, where)
            known = isinstance(name, str) and name in self.classes
            with within(*([name] if known else []), where=where):
                self._built[key] = self.get(name).read(options)
        return self._built[key]

    def forget_built(self) -> None:
        """Build components again from now on, so that nothing is left of what they keep."""
        self._built.clear()


@functools.lru_cache
def _expression(text: str) -> ast.expr:
    """The syntax tree of a text; cached, since a scale has few texts, thousands of times each."""
    return ast.parse(text, mode="eval").body


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Name) and node.id in YAML_WORDS:
        return YAML_WORDS[node.id]
    if isinstance(node, ast.List):
        return [_literal(element) for element in node.elts]
    return ast.literal_eval(node)


def parse_component(text: str, where: str = "") -> dict[str, Any]:
    """Read ``name`` or ``name(key=value, ...)`` with literal values into a mapping.

    Raises:
        BadInput: if the text is neither, or a value is not a literal.
    """
    if re.fullmatch(r"\w+(-\w+)+", text[:LONGEST]):  # whoever knows the names suggests one
        return {"name": text}
    expected = (
        "expected name or name(key=value, ...) with texts in quotes, such as "
        'dirichlet(alpha=0.5, clients=100) or images(path="mine")'
    )
    if len(text) > LONGEST:
        raise BadInput(f"got {len(text):,} characters, {expected}", where=where)
    try:
        match _expression(text):
            case ast.Name(id=name):
                return {"name": name}
            case ast.Call(ast.Name(id=name), [], words) if all(word.arg for word in words):
                options = [(str(word.arg), _literal(word.value)) for word in words]
            case _:
                raise ValueError("it is neither")
    except UNREADABLE as error:
        raise BadInput(f"cannot read {text!r}; {expected}", where=where) from error
    keys = [key for key, _ in options]
    if "name" in keys:
        raise BadInput(
            f"cannot read {text!r}: no option is called 'name'; images and file have 'title'",
            where=where,
        )
    for key in keys:
        if keys.count(key) > 1:
            raise BadInput(
                f"cannot read {text!r}: {key!r} is given twice, expected it once", where=where
            )
    return {"name": name, **dict(options)}


def split_sum(text: str) -> list[str]:
    """The components of ``one(key=value)+another``, as texts; a text without a plus is one."""
    parts: list[str] = []
    try:
        node = _expression(text[: LONGEST + 1])
        while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            parts.insert(0, ast.unparse(node.right))
            node = node.left
        return [ast.unparse(node), *parts] if parts else [text]
    except UNREADABLE:
        return [text]


def split_component(raw: Any, kind: str, where: str = "") -> tuple[str, dict[str, Any]]:
    """The name and the options of a component given as text or as a mapping.

    Args:
        raw: ``name(key=value)``, or a mapping with a ``name``.
    """
    mapping = parse_component(raw, where) if isinstance(raw, str) else raw
    if not isinstance(mapping, Mapping) or not isinstance(mapping.get("name"), str):
        raise BadInput(f"got {raw!r}, expected the name of a {kind}", where=where)
    return mapping["name"], {key: value for key, value in mapping.items() if key != "name"}


def split_method(raw: str | Mapping[str, Any], where: str = "") -> list[dict[str, Any]]:
    """The one or two parts of a method, each with its name and its given options.

    Args:
        raw: ``fedavg``, ``fedprox(mu=0.1)``, ``krum(byzantine=1)+dividemix``; or a mapping, of
            one method's name and options, or of two methods under ``parts``.

    Raises:
        BadInput: it is none of these.
    """
    if isinstance(raw, Mapping) and "parts" in raw:
        parts = raw["parts"]
        check_keys(raw, ("name", "parts"), where)
        if not isinstance(parts, list) or len(parts) != 2:
            raise BadInput(f"got {parts!r}, expected two methods", "parts", where=where)
    else:
        parts = split_sum(raw) if isinstance(raw, str) else [raw]
        if len(parts) > 2:
            raise BadInput(f"got {raw!r}, expected one method or two", where=where)
    split = [split_component(part, "method", where) for part in parts]
    return [{"name": name, **options} for name, options in split]


def parts_of(method: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Canonical methods that make up a canonical method: itself, or the two of a combination."""
    return method.get("parts", [method])
