"""Plugins: methods, models, datasets and other components from outside this package.

A plugin is an installed package that names its components as entry points in the groups
``noisyfl.methods``, ``noisyfl.models``, ... (:data:`COMPONENTS`), or a single Python file. Whoever
reads or makes specs loads them first, in every process.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoint, entry_points
from pathlib import Path
from typing import Any

from pydantic import PydanticUserError, ValidationError

from noisyfl.core.options import BadInput, did_you_mean, within
from noisyfl.core.paths import expanded

GROUPS = {
    "noisyfl.methods": "method",
    "noisyfl.models": "model",
    "noisyfl.datasets": "dataset",
    "noisyfl.partitions": "partition",
    "noisyfl.label_noises": "label noise",
    "noisyfl.noise_levels": "noise level",
}
"""The groups of entry points, and what is registered by the modules that they name."""

COMPONENTS: dict[str, MutableMapping[str, Any]] = {}
"""By kind, the components that are registered so far, by name."""


@dataclass(frozen=True)
class Plugin:
    """An installed package or a file.

    Attributes:
        sha256: of its sources.
        modules: the top-level modules that its components are in.
        path: of the file; None for a package.
    """

    name: str
    version: str
    sha256: str
    modules: tuple[str, ...]
    path: Path | None = None
    entries: tuple[EntryPoint, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} {self.version}".rstrip()

    def facts(self) -> dict[str, str]:
        """What provenance records of it."""
        version = {"version": self.version} if self.version else {}
        return {**version, "sha256": self.sha256}


_loaded: dict[str, Plugin] = {}
"""By top-level module, the plugins that this process has loaded."""


def plugin_of(module: str) -> Plugin | None:
    """The loaded plugin that a module belongs to; None for this package's own."""
    return _loaded.get(module.partition(".")[0])


def is_of_plugin(file: str) -> bool:
    """Whether a source file belongs to a loaded plugin."""
    modules = [*sys.modules.items()]
    return any(getattr(one, "__file__", None) == file for name, one in modules if plugin_of(name))


def loaded_files() -> list[str]:
    """The files of the plugins that this process has loaded."""
    return [str(plugin.path) for plugin in _loaded.values() if plugin.path is not None]


def facts_of(modules: Iterable[str]) -> dict[str, dict[str, str]]:
    """What provenance records of the plugins that modules belong to, by the plugins' names."""
    found = {plugin.name: plugin for module in modules if (plugin := plugin_of(module))}
    return {name: plugin.facts() for name, plugin in sorted(found.items())}


def find_plugins(files: Iterable[str]) -> list[Plugin]:
    """The plugins that are installed, and those in files, without importing any.

    Args:
        files: paths; ``~`` and environment variables in them are expanded. A file may be there
            twice: in a scale and on the command line, say.

    Raises:
        BadInput: a file is not there; or two plugins have the same module.
    """
    found = [*_installed(), *dict.fromkeys(map(_in_file, files))]
    by_module: dict[str, Plugin] = {}
    for plugin in found:
        for module in plugin.modules:
            other = by_module.setdefault(module, plugin)
            if other is not plugin:
                places = " and ".join(str(one.path or one) for one in (other, plugin))
                raise BadInput(f"plugins: got {places}, expected plugins of different names")
    return found


def load(files: Iterable[str]) -> None:
    """Import the plugins that are installed, and those in files, each once in a process.

    Raises:
        BadInput: a plugin cannot be found or imported, or takes a name that is taken; names the
            line of it. Or its file has changed since it was imported here.
    """
    for plugin in find_plugins(files):
        before = next((_loaded[name] for name in plugin.modules if name in _loaded), None)
        if before is None:
            with _all_or_nothing(plugin):
                _import(plugin)
        elif before.sha256 != plugin.sha256:
            raise BadInput(
                f"plugin {plugin}: it has changed since this process loaded it; restart Python"
            )


@contextmanager
def naming_the_line(is_own: Callable[[str], bool], of: str = "") -> Iterator[None]:
    """Raise a :class:`BadInput` of one line for any error that occurs while code is imported."""
    try:
        yield
    except (Exception, SystemExit) as error:
        raise BadInput(f"{of}{with_line(error, is_own)}") from error


def with_line(error: Exception | SystemExit, is_own: Callable[[str], bool]) -> str:
    """An error in one line: the innermost file and line of the user, its type, and what it says."""
    if isinstance(error, SyntaxError):
        place, why = f"{error.filename}, line {error.lineno}: ", str(error.msg)
    else:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if is_own(frame.filename)]
        place = f"{own[-1].filename}, line {own[-1].lineno}: " if own else ""
        why = " ".join(str(error).split())
    if told := _of_pydantic(error):
        return f"{place}{told}"
    kind = "" if isinstance(error, BadInput) else f"{type(error).__name__}: "
    return f"{place}{kind}{why}"


def _of_pydantic(error: BaseException) -> str:
    """What an author of a component has to know of an error of pydantic's; empty if it is none."""
    if isinstance(error, PydanticUserError) and error.code == "model-field-missing-annotation":
        if option := re.match("Field '(.*?)' requires", str(error)):
            name = option[1]
            return f"got {name} without a type, expected one, as in `{name}: float = option(1.0)`"
        written = re.findall("`(.*?)`", str(error))[0]
        known = {
            name
            for classes in COMPONENTS.values()
            for cls in classes.values()
            for name in getattr(cls, "__class_vars__", ())
        }
        hint = did_you_mean(written.partition(" ")[0], known)
        return f"got {written}, expected an option, as in `strength: float = option(1.0)`{hint}"
    if isinstance(error, ValidationError) and error.errors()[0]["type"] == "frozen_instance":
        name = error.errors()[0]["loc"][0]
        return f"got self.{name} = ..., expected what changes in federation.state or client.state"
    return ""


