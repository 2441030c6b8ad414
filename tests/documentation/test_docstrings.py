"""Public functions that take three things or more say what each of them is."""

import ast
from collections.abc import Iterator
from pathlib import Path

import noisyfl

PACKAGE = Path(noisyfl.__file__).parent

OTHERWISE = {
    "commands.py": "their parameters are described by --help, whose first lines the docstrings are",
    "documentation/site.py": "MkDocs says what a hook is called with",
}
"""Modules whose functions' parameters are described elsewhere."""


def functions(node: ast.AST) -> Iterator[tuple[ast.FunctionDef, tuple[str, ...]]]:
    """Public functions and methods, each with its parameters but for itself."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            yield from functions(child)
        elif isinstance(child, ast.FunctionDef) and not child.name.startswith("_"):
            given = [*child.args.posonlyargs, *child.args.args, *child.args.kwonlyargs]
            names = tuple(one.arg for one in given if one.arg not in ("self", "cls"))
            yield child, names


def is_claim(function: ast.FunctionDef) -> bool:
    """Whether its decorator says what each parameter is."""
    decorators = [node.func for node in function.decorator_list if isinstance(node, ast.Call)]
    return any(isinstance(node, ast.Name) and node.id == "claim" for node in decorators)


def test_public_functions_say_what_they_take():
    found = [
        (path.relative_to(PACKAGE).as_posix(), function, names)
        for path in sorted(PACKAGE.rglob("*.py"))
        for function, names in functions(ast.parse(path.read_text()))
        if len(names) >= 3
    ]
    assert len(found) > 200
    documented = {
        (function.name, names)
        for _, function, names in found
        if "Args:" in (ast.get_docstring(function) or "")
    }
    # What takes the same as one that says it, under the same name, fulfils its contract.
    missing = [
        f"{module}:{function.lineno} {function.name}({', '.join(names)})"
        for module, function, names in found
        if (function.name, names) not in documented
        and module not in OTHERWISE
        and not is_claim(function)
    ]
    assert not missing, "no Args: in the docstrings of\n" + "\n".join(missing)
