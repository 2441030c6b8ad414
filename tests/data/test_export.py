"""An exported noisy partition holds what it was made from, and reads as the hub's datasets do.

``datasets`` is heavy, and no dependency: the test that needs it is skipped where it is missing, and
the rest reads the files with pyarrow alone.
"""

import io
import json
import os
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image

from noisyfl.__main__ import main
from noisyfl.commands.data import export_partition
from noisyfl.core import plugins
from noisyfl.core.artifacts import Results
from noisyfl.core.options import BadInput
from noisyfl.data import noisy_partition
from noisyfl.data.datasets.own_images import RequestedImages
from noisyfl.data.datasets.parts import read_part
from noisyfl.data.own_files import OwnFiles
from noisyfl.specs.identity import identity
from outside import PARTS, as_before
from small_partitions import canonical


@pytest.fixture(scope="module")
def exported(tmp_path_factory, data):
    """The folder of an exported partition, the partition, and both parts of its dataset."""
    folder = tmp_path_factory.mktemp("export")
    results = Results(folder / "results")
    parts = {part: read_part(data.data("digits", part)) for part in ("train", "test")}
    spec = canonical(partition="dirichlet(clients=4, alpha=1)")
    path = results.partition(identity(spec))
    noisy_partition.write(path, spec, parts["train"].labels)
    export_partition(identity(spec), folder / "out", results.root, [folder / "data"], False)
    return folder / "out", noisy_partition.read(path), parts


def rows(folder, part):
    return pq.read_table(folder / "data" / f"{part}-00000-of-00001.parquet")


def pixels(row):
    return np.asarray(Image.open(io.BytesIO(row["image"]["bytes"])))


def test_every_sample_of_every_client_is_there_with_its_labels(exported):
    folder, partition, parts = exported
    found = rows(folder, "train").to_pylist()
    for number, client in enumerate(partition.clients):
        own = [row for row in found if row["client"] == number]
        assert [row["sample"] for row in own] == client.samples.tolist()
        assert [row["label"] for row in own] == client.given_label.tolist()
        assert [row["true_label"] for row in own] == client.true_label.tolist()
        for row in own[:5]:
            assert (pixels(row) == parts["train"].images[row["sample"], ..., 0]).all()
    tested = rows(folder, "test").to_pylist()
    assert [row["label"] for row in tested] == parts["test"].labels.tolist()
    assert {row["client"] for row in tested} == {None}
    assert (pixels(tested[7]) == parts["test"].images[7, ..., 0]).all()


def test_the_card_says_what_the_files_hold(exported):
    folder, partition, _ = exported
    _, header, words = (folder / "README.md").read_text().split("---\n", 2)
    said = yaml.safe_load(header)
    schema = rows(folder, "train").schema
    features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
    assert [one["name"] for one in said["dataset_info"]["features"]] == schema.names
    assert list(features) == schema.names
    for one in said["configs"][0]["data_files"]:
        assert list(folder.glob(one["path"]))
    assert f"{100 * partition.overall_noise:.1f} %" in words
    assert json.loads(words.split("```json\n")[1].split("```")[0]) == partition.spec


LOAD = """
import datasets
print(datasets.load_dataset("../out", cache_dir="../cache")["train"]["label"][:])
"""


def test_the_hubs_library_reads_the_given_labels(exported):
    """In a process of its own, since tests/data/datasets has the name of the library."""
    folder, partition, _ = exported

    def run(code):
        command = [sys.executable, "-P", "-c", code]
        environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)

    if run("import datasets").returncode:
        pytest.skip("datasets is not installed")
    done = run(LOAD)
    assert done.returncode == 0, done.stderr
    given = np.concatenate([client.given_label for client in partition.clients])
    assert json.loads(done.stdout) == given.tolist()


def test_what_is_exported_is_a_data_set_of_ones_own(exported, tmp_path):
    folder, partition, parts = exported
    own = OwnFiles(folder.parent, tmp_path)
    wanted = RequestedImages(path="out", label="true_label", given="label")
    known = own.read(wanted).own
    assert (known["train_size"], known["test_size"]) == (len(parts["train"].labels), 360)
    kept = own.load(own.read(wanted).given)["label"]
    assert kept.tolist() == np.concatenate([c.given_label for c in partition.clients]).tolist()


def test_a_partition_of_a_plugins_dataset_is_exported_with_the_plugin(tmp_path, monkeypatch):
    plugin, results = tmp_path / "my_parts.py", Results(tmp_path / "results")
    plugin.write_text(PARTS)
    with as_before():
        plugins.load([str(plugin)])
        spec = canonical(dataset="stripes")
        noisy_partition.write(results.partition(identity(spec)), spec, np.arange(400) % 2)
    words = ["export", identity(spec), "--to", str(tmp_path / "out"), "--results", results.root]
    monkeypatch.setattr(sys, "argv", ["noisyfl", *map(str, words), "--plugin", str(plugin)])
    with as_before():
        main()
    assert rows(tmp_path / "out", "train").num_rows == 400
    assert pixels(rows(tmp_path / "out", "test").to_pylist()[0]).shape == (6, 6)


def test_what_is_not_there_and_what_would_be_overwritten_are_refused(exported, tmp_path):
    folder, partition, _ = exported
    with pytest.raises(BadInput, match="0123: no noisy partition in"):
        export_partition("0123", tmp_path, tmp_path, [tmp_path], False)
    with pytest.raises(BadInput, match=r"--to: got .*, expected a folder that is empty"):
        export_partition(
            identity(partition.spec), folder, folder.parent / "results", [tmp_path], False
        )
