"""Load weights that torchvision publishes, from a data folder or from torchvision's own cache."""

from __future__ import annotations

import hashlib
import http.client
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torchvision.models import ResNet50_Weights

from noisyfl.core.options import BadInput
from noisyfl.core.text import reason
from noisyfl.data.datasets.download import NotDownloaded
from noisyfl.data.roots import each
from noisyfl.models.model import WeightFiles

IMAGENET = ResNet50_Weights.IMAGENET1K_V1
"""The weights that \"pretrained\" meant when the papers were written (76.1 % top-1)."""


def load_imagenet(network: nn.Module, files: WeightFiles) -> None:
    """Give a ResNet-50 ImageNet's weights, all but those of its classifier.

    Raises:
        BadInput: there is no file of the weights, or it is damaged.
        NotDownloaded: the file should be downloaded, and that failed.
    """
    path = _path(files)
    digest = _digest(path.name)
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if not found.startswith(digest):
        raise BadInput(
            f"model.pretrained: {path} has SHA-256 {found}, expected one that begins with "
            f"{digest}; delete it, and get {IMAGENET.url}"
        )
    weights: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    body = {name: value for name, value in weights.items() if not name.startswith("fc.")}
    network.load_state_dict({**network.state_dict(), **body})


def _path(files: WeightFiles) -> Path:
    """The path of the file of the weights, which is downloaded if it is missing and may be."""
    name = IMAGENET.url.rsplit("/", 1)[-1]
    cache = Path(torch.hub.get_dir()) / "checkpoints" / name
    given = [root / name for root in each(files.roots)] if files.roots is not None else []
    for path in (*given, cache):
        if path.is_file():
            return path
    places = " or ".join(str(path.parent) for path in (*given, cache))
    if not files.download:
        raise BadInput(
            f"model.pretrained: ImageNet's weights, {name}, are not in {places}; get "
            f"{IMAGENET.url}, or set data.download: true or --download"
        )
    path = given[-1] if given else cache
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.hub.download_url_to_file(IMAGENET.url, str(path), _digest(name), progress=False)
    except (OSError, RuntimeError, http.client.HTTPException) as error:
        raise NotDownloaded(
            f"model.pretrained: {IMAGENET.url} could not be downloaded ({reason(error)}); get it, "
            f"and put it into {places}"
        ) from error
    return path


def _digest(name: str) -> str:
    """The beginning of a file's SHA-256, which torchvision makes part of its name."""
    return Path(name).stem.rsplit("-", 1)[-1]
