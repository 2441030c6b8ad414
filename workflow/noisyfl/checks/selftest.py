"""Check that the fast executor computes correctly here: ``python -m noisyfl selftest``.

It needs no data: the images are scikit-learn's digits. On a CPU the same checks are made, as far as
they apply there.
"""

from __future__ import annotations

import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from noisyfl.checks.small_run import (
    Failed,
    check_alike,
    federation_of,
    prepare_digits,
    rounds_of,
    spec_of,
    torch_as_it_was,
)
from noisyfl.core.artifacts import Results
from noisyfl.core.options import BadInput
from noisyfl.models import MODELS
from noisyfl.runs import gpu, timing
from noisyfl.runs.train import choose_device
from noisyfl.simulation.fast import FastExecutor
from noisyfl.simulation.federation import Federation
from noisyfl.simulation.updates import Task
from noisyfl.specs.build import build_method
from noisyfl.specs.catalogue import methods

SCHEDULE = {
    "rounds": 4,
    "participation": 0.5,
    "local_epochs": 1,
    "batch_size": 20,
    "learning_rate": 0.02,
    "momentum": 0.5,
    "test_batch_size": 100,  # so that evaluation is captured too
}
BATCH_NORM = {
    "model": "resnet18",
    "partition": "iid(clients=6, samples=240)",
    "schedule": {**SCHEDULE, "rounds": 2},
}
"""Few steps of a model with batch normalisation, which a CPU takes in seconds."""

NO_CHANGES: Mapping[str, Any] = {}

CPU = torch.device("cpu")

CLOSE = 1e-5
"""How far two executors' weights may be apart in float64 after a few rounds."""

EXACT = 5e-5
"""How far products in float32 may be from the exact ones, as a share of the largest: a few times as
far as those of cuDNN's least exact algorithm in float32, and a sixth as far as those in TF32."""

SANITIZER_CODE = "from noisyfl.checks.selftest import eager_round; eager_round()"


Check = Callable[[torch.device], str]
"""Returns a line on what was found, or raises: :class:`Failed` with a line, or any other error."""


def selftest(
    device: str,
    say: Callable[[str], None] = print,
    names: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    minutes: float = math.inf,
) -> bool:
    """Make all checks, and say how fast the device is.

    Args:
        device: see :func:`noisyfl.runs.train.choose_device`.
        say: takes one line at a time.
        names: of methods; all by default.
        models: names of architectures; all by default.
        minutes: no check begins after them.

    Returns:
        Whether all that was checked is as it should be.
    """
    end_of_checks = time.monotonic() + 60 * minutes
    where = choose_device(device)
    failed = 0
    left_out = []
    for title, check in _checks(names or sorted(methods()), models or MODELS.names()):
        if time.monotonic() > end_of_checks:
            left_out.append(title)
            continue
        with torch_as_it_was():
            try:
                say(f"ok      {title}: {check(where)}")
            except Exception as error:
                # Any error here is a finding, and the other checks go on.
                failed += 1
                kind = "" if isinstance(error, Failed | BadInput) else f"{type(error).__name__}: "
                say(f"FAILED  {title}: {kind}{' '.join(str(error).split())}")
    with torch_as_it_was():
        timing.show_speeds(where, say)
    if left_out:
        say(f"not checked, as {minutes:g} minutes are over: {'; '.join(left_out)}")
    if failed:
        say(
            f"{failed} checks failed. Train with `executor: loop`, which is slower, and report "
            "these lines."
        )
        return False
    say(f"{'The checks that were made' if left_out else 'All checks'} passed.")
    return True


def _checks(names: Sequence[str], models: Sequence[str]) -> Iterator[tuple[str, Check]]:
    yield "versions", versions
    yield "batch normalisation, loop on the CPU against fast", check_batch_norm
    yield "products in float32", check_products
    yield "one slot against all", check_slots
    yield "an eager round under CUDA's sanitizer", check_streams
    yield "epochs that wait for nothing", check_no_waiting
    for model in models:
        yield f"{model}, captured", partial(check_captures, model=model)
    for name in names:
        yield f"{name}, loop on the CPU against fast", partial(compare_rounds, method=name)


# ---------------------------------------------------------------- the checks


def versions(device: torch.device) -> str:
    """The versions and the device that compute here."""
    text = f"Python {platform.python_version()}, torch {torch.__version__}"
    if device.type != "cuda":
        return f"{text}, {platform.machine()} CPU"
    major, minor = torch.cuda.get_device_capability(device)
    mps = "with" if gpu.mps_is_there() else "without"
    return (
        f"{text}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}, driver "
        f"{_driver()}, {torch.cuda.get_device_name(device)} (capability {major}.{minor}), {mps} MPS"
    )


def check_captures(device: torch.device, model: str) -> str:
    """Train a client with a model until its steps are captured and checked, if on a GPU."""
    federation = timing.random_federation(device, model, clients=1, samples=20, batch_size=5)
    executor, (_, client) = federation.executor, build_method("fedavg", "selftest")
    assert isinstance(executor, FastExecutor)
    tasks = [Task(federation.clients[0], federation.weights)]
    for round in range(2):
        executor.local_updates(tasks, client, round, "training")
    usage = executor.usage
    if usage.fallbacks:
        raise Failed("; ".join(usage.fallbacks))
    if device.type == "cuda" and not usage.captured:
        raise Failed("no step was captured")
    return f"{usage.captured} steps captured, {usage.eager} as they are"


