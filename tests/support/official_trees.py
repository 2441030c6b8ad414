"""Small datasets of real JPEGs and PNGs, laid out as their makers give them."""

from pathlib import Path

import numpy as np
from PIL import Image

from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.data.datasets.parts import prepare


def natural(rng, height, width):
    """An image with edges and shades, as photographs have, uint8 [height, width, 3]."""
    coarse = Image.fromarray(rng.integers(256, size=(6, 5, 3), dtype=np.uint8))
    fine = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC)).astype(int)
    return (fine + rng.integers(-12, 13, size=fine.shape)).clip(0, 255).astype(np.uint8)


def save(path, image, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(path, **options)


def clothing1m(data, train=32, test=16):
    """Clothing1M in ``data/clothing1m``; returns the keys and labels of both parts.

    Labels go round the 14 classes. An image that has a true and a noisy label stands in both
    lists of labels, and some that no part uses stand in them too, as in the official files.
    """
    rng = np.random.default_rng(1)
    folder = data / "clothing1m"
    parts = {}
    for part, count in (("noisy", train), ("clean", test), ("unused", 3)):
        keys = [f"images/{i % 10}/{i % 7:02d}/{i},{part}{i * 31}.jpg" for i in range(count)]
        for key in keys:
            save(folder / key, natural(rng, *rng.integers(200, 340, size=2)), quality=90)
        parts[part] = keys, (np.arange(count) * 5 + len(part)) % 14

    def write(name, lines):
        (folder / name).write_text("".join(f"{line}\n" for line in lines))

    def labelled(*names):
        return [f"{k} {y}" for name in names for k, y in zip(*parts[name], strict=True)]

    write("noisy_train_key_list.txt", parts["noisy"][0])
    write("noisy_label_kv.txt", labelled("unused", "noisy", "clean")[::-1])
    write("clean_test_key_list.txt", parts["clean"][0])
    write("clean_val_key_list.txt", parts["unused"][0])
    write("clean_label_kv.txt", labelled("clean", "unused"))
    write("category_names_eng.txt", DATASETS["clothing1m"].classes)
    return parts["noisy"], parts["clean"]


def webvision(data, train=120, test=100):
    """WebVision 1.0's Google part and validation images, of 60 classes; returns what is listed."""
    rng = np.random.default_rng(2)
    folder = data / "webvision"
    (folder / "info").mkdir(parents=True)
    listed = {}
    for part, count, place in (("train", train, folder), ("val", test, folder / "val_images_256")):
        lines = []
        for i in range(count):
            name = f"google/q{i % 60:04d}/{i} (1).jpg" if part == "train" else f"val{i:06d}.jpg"
            lines.append((name, i % 60))
            save(place / name, natural(rng, *rng.integers(60, 140, size=2)), quality=92)
        name = {"train": "train_filelist_google.txt", "val": "val_filelist.txt"}[part]
        (folder / "info" / name).write_text("".join(f"{n} {y}\n" for n, y in lines))
        listed[part] = [(n, y) for n, y in lines if y < 50]
    return listed["train"], listed["val"]


def covidx(data, train=12, test=6):
    """COVIDx: X-rays of several sizes and kinds of pixels; returns files and classes."""
    rng = np.random.default_rng(3)
    folder = data / "covidx"
    classes = ("normal", "pneumonia", "COVID-19")
    listed = {}
    for part, count in (("train", train), ("test", test)):
        lines = []
        for i in range(count):
            image = natural(rng, *rng.integers(230, 400, size=2))
            kind = i % 4
            name = f"{part} {i}.png" if kind == 3 else f"{part}-{i}.{'jpg' if kind else 'png'}"
            if kind == 0:
                image = image[..., 0]
            elif kind == 3:
                image = image[..., 0].astype(np.uint16) * 257
            save(folder / part / name, image)
            source = " cohen" if i % 2 else ""
            lines.append(f"patient{i} {name} {classes[i % 3]}{source}")
            listed.setdefault(part, []).append((name, i % 3))
        (folder / f"{part}_COVIDx5.txt").write_text("\n".join(lines) + "\n")
    return listed["train"], listed["test"]


def prepared(data: Path, results: Path, name: str) -> dict[str, Path]:
    """The files of a dataset's parts, made from the official ones."""
    paths = {part: results / name / f"{part}.parquet" for part in ("train", "test")}
    prepare(name, data, False, paths["train"], paths["test"])
    return paths