def _installed() -> list[Plugin]:
    """The packages with entry points in :data:`GROUPS`, by name."""
    found = entry_points()
    packages: dict[Distribution, list[EntryPoint]] = {}
    for group in sorted(found.groups):
        if group.startswith("noisyfl."):
            for entry in found.select(group=group):
                assert entry.dist is not None, "entry points of packages know theirs"
                packages.setdefault(entry.dist, []).append(entry)
    plugins = []
    for package, entries in packages.items():
        name, version = package.name, package.version
        for entry in entries:
            if entry.group not in GROUPS:
                raise BadInput(
                    f"plugin {name} {version}: got entry points of the group {entry.group!r}, "
                    f"expected one of {', '.join(GROUPS)}"
                )
        modules = sorted({entry.module.partition(".")[0] for entry in entries})
        sha256 = _digest(path for module in modules for path in _sources(module))
        plugins.append(Plugin(name, version, sha256, tuple(modules), entries=tuple(entries)))
    return sorted(plugins, key=lambda plugin: plugin.name)


def _sources(module: str) -> list[Path]:
    """The source files of a top-level module, found without importing it."""
    spec = importlib.util.find_spec(module)
    if spec is None:  # whoever imports it says so
        return []
    if spec.submodule_search_locations is None:
        return [Path(spec.origin)] if spec.origin else []
    folders = map(Path, spec.submodule_search_locations)
    return [path for folder in folders for path in sorted(folder.rglob("*.py"))]


def _in_file(file: str) -> Plugin:
    with within("plugins"):
        path = Path(expanded(file))
    if path.suffix != ".py" or not path.is_file():
        there = "" if path.exists() else f", and there is none at {path.absolute()}"
        raise BadInput(f"plugins: got {file!r}, expected a Python file{there}")
    module = "noisyfl_plugin_" + re.sub(r"\W", "_", path.stem)
    return Plugin(path.name, "", _digest([path]), (module,), path.resolve())


def _digest(paths: Iterable[Path]) -> str:
    """SHA-256 of files, independent of their folder."""
    digest = hashlib.sha256()
    for path in paths:
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def _import(plugin: Plugin) -> None:
    of = f"plugin {plugin}: "
    if plugin.path is not None:
        before = _registered()
        with naming_the_line(lambda file: Path(file) == plugin.path, of):
            _execute(plugin.path, plugin.modules[0])
        if _registered() == before:
            raise BadInput(f"{of}it registers nothing, expected a {' or a '.join(GROUPS.values())}")
    for entry in plugin.entries:
        kind = GROUPS[entry.group]
        folders = [path.parent for path in _sources(entry.module.partition(".")[0])]
        with naming_the_line(lambda file, own=folders: Path(file).parent in own, of):  # type: ignore[misc]
            entry.load()
        if entry.name not in COMPONENTS.get(kind, {}):
            raise BadInput(
                f"{of}the entry point {entry.name!r} of {entry.group} leads to {entry.value}, "
                f"which registers no {kind} of that name"
            )


def _execute(path: Path, name: str) -> None:
    """Import a file as a module of that name."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # Cached bytecode may be that of an edit in the same second, if the file has the same size.
    exec(compile(path.read_bytes(), path, "exec"), module.__dict__)


def _registered() -> dict[str, set[str]]:
    return {kind: set(components) for kind, components in COMPONENTS.items()}


@contextmanager
def _all_or_nothing(plugin: Plugin) -> Iterator[None]:
    """If a plugin cannot be imported, take out what it has registered, so that a mended one can."""
    before = _registered()
    _loaded.update(dict.fromkeys(plugin.modules, plugin))
    try:
        yield
    except BadInput:
        for kind, components in COMPONENTS.items():
            for name in set(components) - before.get(kind, set()):
                if plugin_of(module_of(components[name])) is plugin:
                    del components[name]
        for module in plugin.modules:
            del _loaded[module]
            for name in [*sys.modules]:
                if name.partition(".")[0] == module:
                    del sys.modules[name]
        raise


def module_of(component: Any) -> str:
    """The name of the module that a component was written in: that of its class, or of the function
    that loads a dataset.
    """
    if not isinstance(component, type):
        component = getattr(component.load, "func", component.load)
    return str(component.__module__)


def add(known: MutableMapping[str, Any], kind: str, name: str, component: Any) -> None:
    """Register a component under its name.

    Args:
        kind: what it is, in the words of the error messages.
        name: small letters, digits and underscores.

    Raises:
        BadInput: the name is none; or it is taken, and who has it is named.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise BadInput(f"got the {kind} {name!r}, expected small letters, digits and underscores")
    if name in known:
        modules = (module_of(one) for one in (known[name], component))
        one, other = (plugin_of(module) or module for module in modules)
        raise BadInput(f"two {kind}s are called {name!r}: that of {one} and that of {other}")
    known[name] = component
