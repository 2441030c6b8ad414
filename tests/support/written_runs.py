"""Small artifacts, written as the pipeline writes them, but without training anything."""

import numpy as np
import pyarrow as pa

from noisyfl.core.artifacts import Results, write_json, write_table
from noisyfl.core.provenance import write_provenance
from noisyfl.data import noisy_partition
from noisyfl.specs.identity import identity
from noisyfl.specs.spec import canonical_run
from small_partitions import canonical_of

SETTING = {
    "dataset": "digits",
    "partition": {"name": "iid", "clients": 10},
    "label_noise": "symmetric",
    "noise_level": "bernoulli_uniform(rho=0.5, tau=0.5)",
    "model": "cnn",
    "augmentation": "none",
    "normalization": "dataset",
    "schedule": {
        "rounds": 30,
        "participation": 0.3,
        "local_epochs": 2,
        "batch_size": 10,
        "learning_rate": 0.03,
    },
}

PROVENANCE = {
    "status": "finished",
    "noisyfl": "0.1.0",
    "source_digest": "d" * 64,
    "python": "3.11.7",
    "torch": "2.6.0",
    "device": "a small CPU",
    "setup_seconds": 2.0,
    "training_seconds": 100.0,
    "peak_memory_mb": 500.0,
}


class Runs:
    """Writes runs, and knows the files of each by its id."""

    setting = SETTING

    def __init__(self, root):
        self.results = Results(root)
        self.files = {}
        self.specs = {}

    def add(
        self,
        accuracies,
        *,
        method="fedavg",
        seed=1,
        clients=(),
        provenance=None,
        columns=None,
        **setting,
    ):
        """A run whose evaluations follow each ordinary round; None where a round has none.

        Its rounds have other ``columns``, too, or instead.
        """
        given = {**SETTING, **setting, "method": method, "seed": seed}
        spec = canonical_run(given, "test")
        run = identity(spec)
        files = self.files[run] = self.results.run(run)
        self.specs[run] = spec
        rounds = pa.table(
            {
                "round": np.arange(1, len(accuracies) + 1),
                "ordinary_rounds": np.arange(1, len(accuracies) + 1) * 1.0,
                "test_accuracy": pa.array(accuracies, pa.float64()),
                **(columns or {}),
            }
        )
        write_json(files.spec, spec)
        write_table(files.rounds, rounds, {"run": run})
        rows = pa.Table.from_pylist(list(clients) or [{"round": 1, "client": 0}])
        write_table(files.clients, rows, {"run": run})
        made = {**PROVENANCE, "run": run, "rounds": len(accuracies), **(provenance or {})}
        write_provenance(files.provenance, made)
        return run


def write_partition(folder, **given):
    """Write a noisy partition of the digits (whose labels are made up); return its path."""
    keys = {key: SETTING[key] for key in ("dataset", "partition", "label_noise", "noise_level")}
    spec = canonical_of({**keys, "seed": 1, **given})
    path = folder / "partitions" / f"{identity(spec)}.parquet"
    noisy_partition.write(path, spec, np.arange(1437) % 10)
    return path
