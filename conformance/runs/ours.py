"""Our side of a whole run, through the command line's own door to training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from conformance.runs import Pair
from noisyfl.commands.runs import train_job
from noisyfl.core.artifacts import Results
from noisyfl.core.options import BadInput
from noisyfl.runs.job import TrainingJob
from noisyfl.specs.identity import identity
from noisyfl.specs.spec import canonical_run

DECISIONS = {
    "fedrn": ("label_precision", "label_recall"),
    "coteaching": ("label_precision", "label_recall"),
    "selfie": ("refurbished", "refurbished_accuracy"),
    "jointopt": ("label_accuracy",),
    "apfl": ("mixing_share",),
}
"""Of methods that decide something of each client, the columns of the clients' rows that say so."""


def spec_of(pair: Pair, seed: int) -> dict[str, Any]:
    """The canonical spec of our side."""
    return canonical_run({**pair.setting, "seed": seed, "method": pair.ours}, "conformance")


def run(pair: Pair, seed: int, data: Path, folder: Path) -> dict[str, Any]:
    """Train, unless that is done, and say what came of it.

    Args:
        pair: what is run.
        seed: of the trial.
        data: where the dataset's official files lie.
        folder: for the artifact, the partition and the dataset's parts.

    Returns:
        ``accuracy``, of each round that was evaluated; and ``decided``, by name.
    """
    spec, layout = spec_of(pair, seed), Results(folder)
    job = TrainingJob(
        spec=spec,
        results=str(folder),
        data=[str(data)],
        device="cpu",
        checkpoint_seconds=600,
    )
    try:
        train_job(job, [data])
    except BadInput as error:
        raise SystemExit(str(error)) from error
    files = layout.run(identity(spec))
    rounds = pd.read_parquet(files.rounds)
    return {
        "accuracy": rounds["test_accuracy"].tolist()[-pair.setting["schedule"]["evaluate_last"] :],
        "decided": _decided(pair.method, pd.read_parquet(files.clients), rounds),
    }


def _decided(name: str, clients: pd.DataFrame, rounds: pd.DataFrame) -> dict[str, Any]:
    """What a method decided last of each client; numbers are means over the clients."""
    if "called_noisy" in clients:
        last = clients.dropna(subset=["called_noisy"]).groupby("client").last()
        decided: dict[str, Any] = {"flagged": last.index[last["called_noisy"] > 0].tolist()}
        if "estimated_noise_level" in last:
            decided["estimated_noise_level"] = last["estimated_noise_level"].tolist()
            decided["label_accuracy"] = float(rounds["label_accuracy"].iloc[-1])
        elif "label_accuracy" in clients:
            corrected = clients[clients["client"].isin(decided["flagged"])]
            last_ones = corrected.groupby("client")["label_accuracy"].last()
            decided["label_accuracy"] = float(last_ones.mean())
        return decided
    if name == "cfl":
        sizes = clients.dropna(subset=["cluster"]).groupby("client")["cluster"].last()
        counts = sizes.value_counts()
        return {"clusters": len(counts), "largest_cluster": int(counts.max())}
    columns = DECISIONS.get(name, ())
    if not columns:
        return {}
    last = clients.groupby("client")[list(columns)].last()
    return {column: float(last[column].mean()) for column in columns}
