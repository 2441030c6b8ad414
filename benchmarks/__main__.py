"""How fast the simulation is: ``python -m benchmarks``, from the repository's folder.

For each of four federations of the papers, training with FedAvg on images of the right shape:
the project's fast executor and its plain loop, a loop as the papers' repositories have it, and
pfl-research's simulator (with ``--pfl``, which makes an environment for it); and as a ceiling, the
same model trained without a federation, at the batch size that is fastest. All on one thread of a
CPU, and on the GPU if there is one; by turns, and each turn in a process of its own, so that no one
profits from what another one has set or warmed up.
"""

from __future__ import annotations

import argparse
import multiprocessing
import platform
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
import torch

from benchmarks import Speed, Work, central, ours, pfl_fedavg, repository_loop
from noisyfl.data.datasets import DATASETS
from noisyfl.models import build_model

PFL = Path(__file__).parent / ".pfl"
"""The environment of pfl-research, which this benchmark alone needs."""


@dataclass(frozen=True)
class Case:
    """A federation of a paper, and how much of a round is measured on a CPU.

    Attributes:
        title: what it is.
        model: a name of :data:`noisyfl.models.MODELS`.
        dataset: whose shape the images have.
        participants: of a round.
        samples: of a client.
        batch_size: of a local step.
        local_epochs: of a local update.
        learning_rate: of SGD.
        on_cpu: participants, samples and local epochs of a round that is measured on a CPU, where
            a whole one would take minutes.
    """

    title: str
    model: str
    dataset: str
    participants: int
    samples: int
    batch_size: int
    local_epochs: int
    learning_rate: float
    on_cpu: tuple[int, int, int]

    def work(self, device: str, rounds: int) -> Work:
        """The case's work on a device; random images, as what they show costs nothing."""
        facts = DATASETS[self.dataset]
        dice = np.random.default_rng(0)
        participants, samples, epochs = (
            self.on_cpu if device == "cpu" else (self.participants, self.samples, self.local_epochs)
        )
        train, test = participants * 2 * samples, 1000 if device == "cpu" else facts.test_size
        return Work(
            train_images=dice.integers(0, 256, (train, *facts.shape), dtype=np.uint8),
            train_labels=dice.integers(0, 10, train),
            test_images=dice.integers(0, 256, (test, *facts.shape), dtype=np.uint8),
            test_labels=dice.integers(0, 10, test),
            clients=np.split(dice.permutation(train), participants * 2),
            participants=participants,
            local_epochs=epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            momentum=0.5,
            mean=facts.mean,
            std=facts.std,
            rounds=rounds,
            device=device,
            seed=1,
        )

    def whole(self, measured: Speed, work: Work) -> Speed:
        """The speed with rounds per hour of whole rounds, with the whole test part."""
        done = work.participants * work.local_epochs * len(work.clients[0])
        seconds = 3600 / measured.rounds_per_hour - done / measured.samples_per_second
        evaluation = seconds * DATASETS[self.dataset].test_size / len(work.test_images)
        samples = self.participants * self.samples * self.local_epochs
        hour = samples / measured.samples_per_second + evaluation
        return replace(measured, rounds_per_hour=3600 / hour)


CASES = {
    "fedrn": Case("FedRN, CIFAR-10", "cnn4conv", "cifar10", 10, 500, 50, 5, 0.01, (1, 500, 1)),
    "fednoil": Case(
        "FedNoiL, Fashion-MNIST", "cnn2conv", "fashion_mnist", 6, 600, 32, 5, 0.01, (1, 600, 1)
    ),
    "rofl": Case("RoFL, CIFAR-10", "cnn9", "cifar10", 10, 500, 50, 5, 0.01, (1, 150, 1)),
    "fedcorr": Case("FedCorr, CIFAR-10", "resnet18", "cifar10", 10, 500, 10, 5, 0.01, (1, 160, 1)),
}
BATCHES = {"cpu": (32, 64, 128), "cuda": (64, 128, 256, 512, 1024, 2048, 4096)}
Rival = Callable[[Work], Speed]


