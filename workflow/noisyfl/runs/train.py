"""From a spec to a run's artifact: a pure function of the spec and its noisy partition."""

from __future__ import annotations

import ctypes
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import pyarrow as pa
import torch

from noisyfl import __version__
from noisyfl.core.artifacts import (
    RunFiles,
    table_of,
    when_there_is_room,
    write_json,
    write_table,
)
from noisyfl.core.options import BadInput
from noisyfl.core.provenance import write_provenance
from noisyfl.data import noisy_partition
from noisyfl.data.augmentation import augment
from noisyfl.data.datasets.dataset import DATASETS, Part, read_part
from noisyfl.models import CACHE_ONLY, WeightFiles, build_model
from noisyfl.runs import gpu, processor
from noisyfl.runs.processor import device_name
from noisyfl.simulation import probes
from noisyfl.simulation.checkpoint import Checkpoint
from noisyfl.simulation.encoded import images_of
from noisyfl.simulation.executor import LoopExecutor
from noisyfl.simulation.fast import FastExecutor
from noisyfl.simulation.federation import CLIENT_COLUMNS, ROUND_COLUMNS, Federation
from noisyfl.simulation.model import Networks
from noisyfl.simulation.rounds import Report, simulate, unreported
from noisyfl.simulation.schedule import Schedule
from noisyfl.simulation.stream_slots import STREAM_SLOTS
from noisyfl.specs.build import build_method
from noisyfl.specs.catalogue import methods_digest
from noisyfl.specs.sources import source_digest
from noisyfl.specs.spec import describe_run, identity

EXECUTORS = {"loop": LoopExecutor, "fast": FastExecutor}
"""By name. Their results are equal up to rounding."""


def choose_device(wanted: str) -> torch.device:
    """Return the device for ``auto`` or for any name that torch knows; a GPU has its index.

    ``auto`` is the first GPU that CUDA may see, or the CPU if there is none. Which GPU CUDA may see
    has been settled before, by :func:`noisyfl.runs.devices.gpu_claim`.

    A run on a CPU uses one thread, so that its arithmetic does not depend on the machine's cores;
    several runs at once fill the cores.
    """
    gpu.prepare_cuda()
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(wanted)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise BadInput(f"device: got {wanted!r}, but torch sees no GPU here")
    if device.type == "cuda" and device.index is None:
        # torch's functions for memory refuse a GPU without its index.
        device = torch.device("cuda", torch.cuda.current_device())
    if device.type == "cpu":
        torch.set_num_threads(1)
        keep_freed_memory()
    return device


