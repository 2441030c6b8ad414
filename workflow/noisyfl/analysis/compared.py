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

:func:`noisyfl.experiments.comparison_runs.train_comparison` adds columns of swept options, and if
there are several settings, the column ``setting`` with what tells them apart.
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
    """Compare the accuracy of each method with that of one of them, as the tables do: in each
    setting over the seeds that both have, by a t-test with the standard deviation of a seed's
    difference, pooled over all methods.

    Args:
        frame: of a comparison, as :func:`noisyfl.compare` returns it.
        against: a method; None: the first.

    Returns:
        A row for each other method: ``setting`` if the frame has it, ``method``, ``difference`` in
        points, ``seeds``, ``p``, and ``significant``: p < 0.05, corrected for the number of rows
        (Holm). ``p`` is NaN if no method has two seeds.

    Raises:
        BadInput: there is no such method.
    """
    found = _significance(_with_setting(frame), against)
    return found if "setting" in frame else found.drop(columns="setting")


def _with_setting(frame: pd.DataFrame) -> pd.DataFrame:
    return frame if "setting" in frame else frame.assign(setting="")


def _significance(frame: pd.DataFrame, against: str | None) -> pd.DataFrame:
    tested = frame[(frame["split"] == "test") & frame["accuracy"].notna()]
    names = list(dict.fromkeys(frame.loc[frame["split"] == "test", "method"]))
    settings = list(dict.fromkeys(tested["setting"]))
    against = names[0] if against is None and names else against
    if against not in names:
        raise BadInput(f"against: got {against!r}, expected one of {', '.join(names)}")
    accuracies = {
        (names.index(method), settings.index(setting)): cell.set_index("seed")["accuracy"]
        for (setting, method), cell in tested.groupby(["setting", "method"], sort=False)
    }
    found = differences(accuracies, names.index(against))
    return pd.DataFrame(
        (
            {
                "setting": settings[column],
                "method": names[row],
                "difference": found.mean((row, column)),
                "seeds": len(points),
                "p": found.chances.get((row, column), float("nan")),
                "significant": (row, column) in found.significant,
            }
            for (row, column), points in sorted(found.points.items())
        ),
        columns=["setting", "method", "difference", "seeds", "p", "significant"],
    )


def summarise(
    frame: pd.DataFrame, methods: Sequence[str], settings: Sequence[str] = ("",)
) -> pd.DataFrame:
    """The comparison with one row per setting and method, of the runs that there are.

    Args:
        frame: of a comparison.
        methods: in their order; the others are compared with the first.
        settings: in their order; one without a name if the frame does not name them.

    Returns:
        ``setting``, ``method``, ``runs``, ``diverged``, ``accuracy`` and its sample standard
        deviation ``std``, means of the other columns, and ``difference``, ``p`` and ``significant``
        as :func:`significance` has them.
    """
    keys = ["setting", "method"]
    tested = _with_setting(frame[frame["split"] == "test"])
    cells = tested.groupby(keys)
    found = cells[[*MEASURES, "seconds"]].mean()
    found["std"] = cells["accuracy"].std()
    found["runs"] = cells.size()
    found["diverged"] = cells["status"].agg(lambda status: (status == "diverged").sum())
    if methods[0] in set(tested.loc[tested["accuracy"].notna(), "method"]):
        compared = _significance(tested, methods[0])
        found = found.join(compared.drop(columns="seeds").set_index(keys))
    return found.reindex(
        index=pd.MultiIndex.from_product([settings, methods], names=keys),
        columns=[
            *("runs", "diverged", "accuracy", "std", *MEASURES[1:]),
            *("difference", "p", "significant", "seconds"),
        ],
    ).reset_index()
