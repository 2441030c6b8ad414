import hashlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torchvision
from torch import nn

from noisyfl.core.options import BadInput
from noisyfl.data.datasets.download import NotDownloaded
from noisyfl.models import (
    MODELS,
    WeightFiles,
    build_model,
    check_module,
    fewest_images,
    pretrained,
)

CIFAR = (32, 32, 3)
FASHION = (28, 28, 1)
NETWORKS = [
    pytest.param(name, marks=[pytest.mark.slow] * (name in ("resnet34", "resnet50")))
    for name in MODELS.names()
]


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(
    ("model", "shape", "classes", "parameters", "width"),
    [
        ("cnn", (8, 8, 1), 10, 13_706, 64),
        ("mlp", (1, 1, 64), 10, 4_810, 64),
        ("mlp(hidden=[])", (1, 1, 30), 2, 62, 30),
        ("mlp(hidden=[200, 200])", FASHION, 10, 199_210, 200),
        ("cnn2conv", FASHION, 10, 83_466, 64 * 7 * 7),
        ("cnn4conv", CIFAR, 10, 115_658, 256),
        ("cnn4conv", CIFAR, 100, 138_788, 256),
        ("cnn4narrow", CIFAR, 10, 68_522, 256),
        ("cnn4pooled", CIFAR, 10, 94_346, 64),
        ("cnn9", CIFAR, 10, 4_434_570, 128),
        ("resnet18", CIFAR, 10, 11_173_962, 512),
        pytest.param("resnet34", CIFAR, 100, 21_328_292, 512, marks=pytest.mark.slow),
        pytest.param(
            *("resnet50", (64, 64, 3), 14, 23_508_032 + 2048 * 14 + 14, 2048),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_parameters_and_features(
    model: str, shape: tuple[int, int, int], classes: int, parameters: int, width: int
) -> None:
    module = build_model(model, shape, classes, seed=0).eval()
    images = torch.rand(2, shape[2], *shape[:2])
    features = module.features(images)
    assert count(module) == parameters
    assert features.shape == (2, width)
    assert isinstance(module.classifier, nn.Linear)
    assert module.classifier.out_features == classes
    assert torch.equal(module(images), module.classifier(features))


class Lazy(nn.Module):
    """Learns the number of its pixels from the first images."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.LazyLinear(4), nn.BatchNorm1d(4))
        self.classifier = nn.Linear(4, 10)

    def features(self, images: torch.Tensor) -> torch.Tensor:
        return self.body(images)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(images))


def test_a_lazy_layer_that_has_been_run_is_one_like_others() -> None:
    module = Lazy().eval()
    module(torch.zeros(1, 1, 28, 28))
    check_module(module, FASHION, 10)
    assert not module.training


@pytest.mark.parametrize("model", NETWORKS)
def test_smallest_images(model: str) -> None:
    smallest = MODELS.get(model, "here").minimum
    module = build_model(model, (smallest, smallest + 1, 3), 4, seed=0).train()
    module(torch.rand(2, 3, smallest, smallest + 1)).sum().backward()
    assert all(parameter.grad is not None for parameter in module.parameters())

    small = smallest - 1
    with pytest.raises(BadInput) as error:
        build_model(model, (smallest, small, 3), 4, seed=0)
    assert str(error.value) == (
        f"model: {model} cannot take images of {smallest}x{small}, expected at least "
        f"{smallest}x{smallest}"
    )
    with pytest.raises(BadInput, match=f"cannot take images of {small}x{smallest}"):
        build_model(model, (small, smallest, 3), 4, seed=0)


@pytest.mark.parametrize(
    ("model", "side"), [("cnn9", 28), ("cnn9", 32), ("resnet18", 8), ("resnet18", 9)]
)
def test_a_single_value_per_channel_needs_two_images(model: str, side: int) -> None:
    shape = (side, side, 1)
    fewest = fewest_images(MODELS.build(model, "model"), shape, 4)
    assert fewest == (2 if side in (8, 28) else 1)
    module = build_model(model, shape, 4, seed=0).train()
    module(torch.rand(fewest, 1, side, side))
    if fewest == 2:
        with pytest.raises(ValueError, match="more than 1 value per channel"):
            module(torch.rand(1, 1, side, side))


def test_unknown_model_and_option() -> None:
    with pytest.raises(BadInput, match="no model is called 'resnet19'; did you mean 'resnet"):
        build_model("resnet19", CIFAR, 10, seed=0)
    with pytest.raises(BadInput, match="unknown option 'pretraind'; did you mean 'pretrained'"):
        build_model("resnet50(pretraind=1)", CIFAR, 10, seed=0)


def weights(*arguments: int) -> torch.Tensor:
    return nn.utils.parameters_to_vector(
        build_model("cnn4conv", CIFAR, 10, *arguments).parameters()
    )


def test_initialisation_depends_on_the_seed_alone() -> None:
    torch.manual_seed(1)
    first = weights(7)
    torch.rand(3)
    assert torch.equal(weights(7), first)
    assert not torch.equal(weights(8), first)
    assert torch.equal(weights(7, 0), first)
    assert not torch.equal(weights(7, 1), first)


def test_torchs_own_generator_is_left_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    build_model("cnn", FASHION, 10, seed=7)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("model", NETWORKS)
def test_pytorchs_default_initialisation(model: str) -> None:
    module = build_model(model, CIFAR, 10, seed=0)
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            bound = layer.weight[0].numel() ** -0.5
            assert 0.9 * bound < layer.weight.abs().max() <= bound
        if isinstance(layer, nn.BatchNorm2d):
            assert bool((layer.weight == 1).all())
            assert bool((layer.bias == 0).all())
            assert layer.momentum == 0.1


def test_cnn4conv_has_no_memory_of_batches() -> None:
    module = build_model("cnn4conv", CIFAR, 10, seed=0)
    images = torch.rand(4, 3, 32, 32)
    assert not list(module.buffers())
    assert len(module.state_dict()) == 18
    assert torch.equal(module.train()(images), module.eval()(images))
    assert not torch.allclose(module(images)[:2], module(images[:2]))


def test_cnn9_drops_out_in_training_only() -> None:
    module = build_model("cnn9", FASHION, 10, seed=0)
    images = torch.rand(4, 1, 28, 28)
    module.train()
    assert not torch.equal(module(images), module(images))
    module.eval()
    assert torch.equal(module(images), module(images))
    layers = [layer for layer in module.body if isinstance(layer, nn.Conv2d)]
    assert [layer.out_channels for layer in layers] == [128] * 3 + [256] * 3 + [512, 256, 128]
    assert all(layer.bias is not None for layer in layers)


@pytest.mark.parametrize(
    ("model", "blocks"), [("resnet18", [2, 2, 2, 2]), ("resnet34", [3, 4, 6, 3])]
)
def test_cifar_resnets(model: str, blocks: list[int]) -> None:
    module = build_model(model, CIFAR, 10, seed=0).eval()
    stages = [module.layer1, module.layer2, module.layer3, module.layer4]
    assert [len(stage) for stage in stages] == blocks

    shapes = []
    for layer in [module.conv1, *stages]:
        layer.register_forward_hook(lambda _, __, output: shapes.append(tuple(output.shape[1:])))
    module(torch.rand(1, 3, 32, 32))
    assert shapes == [(64, 32, 32), (64, 32, 32), (128, 16, 16), (256, 8, 8), (512, 4, 4)]

    assert module.conv1.bias is None
    assert module.layer1[0].downsample is None
    for stage in stages[1:]:
        convolution, norm = stage[0].downsample
        assert (convolution.kernel_size, convolution.stride) == ((1, 1), (2, 2))
        assert convolution.bias is None
        assert isinstance(norm, nn.BatchNorm2d)
        assert all(block.downsample is None for block in stage[1:])


@pytest.fixture
def imagenet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, nn.Module]:
    """A file of weights for ResNet-50 as torchvision publishes them, and a network with them.

    Torchvision's cache is an empty folder, and its address leads to the file's own folder.
    """
    torch.manual_seed(3)
    published = torchvision.models.resnet50()
    draft = tmp_path / "published" / "draft.pth"
    draft.parent.mkdir()
    torch.save(published.state_dict(), draft)
    digest = hashlib.sha256(draft.read_bytes()).hexdigest()
    path = draft.rename(draft.with_name(f"resnet50-{digest[:8]}.pth"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(pretrained, "IMAGENET", SimpleNamespace(url=path.as_uri()))
    return path, published.eval()


def assert_starts_from(module: nn.Module, published: nn.Module) -> None:
    published.fc = nn.Identity()
    images = torch.rand(1, 3, 64, 64)
    assert torch.equal(module.eval().features(images), published(images))
    assert module(images).shape == (1, 14)


@pytest.mark.slow
def test_imagenets_weights_from_the_data_folder(imagenet: tuple[Path, nn.Module]) -> None:
    path, published = imagenet
    options = {"shape": (64, 64, 3), "classes": 14, "files": WeightFiles(path.parent)}
    module = build_model("resnet50(pretrained='imagenet')", seed=0, **options)
    assert_starts_from(module, published)
    other = build_model("resnet50(pretrained='imagenet')", seed=1, **options)
    assert not torch.equal(module.classifier.weight, other.classifier.weight)


@pytest.mark.slow
def test_imagenets_weights_are_fetched_only_where_that_is_allowed(
    imagenet: tuple[Path, nn.Module], tmp_path: Path
) -> None:
    path, published = imagenet
    model, shape = "resnet50(pretrained='imagenet')", (64, 64, 3)
    cache = Path(torch.hub.get_dir()) / "checkpoints" / path.name
    message = rf"model.pretrained: .*{path.name}, are not in {tmp_path} or .*download: true"
    with pytest.raises(BadInput, match=message):
        build_model(model, shape, 14, 0, files=WeightFiles(tmp_path))
    assert not cache.exists()
    assert_starts_from(build_model(model, shape, 14, 0, files=WeightFiles(None, True)), published)
    assert cache.read_bytes() == path.read_bytes()
    assert_starts_from(build_model(model, shape, 14, 0), published)
    path.write_bytes(path.read_bytes()[:-1])
    cache.unlink()
    with pytest.raises(NotDownloaded, match=r"could not be downloaded .*invalid hash value"):
        build_model(model, shape, 14, 0, files=WeightFiles(None, True))
    assert not cache.exists()


@pytest.mark.slow
def test_imagenets_weights_are_looked_for_in_every_data_folder_and_fetched_into_the_last(
    imagenet: tuple[Path, nn.Module], tmp_path: Path
) -> None:
    path, published = imagenet
    model, shape = "resnet50(pretrained='imagenet')", (64, 64, 3)
    theirs, own = tmp_path / "theirs", tmp_path / "own"
    theirs.mkdir()
    with pytest.raises(BadInput, match=rf"{path.name}, are not in {theirs} or {own} or "):
        build_model(model, shape, 14, 0, files=WeightFiles([theirs, own]))
    files = WeightFiles([theirs, own], True)
    assert_starts_from(build_model(model, shape, 14, 0, files=files), published)
    assert list(theirs.iterdir()) == []
    assert [file.name for file in own.iterdir()] == [path.name]
    assert not Path(torch.hub.get_dir()).exists()
    path.unlink()
    own.rename(tmp_path / "ours")
    files = WeightFiles([theirs, tmp_path / "ours", own])
    assert_starts_from(build_model(model, shape, 14, 0, files=files), published)


def test_damaged_weights_are_refused(imagenet: tuple[Path, nn.Module]) -> None:
    path, _ = imagenet
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(BadInput, match=f"{path} has SHA-256 .*, expected one that begins with"):
        build_model(
            "resnet50(pretrained='imagenet')", (64, 64, 3), 14, 0, files=WeightFiles(path.parent)
        )


def test_pretrained_weights_need_three_channels() -> None:
    message = r"model.pretrained: got 'imagenet', but .* 3 channels .* have 1"
    with pytest.raises(BadInput, match=message):
        build_model("resnet50(pretrained='imagenet')", (64, 64, 1), 10, seed=0)
    build_model("resnet50", (64, 64, 1), 10, seed=0)
    with pytest.raises(BadInput, match="should be 'none' or 'imagenet'"):
        build_model("resnet50(pretrained='cifar')", (64, 64, 3), 10, seed=0)


def test_initial_weights_that_no_trial_seeds_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    mlp = MODELS.get("mlp", "here")
    build = mlp.build

    def drawing(self: object, *given: object) -> nn.Module:
        np.random.normal()
        return build(self, *given)

    monkeypatch.setattr(mlp, "build", drawing)
    with pytest.raises(BadInput, match=r"model\.mlp\.build: draws .* expected from torch's gener"):
        build_model("mlp", (1, 1, 30), 2, seed=1)