def main() -> None:
    """Measure, and print a table a device."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("cases", nargs="*", default=[], help=f"of {', '.join(CASES)}; all of them")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="measure on this one only")
    parser.add_argument("--repeat", type=int, default=3, help="times that everyone's turn comes")
    parser.add_argument("--rounds", type=int, default=3, help="measured in a turn")
    parser.add_argument(
        "--pfl", action="store_true", help="with pfl-research, installed if missing"
    )
    arguments = parser.parse_args()
    unknown = set(arguments.cases) - set(CASES)
    if unknown:
        parser.error(f"no case is called {unknown.pop()!r} (known: {', '.join(CASES)})")
    python = install_pfl() if arguments.pfl else None
    devices = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    for device in [arguments.device] if arguments.device else devices:
        name = torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()} CPU"
        print(f"\n## {name}, torch {torch.__version__}\n")
        for case in arguments.cases or CASES:
            show(CASES[case], device, arguments.repeat, arguments.rounds, python)


def show(case: Case, device: str, repeat: int, rounds: int, python: Path | None) -> None:
    """Measure a case on a device and print its table."""
    print(
        f"### {case.title}: {case.model}, {case.participants} clients of {case.samples}, batch "
        f"{case.batch_size}, {case.local_epochs} epochs\n"
    )
    print("| | samples/s | of the repositories' loop | rounds/h, each evaluated | every 10th |")
    print("|---|---|---|---|---|")
    speeds: dict[str, list[Speed]] = {}
    for _ in range(repeat):
        for name in rivals(case, device, python):
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
                turn = process.submit(measure, case, name, device, rounds, python)
                speeds.setdefault(name, []).append(turn.result())
    base = median(speed.samples_per_second for speed in speeds["repositories' loop"])
    for name, measured in speeds.items():
        samples = median(speed.samples_per_second for speed in measured)
        hour = median(speed.rounds_per_hour for speed in measured)
        training = case.participants * case.samples * case.local_epochs / samples
        rarely = 3600 / (training + (3600 / hour - training) / 10)
        print(f"| {name} | {samples:,.0f} | {samples / base:.2f} | {hour:,.1f} | {rarely:,.1f} |")
    share = median(speed.samples_per_second for speed in speeds["ours, fast"])
    ceiling = median(speed.samples_per_second for speed in speeds["one model, no federation"])
    print(f"\nOurs is {share / ceiling:.0%} of the ceiling.\n", flush=True)


def measure(case: Case, name: str, device: str, rounds: int, python: Path | None) -> Speed:
    """The speed of one of :func:`rivals` at whole rounds of a case."""
    torch.set_num_threads(1)
    work = case.work(device, rounds)
    return case.whole(rivals(case, device, python)[name](work), work)


def rivals(case: Case, device: str, python: Path | None) -> dict[str, Rival]:
    """Everyone who can do a case's work here, by name."""
    classes = len(DATASETS[case.dataset].classes)

    def module() -> torch.nn.Module:
        return build_model(case.model, DATASETS[case.dataset].shape, classes, 1)

    def with_ours(executor: str, precision: str = "float32") -> Rival:
        def measure(work: Work) -> Speed:
            # One round warms up, the last one is evaluated; the rivals add what they need.
            more = replace(work, rounds=work.rounds + 2)
            return ours.measure(
                case.model, case.dataset, more, executor=executor, precision=precision
            )

        return measure

    known: dict[str, Rival] = {
        "repositories' loop": lambda work: repository_loop.measure(module(), work),
        "ours, loop": with_ours("loop"),
        "ours, fast": with_ours("fast"),
    }
    if device == "cuda":
        known["ours, fast, TF32"] = with_ours("fast", "tf32")
    known["ours, fast, bfloat16"] = with_ours("fast", "bfloat16")
    if python:
        known["pfl-research"] = lambda work: pfl_fedavg.measure(
            str(python), case.model, classes, work
        )
    known["one model, no federation"] = lambda work: central.measure(
        module(), work, batch_sizes=BATCHES[device]
    )
    return known


def install_pfl() -> Path:
    """The Python of an environment that has pfl-research and this one's torch."""
    python = PFL / "bin" / "python"
    if pfl_fedavg.missing(str(python)):
        print(f"Installing pfl-research into {PFL}", file=sys.stderr)
        uv = [sys.executable, "-m", "uv"]
        version = torch.__version__.partition("+")[0]
        subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, PFL], check=True)
        subprocess.run(
            [*uv, "pip", "install", "--quiet", "--python", python, "pfl", f"torch=={version}"],
            check=True,
        )
    return python


if __name__ == "__main__":
    main()
