"""Where a dataset's images come from: official files in a folder, or a library that ships them.

Every file is checked before it is read, whoever put it there. Nothing is written to the folder
unless a download was asked for.
"""

from __future__ import annotations

import gzip
import hashlib
import shutil
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from noisyfl.core.options import BadInput
from noisyfl.core.randomness import stream
from noisyfl.data.datasets.download import NotDownloaded, fetch
from noisyfl.data.datasets.hub import CONTENTS, find_parquet, load_parquet
from noisyfl.data.datasets.images import Arrays
from noisyfl.data.roots import NotFound

DIGITS_TEST_SIZE = 360

IDX = {
    ("train", "pixels"): ("train-images-idx3-ubyte", 16),
    ("train", "labels"): ("train-labels-idx1-ubyte", 8),
    ("test", "pixels"): ("t10k-images-idx3-ubyte", 16),
    ("test", "labels"): ("t10k-labels-idx1-ubyte", 8),
}
"""The official files of MNIST and Fashion-MNIST, and how many bytes of each come first."""

PACKAGED = {"fashion_mnist": Path("/usr/share/datasets/fashion-mnist")}
"""Where Debian's package ``dataset-fashion-mnist`` puts the official files."""


def load_digits(folder: Path, download: bool) -> tuple[Arrays, Arrays]:
    """The 1,797 digits of 8x8 pixels that ship with scikit-learn; the arguments are not used.

    Pixels from 0 to 16 are scaled to 0 to 255 and rounded. 360 images are for testing, shared out
    among the classes by their size (largest remainders). They are drawn from a separate random
    stream, so that the split is the same in every run, trial and scale.
    """
    from sklearn.datasets import load_digits as bundled

    digits = bundled()
    images = np.rint(digits.images * (255 / 16)).astype(np.uint8)[..., None]
    labels = digits.target.astype(np.int64)
    tested = test_rows(labels, DIGITS_TEST_SIZE, stream(0, "digits", "test part"))
    return (images[~tested], labels[~tested]), (images[tested], labels[tested])


