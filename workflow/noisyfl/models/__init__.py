"""Network architectures by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from noisyfl.core.options import BadInput, kind_of, within
from noisyfl.core.randomness import only_streams, torch_seed
from noisyfl.models import cnn, mlp, resnet  # noqa: F401  (where the models are registered)
from noisyfl.models.model import CACHE_ONLY, MODELS, Model, Shape, WeightFiles

__all__ = [
    "CACHE_ONLY",
    "MODELS",
    "Model",
    "WeightFiles",
    "build_model",
    "check_module",
    "fewest_images",
]


def check_module(module: nn.Module, shape: Shape, classes: int) -> None:
    """Check that a model's module gives what methods ask of it, and that all of it can be trained:
    see :func:`build_model`.

    Args:
        module: in evaluation mode.

    Raises:
        BadInput: ``features`` or ``classifier`` is missing, or another shape comes out; the module
            gives something else than ``classifier`` on top of ``features``; or a parameter has no
            shape yet, is frozen, or has no part in the logits.
    """
    height, width, channels = shape
    images = torch.zeros(2, channels, height, width)
    classifier, features_of = (getattr(module, name, None) for name in ("classifier", "features"))
    if not isinstance(classifier, nn.Linear) or not callable(features_of):
        raise BadInput(
            "got a module without features(images) and a linear layer `classifier`, expected both"
        )
    for name, weight in module.named_parameters():
        if is_lazy(weight):
            raise BadInput(
                f"{name}: got a parameter of a lazy layer, which has no shape yet, expected layers "
                "of a given size, or a module that `build` has run once"
            )
        if not weight.requires_grad:
            raise BadInput(
                f"{name}: got a frozen parameter (requires_grad=False), expected parameters that "
                "are trained; a method leaves some as they are by `Epoch.learns`"
            )
    given: list[Tensor] = []
    with classifier.register_forward_hook(lambda layer, features, logits: given.append(logits)):
        features, logits = features_of(images), module(images)
    for what, found, expected in (
        ("features(images)", features, (2, classifier.in_features)),
        ("the module", logits, (2, classes)),
    ):
        if not isinstance(found, Tensor) or tuple(found.shape) != expected:
            raise BadInput(
                f"{what} gives {kind_of(found)} for two images, expected a tensor {list(expected)}"
            )
    if not any(logits is one for one in given):
        raise BadInput(
            "the module gives something else than `classifier` does, expected "
            "classifier(features(images)), which is all that a run calls"
        )
    module.train()
    reached = _leaves(classifier(features_of(images)))
    module.eval()
    for name, weight in module.named_parameters():
        if id(weight) not in reached:
            raise BadInput(
                f"{name}: got a parameter on which classifier(features(images)) does not depend, "
                "expected none, as all are trained"
            )


def _leaves(result: Tensor) -> set[int]:
    """The ids of the tensors that a gradient of a result would reach."""
    seen, left = set(), [result.grad_fn]
    while left:
        node = left.pop()
        if node is not None and node not in seen:
            seen.add(node)
            left += [before for before, _ in node.next_functions]
    return {id(node.variable) for node in seen if hasattr(node, "variable")}


def fewest_images(model: Model, shape: Shape, classes: int) -> int:
    """The fewest images that a model can be trained on in a step: two if some layer has a single
    value per channel and image, which batch normalisation cannot train on; else one.
    """
    height, width, channels = shape
    # Not on torch's meta device, whose linear layers import torch's compiler, for over a second.
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        module = model.build(shape, classes).train()
        try:
            module(torch.zeros(1, channels, height, width))
        except ValueError:  # torch's "Expected more than 1 value per channel when training"
            return 2
    return 1


def build_model(
    spec: str | Mapping[str, Any],
    shape: Shape,
    classes: int,
    seed: int,
    network: int = 0,
    files: WeightFiles | None = CACHE_ONLY,
) -> nn.Module:
    """A freshly initialised model on the CPU.

    Its input is float [n, channels, height, width]. ``features(x)`` is [n, width], the input of
    the linear layer ``classifier``; ``forward(x)`` is [n, classes], the logits.

    The weights have PyTorch's default initialisation, drawn from the seed and nothing else; torch's
    own generators are left as they were.

    Args:
        shape: of an image: height, width, channels.
        network: the number of the network, for methods that train several.
        files: where published weights are looked for, if the model starts from them; None: it does
            not, as its weights are set by whoever asks.

    Raises:
        BadInput: unknown model or option, images that the model cannot take, or published weights
            that are asked for and cannot be had.
    """
    model = MODELS.build(spec, "model")
    with within("model"):
        model.check(shape)
    with (
        torch.random.fork_rng(devices=[]),
        only_streams(f"model.{model.name}.build", "torch's generator"),
    ):
        # Not torch.manual_seed, which reseeds every GPU as well.
        torch.default_generator.manual_seed(torch_seed(seed, "model", network))
        module = model.build(shape, classes)
    if files is not None:
        model.pretrain(module, files)
    return module
