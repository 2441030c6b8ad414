import errno
import hashlib
import math
import random

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from noisyfl.core.artifacts import (
    METADATA_KEY,
    DamagedArtifact,
    Results,
    checksum,
    read_json,
    read_metadata,
    read_table,
    replacing,
    table_of,
    write_json,
    write_table,
)
from noisyfl.core.options import BadInput, permitted


@pytest.fixture
def table():
    images = pa.array([bytes([i] * 4) for i in range(10)], pa.binary(4))
    return pa.table(
        {
            "image": images,
            "label": np.arange(10),
            "share": pa.array([None if i == 3 else i / 10 for i in range(10)]),
            "stage": [f"stage {i % 2}" for i in range(10)],
            "flag": [i < 3 for i in range(10)],
            "list": pa.array([None if i == 5 else [i / 7] * (i % 4) for i in range(10)]),
            "lists": pa.array([[[i], [None, i + 1]] if i % 3 else [] for i in range(10)]),
            "nothing": pa.nulls(10),
        }
    )


def test_what_is_written_is_read(tmp_path, table):
    path = tmp_path / "deep" / "table.parquet"
    write_table(path, table, {"made by": "a test"})
    read, metadata = read_table(path)
    assert read.equals(table)
    assert metadata["made by"] == "a test"
    assert pd.read_parquet(path)["label"].tolist() == list(range(10))
    assert [file.name for file in path.parent.iterdir()] == ["table.parquet"]


def test_a_small_table_is_little_more_than_its_content_and_its_metadata(tmp_path):
    columns = {f"a column named {n}": pa.array([n] * 30, pa.int16()) for n in range(40)}
    write_table(tmp_path / "wide.parquet", pa.table(columns), {"told": "m" * 3000})

    assert pq.read_metadata(tmp_path / "wide.parquet").metadata.keys() == {METADATA_KEY}
    assert (tmp_path / "wide.parquet").stat().st_size < 3000 + 40 * 200
    assert read_table(tmp_path / "wide.parquet")[0].schema.types == [pa.int16()] * 40


def test_checksum_sees_values_and_not_layout(table):
    pieces = pa.concat_tables([table.slice(0, 3), table.slice(3)])
    assert checksum(pieces) == checksum(table)
    for name in table.column_names[:-1]:
        turned = table.set_column(
            table.column_names.index(name), name, table[name].take(list(range(9, -1, -1)))
        )
        assert checksum(turned) != checksum(table), name
    assert checksum(table.rename_columns([*table.column_names[:-1], "x"])) != checksum(table)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([[1, 2], [3]], [[1], [2, 3]]),
        ([[], None], [None, []]),
        ([[None], [1]], [[1], [None]]),
        ([[[1], [2]]], [[[1, 2]]]),
        ([[[1]], [[]]], [[[1], []], []]),
        ([[1.0, 2.0]], [[2.0, 1.0]]),
    ],
)
def test_checksum_sees_where_lists_begin_and_what_is_missing(one, other):
    assert checksum(pa.table({"x": one})) != checksum(pa.table({"x": other}))
    assert checksum(pa.table({"x": one})) == checksum(pa.table({"x": list(one)}))


def test_the_checksum_of_flat_tables_is_as_ever():
    """Those of the artifacts that lie in results and in reproduced/."""
    table = pa.table({"a": [1, 2], "b": pa.array([0.5, None]), "c": ["x", "y"]})
    digest = hashlib.sha256(b"a:int64:2;" + np.array([1, 2]).tobytes())
    digest.update(b"b:double:2;" + bytes([1, 0]) + np.array([0.5]).tobytes())
    digest.update(b'c:string:2;"x""y"')
    assert checksum(table) == digest.hexdigest()


ROWS = [
    {"round": 1, "list": [0.1, math.nan, 1 / 3], "vectors": [[0.1, 2.0], [math.nan, -1.5]]},
    {"round": 2, "loss": math.nan, "list": [], "vectors": None},
    {"round": 3, "loss": 1e-300, "vectors": [[], [7.0]]},
]


def test_rows_may_hold_lists(tmp_path):
    kinds = {"vectors": pa.list_(pa.list_(pa.float32())), "nothing": pa.list_(pa.int64())}
    table = table_of(ROWS, kinds)
    assert table.schema.field("vectors").type == kinds["vectors"]
    read = {name: table[name].to_pylist() for name in table.column_names}
    assert read["round"] == [1, 2, 3]
    assert read["loss"] == [None, None, 1e-300]
    assert read["list"] == [[0.1, None, 1 / 3], [], None]
    assert read["vectors"] == [[[np.float32(0.1), 2.0], [None, -1.5]], None, [[], [7.0]]]
    assert read["nothing"] == [None] * 3
    path = tmp_path / "table.parquet"
    write_table(path, table, {})
    again, _ = read_table(path)
    assert again.to_pylist() == table.to_pylist()
    assert pd.read_parquet(path)["list"][0].tolist()[::2] == [0.1, 1 / 3]