def compare_rounds(
    device: torch.device, method: str, setting: Mapping[str, Any] = NO_CHANGES
) -> str:
    """Compare a method's rounds by the loop, on the CPU, with those by the fast executor on the
    device, in float64.
    """
    torch.set_default_dtype(torch.float64)
    loop = _train(CPU, method, "loop", setting)
    fast = _train(device, method, "fast", setting)
    check_alike(loop, fast, CLOSE)
    usage = fast.executor.usage
    if usage.fallbacks:
        raise Failed("; ".join(usage.fallbacks))
    return f"the same; {usage.captured} steps captured, {usage.eager} as they are"


def check_batch_norm(device: torch.device) -> str:
    """Compare rounds of a model with batch normalisation, its running statistics included."""
    return compare_rounds(device, "fedavg", BATCH_NORM)


def check_products(device: torch.device) -> str:
    """Compare a product and a convolution of a run in float32 with exact ones; say how far those
    of a run in tf32 are off.
    """
    generator = torch.Generator().manual_seed(1)
    one, other = (torch.randn(256, 256, generator=generator) for _ in range(2))
    images, kernels = (
        torch.randn(shape, generator=generator) for shape in ((8, 64, 8, 8), (64, 64, 3, 3))
    )

    def both(where: torch.device, dtype: torch.dtype) -> list[torch.Tensor]:
        left, right, pixels, filters = (
            tensor.to(where, dtype) for tensor in (one, other, images, kernels)
        )
        found = left @ right, torch.nn.functional.conv2d(pixels, filters, padding=1)
        return [each.double().cpu() for each in found]

    exact = both(CPU, torch.float64)
    errors = {}
    for precision in ("float32", "tf32"):
        timing.random_federation(
            device, "cnn", clients=1, samples=20, batch_size=10, precision=precision
        )
        errors[precision] = max(
            float((made - right).abs().max() / right.abs().max())
            for made, right in zip(both(device, torch.float32), exact, strict=True)
        )
    if not errors["float32"] <= EXACT:
        raise Failed(f"they are {errors['float32']:.1e} off")
    return f"{errors['float32']:.1e} off; in tf32 {errors['tf32']:.1e}"


def check_slots(device: torch.device) -> str:
    """Compare the same rounds on one slot and on as many slots as there are participants."""
    torch.set_default_dtype(torch.float64)
    one, all_of_them = (_train(device, "fedprox", "fast", slots=slots) for slots in (1, 3))
    check_alike(one, all_of_them, CLOSE)
    return f"the same on {all_of_them.executor.facts()['slots']}"


def check_streams(device: torch.device) -> str:
    """Let torch's sanitizer check in another process that streams wait for each other."""
    if device.type != "cuda":
        return "not on a CPU"
    done = subprocess.run(
        [sys.executable, "-c", SANITIZER_CODE],
        env={**os.environ, "TORCH_CUDA_SANITIZER": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    if done.returncode:
        raise Failed((done.stderr.strip() or "it ended without an error message")[-2000:])
    return "nothing found"


def eager_round() -> None:
    """Train some rounds on three slots without capturing, for the sanitizer to check."""
    _train(choose_device("cuda"), "fedprox", capturing=lambda: None)


def check_no_waiting(device: torch.device) -> str:
    """Train epochs of captured steps, in which nothing may make the host wait for the GPU."""
    if device.type != "cuda":
        return "not on a CPU"
    folder = Path(_folder().name)
    federation, _, client = federation_of(_spec("fedavg"), _digits(), folder, "fast", device)
    executor = federation.executor
    assert isinstance(executor, FastExecutor)
    tasks = [Task(each, federation.weights) for each in federation.clients[:3]]
    for round in range(4):
        executor.local_updates(tasks, client, round, "training")
    torch.cuda.set_sync_debug_mode("error")
    try:
        executor.launch(tasks, client, 4, "training")
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return "the host went ahead"


# ---------------------------------------------------------------- parts of the checks


@cache
def _folder() -> TemporaryDirectory[str]:
    """Where the digits and partitions lie as long as this process runs."""
    return TemporaryDirectory(prefix="selftest-")


@cache
def _digits() -> Results:
    return prepare_digits(Path(_folder().name))


def _spec(method: str, setting: Mapping[str, Any] = NO_CHANGES) -> dict[str, Any]:
    return spec_of(method, **{"schedule": SCHEDULE, **setting})


def _train(
    device: torch.device,
    method: str,
    executor: str = "fast",
    setting: Mapping[str, Any] = NO_CHANGES,
    **options: Any,
) -> Federation:
    """The federation after a few rounds of a method on the digits."""
    folder = Path(_folder().name)
    return rounds_of(_spec(method, setting), _digits(), folder, executor, device, **options)


def _driver() -> str:
    """The driver's version, if NVIDIA's library and its Python package are there."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # ImportError, or pynvml's own
        return "of unknown version"
    try:
        return str(pynvml.nvmlSystemGetDriverVersion())
    finally:
        pynvml.nvmlShutdown()
