"""What the jobs of tables and figures are told, from what a test cares about."""

from dataclasses import fields

from noisyfl.specs.descriptions import (
    CellDescription,
    FigureDescription,
    Heading,
    Mark,
    Panel,
    TableDescription,
)
from noisyfl.specs.published import join


def header(name, group="", **more):
    """A row or column of a table, as its file has it."""
    return {"name": name, "label": name.split(", ")[-1], "group": group, "published": {}, **more}


def describe(columns, rows, runs, **more):
    """A table that shows the best accuracy, beside the numbers of a paper."""
    return {
        "experiment": "p",
        "experiment_title": "A paper",
        "name": "t1",
        "title": "Table 1: 50 % of _everything_",
        "note": "",
        "scale": "paper",
        "scale_note": "",
        "metric": "test_accuracy",
        "statistic": "best",
        "published": {"paper": "p"},
        "columns": columns,
        "rows": rows,
        "runs": runs,
        "as_published": [[True] * len(columns) for _ in rows],
        **more,
    }


def described_table(given, published=()):
    """A table whose rows, columns and runs are given as mappings and lists."""
    given = {
        **{"experiment": "p", "experiment_title": "A paper", "name": "t1", "title": "Table 1"},
        **{"scale": "tiny", "metric": "test_accuracy", "statistic": "best", "published": None},
        **given,
    }
    rows = tuple(heading({"method": "fedavg", **row}) for row in given["rows"])
    columns = tuple(map(heading, given["columns"]))
    runs = tuple(tuple(map(tuple, line)) for line in given["runs"])
    where = f"{given['experiment']}/{given['name']}"
    joined = join(published, given["published"], rows, columns, given["metric"], where)
    own = given.pop("as_published", [[False] * len(columns) for _ in rows])
    cells = tuple(
        tuple(
            CellDescription(runs=ids, as_published=same, labels=labels, number=number)
            for ids, same, (labels, number) in zip(*lines, strict=True)
        )
        for lines in zip(runs, own, joined.cells, strict=True)
    )
    parts = {"rows": rows, "columns": columns, "cells": cells, "other_numbers": joined.others}
    parts["left_out"] = tuple(map(heading, given.get("left_out", ())))
    del given["runs"]
    return TableDescription(**{**given, **parts})


def described(given):
    """A figure whose panels, or rows, columns and cells, are given as mappings and lists."""
    given = {
        **{"experiment": "p", "experiment_title": "A paper", "name": "f", "scale": "tiny"},
        **{"kind": "", "title": "Figure", "caption": "What it shows."},
        **given,
    }
    if "rows" in given:
        table = {k: given.pop(k) for k in ("rows", "columns", "metric", "statistic") if k in given}
        given["table"] = described_table({**table, "runs": given.pop("cells")})
    given["panels"] = panels(given.get("panels", ()))
    given["marks"] = tuple(Mark(**mark) for mark in given.get("marks", ()))
    return FigureDescription(**{k: tuple(v) if type(v) is list else v for k, v in given.items()})


def heading(given):
    known = {field.name for field in fields(Heading)}
    given = {"label": given["name"], **given}
    return Heading(**{k: tuple(v) if k == "mean_of" else v for k, v in given.items() if k in known})


def panels(given):
    return tuple(Panel(**{**panel, "lines": panels(panel.get("lines", ()))}) for panel in given)
