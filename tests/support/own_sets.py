"""One small dataset of one's own, in every format that is read."""

import csv
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from noisyfl.core.registry import parse_component
from noisyfl.data.datasets.own_images import RequestedImages
from noisyfl.data.own_files import OwnFiles
from small_partitions import canonical_of

CLASSES = ("ant", "bee", "cat")
TRAIN, TEST = 24, 9


def arrays(channels=3):
    """Images, uint8 [n, 6, 5, channels], and the numbers of their classes, by part."""
    rng = np.random.default_rng(0)
    return {
        part: (
            rng.integers(256, size=(count, 6, 5, channels), dtype=np.uint8),
            np.sort(np.arange(count) % 3),  # by class, as a folder lists them
        )
        for part, count in (("train", TRAIN), ("test", TEST))
    }


def given_labels():
    """Given labels of the training part, of which some are wrong."""
    labels = arrays()["train"][1]
    return np.where(np.arange(TRAIN) % 4 == 0, (labels + 1) % 3, labels)


def png(image):
    buffer = io.BytesIO()
    Image.fromarray(image[..., 0] if image.shape[2] == 1 else image).save(buffer, "PNG")
    return buffer.getvalue()


def as_folder(data, channels=3):
    for part, (images, labels) in arrays(channels).items():
        for row, (image, label) in enumerate(zip(images, labels, strict=True)):
            path = data / "folder" / part / CLASSES[label] / f"{row:03d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(png(image))
    return "images(path='folder')"


def as_csv(data, channels=3):
    as_folder(data, channels)
    for part, (_, labels) in arrays(channels).items():
        with (data / f"{part}.csv").open("w", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(["image", "label", "given"])
            for row, label in enumerate(labels):
                name = CLASSES[label]
                given = CLASSES[given_labels()[row]] if part == "train" else name
                lines.writerow([f"folder/{part}/{name}/{row:03d}.png", name, given])
    return "images(path='train.csv', test='test.csv')"


def as_npz(data, channels=3):
    parts = arrays(channels)
    content = {f"{part}_image": images for part, (images, _) in parts.items()}
    content |= {f"{part}_label": labels for part, (_, labels) in parts.items()}
    np.savez(data / "set.npz", train_given=given_labels(), **content)
    return "images(path='set.npz', classes=['ant', 'bee', 'cat'])"


def as_parquet(data, channels=3):
    """As the Hugging Face hub has it: a struct of bytes, and the classes' names in the schema."""
    features = {"label": {"names": list(CLASSES), "_type": "ClassLabel"}}
    said = json.dumps({"info": {"features": features}})
    for part, (images, labels) in arrays(channels).items():
        rows = [{"bytes": png(image), "path": None} for image in images]
        given = given_labels() if part == "train" else labels
        table = pa.table({"image": rows, "label": labels, "given": given})
        path = data / "hub" / "data" / f"{part}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.replace_schema_metadata({"huggingface": said}), path)
    return "images(path='hub')"


def as_medmnist(data, channels=3):
    """As MedMNIST has it: labels of shape [n, 1], and validation images, which nobody reads."""
    content = {}
    for part, (images, labels) in arrays(channels).items():
        content[f"{part}_images"] = images[..., 0] if channels == 1 else images
        content[f"{part}_labels"] = labels.astype(np.uint8)[:, None]
    content |= {f"val_{kind}": content[f"test_{kind}"] for kind in ("images", "labels")}
    np.savez(data / "insects.npz", **content)
    return "images(path='insects.npz', classes=['ant', 'bee', 'cat'])"


FORMATS = {
    "folder": as_folder,
    "csv": as_csv,
    "npz": as_npz,
    "medmnist": as_medmnist,
    "parquet": as_parquet,
}


def wanted(text, **more):
    """The images that a text asks for."""
    options = parse_component(text)
    options.pop("name")
    return RequestedImages.read({**options, **more})


def known(folder, text, **more):
    """What is known of them, once a folder's files are read."""
    return OwnFiles(folder, folder / "results").read(wanted(text, **more)).own


def spec(dataset, own, noise="symmetric", level="constant(level=0.2)"):
    """The spec of a noisy partition of a dataset."""
    given = {"dataset": dataset, "partition": "iid(clients=3)", "label_noise": noise, "seed": 1}
    return canonical_of({**given, **({"noise_level": level} if level else {})}, own=own)