def test_a_row_may_be_long():
    """Longer than the blocks that the reader takes by default, and of unequal lengths."""
    rng = np.random.default_rng(2)
    rows = [{"client": n, "x": rng.normal(size=size).tolist()} for n, size in enumerate((9, 10**5))]
    table = table_of(rows * 3, {})
    assert table["client"].to_pylist() == [0, 1] * 3
    assert table["x"].to_pylist() == [row["x"] for row in rows] * 3


def test_an_altered_table_is_refused(tmp_path, table):
    path = tmp_path / "table.parquet"
    write_table(path, table, {})
    read = pq.read_table(path)
    labels = read["label"].to_numpy().copy()
    labels[4] = 0
    altered = read.set_column(1, "label", pa.array(labels))
    pq.write_table(altered, path)
    with pytest.raises(DamagedArtifact, match=r"table\.parquet: the content does not match"):
        read_table(path)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_truncated_table_is_refused(tmp_path, table, share):
    path = tmp_path / "table.parquet"
    write_table(path, table, {})
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DamagedArtifact, match=r"table\.parquet: not a complete Parquet file"):
        read_table(path)


@pytest.mark.parametrize(
    "error", [OSError(errno.EIO, "Input/output error"), PermissionError(13, "no"), MemoryError()]
)
def test_an_error_that_may_pass_is_no_damage(tmp_path, table, monkeypatch, error):
    path = tmp_path / "table.parquet"
    write_table(path, table, {})

    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr(pq, "ParquetFile", fail)
    with pytest.raises(type(error)):
        read_table(path)


def test_a_table_of_somebody_else_is_refused(tmp_path, table):
    path = tmp_path / "table.parquet"
    pq.write_table(table, path)
    with pytest.raises(DamagedArtifact, match="not written by noisyfl"):
        read_table(path)
    with pytest.raises(FileNotFoundError):
        read_table(tmp_path / "nothing.parquet")


def test_after_an_error_the_old_file_stands_and_no_draft_is_left(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"old": True})

    def fill_the_disk():
        with replacing(path) as draft:
            draft.write_text('{"new"')
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        fill_the_disk()
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]
    assert path.read_text() == '{\n  "old": true\n}\n'


def test_altered_metadata_are_refused(tmp_path, table):
    path = tmp_path / "table.parquet"
    write_table(path, table, {"spec": {"seed": 1}})
    text = pq.read_schema(path).metadata[b"noisyfl"]
    for old, new in ((b'"seed": 1', b'"seed": 2'), (b"metadata_checksum", b"metadata_checksun")):
        altered = table.replace_schema_metadata({"noisyfl": text.replace(old, new)})
        pq.write_table(altered, path)
        for read in (read_table, read_metadata):
            with pytest.raises(DamagedArtifact, match=r"table\.parquet: the metadata do not match"):
                read(path)


def test_every_damage_of_a_table_names_the_file(tmp_path, table):
    """With a flipped bit, or without a piece: it is read as it was, or refused by its name."""
    path = tmp_path / "table.parquet"
    write_table(path, table, {"made by": "a test"})
    whole, rng = path.read_bytes(), random.Random(4)
    expected = read_table(path)
    refused = as_it_was = 0
    for _ in range(400):
        content = bytearray(whole)
        at = rng.randrange(len(whole))
        if rng.random() < 0.7:
            content[at] ^= 1 << rng.randrange(8)
        else:
            del content[at : at + rng.randrange(1, 50)]
        path.write_bytes(content)
        try:
            found = read_table(path)
        except DamagedArtifact as error:
            refused += str(error).startswith(f"{path}: ")
        else:
            as_it_was += found[0].equals(expected[0]) and found[1] == expected[1]
    assert refused + as_it_was == 400
    assert refused > 200


@pytest.mark.parametrize("text", ["", "[1, 2]", '{"status": "fin', "\x00"])
def test_damaged_json_names_the_file(tmp_path, text):
    path = tmp_path / "provenance.json"
    path.write_text(text)
    with pytest.raises(DamagedArtifact, match=r"provenance\.json: not .*; delete it"):
        read_json(path)


def test_a_damaged_tracked_file_is_unpacked_again_and_not_deleted_alone(tmp_path, table):
    """A run with a provenance counts as made, so the file alone would be missed for ever."""
    tracked = Results(tmp_path / "reproduced")
    run, partition = tracked.run("ab"), tracked.partition("cd")
    for path, read, gone in (
        (run.rounds, read_table, f"the folder {run.folder} to have it unpacked again"),
        (run.provenance, read_json, f"the folder {run.folder} to have it unpacked again"),
        (partition, read_table, "it to have it unpacked again"),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("[]")
        with pytest.raises(DamagedArtifact) as refused:
            read(path)
        assert str(refused.value).endswith(f"; delete {gone}")


def test_a_full_disk_is_said_in_a_line_that_names_the_file(tmp_path):
    path = tmp_path / "a.json"
    message = r"a\.json: cannot be read or written \(No space left"
    with pytest.raises(BadInput, match=message), permitted(), replacing(path):
        raise OSError(errno.ENOSPC, "Error writing bytes to file")
    assert not list(tmp_path.iterdir())
