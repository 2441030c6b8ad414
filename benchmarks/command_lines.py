"""A round of FedAvg in PFLlib and FL-bench, next to ours: ``python -m benchmarks.command_lines``.

Each project's own program trains the same network on Fashion-MNIST, on one thread and without
tests between rounds: five of 100 clients a round, with 525 samples each, for five epochs in batches
of 32. A round takes the difference between long and short runs, so that starting a program does not
count. ``--python`` is an interpreter with both projects' requirements.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from torchvision.datasets import FashionMNIST

ROOT = Path(__file__).parents[1]

CLIENTS, PARTICIPANTS, SAMPLES, EPOCHS, BATCH, RATE = 100, 5, 525, 5, 32, 0.05

SHORT, LONG = 2, 6
"""Rounds of the two runs."""

Program = Callable[[int], None]
"""Trains so many rounds."""

TRAIN = f"""
import sys, noisyfl
rounds, precision, data, results, plugin = sys.argv[1:]
noisyfl.compare(
    ["fedavg"], dataset="fashion_mnist", clients={CLIENTS}, label_noise="none", model="avgcnn",
    partition="iid(samples={CLIENTS * SAMPLES})", participation={PARTICIPANTS / CLIENTS},
    rounds=int(rounds), local_epochs={EPOCHS}, batch_size={BATCH}, learning_rate={RATE}, momentum=0,
    weight_decay=0, evaluate_every=1000, evaluate_last=1, precision=precision, seeds=1,
    device="cpu", jobs=1, data=data, results=results, plugins=[plugin],
)
"""


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.command_lines", description=__doc__)
    parser.add_argument("--pfllib", type=Path, required=True, help="a clone of PFLlib")
    parser.add_argument("--fl-bench", type=Path, required=True, help="a clone of FL-bench")
    parser.add_argument("--python", default=sys.executable, help="that runs these two")
    parser.add_argument("--data", type=Path, default=Path("data"), help="with FashionMNIST/raw/")
    parser.add_argument("--repeat", type=int, default=3, help="times that everyone's turn comes")
    given = parser.parse_args()
    data = given.data.resolve()
    programs: dict[str, Program] = {
        "PFLlib": pfllib(given.pfllib, given.python, data),
        "FL-bench": fl_bench(given.fl_bench, given.python, data),
        "ours": partial(ours, data, "float32"),
        "ours, bfloat16": partial(ours, data, "bfloat16"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(given.repeat):
        for name, program in programs.items():
            took = [timed(program, rounds) for rounds in (SHORT, LONG)]
            seconds[name].append((took[1] - took[0]) / (LONG - SHORT))
            print(f"{name}: {seconds[name][-1]:.2f} s", file=sys.stderr, flush=True)
    print("| | seconds a round | samples/s | of PFLlib |\n|---|---|---|---|")
    slowest = median(seconds["PFLlib"])
    for name, found in seconds.items():
        middle = median(found)
        rate = PARTICIPANTS * SAMPLES * EPOCHS / middle
        print(f"| {name} | {middle:.1f} | {rate:,.0f} | {slowest / middle:.2f} |")


def timed(program: Program, rounds: int) -> float:
    """Seconds that a run of so many rounds takes."""
    start = time.perf_counter()
    program(rounds)
    return time.perf_counter() - start


def pfllib(clone: Path, python: str, data: Path) -> Program:
    """PFLlib's program, whose files of the clients are written."""
    folder = clone / "dataset" / "FashionMNIST_benchmark"
    for part, count in (("train", SAMPLES), ("test", 10)):
        (folder / part).mkdir(parents=True, exist_ok=True)
        given = FashionMNIST(data, train=part == "train")
        images = (given.data.numpy()[:, None] / 255 - 0.5).astype(np.float32) / 0.5
        for client in range(CLIENTS):
            rows = slice(client * count, (client + 1) * count)
            content = {"x": images[rows], "y": given.targets.numpy()[rows]}
            np.savez(folder / part / f"{client}.npz", data=np.array(content, dtype=object))
    words = ["main.py", "-dev", "cpu", "-data", folder.name, "-m", "CNN", "-algo", "FedAvg"]
    words += ["-ls", str(EPOCHS), "-lbs", str(BATCH), "-lr", str(RATE), "-nc", str(CLIENTS)]
    words += ["-jr", str(PARTICIPANTS / CLIENTS), "-eg", "1000"]

    def program(rounds: int) -> None:
        _run([python, *words, "-gr", str(rounds - 1)], clone / "system")  # it trains one more

    return program


def fl_bench(clone: Path, python: str, data: Path) -> Program:
    """FL-bench's program, whose partition it has written itself."""
    raw = clone / "data" / "fmnist" / "FashionMNIST" / "raw"
    shutil.copytree(data / "FashionMNIST" / "raw", raw, dirs_exist_ok=True)
    words = ["-d", "fmnist", "--iid", "1", "-cn", str(CLIENTS), "-pd", "0"]
    _run([python, "generate_data.py", *words], clone)  # 700 samples each, a quarter for tests
    options = {
        "method": "fedavg",
        "dataset.name": "fmnist",
        "model.name": "avgcnn",
        "optimizer.lr": RATE,
        "common.join_ratio": PARTICIPANTS / CLIENTS,
        "common.local_epoch": EPOCHS,
        "common.batch_size": BATCH,
        "common.client_side_evaluation": "false",
        "common.test.client.interval": -1,
        "common.use_cuda": "false",
        "common.save_learning_curve_plot": "false",
        "common.save_metrics": "false",
    }

    def program(rounds: int) -> None:
        given = {**options, "common.global_epoch": rounds}
        _run([python, "main.py", *(f"{key}={value}" for key, value in given.items())], clone)

    return program


def ours(data: Path, precision: str, rounds: int) -> None:
    """Our program."""
    with tempfile.TemporaryDirectory() as results:
        plugin = str(Path(__file__).with_name("avgcnn.py"))
        words = [str(rounds), precision, str(data), results, plugin]
        _run([sys.executable, "-c", TRAIN, *words], ROOT)


def _run(words: Sequence[str], folder: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(
        words, cwd=folder, env=environment, check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stderr}")


if __name__ == "__main__":
    main()
