"""Queries for the numbers that a claim is about."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from noisyfl.claims.labels import OWN_LABELS, Label, fits


@dataclass(frozen=True)
class Query:
    """A query for numbers that a claim is about.

    Attributes:
        kind: a key of the sources in :mod:`noisyfl.claims.sources`.
        tables: ``<experiment>/<name>`` of the tables and figures that have the numbers.
        by: the labels that tell the numbers apart.
        where: what labels must be, by the label's name, see :func:`noisyfl.claims.labels.fits`.
        numbers: the numbers of the paper's text, by label; only for the kind ``quotes``.
    """

    kind: str
    tables: tuple[str, ...]
    by: tuple[str, ...]
    where: Mapping[str, Any]
    numbers: Mapping[str, float] | None = None

    def fits(self, labels: Mapping[str, Label], without: Collection[str] = ()) -> bool:
        """Whether a number has the labels of the query, ``without`` regard to some of them."""
        return labels.get("table", "") in self.tables and all(
            fits(labels.get(name, ""), value)
            for name, value in self.where.items()
            if name not in without
        )


def cells(
    *tables: str,
    by: str,
    metric: Any = "test_accuracy",
    scope: Any = "federated",
    measure: str = "value",
    **where: Any,
) -> Query:
    """Printed numbers, or ours in their place.

    Args:
        tables: of the claim's paper, as ``config/published.csv`` names them.
        by: the labels that tell the numbers apart, separated by spaces; numbers[...] selects by the
            first one.
        metric: what the label ``metric`` must be.
        scope: what the label ``setting_scope`` must be; None for any.
        measure: ``value``, ``std``, or ``converged``, which is 1 or 0.
        where: what further labels must be.
    """
    where |= {"metric": metric, "measure": measure}
    return _query("cells", tables, by, where | ({} if scope is None else {"setting_scope": scope}))


def statistics(*tables: str, by: str, **where: Any) -> Query:
    """The statistic of each cell of our tables."""
    return _query("tables", tables, by, where)


def rounds(*tables: str, by: str = "", **where: Any) -> Query:
    """A metric along ordinary rounds, as a mean over trials.

    The label ``work`` is in percent of all rounds, so that what a paper says of a stage of training
    is asked of the same stage at a scale with fewer rounds.
    """
    return _query("rounds", tables, by, where)


def batches(*tables: str, by: str = "", **where: Any) -> Query:
    """A metric along training batches, as a mean over trials."""
    return _query("batches", tables, by, where)


def clients(*tables: str, by: str = "", **where: Any) -> Query:
    """A measure of each client in the first trial.

    It is the client's last value in a column of ``clients.parquet``, or its ``noise_level``,
    ``samples`` or ``imbalance``. ``lid_calls_rightly``, and the same of
    ``cumulative_lid``, is 1 if FedCorr's mixture of the scores rightly calls the client noisy or
    clean, and else 0; with ``first_`` in front, by its first score.
    """
    return _query("clients", tables, by, where)


def pairs(*tables: str, by: str = "", **where: Any) -> Query:
    """Each pair of clients' ``output_similarity``, ``class_overlap`` or ``class_mean_distance``."""
    return _query("pairs", tables, by, where)


def quotes(by: str, numbers: Mapping[str, float]) -> Query:
    """Numbers of the paper's text, by one label; our side has none of this kind."""
    return Query("quotes", (), (by,), {}, numbers)


def _query(kind: str, tables: tuple[str, ...], by: str, where: Mapping[str, Any]) -> Query:
    return Query(kind, tables, (*by.split(), *OWN_LABELS.get(kind, ())), where)
