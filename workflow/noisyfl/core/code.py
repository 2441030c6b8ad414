"""The code of components, whose digest stands for them while they are being written."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import sysconfig
from pathlib import Path

from noisyfl.core.places import PACKAGE


@functools.cache
def code_digest(*modules: str) -> str:
    """SHA-256 of the code of components: the code of their modules, and of all modules among the
    methods, or of the same plugin, that these import, but for comments, docstrings and layout.

    Args:
        modules: by name, ``noisyfl.methods.fedavg``.
    """
    digest = hashlib.sha256()
    for name, code in sorted(_imported(modules).items()):
        digest.update(f"{name}\n{code}\n".encode())
    return digest.hexdigest()


def source_file(module: str) -> Path | None:
    """The source file of a module; None if there is none."""
    if module.startswith(f"{PACKAGE.name}."):
        path = PACKAGE.parent.joinpath(*module.split(".")).with_suffix(".py")
        return path if path.exists() else None
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError):  # a name in a module, or a module without a spec
        return None
    return Path(found.origin) if found and found.origin else None


def _imported(modules: tuple[str, ...]) -> dict[str, str]:
    """The code of modules and of the methods' modules that they import, by name; of a plugin, also
    all that they import of a user's own files.
    """
    own = (f"{PACKAGE.name}.methods.", *(f"{module.partition('.')[0]}." for module in modules))
    own = tuple(prefix for prefix in own if prefix != f"{PACKAGE.name}.")
    found: dict[str, str] = {}
    wanted = [*modules]
    while wanted:
        name = wanted.pop()
        path = source_file(name)
        if name in found or path is None:
            continue
        package = name if path.stem == "__init__" else name.rpartition(".")[0]
        found[name], names = _code_and_imports(path.read_text(), package)
        ours = name.startswith(f"{PACKAGE.name}.")
        wanted += [
            one
            for one in names
            if f"{one}.".startswith(own) or (not ours and _is_a_users(one.partition(".")[0]))
        ]
    return found


@functools.cache
def _is_a_users(module: str) -> bool:
    """Whether a module that is in no other is in a file of a user's, and in no library's."""
    path = source_file(module)
    libraries = (sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
    return (
        path is not None
        and path.suffix == ".py"
        and not path.is_relative_to(PACKAGE)
        and not any(path.is_relative_to(library) for library in libraries)
    )


@functools.cache
def _code_and_imports(text: str, package: str) -> tuple[str, list[str]]:
    """The code of a module in a package without comments, docstrings and layout, and the names that
    it may import: each that it names may be a module.
    """
    tree = ast.parse(text)
    imported = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported += [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                module = importlib.util.resolve_name("." * node.level + module, package)
            imported += [module, *(f"{module}.{alias.name}" for alias in node.names)]
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            match node.body:
                case [ast.Expr(value=ast.Constant(value=str())), *rest]:
                    node.body = rest or [ast.Pass()]
    return ast.unparse(tree), imported
