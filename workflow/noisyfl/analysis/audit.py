"""Which given labels may be wrong: what one or several runs found, by sample and by client.

The columns of the samples, the most suspicious one first:

==========================  =======================================================================
``client``, ``sample``      which sample it is: its client, and its row in the training part
``given_label``             the name of the given class
``suspected``               it is one of the first rows, of which there are as many as labels that a
                            run suspects, in the mean over the runs
``corrected_label``         the suggested label if it is suspected, else the given one
``suggested_label``         the name of the class that most runs suggest; of equally many, the one
                            that they are most confident in
``suspicion``               1 minus the probability of the given label, mean over the runs
``given_probability``       that probability
``suggested_probability``   that of the suggested label, mean over the runs that suggest it
``suspected_by``            in how many of the ``runs`` the label is suspected to be wrong: another
                            class is more probable, and at least as probable as samples with that
                            given label have it on average (confident learning, Northcutt et al.,
                            JAIR 2021)
``left_out_by``             how many runs' methods left the sample out the last time that they
                            selected samples, of ``judged_by``
``relabelled_by``           how many runs' methods learnt another label at the end
``learnt_label``            the label that most of these learnt; empty if none did
``relabelled_in``           the last round in which such a method changed it; 0 if none did
``in_sample``               the probabilities of a run come from a model that was trained on the
                            client's labels in its last round
==========================  =======================================================================
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from sklearn.metrics import average_precision_score, roc_auc_score

from noisyfl.analysis.clients import last_values
from noisyfl.analysis.runs import Run
from noisyfl.runs.kept_labels import read_labels

KEY = ["client", "sample"]

ESTIMATES = {"method_noise_level": "estimated_noise_level", "flagged": "called_noisy"}
"""Columns of the clients, and the estimates that they are the last values of."""


def read_label_judgements(runs: Sequence[Run]) -> pd.DataFrame:
    """What each run found of each sample, one row per sample and run.

    Args:
        runs: with the same clients and given labels.

    Raises:
        BadInput: a run has not kept it.
    """
    found = []
    for run in runs:
        labels = read_labels(run.id, run.files)
        labels.insert(0, "run", run.id)
        labels["suspected"] = suspected(labels)
        found.append(labels.sort_values(KEY, ignore_index=True))
    return pd.concat(found, ignore_index=True)


def suspected(labels: pd.DataFrame) -> pd.Series:
    """Whether each label of a run is suspected to be wrong (confident learning)."""
    usual = labels.groupby("given_label")["given_probability"].mean()
    threshold = labels["suggested_label"].map(usual)
    differs = labels["suggested_label"] != labels["given_label"]
    return differs & (labels["suggested_probability"] >= threshold)


def samples_of(judgements: pd.DataFrame, classes: Sequence[str]) -> pd.DataFrame:
    """The samples, the most suspicious one first.

    Args:
        judgements: of :func:`read_label_judgements`.
        classes: the names of the classes.
    """
    each = judgements.groupby(KEY, sort=True)
    judged = judgements["judged"] > 0
    relabelled = judgements["learnt_label"] != judgements["given_label"]
    keys = [judgements[name] for name in KEY]

    def count(flags: pd.Series) -> pd.Series:
        return flags.groupby(keys).sum().astype(int)

    suggested = _most_frequent(judgements, "suggested_label", "suggested_probability")
    learnt = _most_frequent(judgements[relabelled], "learnt_label", "given_probability")
    names = np.array(classes, dtype=object)
    found = pd.DataFrame(
        {
            "given_label": names[each["given_label"].first()],
            "suggested_label": names[suggested["suggested_label"]],
            "suspicion": 1 - each["given_probability"].mean(),
            "given_probability": each["given_probability"].mean(),
            "suggested_probability": suggested["suggested_probability"],
            "suspected_by": count(judgements["suspected"]),
            "runs": each.size(),
            "left_out_by": count(judged & (judgements["last_selected"] == 0)),
            "judged_by": count(judged),
            "relabelled_by": count(relabelled),
            "learnt_label": learnt["learnt_label"].map(dict(enumerate(classes))),
            "relabelled_in": judgements["relabelled_in"].where(relabelled, 0).groupby(keys).max(),
            "in_sample": each["in_sample"].any(),
        }
    )
    found["learnt_label"] = found["learnt_label"].fillna("")
    order = found.sort_values("suspicion", ascending=False, kind="stable").reset_index()
    # Some runs suspect too many labels, others too few; their common order is better than either.
    wrong = round((order["suspected_by"] / order["runs"]).sum())
    order.insert(3, "suspected", order.index < wrong)  # after the given label
    corrected = order["suggested_label"].where(order["suspected"], order["given_label"])
    order.insert(4, "corrected_label", corrected)
    return order


def confused_classes(samples: pd.DataFrame) -> pd.DataFrame:
    """Which classes are confused, the most frequent pair first.

    Returns:
        ``given_label`` and ``suggested_label``, the number of ``samples`` with that given label,
        how many of them are ``suspected`` and suggested to be of the other class, and their
        ``share``.
    """
    wrong = samples[samples["suspected"] & (samples["suggested_label"] != samples["given_label"])]
    found = wrong.groupby(["given_label", "suggested_label"]).size().reset_index(name="suspected")
    given = found["given_label"].map(samples["given_label"].value_counts())
    found.insert(2, "samples", given.astype(int))
    found["share"] = found["suspected"] / found["samples"]
    return found.sort_values("suspected", ascending=False, kind="stable", ignore_index=True)


def scores_of(samples: pd.DataFrame, wrong: pd.Series) -> dict[str, float]:
    """How well an audit finds labels that are known to be wrong.

    Args:
        samples: of :func:`samples_of`.
        wrong: of each row, whether its given label is; some must be, and not all.

    Returns:
        The average precision of the order (``AP``), the area under its ROC curve (``AUROC``), and
        the ``precision`` and ``recall`` of the suspected labels.
    """
    right = samples["suspected"] & wrong
    return {
        "AP": float(average_precision_score(wrong, samples["suspicion"])),
        "AUROC": float(roc_auc_score(wrong, samples["suspicion"])),
        "precision": float(right.sum() / max(1, samples["suspected"].sum())),
        "recall": float(right.sum() / wrong.sum()),
    }


def _most_frequent(rows: pd.DataFrame, label: str, weight: str) -> pd.DataFrame:
    """Of each sample the most frequent label, of equally frequent ones that of the largest mean
    weight, which is the other column.
    """
    votes = rows.groupby([*KEY, label])[weight].agg(["size", "mean"]).reset_index()
    votes = votes.sort_values([*KEY, "size", "mean"])
    last = votes.groupby(KEY).last()
    return last.rename(columns={"mean": weight}).drop(columns="size")


def clients_of(
    judgements: pd.DataFrame, samples: pd.DataFrame, runs: Sequence[Run]
) -> pd.DataFrame:
    """The clients, the noisiest one first.

    Returns:
        ``client``, ``samples``, ``suspected`` (the number of suspected labels), ``noise_level``
        (the share of labels that a run suspects, mean over the runs), ``left_out`` and
        ``relabelled`` (the shares that methods left out and relabelled, mean over the runs; NaN
        where none selects), ``method_noise_level`` (the methods' own estimates at the end),
        ``flagged`` (the share of the runs whose method flagged the client as noisy, of those that
        flag clients; else NaN) and ``in_sample``.
    """
    by_client = judgements.groupby("client")
    judged = judgements[judgements["judged"] > 0]
    found = pd.DataFrame(
        {
            "samples": samples.groupby("client").size(),
            "suspected": samples.groupby("client")["suspected"].sum(),
            "noise_level": by_client["suspected"].mean(),
            "left_out": (judged["last_selected"] == 0).groupby(judged["client"]).mean(),
            "relabelled": (judgements["learnt_label"] != judgements["given_label"])
            .groupby(judgements["client"])
            .mean(),
        }
    )
    for name, column in ESTIMATES.items():
        last = {run.id: last_values(run, column, int(found.index.max()) + 1) for run in runs}
        found[name] = pd.DataFrame(last).mean(axis=1)
    found["in_sample"] = by_client["in_sample"].any()
    return found.sort_values("noise_level", ascending=False, kind="stable").reset_index()
