"""A noisy partition with its images or vectors, as ``datasets.load_dataset`` reads it.

The folder has ``data/train-*.parquet`` with a row for each sample of each client, the whole test
part in ``data/test-*.parquet``, and a data card, ``README.md``. Images are PNG, without loss, or
the JPEG that they are kept as. A hub writes Croissant metadata for such a folder itself.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from noisyfl.core.artifacts import replacing, write_text
from noisyfl.core.options import BadInput
from noisyfl.data.datasets.dataset import Dataset, DatasetPart
from noisyfl.data.noisy_partition import UNKNOWN, NoisyPartition

GROUP = 1_000
"""Images that are written together."""

IMAGE, VECTOR = "image", "features"
"""The column of images, and that of vectors."""

COLUMNS = {
    IMAGE: "the image",
    VECTOR: "the vector",
    "label": "the label that the client is given; of the test part the true one",
    "true_label": "the true label; empty where nobody knows it",
    "client": "the number of the client that has the sample; empty in the test part",
    "sample": "the number of the sample in its part of the dataset",
}
"""What a row holds; either an image or a vector."""


def export(
    name: str, partition: NoisyPartition, train: DatasetPart, test: DatasetPart, folder: Path
) -> list[Path]:
    """Write a noisy partition with its images or vectors.

    Returns:
        The files.

    Raises:
        BadInput: the folder has something in it.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"--to: got {folder}, expected a folder that is empty or not there")
    clients, every = partition.clients, np.arange(len(test.labels))
    rows = {
        "train": {
            "label": partition.given_labels,
            "true_label": partition.true_labels,
            "client": np.repeat(np.arange(len(clients)), [len(one.samples) for one in clients]),
            "sample": np.concatenate([one.samples for one in clients]),
        },
        "test": {
            "label": test.labels,
            "true_label": test.labels,
            "client": np.full(len(every), UNKNOWN),
            "sample": every,
        },
    }
    written = []
    for part, images in (("train", train), ("test", test)):
        path = folder / "data" / f"{part}-00000-of-00001.parquet"
        _write(path, images, rows[part])
        written.append(path)
    card = folder / "README.md"
    write_text(card, _card(name, partition, train))
    return [*written, card]


def _write(path: Path, part: DatasetPart, numbers: dict[str, np.ndarray]) -> None:
    """Write rows of a part: its samples ``sample``, and columns in which -1 stands for null."""
    facts = part.facts
    kind = (
        pa.list_(pa.float32(), facts.shape[2])
        if facts.vectors
        else pa.struct({"bytes": pa.binary(), "path": pa.string()})
    )
    schema = pa.schema(
        {
            (VECTOR if facts.vectors else IMAGE): kind,
            "label": pa.int64(),
            "true_label": pa.int64(),
            "client": pa.int32(),
            "sample": pa.int32(),
        },
        metadata={"huggingface": json.dumps({"info": {"features": _features(facts)}})},
    )
    content = _encoder(part)
    with replacing(path) as draft, pq.ParquetWriter(draft, schema) as writer:
        for first in range(0, len(numbers["sample"]), GROUP):
            rows = {key: values[first : first + GROUP] for key, values in numbers.items()}
            samples = pa.array([content(int(row)) for row in rows["sample"]], kind)
            columns = [
                pa.array(rows[field.name], field.type, mask=rows[field.name] == UNKNOWN)
                for field in list(schema)[1:]
            ]
            writer.write_table(pa.table([samples, *columns], schema=schema))


def _encoder(part: DatasetPart) -> Callable[[int], Any]:
    """What gives a sample as its column holds it, by its row."""
    from PIL import Image

    images = part.images
    if not isinstance(images, np.ndarray):
        return lambda row: {"bytes": images.jpeg(row), "path": None}
    if part.facts.vectors:
        return lambda row: images[row].ravel()

    def png(row: int) -> dict[str, Any]:
        pixels, buffer = images[row], io.BytesIO()
        Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(buffer, "PNG")
        return {"bytes": buffer.getvalue(), "path": None}

    return png


def _features(facts: Dataset) -> dict[str, Any]:
    """The columns as the hub's library describes them beside the schema."""
    of_classes = {"label": facts.classes, "true_label": facts.true_names}
    number = {"dtype": "int32", "_type": "Value"}
    feature = {"dtype": "float32", "_type": "Value"}
    vector = {"feature": feature, "length": facts.shape[2], "_type": "Sequence"}
    content: dict[str, Any] = {VECTOR: vector} if facts.vectors else {IMAGE: {"_type": "Image"}}
    return {
        **content,
        **{key: {"names": [*names], "_type": "ClassLabel"} for key, names in of_classes.items()},
        "client": number,
        "sample": number,
    }


def _in_card(feature: dict[str, Any]) -> dict[str, Any]:
    """The type of a column as the card has it."""
    if "names" in feature:
        names = {str(k): name for k, name in enumerate(feature["names"])}
        return {"dtype": {"class_label": {"names": names}}}
    if "feature" in feature:
        return {"sequence": feature["feature"]["dtype"], "length": feature["length"]}
    return {"dtype": feature.get("dtype", "image")}


def _card(name: str, partition: NoisyPartition, train: DatasetPart) -> str:
    """The data card: what the hub reads of it as YAML, and words for people."""
    vectors = train.facts.vectors
    header = {
        "pretty_name": f"{train.name}, {len(partition.clients)} clients with noisy labels",
        "task_categories": ["tabular-classification" if vectors else "image-classification"],
        "tags": ["federated-learning", "noisy-labels"],
        "configs": [
            {
                "config_name": "default",
                "data_files": [
                    {"split": part, "path": f"data/{part}-*.parquet"} for part in ("train", "test")
                ],
            }
        ],
        "dataset_info": {
            "features": [
                {"name": name, **_in_card(feature)}
                for name, feature in _features(train.facts).items()
            ]
        },
    }
    noise = partition.overall_noise
    known = "not known" if noise is None else f"{100 * noise:.1f} %"
    yaml_header = yaml.safe_dump(header, sort_keys=False, allow_unicode=True).rstrip()
    there = {key: what for key, what in COLUMNS.items() if key in _features(train.facts)}
    columns = "\n".join(f"| `{column}` | {what} |" for column, what in there.items())
    return f"""---
{yaml_header}
---

# {header["pretty_name"]}

The noisy partition `{name}` of noisyfl: {len(partition.given_labels):,} training samples of \
{train.name} on {len(partition.clients)} clients, and its whole test part. Wrong labels among the \
given ones: {known}. The {VECTOR if vectors else "images"} are under the licence of their makers.

| column | |
|---|---|
{columns}

What it was made from:

```json
{json.dumps(partition.spec, indent=2, sort_keys=True)}
```

```python
from datasets import load_dataset

federation = load_dataset("FOLDER")
client = federation["train"].filter(lambda row: row["client"] == 0)
```
"""