def test_rows(labels: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Which samples are split off for testing, bool [n].

    They are shared out among the classes by their size (largest remainders), and drawn.

    Args:
        labels: int64 [n].
    """
    shares = np.bincount(labels) * (size / len(labels))
    sizes = np.floor(shares).astype(int)
    most = np.argsort(sizes - shares, kind="stable")
    sizes[most[: size - sizes.sum()]] += 1
    tested = np.zeros(len(labels), dtype=bool)
    for label, count in enumerate(sizes):
        tested[rng.permutation(np.flatnonzero(labels == label))[:count]] = True
    return tested


def load_idx(name: str, folder: Path, download: bool) -> tuple[Arrays, Arrays]:
    """MNIST or Fashion-MNIST from its four official files, packed (``.gz``) or not; or from the
    Parquet files of a hub (:mod:`noisyfl.data.datasets.hub`).

    The files lie where torchvision puts them (``MNIST/raw``, ``FashionMNIST/raw``), in a folder of
    the dataset's name, in the folder itself, or where Debian's package puts them.

    Args:
        download: fetch the files that are missing or damaged, unless there is Parquet.

    Raises:
        NotFound: a file is missing or damaged.
        BadInput: it could not be downloaded, or Parquet does not hold what it should.
    """
    from torchvision import datasets

    loader = {"mnist": datasets.MNIST, "fashion_mnist": datasets.FashionMNIST}[name]
    raw = folder / loader.__name__ / "raw"
    places = [raw, folder / name, folder]
    places += [PACKAGED[name]] if name in PACKAGED else []
    contents, problem = _idx_contents(name, places)
    if problem and (parquet := find_parquet(name, folder)):
        return _parquet_parts(name, parquet)
    if problem and download:
        packed = dict(loader.resources)
        for key in IDX.keys() - contents.keys():
            file = f"{IDX[key][0]}.gz"
            _download(name, [mirror + file for mirror in loader.mirrors], raw / file, packed[file])
        contents, problem = _idx_contents(name, places)
    if problem:
        raise problem
    train, test = (
        (contents[part, "pixels"].reshape(-1, 28, 28, 1), contents[part, "labels"].astype(np.int64))
        for part in ("train", "test")
    )
    return train, test


def load_cifar(name: str, folder: Path, download: bool) -> tuple[Arrays, Arrays]:
    """CIFAR-10 or CIFAR-100 from the official Python batches, or from the archive that holds them;
    or from the Parquet files of a hub (:mod:`noisyfl.data.datasets.hub`).

    Args:
        download: fetch the archive if the files are missing or damaged and there is no Parquet.

    Raises:
        NotFound: a file is missing or damaged.
        BadInput: it could not be downloaded, or Parquet does not hold what it should.
    """
    from torchvision import datasets

    loader = {"cifar10": datasets.CIFAR10, "cifar100": datasets.CIFAR100}[name]
    files = [*loader.train_list, *loader.test_list, [loader.meta["filename"], loader.meta["md5"]]]
    roots = (folder, folder / name)
    problems = []
    for root in roots:
        problem = _md5_problem({root / loader.base_folder / file: md5 for file, md5 in files})
        if not problem:
            return _cifar_parts(loader, root)
        problems.append(problem)
    archives = [root / loader.filename for root in roots]
    try:
        archive = _official_file(name, archives, loader.tgz_md5, [])
    except NotFound as error:
        if parquet := find_parquet(name, folder):
            return _parquet_parts(name, parquet)
        if not download:
            raise NotFound(name, f"{problems[0]}; {error.problem}", error.remedy) from None
        archive = _official_file(name, archives, loader.tgz_md5, [loader.url])
    with TemporaryDirectory() as temporary:
        _unpack(archive, {f"{loader.base_folder}/{file}" for file, _ in files}, Path(temporary))
        return _cifar_parts(loader, Path(temporary))


def load_svhn(folder: Path, download: bool) -> tuple[Arrays, Arrays]:
    """SVHN's cropped digits from the official ``.mat`` files, without the extra training images.

    The files lie where torchvision puts them, in the folder itself, or in ``svhn``.

    Args:
        download: fetch the files that are missing or damaged.

    Raises:
        NotFound: a file is missing or damaged.
        BadInput: it could not be downloaded.
    """
    from torchvision.datasets import SVHN

    parts = []
    for part in ("train", "test"):
        address, file, md5 = SVHN.split_list[part]
        places = [root / file for root in (folder, folder / "svhn")]
        path = _official_file("svhn", places, md5, [address] if download else [])
        loaded = SVHN(str(path.parent), split=part)
        parts.append((loaded.data.transpose(0, 2, 3, 1), loaded.labels.astype(np.int64)))
    return parts[0], parts[1]


def _unpack(archive: Path, wanted: set[str], folder: Path) -> None:
    """Take the wanted files out of a tar archive.

    Not with ``extractall``, which is safe only with a ``filter``, in Python from 3.11.4 on.
    """
    with tarfile.open(archive) as packed:
        for member in packed:
            content = packed.extractfile(member) if member.name in wanted else None
            if content is not None:
                path = folder / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as file:
                    shutil.copyfileobj(content, file)


def _cifar_parts(loader: Any, root: Path) -> tuple[Arrays, Arrays]:
    train, test = (loader(root, train=part) for part in (True, False))
    return (train.data, np.array(train.targets)), (test.data, np.array(test.targets))


def _parquet_parts(name: str, files: Mapping[str, list[Path]]) -> tuple[Arrays, Arrays]:
    train, test = (load_parquet(name, part, files[part]) for part in ("train", "test"))
    return train, test


def _idx_contents(
    name: str, folders: list[Path]
) -> tuple[dict[tuple[str, str], np.ndarray], NotFound | None]:
    """The bytes of the intact official files without their heads, and what is wrong with the first
    file that is not intact.
    """
    contents, problem = {}, None
    for part, kind in IDX:
        try:
            contents[part, kind] = _idx_content(name, part, kind, folders)
        except NotFound as error:
            problem = problem or error
    return contents, problem


def _idx_content(name: str, part: str, kind: str, folders: list[Path]) -> np.ndarray:
    """The content of one official file, from the first place where it is intact, packed or not."""
    problems = []
    file, head = IDX[part, kind]
    expected = getattr(CONTENTS[name][part], kind)
    for path in (folder / f"{file}{suffix}" for folder in folders for suffix in ("", ".gz")):
        try:
            content = path.read_bytes()
            content = gzip.decompress(content) if path.suffix == ".gz" else content
        except FileNotFoundError:
            continue
        except (OSError, EOFError, zlib.error) as error:
            problems.append(f"{path} cannot be read ({error})")
            continue
        found = hashlib.sha256(content[head:]).hexdigest()
        if found == expected:
            return np.frombuffer(content, np.uint8, offset=head)
        problems.append(f"{path} holds {kind} of SHA-256 {found}, expected {expected}")
    if not problems:
        places = " or ".join(str(folder) for folder in folders)
        problems.append(f"neither {file} nor {file}.gz is in {places}")
    raise NotFound(name, "; ".join(problems), _remedy(f"{file}.gz", folders[0]))


def _official_file(name: str, places: list[Path], md5: str, addresses: list[str]) -> Path:
    """The first of some places where an official file is intact; it is downloaded to the first if
    there are addresses.

    Raises:
        NotFound: no place has it.
        BadInput: it could not be downloaded.
    """
    problems = []
    for path in places:
        if not (problem := _md5_problem({path: md5})):
            return path
        problems += [problem] if path.exists() else []
    if addresses:
        _download(name, addresses, places[0], md5)
        return places[0]
    reasons = "; ".join(problems) or _md5_problem({places[0]: md5})
    raise NotFound(name, reasons, _remedy(places[0].name, places[0].parent))


def _md5_problem(files: Mapping[Path, str]) -> str:
    """What is wrong with the first file that is not as it should be; empty if all are."""
    for path, expected in files.items():
        if not path.is_file():
            return f"there is no file {path} (of MD5 {expected})"
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "md5").hexdigest()
        if found != expected:
            return f"{path} has MD5 {found}, expected {expected}"
    return ""


def _remedy(file: str, folder: Path) -> str:
    return f"set data.download: true or --download, or put the official {file} into {folder}"


def _download(name: str, addresses: list[str], path: Path, md5: str) -> None:
    try:
        fetch(addresses, path, md5)
    except NotDownloaded as error:
        raise BadInput(f"{name}: could not be downloaded into {path.parent}: {error}") from error
