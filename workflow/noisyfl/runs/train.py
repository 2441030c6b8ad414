"""From a spec to a run's artifact: a pure function of the spec and its noisy partition."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import pyarrow as pa
import torch

from noisyfl import __version__
from noisyfl.core.artifacts import RunFiles, table_of, write_json, write_table
from noisyfl.core.options import BadInput
from noisyfl.core.provenance import write_provenance
from noisyfl.data import noisy_partition
from noisyfl.data.augmentation import augment
from noisyfl.data.datasets.dataset import DatasetPart, dataset
from noisyfl.data.datasets.parts import read_part
from noisyfl.models import CACHE_ONLY, MODELS, WeightFiles, build_model, fewest_images
from noisyfl.runs import gpu, processor
from noisyfl.runs.kept_labels import LABELS_REVISION, labels_table
from noisyfl.runs.processor import device_name
from noisyfl.runs.store import when_there_is_room
from noisyfl.runs.trackers import tracking
from noisyfl.simulation import probes
from noisyfl.simulation.checkpoint import Checkpoint
from noisyfl.simulation.encoded import images_of
from noisyfl.simulation.executor import LoopExecutor
from noisyfl.simulation.fast import FastExecutor
from noisyfl.simulation.federation import Federation
from noisyfl.simulation.model import Networks
from noisyfl.simulation.records import CLIENT_COLUMNS, ROUND_COLUMNS
from noisyfl.simulation.rounds import Report, retry_in_smaller_groups, simulate, unreported
from noisyfl.simulation.schedule import Schedule
from noisyfl.specs.build import build_method
from noisyfl.specs.catalogue import methods_digest
from noisyfl.specs.identity import identity
from noisyfl.specs.run_words import describe_run
from noisyfl.specs.sources import shared_digest, source_digest
from noisyfl.specs.spec import plugins_of

EXECUTORS = {"loop": LoopExecutor, "fast": FastExecutor}
"""By name. Their results are equal up to rounding."""


def choose_device(name: str) -> torch.device:
    """Return the device for ``auto`` or for any name that torch knows; a GPU has its index.

    ``auto`` is the first GPU that CUDA may see, or the CPU if there is none. Which GPU CUDA may see
    has been settled before, by :func:`noisyfl.runs.devices.gpu_seat`.

    A Slurm job that has asked for a GPU does not fall back on the CPU: its run would silently
    take days, and leave the checkpoint that a GPU has made.

    A run on a CPU uses one thread, so that its arithmetic does not depend on the machine's cores;
    several runs at once fill the cores.
    """
    # CUDA reads it when it starts: by default, streams beyond eight wait for others.
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() or gpu.slurm_promised_gpu() else "cpu"
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        here = " (Slurm job with a GPU)" if gpu.slurm_promised_gpu() else ""
        raise gpu.NoGpu(f"device: got {name!r}, but torch sees no GPU on {platform.node()}{here}")
    if device.type == "cuda" and device.index is None:
        # torch's functions for memory reject a GPU without its index.
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


@dataclass(frozen=True)
class Inputs:
    """The files that a run is made from: its dataset's two parts, and its noisy partition."""

    train: Path
    test: Path
    partition: Path

    def read(
        self, spec: Mapping[str, Any]
    ) -> tuple[DatasetPart, DatasetPart, noisy_partition.NoisyPartition]:
        """The training part, the test part and the noisy partition; raises as :func:`train_run`."""
        partition = noisy_partition.read(self.partition)
        if partition.spec != spec["noisy_partition"]:
            raise BadInput(
                f"{self.partition}: got the partition of another spec, expected the run's"
            )
        name = dataset(partition.spec["dataset"]).name
        train = _part_of(name, self.train)
        noisy_partition.check_content(partition, train.labels, self.partition)
        return train, _part_of(name, self.test), partition


@dataclass(frozen=True)
class TrainingOptions:
    """What the caller of a training decides; none of it is part of the spec.

    Attributes:
        device: see :func:`choose_device`.
        executor: a name of :data:`EXECUTORS`.
        weight_files: where published weights are looked for, if the model starts from them.
        checkpoint_seconds: time between two checkpoints.
        keep_model: write the global model that the run ends with, too.
        keep_labels: write what the run found of each sample's label, too.
        trackers: names of :data:`noisyfl.runs.trackers.TRACKERS`.
        results: the folder of all artifacts, where trackers write.
    """

    device: str = "auto"
    executor: str = "fast"
    weight_files: WeightFiles = CACHE_ONLY
    checkpoint_seconds: float = 60.0
    keep_model: bool = False
    keep_labels: bool = False
    trackers: tuple[str, ...] = ()
    results: Path = Path("results")


DEFAULTS = TrainingOptions()
"""What a caller gets that asks for nothing else."""


