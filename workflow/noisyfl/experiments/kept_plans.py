"""The plans made from experiment files, kept in the user's cache folder.

Every Snakemake process needs the plan of the whole scale, even one that a cluster's job starts.
Making that of the paper scale takes longer than all else that such a process does before it can
begin.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from noisyfl.core.options import reading
from noisyfl.experiments.plan import Plan
from noisyfl.specs.catalogue import keep, kept_file
from noisyfl.specs.descriptions import FigureDescription, TableDescription
from noisyfl.specs.sources import digest_of
from noisyfl.specs.spec import identity


def kept_plan(make: Callable[[], Plan], config: Mapping[str, Any], *files: Path) -> Plan:
    """The kept plan if the same sources made it from the same input; otherwise, make and keep it.

    A kept plan that was altered is made anew.

    Args:
        make: returns the plan, or raises what is wrong with the files.
        config: all of the configuration that the plan is made from.
        files: the other files that it is made from; the kept plan is named after the first.
    """
    digest = hashlib.sha256(digest_of(".").encode())
    digest.update(json.dumps(config).encode())
    for path in files:
        with reading(str(path)):
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    file = kept_file(f"plan_{files[0].stem}", digest.hexdigest())
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        return _read(file.read_text())
    plan = make()
    text = json.dumps(asdict(plan))
    keep(file, f"{_checksum(text)}\n{text}")
    return plan


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _read(content: str) -> Plan:
    """The plan in a kept file: a checksum in the first line, and JSON in the second.

    Raises:
        ValueError: it was altered.
    """
    checksum, _, text = content.partition("\n")
    if checksum != _checksum(text):
        raise ValueError("the plan does not fit its checksum")
    given: Mapping[str, Any] = json.loads(text)
    for named in (given["runs"], given["partitions"]):
        # Whatever else is wrong: a run must never be trained under the id of another one.
        if any(identity(spec) != name for name, spec in named.items()):
            raise ValueError("an id is not that of its spec")
    tables = {name: TableDescription.read(table) for name, table in given["tables"].items()}
    figures = {name: FigureDescription.read(figure) for name, figure in given["figures"].items()}
    return Plan(**{**given, "tables": tables, "figures": figures})