def keep_freed_memory() -> None:
    """Tell glibc to reuse freed memory, however much it is, and not to return it to the system.

    Otherwise the system provides fresh pages for every large activation, which it has to clear, so
    that testing in batches of 500 takes up to twice as long. Other C libraries are left alone.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        trim_threshold, mmap_threshold = -1, -3
        mallopt(trim_threshold, 2**31 - 1)
        mallopt(mmap_threshold, 2**30)


def train_run(
    spec: Mapping[str, Any],
    train_data: Path,
    test_data: Path,
    partition_path: Path,
    files: RunFiles,
    *,
    checkpoint_path: Path,
    weight_files: WeightFiles = CACHE_ONLY,
    device: str = "auto",
    executor: str = "fast",
    gpu_memory_mb: float | None = None,
    slots: int = STREAM_SLOTS,
    gpu_facts: Path | None = None,
    checkpoint_seconds: float = 60.0,
    log: Callable[[str], None] = print,
    report: Report = unreported,
    keep_model: bool = False,
    events: Path | None = None,
) -> None:
    """Train one run and write its artifact.

    Args:
        spec: canonical, as :func:`noisyfl.specs.spec.canonical_run` makes it.
        train_data: the dataset's training part.
        test_data: its test part.
        partition_path: the noisy partition that the spec names.
        files: where the artifact goes.
        checkpoint_path: where a checkpoint lies while the run is under way.
        weight_files: where published weights are looked for, if the model starts from them.
        device: see :func:`choose_device`.
        executor: a name of :data:`EXECUTORS`.
        gpu_memory_mb: what the run has claimed of its GPU, and does not exceed; by default it may
            use the whole GPU.
        slots: how many clients there is room for at once.
        gpu_facts: where the self-test writes what it found out about a GPU.
        checkpoint_seconds: time between two checkpoints.
        log: takes one line at a time.
        report: is told after each round how far the run is.
        keep_model: write the global model that the run ends with, too.
        events: the folder of TensorBoard's event files, if they are wanted.

    Raises:
        BadInput: the partition is of another spec, or a part of the data of another dataset.
        DamagedArtifact: a file is damaged, or the partition is of other data.
        Interrupted: the process was asked to end; run it again to go on.
    """
    begun = time.perf_counter()
    where = choose_device(device)
    options = {}
    if where.type == "cuda":
        gpu.limit_memory(where, gpu_memory_mb)
        log(f"MPS is {'there' if gpu.mps_is_there() else 'not there: runs on a GPU take turns'}")
        if executor == "fast":
            options = gpu.chosen(gpu_facts, where, spec["schedule"]["precision"], log)
            options["slots"] = min(options.get("slots", slots), slots)
    partition = noisy_partition.read(partition_path)
    if partition.spec != spec["noisy_partition"]:
        raise BadInput(f"{partition_path}: this is the partition of another spec than the run's")
    dataset = partition.spec["dataset"]
    train = _part_of(dataset, train_data)
    noisy_partition.check_content(partition, train.labels, len(train.classes), partition_path)
    server, client = build_method(spec["method"], "method")
    federation = build_federation(
        spec,
        client.networks,
        train,
        _part_of(dataset, test_data),
        partition,
        where,
        executor,
        weight_files,
        **options,
    )
    federation.executor.usage.log = log
    del train
    # The data are on the device by now; otherwise Arrow would keep the memory that they took.
    pa.default_memory_pool().release_unused()
    key = {
        "spec": identity(spec),
        "source": source_digest(),
        "torch": str(torch.__version__),
        "device": where.type,
    }
    checkpoint = Checkpoint(checkpoint_path, key, checkpoint_seconds, log)
    checkpoint.end_on_sigterm()
    log(f"run {key['spec']}: {describe_run(spec)} on {where}")
    ready = time.perf_counter()
    with _followed(federation, events, report) as report:
        status = simulate(federation, server, client, checkpoint, log, report)
    wanted = spec.get("probes", [])
    if wanted and status == "finished":
        log(f"measuring {', '.join(wanted)}")
        with checkpoint.guard(server.rounds(federation), federation):
            probes.measure(wanted, federation, server, client)
    provenance = {
        "run": key["spec"],
        "status": status,
        "rounds": len(federation.records.rounds),
        "realised_noise": partition.overall_noise,
        "noisyfl": __version__,
        "source_digest": source_digest(),
        "method_digest": methods_digest(spec["method"]),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": numpy.__version__,
        "pyarrow": pa.__version__,
        "executor": executor,
        "device": torch.cuda.get_device_name(where) if where.type == "cuda" else device_name(),
        **processor.facts(),
        **federation.executor.facts(),
        **gpu.facts_of(where),
        "setup_seconds": ready - begun,
        "training_seconds": sum(row["seconds"] for row in federation.records.rounds),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    rounds = server.rounds(federation) if status == "finished" else checkpoint.rounds_saved
    pause = partial(checkpoint.pause, rounds=rounds, federation=federation)
    if keep_model and status == "finished":
        from noisyfl.runs.kept_model import save_model

        kept = when_there_is_room(
            lambda: save_model(files.model, spec, federation, server), log, pause
        )
        log("kept the model" if kept else "no model kept: the clients' own ones are tested")
    when_there_is_room(lambda: write_run(spec, federation, provenance, files), log, pause)
    checkpoint.remove()
    log(f"{status}: {files.folder}")


def _part_of(dataset: str, path: Path) -> Part:
    part = read_part(path)
    if part.name != dataset:
        raise BadInput(f"{path}: expected a part of {dataset}, found one of {part.name}")
    return part


def build_federation(
    spec: Mapping[str, Any],
    networks: int,
    train: Part,
    test: Part,
    partition: noisy_partition.NoisyPartition,
    device: torch.device,
    executor: str = "fast",
    weight_files: WeightFiles = CACHE_ONLY,
    **options: Any,
) -> Federation:
    """The federation of a spec before its first round, on a device.

    Args:
        spec: canonical.
        networks: how many networks a model of the method has.
        train: the training part.
        test: the test part.
        partition: the noisy partition that the spec names.
        device: where everything lives.
        executor: a name of :data:`EXECUTORS`.
        weight_files: where published weights are looked for.
        options: of the executor.
    """
    facts = DATASETS[train.name]
    schedule = Schedule(**spec["schedule"])
    view = augment.View(facts, spec["augmentation"], spec["normalization"], device)
    images = images_of(train, device)
    if augment.AUGMENTATIONS[spec["augmentation"]].client_light:
        rows = [client.samples for client in partition.clients]
        images.pixels = view.taken(images.pixels, rows, spec["seed"])
    model = Networks(
        build_model(
            spec["model"], facts.shape, len(facts.classes), spec["seed"], number, weight_files
        )
        for number in range(networks)
    ).to(device)
    return Federation(
        partition,
        schedule,
        spec["seed"],
        EXECUTORS[executor](
            networks=model,
            train=images,
            test=images_of(test, device),
            view=view,
            schedule=schedule,
            seed=spec["seed"],
            device=device,
            **options,
        ),
        {name: value.clone() for name, value in model.state_dict().items()},
    )


def write_run(
    spec: Mapping[str, Any], federation: Federation, provenance: dict[str, Any], files: RunFiles
) -> None:
    """Write the four files of a run's artifact; the provenance, which says how it ended, last.

    Args:
        spec: of the run, canonical.
        federation: after the last round.
        provenance: how, when and with what it was trained.
        files: where the artifact lies.
    """
    metadata = {"run": identity(spec)}
    write_json(files.spec, spec)
    records = federation.records
    write_table(files.rounds, table_of(records.rounds, ROUND_COLUMNS), metadata)
    columns = {**CLIENT_COLUMNS, **probes.columns(spec.get("probes", []))}
    write_table(files.clients, table_of(records.clients, columns), metadata)
    write_provenance(files.provenance, provenance)


@contextmanager
def _followed(federation: Federation, events: Path | None, report: Report) -> Iterator[Report]:
    """A report that also writes each new round for TensorBoard, if event files are wanted."""
    if events is None:
        yield report
        return
    from noisyfl.runs.events import Events

    writer = Events(events)

    def told(rounds_done: int, rounds: int, seconds_left: float | None) -> None:
        if seconds_left is not None:  # at the start a resumed run's rounds are already written
            writer.write(federation.records.rounds[-1])
        report(rounds_done, rounds, seconds_left)

    try:
        yield told
    finally:
        writer.close()
