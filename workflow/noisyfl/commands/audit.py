"""The command that says which given labels may be wrong."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from noisyfl.commands.parser import FLAGS
from noisyfl.data.roots import Roots
from noisyfl.experiments.audit import Audit, RunsFailed, audit_runs, specs_to_audit, what_to_audit
from noisyfl.experiments.config import check_folder, check_writable
from noisyfl.experiments.places import Places

SHOWN = 10
"""How many samples and pairs of classes are printed."""


def audit_labels(
    runs: list[str],
    to: Path,
    results: Path,
    data: Roots,
    download: bool,
    device: str,
    *,
    setting: Mapping[str, Any],
    methods: Sequence[str],
    like: str | None,
    scale: str | None,
    seeds: int | None,
    at_once: int | None,
) -> None:
    """List the given labels that are probably wrong, in tables of samples, clients and classes, and
    on pages with the images.

    Give the ids of runs, or methods that are trained on the dataset as it is. Runs that have not
    kept what they found of each label (train --keep-labels) are trained once more for it.
    """
    check_folder(to, "--to")
    check_writable(to, "--to")
    places = Places(results, data, download, device, at_once)
    if runs:
        more = bool(methods or setting or like or scale or seeds)
        specs = specs_to_audit(runs, more, places, "RUN")
    else:
        wanted = what_to_audit(methods, setting, places.own, seeds, like, scale, NAMES)
        print(f"Setting: {wanted.describe()}", flush=True)
        for remark in wanted.remarks():
            print(f"Warning: {remark}", file=sys.stderr)
        specs = list(wanted.runs.values())

    def say(line: str) -> None:
        print(line, file=sys.stderr)

    try:
        found = audit_runs(specs, places, say, lambda line: say(f"Warning: {line}"))
    except KeyboardInterrupt:
        say("stopped; finished runs are kept, and the same command continues")
        sys.exit(130)
    except RunsFailed as failure:
        sys.exit(str(failure))
    found.write(to)
    print("\n".join(found.about), end="\n\n")
    print(_text(found))
    if found.scores:
        scores = ", ".join(f"{name} {score:.1%}" for name, score in found.scores.items())
        print(f"Compared with the true labels, which are known here: {scores}")
    tables = "samples.csv, clients.csv, classes.csv (and .parquet), labels.csv"
    print(f"wrote {to}/{tables}, and {to}/index.html")


NAMES = {**FLAGS, "methods": "--method"}
"""What the command line calls the keys of a setting."""


def _text(found: Audit) -> str:
    """The first samples, the most confused classes and all clients, as text."""
    client = "client_name" if "client_name" in found.clients else "client"
    shown = found.samples.head(SHOWN)[
        [client, "image", "given_label", "suggested_label", "given_probability"]
    ]
    columns = [client, "samples", "suspected", "noise_level", "left_out", "flagged", "in_sample"]
    return "\n\n".join(
        table.to_string(index=False, float_format=lambda value: f"{value:.2f}", na_rep="")
        for table in (shown, found.classes.head(SHOWN), found.clients[columns])
        if len(table)
    )
