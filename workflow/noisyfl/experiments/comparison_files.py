"""A comparison as files that Snakemake reads, and as a figure: both have the same runs."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import Any

import yaml

from noisyfl.core.artifacts import write_text
from noisyfl.core.options import BadInput
from noisyfl.core.paths import from_here
from noisyfl.core.plugins import loaded_files
from noisyfl.experiments.comparison import MethodComparison
from noisyfl.experiments.config import check_config, check_writable
from noisyfl.experiments.places import Places
from noisyfl.specs.descriptions import (
    CellDescription,
    FigureDescription,
    Heading,
    TableDescription,
)
from noisyfl.specs.identity import identity

CURVES: Any = {
    "kind": "by_round",
    "title": "Test accuracy by round",
    "caption": "Mean over seeds, with a band of one standard deviation.",
}
"""The figure by round, as an experiment's file has it."""

NOTE = "Written by `noisyfl compare`."
"""The note of a scale that :func:`write_scale` has written."""


def check_target(path: Path) -> None:
    """Raise :class:`BadInput` unless a scale of this name can be written, in place of none or of
    one that was written so.
    """
    if path.suffix not in (".yaml", ".yml"):
        raise BadInput(f"{path}: expected a name that ends with .yaml")
    for file in (path, path.with_suffix("") / f"{path.stem}.yaml"):
        if file.exists() and not (path.exists() and NOTE in path.read_text(encoding="utf-8")):
            raise BadInput(f"{file}: it exists, and was not written by noisyfl compare")
    check_writable(path, "save")
    check_config({"scale": path.stem, "experiments": [path.stem]}, str(path))


def figure_of(wanted: MethodComparison, there: Container[str]) -> FigureDescription:
    """The figure of those runs whose ids ``there`` has: the test accuracy against a number that the
    settings differ in, or else by round.
    """
    about: dict[str, Any] = {
        "experiment": "compare",
        "experiment_title": "Comparison",
        "scale": "compare",
    }
    settings = wanted.settings
    table = TableDescription(
        **about,
        name="methods",
        title=settings[0].name if len(settings) == 1 else "Comparison",
        metric="test_accuracy",
        statistic="mean_last_10",
        columns=tuple(
            Heading(name=one.name, label=one.name, x=one.swept.get(wanted.axis)) for one in settings
        ),
        rows=tuple(
            Heading(name=row.name, label=row.name, method=row.method) for row in wanted.rows
        ),
        cells=tuple(
            tuple(
                CellDescription(
                    runs=tuple(run for run in map(identity, one.specs[row.name]) if run in there)
                )
                for one in settings
            )
            for row in wanted.rows
        ),
    )
    *_, shown = _figures(wanted).values()
    return FigureDescription(
        **about, **shown, name="compared", table=table, runs=tuple(table.run_ids()), footer=False
    )


def _figures(wanted: MethodComparison) -> dict[str, dict[str, Any]]:
    """The figures of a comparison, as an experiment's file has them, but for their table."""
    found = {"curves": CURVES}
    if wanted.axis:
        words = wanted.axis.replace("_", " ")
        found["settings"] = {
            "kind": "by_setting",
            "title": f"Test accuracy by {words}",
            "caption": "Mean over seeds, with bars of one standard deviation.",
            "xlabel": words,
        }
    return found


def write_scale(
    wanted: MethodComparison, path: Path, places: Places, keep_models: bool = False
) -> list[Path]:
    """Write the scale and the experiment of which Snakemake makes the same table and figure.

    Args:
        path: of the scale, such as ``mine.yaml``; the experiment is ``mine/mine.yaml``. It is
            checked by :func:`check_target`.
    """
    check_target(path)
    name, folder = path.stem, path.with_suffix("")
    scale = {
        "scale": name,
        "note": NOTE,
        "experiments": [name],
        "experiment_folders": [str(folder)],
        **({"plugins": plugins} if (plugins := [*map(from_here, loaded_files())]) else {}),
        "results": str(places.results.root),
        "data": {"folder": [str(root) for root in places.folders], "download": places.download},
        "device": places.device,
        **({"keep_models": True} if keep_models else {}),
    }
    chosen = [f"{row.name}: {row.note} on the validation part" for row in wanted.rows if row.note]
    settings = {f"compared_{number}": one for number, one in enumerate(wanted.settings, 1)}
    experiment = {
        "title": "Comparison",
        "settings": {name: one.setting for name, one in settings.items()},
        "tables": {
            "methods": {
                "title": "Test accuracy, mean of the last ten evaluations",
                **({"note": "; ".join(chosen)} if chosen else {}),
                "setting": "compared_1",
                "trials": wanted.seeds,
                "statistic": "mean_last_10",
                "columns": [
                    {
                        "name": one.name,
                        "setting": name,
                        **({"x": one.swept[wanted.axis]} if wanted.axis else {}),
                    }
                    for name, one in settings.items()
                ],
                "rows": [
                    {
                        "name": row.name,
                        "method": row.method,
                        **({"with": {"schedule": row.schedule}} if row.schedule else {}),
                    }
                    for row in wanted.rows
                ],
            }
        },
        "figures": {
            name: {**figure, "table": "methods"} for name, figure in _figures(wanted).items()
        },
    }
    written = {path: scale, folder / f"{name}.yaml": experiment}
    for file, content in written.items():
        text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)
        write_text(file, text)
    return list(written)
