"""Federated averaging as the repositories of papers on noisy labels write it.

The official codes of FedCorr, FedRN and their like share one shape: a dataset that makes a PIL
image of every sample and transforms it, a data loader over a client's indices without workers, a
copy of the whole model and a new optimizer for every client, a loss read off after every batch, and
a test of the global model on all test images after every round. Written anew here, with nothing
that would make it slower than they are.
"""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from benchmarks import Speed, Timing, Work, clock, draw_participants, precision, speed
from noisyfl.data.augmentation.augment import padding

State = dict[str, Tensor]


class ImageDataset(Dataset):
    """Images that are transformed one by one, as torchvision's CIFAR10 does it.

    Args:
        images: uint8 [n, height, width, channels].
        labels: int64 [n].
        transform: from a PIL image to a tensor.
    """

    def __init__(
        self, images: np.ndarray, labels: np.ndarray, transform: transforms.Compose
    ) -> None:
        # PIL takes a grey image without an axis for its one channel.
        self.images = images[..., 0] if images.shape[3] == 1 else images
        self.labels = labels
        self.transform = transform

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = Image.fromarray(self.images[index])
        return self.transform(image), int(self.labels[index])


class DatasetSplit(Dataset):
    """The part of a dataset that one client has."""

    def __init__(self, dataset: ImageDataset, indices: np.ndarray) -> None:
        self.dataset = dataset
        self.indices = [int(index) for index in indices]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, item: int) -> tuple[Tensor, int]:
        return self.dataset[self.indices[item]]


def rounds(
    module: nn.Module,
    train_images: np.ndarray,
    train_labels: np.ndarray,
    test_images: np.ndarray,
    test_labels: np.ndarray,
    clients: list[np.ndarray],
    *,
    participants: int,
    local_epochs: int,
    batch_size: int,
    learning_rate: float,
    momentum: float,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    rounds: int,
    device: str,
    seed: int,
) -> list[Timing]:
    """Train a copy of ``module``, and evaluate it after every round.

    The arguments are those of :class:`~benchmarks.Work`. Images of 28 or 32 pixels are padded by 4
    before the crop, smaller ones by less.
    """
    torch.manual_seed(seed)
    tensor = [transforms.ToTensor(), transforms.Normalize(mean, std)]
    height, width = train_images.shape[1:3]
    crop = transforms.RandomCrop((height, width), padding=(padding(width), padding(height)))
    augmented = transforms.Compose([crop, transforms.RandomHorizontalFlip(), *tensor])
    train = ImageDataset(train_images, train_labels, augmented)
    test = ImageDataset(test_images, test_labels, transforms.Compose(tensor))
    model = copy.deepcopy(module).to(device)
    timings = []
    for chosen in draw_participants(seed, len(clients), participants, rounds):
        begun = clock(device)
        updates, sizes = [], []
        for client in chosen:
            part = DatasetSplit(train, clients[client])
            loader = DataLoader(part, batch_size=batch_size, shuffle=True, num_workers=0)
            local = copy.deepcopy(model).to(device)
            optimizer = torch.optim.SGD(local.parameters(), lr=learning_rate, momentum=momentum)
            updates.append(local_update(local, optimizer, loader, local_epochs, device))
            sizes.append(len(part))
        model.load_state_dict(average(updates, sizes))
        trained = clock(device)
        accuracy = evaluate(model, test, device)
        evaluated = clock(device)
        samples = local_epochs * sum(sizes)
        timings.append(Timing(trained - begun, samples, evaluated - trained, accuracy))
    return timings


def measure(module: nn.Module, work: Work) -> Speed:
    """The speed of ``work.rounds`` rounds after one that warms up, each with its evaluation.

    Args:
        module: the model; a copy is trained.
        work: what to do.
    """
    with precision(tf32=False):
        return speed(rounds(module, **vars(replace(work, rounds=work.rounds + 1))))


def local_update(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loader: DataLoader,
    local_epochs: int,
    device: str,
) -> State:
    """Train one client's model on its own samples."""
    model.train()
    criterion = nn.CrossEntropyLoss()
    epoch_losses = []
    for _ in range(local_epochs):
        batch_losses = []
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            # Read after every batch, so that the host waits for a GPU each time.
            batch_losses.append(loss.item())
        epoch_losses.append(sum(batch_losses) / len(batch_losses))
    return model.state_dict()


def average(updates: list[State], sizes: list[int]) -> State:
    """The mean of the local models, weighted by their clients' samples."""
    total = sum(sizes)
    mean = {name: value * (sizes[0] / total) for name, value in updates[0].items()}
    for update, size in zip(updates[1:], sizes[1:], strict=True):
        for name, value in update.items():
            mean[name] = mean[name] + value * (size / total)
    return mean


def evaluate(model: nn.Module, test: ImageDataset, device: str) -> float:
    """Share of the test images that the model labels rightly."""
    model.eval()
    right = 0
    with torch.no_grad():
        for images, labels in DataLoader(test, batch_size=128, shuffle=False):
            images, labels = images.to(device), labels.to(device)
            right += (model(images).argmax(1) == labels).sum().item()
    return right / len(test)
