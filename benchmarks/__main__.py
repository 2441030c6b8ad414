"""How fast the simulation is: ``python -m benchmarks``, from the repository's folder.

For each of four federations of the papers, training with FedAvg on images of the right shape:
the project's fast executor and its plain loop, a loop as the papers' repositories have it, and
with ``--pfl`` pfl-research's simulator, in an environment that is made for it; and as a ceiling,
the same model trained without a federation, at the batch size that is fastest. All on one thread of
a CPU, and on the GPU if there is one; by turns, and each turn in a process of its own, so that no
one profits from what another one has set or warmed up. Then for each precision the share of
the device's matrix rate; and of a GPU, how many runs an hour it does with several side by side,
with NVIDIA's MPS and without.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import platform
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from pathlib import Path
from statistics import median

import torch

from benchmarks import Speed, pfl_fedavg, side_by_side
from benchmarks.cases import CASES, Case, measure, rivals
from benchmarks.roofline import flops_trained, matrix_rate

PRECISION_OF = {
    "ours, fast": "float32",
    "ours, fast, TF32": "tf32",
    "ours, fast, bfloat16": "bfloat16",
}
"""The precision of each rival whose share of the device's matrix rate is printed."""

PFL = Path(__file__).parent / ".pfl"
"""The environment of pfl-research, which this benchmark alone needs."""


def main() -> None:
    """Measure, and print a table for each case on each device."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("cases", nargs="*", default=[], help=f"of {', '.join(CASES)}; all of them")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="measure on this one only")
    parser.add_argument("--repeat", type=int, default=3, help="times that everyone's turn comes")
    parser.add_argument("--rounds", type=int, default=3, help="measured in a turn")
    parser.add_argument(
        "--pfl", action="store_true", help="with pfl-research, installed if missing"
    )
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that MPS is ended, too
    unknown = set(arguments.cases) - set(CASES)
    if unknown:
        parser.error(f"no case is called {unknown.pop()!r} (known: {', '.join(CASES)})")
    devices = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    for device in [arguments.device] if arguments.device else devices:
        python = install_pfl() if arguments.pfl else None
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
                try:
                    speed = turn.result()
                except RuntimeError as error:
                    print(f"{name}: {error}", file=sys.stderr)
                    continue
            # At once, for whoever has only minutes: the table is printed at the end.
            print(f"{name}: {speed.samples_per_second:,.0f} samples/s", file=sys.stderr)
            speeds.setdefault(name, []).append(speed)
    medians = {
        name: median(speed.samples_per_second for speed in each) for name, each in speeds.items()
    }
    base = medians.get("repositories' loop", math.nan)
    for name, measured in speeds.items():
        samples = medians[name]
        hour = median(speed.rounds_per_hour for speed in measured)
        training = case.participants * case.samples * case.local_epochs / samples
        rarely = 3600 / (training + (3600 / hour - training) / 10)
        print(f"| {name} | {samples:,.0f} | {samples / base:.2f} | {hour:,.1f} | {rarely:,.1f} |")
    ours, ceiling = (medians.get(name) for name in ("ours, fast", "one model, no federation"))
    if ours and ceiling:
        print(f"\nOurs is {ours / ceiling:.0%} of the ceiling.")
    for name, computed_in in PRECISION_OF.items():
        if name in medians:
            rate = flops_trained(case.model, case.dataset) * medians[name]
            peak = matrix_rate(device, computed_in)
            print(
                f"Roofline: {name} computes {rate / 1e12:.3g} TFLOP/s, {rate / peak:.0%} of what a "
                "large matrix product reaches here."
            )
    print(flush=True)
    if device == "cuda":
        side_by_side.show(case, device, "tf32", rounds)


def install_pfl() -> Path | None:
    """The Python of an environment with pfl-research and this one's torch, installed if missing;
    None if that fails.
    """
    python = PFL / "bin" / "python"
    if pfl_fedavg.missing(str(python)):
        print(f"Installing pfl-research into {PFL}", file=sys.stderr)
        uv = [sys.executable, "-m", "uv"]
        # What follows a plus, as in 2.13.0+cu126, is of a build that the index may not have.
        same = [f"{name}=={version(name).split('+')[0]}" for name in ("torch", "torchvision")]
        into = ["--quiet", "--python", str(python)]
        try:
            subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, PFL], check=True)
            subprocess.run([*uv, "pip", "install", *into, "pfl", *same], check=True)
        except subprocess.CalledProcessError as error:
            print(f"without pfl-research, which cannot be installed: {error}", file=sys.stderr)
            return None
    return python


if __name__ == "__main__":
    main()
