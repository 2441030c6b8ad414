"""Which numbers a claim is about, and the list of all claims."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from noisyfl.core.options import BadInput

if TYPE_CHECKING:
    from noisyfl.claims.verdicts import Checks

Label = str | float
"""A label's value; a text that reads as a number is stored as one."""

WORK = "work"
"""The label along a curve: its ordinary rounds, in percent of all, or its training batches."""

OWN_LABELS = {
    "rounds": (WORK,),
    "batches": (WORK,),
    "clients": ("client", "noise_rank", "size_rank"),
    "pairs": ("pair",),
}
"""By the kind of numbers, the labels that tell those of one run apart."""


@dataclass(frozen=True)
class Wanted:
    """Numbers that a claim is about.

    Attributes:
        kind: a key of the sources in :mod:`noisyfl.claims.sources`.
        tables: ``<experiment>/<name>`` of the tables and figures that have the numbers.
        by: the labels that tell the numbers apart.
        where: what labels must be, by the label's name, see :func:`fits`.
        numbers: the numbers of the paper's text, by label; only for the kind ``given``.
    """

    kind: str
    tables: tuple[str, ...]
    by: tuple[str, ...]
    where: Mapping[str, Any]
    numbers: Mapping[str, float] | None = None

    def fits(self, labels: Mapping[str, Label], without: Collection[str] = ()) -> bool:
        """Whether a number has the wanted labels, ``without`` regard to some of them."""
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
) -> Wanted:
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
    return _wanted("cells", tables, by, where | ({} if scope is None else {"setting_scope": scope}))


def statistics(*tables: str, by: str, **where: Any) -> Wanted:
    """The statistic of each cell of our tables."""
    return _wanted("tables", tables, by, where)


def rounds(*tables: str, by: str = "", **where: Any) -> Wanted:
    """A metric along ordinary rounds, as a mean over trials.

    The label ``work`` is in percent of all rounds, so that what a paper says of a stage of training
    is asked of the same stage at a scale with fewer rounds.
    """
    return _wanted("rounds", tables, by, where)


def batches(*tables: str, by: str = "", **where: Any) -> Wanted:
    """A metric along training batches, as a mean over trials."""
    return _wanted("batches", tables, by, where)


def clients(*tables: str, by: str = "", **where: Any) -> Wanted:
    """A measure of each client in the first trial.

    It is the client's last value in a column of ``clients.parquet``, or its ``noise_level``,
    ``samples`` or ``imbalance``.
    """
    return _wanted("clients", tables, by, where)


def pairs(*tables: str, by: str = "", **where: Any) -> Wanted:
    """Each pair of clients' ``output_similarity``, ``class_overlap`` or ``class_mean_distance``."""
    return _wanted("pairs", tables, by, where)


def given(by: str, numbers: Mapping[str, float]) -> Wanted:
    """Numbers of the paper's text, by one label; our side has none of this kind."""
    return Wanted("given", (), (by,), {}, numbers)


def _wanted(kind: str, tables: tuple[str, ...], by: str, where: Mapping[str, Any]) -> Wanted:
    return Wanted(kind, tables, (*by.split(), *OWN_LABELS.get(kind, ())), where)


# ---------------------------------------------------------------- what a label must be

Fits = Callable[[Any], bool]


def fits(label: Label, value: Any) -> bool:
    """Whether a label equals a value, is in a list, or makes a function return true."""
    if callable(value):
        return bool(value(label))
    return label in value if isinstance(value, list) else label == value


def but(*values: Label) -> Fits:
    """Select any labels but these."""
    return lambda label: label not in values


def among(*values: Label) -> Fits:
    """Select those of these labels that are there; of a plain list, all must be there."""
    return lambda label: label in values


def since(first: float) -> Fits:
    """Select labels from a number on, itself included."""
    return lambda label: label >= first


def until(last: float) -> Fits:
    """Select labels up to a number, itself included."""
    return lambda label: label <= last


# ---------------------------------------------------------------- the claims


Judge = Callable[..., "Checks"]
"""The function of a claim: it gets the claim's numbers by name and yields checks of them."""


@dataclass(frozen=True)
class Claim:
    """A statement that a paper makes about its numbers.

    Attributes:
        name: the paper, a dash and a number.
        place: where the paper makes the claim.
        sentence: the claim, in our words.
        note: what a reader of the verdict should know.
        untested: the part that no number can test, if any; such a claim can fail, but not hold.
        wanted: the numbers that it is about, by the names of the function's parameters.
        checks: the conditions on these numbers.
    """

    name: str
    place: str
    sentence: str
    note: str
    untested: str
    wanted: Mapping[str, Wanted]
    checks: Judge

    @property
    def paper(self) -> str:
        """The paper that makes the claim."""
        return self.name.partition("-")[0]


CLAIMS: dict[str, Claim] = {}
"""All claims by name, see :func:`all_claims`."""


def claim(
    name: str, *, place: str, note: str = "", untested: str = "", **wanted: Wanted
) -> Callable[[Judge], Judge]:
    """Register a function that judges a claim; its docstring is the claim, in our words.

    Args:
        name: the paper, a dash and a number.
        place: where the paper makes the claim.
        note: what a reader of the verdict should know.
        untested: a part of the claim that no number can test.
        wanted: the numbers that the function gets under these names; it yields checks of them.

    Raises:
        BadInput: a claim of that name is registered already, or the function has no docstring.
    """
    paper = name.partition("-")[0]

    def register(function: Judge) -> Judge:
        if name in CLAIMS:
            raise BadInput(f"claim {name!r} is there twice")
        if not function.__doc__:
            raise BadInput(f"claim {name!r} says nothing: expected it as a docstring")
        own = {
            key: replace(one, tables=tuple(f"{paper}/{table}" for table in one.tables))
            for key, one in wanted.items()
        }
        sentence = " ".join(function.__doc__.split())
        CLAIMS[name] = Claim(name, place, sentence, note, untested, own, function)
        return function

    return register


def parts_of() -> list[str]:
    """The tables and figures, as ``<experiment>/<name>``, whose runs are needed to judge claims."""
    wanted = [one for claim in all_claims().values() for one in claim.wanted.values()]
    of_runs = [one.tables for one in wanted if one.kind not in ("cells", "given")]
    return list(dict.fromkeys(table for tables in of_runs for table in tables))


def all_claims() -> dict[str, Claim]:
    """All claims by name, paper by paper."""
    from noisyfl.claims import fedcni, fedcorr, fednoil, fedrn, rofl  # noqa: F401

    return CLAIMS
