"""Datasets whose official files are small."""

import pickle
import tarfile

import pytest

from noisyfl.data.datasets import hub
from noisyfl.data.datasets.dataset import DATASETS
from small_files import digests, idx, md5, pack, shrink, small_arrays


@pytest.fixture
def mnist(monkeypatch):
    """Small official files of MNIST: their unpacked contents, and the arrays in them."""
    from torchvision.datasets import MNIST

    shrink(monkeypatch, "mnist")
    arrays = small_arrays((28, 28, 1))
    contents = {}
    for part, prefix in (("train", "train"), ("test", "t10k")):
        images, labels = arrays[part]
        contents[f"{prefix}-images-idx3-ubyte"] = idx(images[..., 0])
        contents[f"{prefix}-labels-idx1-ubyte"] = idx(labels)
    monkeypatch.setitem(hub.CONTENTS, "mnist", digests(arrays))
    packed = [(f"{file}.gz", md5(pack(content))) for file, content in contents.items()]
    monkeypatch.setattr(MNIST, "resources", packed)
    return contents, arrays


@pytest.fixture
def cifar(monkeypatch, tmp_path):
    """Small official files of CIFAR-10: the archive, and the arrays in it."""
    from torchvision.datasets import CIFAR10

    shrink(monkeypatch, "cifar10")
    arrays = small_arrays((32, 32, 3))
    folder = tmp_path / "official" / "cifar-10-batches-py"
    folder.mkdir(parents=True)

    def put(file, content):
        text = pickle.dumps(content, protocol=2)
        (folder / file).write_bytes(text)
        return [file, md5(text)]

    def batch(images, labels):
        return {"data": images.transpose(0, 3, 1, 2).reshape(len(images), -1), "labels": labels}

    images, labels = arrays["train"]
    halves = ((images[:30], labels[:30].tolist()), (images[30:], labels[30:].tolist()))
    batches = [put(f"data_batch_{i}", batch(*half)) for i, half in enumerate(halves, start=1)]
    images, labels = arrays["test"]
    test = put("test_batch", batch(images, labels.tolist()))
    file, digest = put("batches.meta", {"label_names": list(DATASETS["cifar10"].classes)})
    archive = tmp_path / "official" / "cifar-10-python.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(folder, folder.name)
    monkeypatch.setattr(CIFAR10, "train_list", batches)
    monkeypatch.setattr(CIFAR10, "test_list", [test])
    monkeypatch.setattr(CIFAR10, "meta", {"filename": file, "key": "label_names", "md5": digest})
    monkeypatch.setattr(CIFAR10, "tgz_md5", md5(archive.read_bytes()))
    return archive, arrays
