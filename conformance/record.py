"""Recording the official codes' numbers, and comparing our code's with them."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from conformance import COMMITS, FOLDER, checkout, patches
from conformance.recorders import steps
from conformance.steps import Code, Step, packed

VECTORS = FOLDER / "vectors"
"""The folder with a file for each repository: its commit, and each step's inputs and outputs."""


def path_of(repository: str) -> Path:
    """The path of a repository's file."""
    return VECTORS / f"{repository.partition('/')[2].lower()}.json"


def recorded(repository: str) -> dict[str, Any]:
    """The content of a repository's file."""
    return json.loads(path_of(repository).read_text())


def record(repository: str, official: Path) -> dict[str, Any]:
    """Run the official code of every step. This must be called in a process of its own.

    Args:
        repository: ``OWNER/NAME``, whose steps are run.
        official: the folder of checkouts.

    Returns:
        What the repository's file should hold.
    """
    patches.apply()
    code = Code(checkout(official, repository))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {step.name: _record(step, code) for step in steps(repository)}
    return {"repository": repository, "commit": COMMITS[repository], "steps": found}


def _record(step: Step, code: Code) -> dict[str, Any]:
    given = as_read(step.inputs(np.random.RandomState(step.seed)))
    first, last = step.lines if any(step.lines) else code.lines(step.file, step.function)
    return {
        "file": step.file,
        "function": step.function,
        "lines": [first, last],
        "inputs": given,
        "outputs": as_read(step.official(code, given)),
    }


def as_read(values: dict[str, Any]) -> dict[str, Any]:
    """Values as they are after they have been written as JSON and read again."""
    return json.loads(json.dumps(packed(values)))


def difference(step: Step, kept: dict[str, Any]) -> float:
    """The difference of our code's outputs from the recorded ones; see :meth:`Step.difference`."""
    return step.difference(as_read(step.ours(kept["inputs"])), kept["outputs"])


def text_of(vectors: dict[str, Any]) -> str:
    """The text of a repository's file, with one line for each input and output."""
    lines = ["{"]
    lines += [f' "{key}": {json.dumps(vectors[key])},' for key in ("repository", "commit")]
    lines.append(' "steps": {')
    for name, step in vectors["steps"].items():
        lines.append(f'  "{name}": {{')
        for key in ("file", "function", "lines"):
            lines.append(f'   "{key}": {json.dumps(step[key])},')
        for key in ("inputs", "outputs"):
            lines.append(f'   "{key}": {{')
            entries = [f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in step[key].items()]
            lines.append(",\n".join(entries))
            lines.append("   }," if key == "inputs" else "   }")
        lines.append("  }," if name != list(vectors["steps"])[-1] else "  }")
    return "\n".join([*lines, " }", "}", ""])
