"""Test the model that a run has saved again."""

from __future__ import annotations

from typing import Any

from noisyfl.core.artifacts import DamagedArtifact, RunFiles, read_json
from noisyfl.data.augmentation.augment import View
from noisyfl.data.datasets.dataset import DatasetPart, dataset
from noisyfl.runs.final_model import FinalModel, read_model_file
from noisyfl.runs.train import EXECUTORS, choose_device
from noisyfl.simulation.encoded import images_of
from noisyfl.simulation.outputs import Predictor
from noisyfl.simulation.rounds import evaluate_models
from noisyfl.simulation.schedule import Schedule
from noisyfl.specs.build import build_method
from noisyfl.specs.identity import identity


def evaluate_model(files: RunFiles, test: DatasetPart, device: str) -> dict[str, Any]:
    """Test the model that a run has saved, in the way in which the run tested it.

    On the same kind of processor and with the same version of torch the results are the same to the
    last digit, on a GPU up to rounding: it may have other layouts and algorithms in use.

    Returns:
        The same as :func:`noisyfl.simulation.rounds.evaluate_models`.

    Raises:
        DamagedArtifact: a file is damaged, or the model is another run's.
    """
    spec, where = read_json(files.spec), choose_device(device)
    facts, weights = read_model_file(files.model)
    if facts["run"] != identity(spec):
        raise DamagedArtifact(
            f"{files.model}: expected the run {identity(spec)}, got {facts['run']}"
        )
    _, client = build_method(spec["method"], "method")
    schedule = Schedule(**spec["schedule"])
    images = images_of(test, where)
    executor = EXECUTORS[read_json(files.provenance)["executor"]](
        networks=FinalModel(facts, weights).networks.to(where),
        train=images,
        test=images,
        view=View(dataset(facts["dataset"]), "none", facts["normalization"], where),
        schedule=schedule,
        seed=spec["seed"],
        device=where,
    )
    on_device = {name: value.to(where) for name, value in weights.items()}
    return evaluate_models([Predictor(on_device)], client, executor, {})
