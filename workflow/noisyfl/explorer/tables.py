"""The tables as the page shows them, cell by cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noisyfl.analysis.cells import Content
from noisyfl.analysis.metrics import SYMBOLS
from noisyfl.claims.labels import Place, printed_place
from noisyfl.explorer.specs import Spec, Specs
from noisyfl.pages import settings
from noisyfl.pages import table as page
from noisyfl.specs.descriptions import TableDescription


class Tables:
    """Collects the tables of a scale.

    Args:
        scale_tables: the tables of the scale by name, including runs that are not trained.
        paper_tables: the same tables in the papers' own settings.
        plan: the specs of the runs in both, by id.
        errors: the errors of runs whose last training failed, by id.

    Attributes:
        tables: every table as plain data.
        cells: every cell of every table, with the numbers that its runs have in ``run_ids``.
        run_ids: the runs of all tables, each once, with their numbers.
        metrics_of: by run, the metrics that tables show of it.
        specs: the specs of all runs, each part of them once.
        places: numbers of cells by (table, row, column), each under the names that our tables use
            and under those of the published numbers.
    """

    def __init__(
        self,
        scale_tables: Mapping[str, TableDescription],
        paper_tables: Mapping[str, TableDescription],
        plan: Mapping[str, Spec],
        errors: Mapping[str, str],
    ) -> None:
        self.tables: list[dict[str, Any]] = []
        self.cells: list[dict[str, Any]] = []
        self.run_ids: dict[str, int] = {}
        self.metrics_of: dict[str, list[str]] = {}
        self.specs = Specs()
        self.errors = errors
        self.places: dict[Place, int] = {}
        self._scale, self._papers, self._plan = scale_tables, paper_tables, plan

    def add(self, content: Content, scale: str, main: bool = True) -> None:
        """Add a table and its cells.

        Args:
            scale: the name of the scale that it is of.
            main: whether this is the scale of ``scale_tables``, which claims are about.
        """
        description, number = content.description, len(self.tables)
        name = f"{description.experiment}/{description.name}"
        rows = []
        for r, row in enumerate(content.rows):
            line = [self._cell(content, number, name, (r, c), main) for c in range(len(row.cells))]
            shown = {"name": row.name, "label": row.label, "group": row.group, "cells": line}
            rows.append({**shown, "method": row.method, "trained": row.trained})
            for c, cell in enumerate(line):
                self.cells[cell]["best"] = content.is_best(row, c)
        warning, *more = settings.banner(content) or [""]
        self.tables.append(
            {
                "name": name if main else f"{scale}/{name}",
                "scale": scale,
                "target": f"{description.experiment}_{description.name}",
                "experiment": description.experiment,
                "paper": description.experiment_title,
                "title": description.title,
                "compared": description.published is not None,
                "warning": warning,
                "details": more,
                "notes": settings.notes(content),
                "missing": description.missing,
                "columns": [
                    {"name": one.name, "label": one.label or one.name, "group": one.group}
                    for one in description.columns
                ],
                "rows": rows,
            }
        )

    def _cell(
        self,
        content: Content,
        table: int,
        name: str,
        at: tuple[int, int],
        main: bool,
    ) -> int:
        r, c = at
        row, column = content.rows[r].name, content.columns[c]
        cell, shown = content.rows[r].cells[c], content.rows[r].shown[c]
        facts = cell.facts
        number = len(self.cells)
        if main:
            self.places[Place(name, row, column)] = number
            if cell.published is not None:
                printed = printed_place(facts, f"{facts['paper']}/{facts['paper_table']}")
                self.places.setdefault(printed, number)
        planned = self._scale if main else {}
        wanted = self._ids(planned, name, row, column) or cell.runs
        own = cell.runs if not main and cell.as_published else []
        paper = self._ids(self._papers, name, row, column) or own
        spec = self._plan.get(wanted[0]) if wanted else None
        for run in cell.runs:
            self.run_ids.setdefault(run, len(self.run_ids))
            if cell.metric not in (metrics := self.metrics_of.setdefault(run, [])):
                metrics.append(cell.metric)
        missing = [run for run in wanted if run not in cell.runs]
        summary = shown.summary
        fewer = len(shown.runs) < len(cell.runs)
        self.cells.append(
            {
                "table": table,
                "at": at,
                "ours": page.ours(content, shown),
                "mean": summary and round(summary.mean, 4),
                "std": None if summary is None or summary.std is None else round(summary.std, 4),
                "seeds": sorted(line["seed"] for line in shown.rows) if fewer else [],
                "published": cell.published and cell.published.value,
                "printed": page.paper(content, cell),
                "spread": page.paper(content, cell, spread=True),
                "against": page.against(content, shown),
                "difference": None if shown.difference is None else round(shown.difference, 4),
                "verdict": shown.verdict,
                "paper": cell.as_published,
                "dagger": bool(page.dagger(content, cell)),
                "diverged": cell.diverged,
                "metric": cell.metric,
                "label": cell.measure.label,
                "unit": SYMBOLS[cell.measure.unit],
                "statistic": cell.statistic,
                "computed": bool(facts["trained"])
                and not content.description.columns[at[1]].has_runs,
                "rank": content.ranks.get(at),
                "averages": cell.averages,
                "runs": [self.run_ids[run] for run in cell.runs],
                "missing": missing,
                "failed": {run: self.errors[run] for run in missing if run in self.errors},
                "spec": None if spec is None else self.specs.number(spec),
                "theirs": self.specs.number(self._plan[paper[0]]) if paper else None,
                "setting": {
                    "dataset": facts["dataset"],
                    "partition": facts["partition"],
                    "noise": facts["noise"],
                },
            }
        )
        return number

    def _ids(
        self, tables: Mapping[str, TableDescription], name: str, row: str, column: str
    ) -> list[str]:
        """The runs that a cell has in the same table of a plan; none if that has no such cell."""
        if name not in tables:
            return []
        rows = [one.name for one in tables[name].rows]
        columns = [one.name for one in tables[name].columns]
        if row not in rows or column not in columns:
            return []
        ids = tables[name].runs[rows.index(row)][columns.index(column)]
        return [run for run in ids if run in self._plan]
