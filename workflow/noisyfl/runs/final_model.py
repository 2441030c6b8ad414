"""The global model that a run ends with, saved beside its artifact for others to use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from noisyfl import __version__
from noisyfl.core.artifacts import DamagedArtifact, RunFiles, replacing
from noisyfl.core.options import BadInput, kind_of
from noisyfl.core.provenance import read_provenance
from noisyfl.data.augmentation.augment import View
from noisyfl.data.datasets.dataset import dataset
from noisyfl.models import build_model
from noisyfl.simulation.executor import NO_DRAWS
from noisyfl.simulation.federation import Federation
from noisyfl.simulation.model import Networks
from noisyfl.simulation.server_side import ServerSide
from noisyfl.simulation.weights import Weights
from noisyfl.specs.identity import identity


def save_model(
    path: Path, spec: Mapping[str, Any], federation: Federation, server: ServerSide
) -> bool:
    """Write the global model as safetensors, with what it takes to build and to feed it.

    Args:
        federation: after the last round.

    Returns:
        Whether it was written. It is not if the method is tested with its clients' own models,
        since its accuracy is then not that of a single model.
    """
    models = server.predictors(federation)
    if len(models) != 1 or models[0].client is not None:
        return False
    of = dataset(spec["noisy_partition"]["dataset"])
    about = {
        "run": identity(spec),
        "method": spec["method"],
        "dataset": of.canonical,
        "classes": of.classes,
        "shape": of.shape,
        "model": spec["model"],
        "normalization": spec["normalization"],
        "noisyfl": __version__,
    }
    weights = {name: value.contiguous() for name, value in models[0].weights.items()}
    content = save(weights, {key: json.dumps(value) for key, value in about.items()})
    with replacing(path) as draft:
        draft.write_bytes(content)
    return True


def why_no_model(files: RunFiles, stored: RunFiles) -> str:
    """Why a complete run has no model, and how to get one if it may have one.

    Args:
        files: where its artifact was found.
        stored: of the run in the store.
    """
    if stored.no_model.exists():
        return "the run keeps no model, as it is tested with its clients' own models"
    if read_provenance(files.provenance, files.folder.name).status == "diverged":
        return "the run keeps no model, as it diverged"
    return (
        "no model was saved; `noisyfl train SPEC.json --keep-models`, with the run's spec.json, "
        "trains it once more and saves one"
    )


class FinalModel(nn.Module):
    """A model as a run left it, in evaluation mode.

    Attributes:
        networks: the model's networks; most methods have one.
        facts: what the file says of it: ``run``, ``method``, ``dataset``, ``classes`` (their
            names), ``shape`` (height, width, channels), ``model``, ``normalization``, ``noisyfl``.
    """

    def __init__(self, facts: Mapping[str, Any], weights: Weights) -> None:
        super().__init__()
        numbers = {int(name.partition(".")[0]) for name in weights}
        shape, classes, model = tuple(facts["shape"]), len(facts["classes"]), facts["model"]
        self.facts = facts
        self.networks = Networks(  # whose weights take the place of published ones
            build_model(model, shape, classes, 0, number, files=None) for number in sorted(numbers)
        )
        self.networks.load_state_dict(weights)
        self.eval()

    def forward(self, images: Tensor, network: int = 0) -> Tensor:
        """The logits, [n, classes].

        Args:
            images: uint8 [n, channels, height, width], as the dataset's publisher has them; of
                vectors, float32 [n, features, 1, 1], as the prepared test part has them.
            network: the number of the network that computes them.

        Raises:
            BadInput: the images have another type or number of channels.
        """
        of = dataset(self.facts["dataset"])
        channels = of.shape[2]
        kind = torch.float32 if of.vectors else torch.uint8
        if images.dtype != kind or images.ndim != 4 or images.shape[1] != channels:
            expected = (
                f"float32 [n, {channels}, 1, 1]"
                if of.vectors
                else f"uint8 [n, {channels}, height, width] with values from 0 to 255"
            )
            raise BadInput(f"images: got {kind_of(images)}, expected {expected}")
        view = View(of, "none", self.facts["normalization"], images.device)
        views = view.show("plain", images, NO_DRAWS)
        return self.networks.outputs(views, network, "float32").logits


def load_model_file(path: Path | str) -> FinalModel:
    """Read a model that :func:`save_model` has written.

    Raises:
        DamagedArtifact: the file is damaged, or was not written by :func:`save_model`.
        FileNotFoundError: there is no such file.
    """
    facts, weights = read_model_file(Path(path))
    return FinalModel(facts, weights)


def read_model_file(path: Path) -> tuple[dict[str, Any], Weights]:
    """A file's facts about its model, and its weights on the host; raises as
    :func:`load_model_file`.
    """
    try:
        with safe_open(path, framework="pt") as file:
            facts = {key: json.loads(text) for key, text in file.metadata().items()}
            weights = {name: torch.as_tensor(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except (SafetensorError, ValueError, AttributeError) as error:
        raise DamagedArtifact(f"{path}: not the saved model of a run ({error})") from error
    if "run" not in facts:
        raise DamagedArtifact(f"{path}: not the saved model of a run (it names no run)")
    return facts, weights
