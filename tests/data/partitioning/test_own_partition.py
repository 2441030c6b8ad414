"""A partition of one's own: the same from every format, and refused where something is wrong."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from noisyfl.core.options import BadInput
from noisyfl.data import noisy_partition
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.data.own_files import OwnFiles
from noisyfl.data.roots import NotRead
from noisyfl.experiments.config import PUBLISHED
from small_partitions import LABELS, canonical

CLIENT = np.arange(100) % 4
SAMPLE = np.arange(100) * 14


def write_csv(folder, client=CLIENT, sample=SAMPLE, name="clients.csv"):
    lines = [f"{c},{s}" for c, s in zip(client, sample, strict=True)]
    (folder / name).write_text("\n".join(["client,sample", *lines, ""]))


def made(folder, text="file(path='clients.csv')", **given):
    return canonical(data_folder=folder, partition=text, **given)


def test_clients_hold_what_the_file_says(tmp_path):
    write_csv(tmp_path)
    spec = made(tmp_path)
    assert spec["partition"].items() >= {"name": "file", "clients": 4, "samples": 100}.items()
    path = tmp_path / "partition.parquet"
    noisy_partition.write(path, spec, LABELS, OwnFiles(tmp_path, tmp_path / "results"))
    partition = noisy_partition.read(path)
    for number, client in enumerate(partition.clients):
        assert sorted(client.samples) == SAMPLE[number == CLIENT].tolist()
        assert (client.true_label == LABELS[client.samples]).all()
    assert partition.realised == pytest.approx(0.3, abs=0.03)
    # A noisy partition's own file has both columns, and is the same partition.
    assert made(tmp_path, "file(path='partition.parquet')")["partition"] == spec["partition"]


def test_neither_format_nor_order_nor_place_make_another_partition(tmp_path):
    write_csv(tmp_path)
    order = np.random.default_rng(0).permutation(100)
    (tmp_path / "below").mkdir()
    pq.write_table(
        pa.table({"note": ["x"] * 100, "sample": SAMPLE[order], "client": CLIENT[order]}),
        tmp_path / "below/other.parquet",
    )
    assert made(tmp_path) == made(tmp_path, "file(path='below/other.parquet')")
    write_csv(tmp_path, CLIENT[::-1])
    assert made(tmp_path) != made(tmp_path, "file(path='below/other.parquet')")


def test_clients_may_have_names(tmp_path):
    write_csv(tmp_path)
    numbers = made(tmp_path)["partition"]
    write_csv(tmp_path, [f"Site {'abcd'[number]}" for number in CLIENT])
    own = OwnFiles(tmp_path, tmp_path / "results")
    assert own.client_names(numbers) == []
    spec = made(tmp_path)
    assert spec["partition"] == numbers
    assert own.client_names(spec["partition"]) == ["Site a", "Site b", "Site c", "Site d"]
    assert own.client_names({"name": "iid", "clients": 4}) == []


def test_a_job_needs_what_was_kept_and_nothing_else(tmp_path):
    write_csv(tmp_path)
    spec = made(tmp_path)
    (tmp_path / "clients.csv").unlink()
    noisy_partition.make(spec, LABELS, OwnFiles(tmp_path, tmp_path / "results"))
    with pytest.raises(
        BadInput, match=r"partition\.file\.sha256: there is no .*; plan the scale ag"
    ):
        noisy_partition.make(spec, LABELS, OwnFiles(tmp_path, tmp_path / "elsewhere"))
    with pytest.raises(NotRead, match=r"partition\.file\.path: got 'clients\.csv'"):
        canonical(partition="file(path='clients.csv')")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "file(path='none.csv')",
            r"path: got 'none\.csv', and there is neither file nor folder .*/none\.csv",
        ),
        (
            f"file(path='{os.path.relpath(PUBLISHED)}')",
            r"there is neither file nor folder .*; did you mean '/.*/config/published\.csv'\?",
        ),
        ("file(path='clients.txt')", r"path: got 'clients\.txt', expected a \.csv or \.parquet"),
        ("file", r"path: got null, expected a \.csv or \.parquet file"),
        ("file(path='clients.csv', clients=5)", r"clients: got 5, and clients\.csv has 4"),
        ("file(path='empty.csv')", r"path: .*empty\.csv: it has 0 rows, expected 1 to 20,000,000"),
        ("file(path='clients.csv', samples=9)", r"samples: got 9, and clients\.csv has 100"),
        ("file(path='far.csv')", r"far\.csv, row 99 \(client 3, sample 1437\): its sample is none"),
        (
            "file(path='twice.csv')",
            r"twice\.csv, row 1 \(client 1, sample 0\): its sample is there",
        ),
        ("file(path='below.csv')", r"below\.csv, row 0 \(client -1, sample 0\): its client is neg"),
        (
            "file(path='gap.csv')",
            r"gap\.csv: client 0 has no sample, and client 4 has some; .* 0 to 3 for 4 clients",
        ),
        (
            "file(path='large.csv')",
            r"client 4 has no sample, and client 9000000000000000000 has some; .* 0 to 4 for 5",
        ),
        (
            "file(path='upper.csv')",
            r"has Client, sample, expected 'client'; did you mean 'Client'",
        ),
        ("file(path='text.csv')", r"text\.csv: 'sample' has names, expected whole numbers"),
        (
            "file(path='huge.parquet')",
            r"huge\.parquet: 'client' has numbers that are too large, expected whole numbers",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, text, message):
    write_csv(tmp_path)
    (tmp_path / "clients.txt").write_text("")
    write_csv(tmp_path, sample=np.append(SAMPLE[:-1], 1437), name="far.csv")
    write_csv(tmp_path, sample=np.append([0, 0], SAMPLE[2:]), name="twice.csv")
    write_csv(tmp_path, client=CLIENT - 1, name="below.csv")
    write_csv(tmp_path, client=CLIENT + 1, name="gap.csv")
    write_csv(tmp_path, client=np.append(CLIENT[:-1], 9 * 10**18), name="large.csv")
    (tmp_path / "upper.csv").write_text("Client,sample\n1,2\n")
    (tmp_path / "empty.csv").write_text("client,sample\n")
    (tmp_path / "text.csv").write_text("client,sample\nx,two\n")
    huge = pa.table({"client": pa.array([2**63] * 100, pa.uint64()), "sample": SAMPLE})
    pq.write_table(huge, tmp_path / "huge.parquet")
    with pytest.raises(BadInput, match=message) as error:
        made(tmp_path, text)
    assert str(error.value).startswith("spec.partition.file.")
    assert "\n" not in str(error.value)


def test_a_partition_of_open_set_noise_cannot_be_repeated(tmp_path):
    labels = np.arange(DATASETS["digits_open"].train_size) % 8
    labels[DATASETS["digits_open"].task_size :] = 8
    noise = "open_set(share=0.5)"
    spec = canonical(dataset="digits_open", label_noise=noise)
    noisy_partition.write(tmp_path / "partition.parquet", spec, labels)
    with pytest.raises(BadInput, match=r"its sample is an open-set image, which some noise has"):
        made(tmp_path, "file(path='partition.parquet')", dataset="digits_open")