def train_run(
    spec: Mapping[str, Any],
    inputs: Inputs,
    files: RunFiles,
    checkpoint_path: Path,
    options: TrainingOptions = DEFAULTS,
    log: Callable[[str], None] = print,
    report: Report = unreported,
) -> None:
    """Train one run and write its artifact.

    Args:
        spec: canonical, as :func:`noisyfl.specs.spec.canonical_run` makes it.
        files: where the artifact goes.
        checkpoint_path: where a checkpoint lies while the run is under way.
        log: takes one line at a time.
        report: is called after each round with how far the run is.

    Raises:
        BadInput: the partition is of another spec, or a part of the data of another dataset.
        DamagedArtifact: a file is damaged, or the partition is of other data.
        Interrupted: the process was asked to end; run it again to resume.
    """
    begun = time.perf_counter()
    device = choose_device(options.device)
    if device.type == "cuda":
        gpu.start_anew(device)
        log(
            f"MPS is {'running' if gpu.mps_is_there() else 'not running: runs on a GPU take turns'}"
        )
    server, client = build_method(spec["method"], "method")
    train, test, partition = inputs.read(spec)
    federation = build_federation(
        spec,
        client.networks,
        train,
        test,
        partition,
        device,
        options.executor,
        options.weight_files,
    )
    federation.executor.usage.log = log
    del train, test
    # The data are on the device by now; otherwise Arrow would keep the memory that they took.
    pa.default_memory_pool().release_unused()
    key, machine = _checkpoint_key(spec), _machine(device)
    if options.keep_labels:
        key["ledger"] = f"revision {LABELS_REVISION}"
    source_digest()  # which is kept, as the sources may be edited while the run is trained
    checkpoint = Checkpoint(checkpoint_path, key, options.checkpoint_seconds, log, machine)
    checkpoint.end_on_sigterm()
    log(f"run {key['spec']}: {describe_run(spec)} on {device}")
    setup_seconds = time.perf_counter() - begun

    tracked = tracking(options.trackers, spec, options.results, federation, report, log)
    with tracked as report_round:
        status = simulate(
            federation, server, client, checkpoint, log, report_round, options.keep_labels
        )
    finished = status == "finished"
    if finished and (probed := spec.get("probes", [])):
        log(f"measuring {', '.join(probed)}")
        with checkpoint.guard(server.rounds(federation), federation):
            retry_in_smaller_groups(
                federation, partial(probes.run_probes, probed, federation, server, client)
            )

    provenance = {
        "status": status,
        "executor": options.executor,
        "setup_seconds": setup_seconds,
        "realised_noise": partition.overall_noise,
        **_provenance(spec, federation),
        **({"earlier": checkpoint.earlier} if checkpoint.earlier else {}),
    }
    rounds = server.rounds(federation) if finished else checkpoint.rounds_saved
    pause = partial(checkpoint.pause, rounds=rounds, federation=federation)
    if finished and options.keep_model:
        from noisyfl.runs.final_model import save_model

        save = partial(save_model, files.model, spec, federation, server)
        saved = when_there_is_room(save, log, pause)
        if not saved:
            files.folder.mkdir(parents=True, exist_ok=True)
            files.no_model.touch()
        log("saved the model" if saved else "no model saved: the clients' own ones are tested")
    if finished and (ledger := federation.records.ledger) is not None:
        table = labels_table(federation.clients, ledger)
        about = {"run": identity(spec), "revision": LABELS_REVISION}
        when_there_is_room(lambda: write_table(files.labels, table, about), log, pause)
    when_there_is_room(lambda: write_run(spec, federation, provenance, files), log, pause)
    checkpoint.remove()
    log(f"{status}: {files.folder}")


def _checkpoint_key(spec: Mapping[str, Any]) -> dict[str, str]:
    """What has to be the same for a run to go on from a checkpoint."""
    plugins = {name: facts["sha256"] for name, facts in plugins_of(spec).items()}
    return {
        "spec": identity(spec),
        "source": shared_digest(),
        "method": methods_digest(spec["method"]),
        **plugins,
    }


def _machine(device: torch.device) -> dict[str, str]:
    """What a run's numbers depend on beside its spec and the sources."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device_name()
    return {"device": name, "torch": str(torch.__version__)}


def _provenance(spec: Mapping[str, Any], federation: Federation) -> dict[str, Any]:
    """How and with what a run was trained."""
    rounds, device = federation.records.rounds, federation.executor.device
    return {
        "run": identity(spec),
        "rounds": len(rounds),
        "noisyfl": __version__,
        "source_digest": source_digest(),
        **({"plugins": plugins} if (plugins := plugins_of(spec)) else {}),
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "pyarrow": pa.__version__,
        **_machine(device),
        **processor.processor_facts(),
        **federation.executor.facts(),
        **gpu.gpu_facts(device),
        "training_seconds": sum(row["seconds"] for row in rounds),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _part_of(name: str, path: Path) -> DatasetPart:
    part = read_part(path)
    if part.name != name:
        raise BadInput(f"{path}: expected a part of {name}, found one of {part.name}")
    return part


def build_federation(
    spec: Mapping[str, Any],
    networks: int,
    train: DatasetPart,
    test: DatasetPart,
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
        executor: a name of :data:`EXECUTORS`.
        options: of the executor.
    """
    facts = train.facts
    schedule = Schedule(**spec["schedule"])
    view = augment.View(facts, spec["augmentation"], spec["normalization"], device)
    images = images_of(train, device)
    if augment.AUGMENTATIONS[spec["augmentation"]].client_light:
        rows = [client.samples for client in partition.clients]
        images.pixels = view.in_client_light(images.pixels, rows, spec["seed"])
    shape, classes = facts.shape, len(facts.classes)
    model = Networks(
        (
            build_model(spec["model"], shape, classes, spec["seed"], number, weight_files)
            for number in range(networks)
        ),
        fewest_images(MODELS.build(spec["model"], "model"), shape, classes),
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
    """Write the four files of a run's artifact; the provenance, which says how it ended, last."""
    metadata = {"run": identity(spec)}
    write_json(files.spec, spec)
    records = federation.records
    write_table(files.rounds, table_of(records.rounds, ROUND_COLUMNS), metadata)
    columns = {**CLIENT_COLUMNS, **probes.columns(spec.get("probes", []))}
    write_table(files.clients, table_of(records.clients, columns), metadata)
    write_provenance(files.provenance, provenance)
