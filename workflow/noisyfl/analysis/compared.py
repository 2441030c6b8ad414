"""What the runs of a comparison reached: a frame with one row per run, and which methods differ.

The frame's columns:

=============  ====================================================================================
``method``     the method in words
``seed``       of the run
``split``      ``test``; or ``validation``, of runs by which an option's value was chosen
``run``        the run's id
``status``     ``finished`` or ``diverged``
``rounds``     how many were trained; the last one is that in which a run diverged
``accuracy``   mean test accuracy of the last ten evaluations, in percent; this and all that
               follows is NaN for a run that diverged
``best``       the highest test accuracy of an evaluation, in percent
``best_round`` the number of ordinary rounds after which that was
``precision``  share of correct labels among those that the method selected as clean, in percent,
               mean of the last ten rounds with a selection; NaN if it selects none
``recall``     share of the correct labels that it selected, the same mean
``seconds``    training time
=============  ====================================================================================

:func:`noisyfl.experiments.comparison_runs.train_comparison` adds columns of swept options.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from noisyfl.analysis.measurements import measure
from noisyfl.analysis.runs import Run
from noisyfl.analysis.statistics import differences
from noisyfl.core.options import BadInput

MEASURES = ["accuracy", "best", "best_round", "precision", "recall"]

COLUMNS = ["method", "seed", "split", "run", "status", "rounds", *MEASURES, "seconds"]


def frame_of(runs: Mapping[str, Iterable[Run]], split: str = "test") -> pd.DataFrame:
    """The frame of a comparison.

    Args:
        runs: by method, in words.
        split: what they were evaluated on.
    """
    rows = []
    for method, some in runs.items():
        for run in some:
            found = measure([run])
            reached = {} if found.empty else found.iloc[0][MEASURES].to_dict()
            rows.append(
                {
                    "method": method,
                    "seed": run.spec["seed"],
                    "split": split,
                    "run": run.id,
                    "status": run.provenance.status,
                    "rounds": run.provenance.rounds,
                    **reached,
                    "seconds": run.provenance.training_seconds,
                }
            )
    return pd.DataFrame(rows, columns=COLUMNS)


def significance(frame: pd.DataFrame, against: str | None = None) -> pd.DataFrame:
    """Compare the accuracy of each method with that of one of them, as the tables do: over
    the seeds that both have, by a t-test with the standard deviation of a seed's difference, pooled
    over all methods.

    Args:
        frame: of a comparison, as :func:`noisyfl.compare` returns it.
        against: a method; None: the first.

    Returns:
        A row for each other method: ``method``, ``difference`` in points, ``seeds``, ``p``, and
        ``significant``: p < 0.05, corrected for the number of methods (Holm). ``p`` is NaN if no
        method has two seeds.

    Raises:
        BadInput: there is no such method.
    """
    tested = frame[(frame["split"] == "test") & frame["accuracy"].notna()]
    names = list(dict.fromkeys(frame.loc[frame["split"] == "test", "method"]))
    against = names[0] if against is None and names else against
    if against not in names:
        raise BadInput(f"against: got {against!r}, expected one of {', '.join(names)}")
    accuracies = {
        (names.index(str(method)), 0): cell.set_index("seed")["accuracy"]
        for method, cell in tested.groupby("method", sort=False)
    }
    found = differences(accuracies, names.index(against))
    return pd.DataFrame(
        (
            {
                "method": names[row],
                "difference": found.mean((row, column)),
                "seeds": len(points),
                "p": found.chances.get((row, column), float("nan")),
                "significant": (row, column) in found.significant,
            }
            for (row, column), points in sorted(found.points.items())
        ),
        columns=["method", "difference", "seeds", "p", "significant"],
    )


def summarise(frame: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    """The comparison with one row per method, of the runs that there are.

    Args:
        frame: of a comparison.
        methods: the rows, in their order; the others are compared with the first.

    Returns:
        ``method``, ``runs``, ``diverged``, ``accuracy`` and its sample standard deviation ``std``,
        means of the other columns, and ``difference``, ``p`` and ``significant`` as
        :func:`significance` has them.
    """
    tested = frame[frame["split"] == "test"]
    cells = tested.groupby("method")
    found = cells[[*MEASURES, "seconds"]].mean()
    found["std"] = cells["accuracy"].std()
    found["runs"] = cells.size()
    found["diverged"] = (tested["status"] == "diverged").groupby(tested["method"]).sum()
    if methods[0] in set(tested.loc[tested["accuracy"].notna(), "method"]):
        found = found.join(
            significance(tested, methods[0]).drop(columns="seeds").set_index("method")
        )
    return found.reindex(
        index=pd.Index(methods, name="method"),
        columns=[
            *("runs", "diverged", "accuracy", "std", *MEASURES[1:]),
            *("difference", "p", "significant", "seconds"),
        ],
    ).reset_index()
