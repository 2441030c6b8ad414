"""Vectors of one's own: embeddings, measurements, the rows of a table."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import own_vectors
from noisyfl.core.artifacts import read_metadata
from noisyfl.data.datasets.prepared import provide
from noisyfl.data.own_files import OwnFiles
from own_sets import spec
from own_vectors import (
    FEATURES,
    FORMATS,
    TEST,
    TRAIN,
    read,
    table_of,
    vectors,
    wanted,
)


def standardized():
    """The vectors of both parts as a network is to see them."""
    values = vectors()["train"][0]
    return [(vectors()[part][0] - values.mean(0)) / values.std(0) for part in ("train", "test")]


@pytest.mark.parametrize("make", FORMATS.values(), ids=FORMATS)
def test_every_format_gives_the_same_vectors(tmp_path, make):
    facts, train, test = read(tmp_path, make(tmp_path))
    first, *_ = read(tmp_path, own_vectors.as_csv(tmp_path))
    assert facts.name == first.name
    assert (facts.given, facts.classes) == (first.given, ("ill", "well"))
    assert (facts.shape, facts.train_size, facts.test_size) == ((1, 1, 3), TRAIN, TEST)
    for part, expected in zip((train, test), standardized(), strict=True):
        assert part.images.dtype == np.float32
        np.testing.assert_allclose(part.images[:, 0, 0], expected, atol=1e-5)
    assert train.labels.tolist() == vectors()["train"][1].tolist()


def test_vectors_can_be_used_as_they_are(tmp_path):
    _, train, _ = read(tmp_path, own_vectors.as_csv(tmp_path), standardize=False)
    np.testing.assert_allclose(train.images[:, 0, 0], vectors()["train"][0], rtol=1e-6)


def test_some_columns_can_be_chosen_and_are_named(tmp_path):
    text = own_vectors.as_csv(tmp_path)
    _, train, _ = read(tmp_path, text, features=["pulse", "age"])
    expected = standardized()[0][:, [1, 0]]
    np.testing.assert_allclose(train.images[:, 0, 0], expected, atol=1e-5)
    own = OwnFiles(tmp_path, tmp_path / "results")
    remarks = own.remarks_on(spec(text, own))
    assert f"train.csv: read as features: {', '.join(map(repr, FEATURES))}" in remarks


def test_a_feature_that_never_changes_is_zero_and_remarked_on(tmp_path):
    frame = pd.DataFrame({"label": list("ab") * 10, "x": np.linspace(0, 1, 20) ** 2, "y": 0.1})
    frame.to_csv(tmp_path / "table.csv", index=False)
    facts, train, _ = read(tmp_path, "vectors(path='table.csv', test_share=0.2)")
    assert (train.images[..., 1] == 0).all()
    own = OwnFiles(tmp_path, tmp_path / "results")
    remarks = own.remarks_on(spec("vectors(path='table.csv', test_share=0.2)", own))
    assert any("1 feature is the same in all training vectors" in one for one in remarks)
    assert facts.own["mean"] == [0.0]


def test_large_numbers_keep_their_differences(tmp_path):
    seconds = 1_700_000_000 + np.arange(20) ** 2 % 7
    frame = pd.DataFrame({"label": list("ab") * 10, "time": seconds})
    frame.to_csv(tmp_path / "table.csv", index=False)
    _, train, test = read(tmp_path, "vectors(path='table.csv', test_share=0.2)")
    values = np.concatenate([train.images.ravel(), test.images.ravel()])
    assert len(np.unique(values)) == len(np.unique(seconds))


def test_a_chunked_column_of_vectors_is_read_whole(tmp_path):
    path = tmp_path / "table.parquet"
    rows = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    schema = pa.schema({"features": pa.list_(pa.float32(), 3), "label": pa.int64()})
    with pq.ParquetWriter(path, schema) as writer:
        for first in range(0, 40, 10):
            columns = [rows[first : first + 10].tolist(), [0, 1] * 5]
            arrays = [pa.array(one, field.type) for one, field in zip(columns, schema, strict=True)]
            writer.write_table(pa.table(arrays, schema=schema))
    text = "vectors(path='table.parquet', test_share=0.2, standardize=False)"
    _, train, test = read(tmp_path, text)
    found = np.concatenate([train.images, test.images])[:, 0, 0]
    assert {tuple(row) for row in found.tolist()} == {tuple(row) for row in rows.tolist()}


def test_vectors_in_both_parts_or_with_two_labels_are_remarked_on(tmp_path):
    text = own_vectors.as_csv(tmp_path)
    train, test = (pd.read_csv(tmp_path / f"{part}.csv") for part in ("train", "test"))
    pd.concat([test, train[:2]]).to_csv(tmp_path / "test.csv", index=False)
    pd.concat([train, train[:1].assign(label="well")]).to_csv(tmp_path / "train.csv", index=False)
    own = OwnFiles(tmp_path, tmp_path / "results")
    remarks = " ".join(own.remarks_on(spec(text, own)))
    assert "2 of 12 test vectors are equal to a training vector" in remarks
    assert "1 vectors are in the training part with two labels or more" in remarks


def test_lost_and_prepared_parts_are_as_they_were(tmp_path):
    facts, *_ = read(tmp_path, own_vectors.as_npz(tmp_path))
    own = OwnFiles(tmp_path, tmp_path / "results")
    folder = own.results.data(facts.name, "train").parent
    (folder / "train.parquet").rename(tmp_path / "kept")
    own.prepare_again(facts.name)
    assert (folder / "train.parquet").read_bytes() == (tmp_path / "kept").read_bytes()
    other = OwnFiles(tmp_path, tmp_path / "other")
    provide(facts.name, other, False, [tmp_path / "results" / "data"])
    copied = other.results.data(facts.name, "train")
    assert copied.read_bytes() == (tmp_path / "kept").read_bytes()


def test_what_is_recorded_names_the_kind(tmp_path):
    asked = wanted(own_vectors.as_csv(tmp_path))
    assert asked.options()["name"] == "vectors"
    again = OwnFiles(tmp_path, tmp_path / "results")
    facts = again.read(asked)
    assert facts.name.startswith("vectors_")
    assert again.image_names(facts.name).train[3] == f"{tmp_path / 'train.csv'}, row 3"


def test_pandas_index_is_no_feature(tmp_path):
    frame = pd.DataFrame({"x": np.arange(40) % 7, "label": list("ab") * 20})
    frame.sample(frac=1, random_state=0).to_parquet(tmp_path / "table.parquet")
    facts, *_ = read(tmp_path, "vectors(path='table.parquet', test_share=0.2)")
    assert facts.shape == (1, 1, 1)


@pytest.mark.parametrize("kind", [bool, np.uint8])
def test_whole_numbers_that_repeat_are_features(tmp_path, kind):
    text = table_of(tmp_path, y=(np.arange(20) % 2).astype(kind))
    facts, *_ = read(tmp_path, text)
    assert facts.shape == (1, 1, 2)


def test_whoever_lists_features_may_have_any(tmp_path):
    text = table_of(tmp_path, year=np.arange(1990, 2010))
    facts, *_ = read(tmp_path, text, features=["x", "year"])
    assert facts.shape == (1, 1, 2)


def test_the_arrays_of_several_features_are_all_read(tmp_path):
    content = {
        f"{part}_{name}": np.arange(20) % 7 * 1.0 for part in ("train", "test") for name in "ab"
    }
    labels = {f"{part}_label": [0, 1] * 10 for part in ("train", "test")}
    np.savez(tmp_path / "set.npz", **content, **labels)
    facts, *_ = read(tmp_path, "vectors(path='set.npz', features=['a', 'b'])")
    assert facts.shape == (1, 1, 2)


def test_only_a_column_of_vectors_goes_before_the_others(tmp_path):
    facts, *_ = read(tmp_path, table_of(tmp_path, features=np.arange(20) % 3))
    assert facts.shape == (1, 1, 2)
    columns = {
        "features": [[1.0, 2.0], [0.5, 3.0]] * 10,
        "label": list("ab") * 10,
        "age": [1, 2] * 10,
    }
    pq.write_table(pa.table(columns), tmp_path / "table.parquet")
    text, own = "vectors(path='table.parquet', test_share=0.2)", OwnFiles(tmp_path, tmp_path / "r")
    assert "table.parquet: not read: 'age'" in own.remarks_on(spec(text, own))


@pytest.mark.parametrize("factor", [1e-200, 1e-30, 1e30])
def test_tiny_and_huge_numbers_are_scaled_as_others(tmp_path, factor):
    values, labels = vectors()["train"]
    np.savez(tmp_path / "one.npz", features=values, label=labels)
    np.savez(tmp_path / "two.npz", features=values * factor, label=labels)
    _, one, _ = read(tmp_path, "vectors(path='one.npz', test_share=0.2)")
    _, two, _ = read(tmp_path, "vectors(path='two.npz', test_share=0.2)")
    np.testing.assert_allclose(one.images, two.images, rtol=1e-5)


def test_what_differs_by_rounding_is_the_same(tmp_path):
    _, train, _ = read(tmp_path, table_of(tmp_path, y=[0.3, 0.1 + 0.2] * 10))
    assert np.abs(train.images[..., 1]).max() < 1e-9


def test_a_test_file_may_lack_what_is_left_out(tmp_path):
    text = own_vectors.as_csv(tmp_path).replace(", given='given'", "")
    train = pd.read_csv(tmp_path / "train.csv")
    train.assign(site="east").to_csv(tmp_path / "train.csv", index=False)
    facts, *_ = read(tmp_path, text, without=["site", "given"])
    assert facts.shape == (1, 1, 3)


def test_the_scaling_is_kept_beside_the_vectors(tmp_path):
    facts, train, _ = read(tmp_path, own_vectors.as_csv(tmp_path))
    path = OwnFiles(tmp_path, tmp_path / "results").results.data(facts.name, "train")
    scaling = read_metadata(path)["scaling"]
    assert scaling["features"] == list(FEATURES)
    values = (vectors()["train"][0] - scaling["shift"]) / scaling["scale"]
    np.testing.assert_allclose(train.images[:, 0, 0], values, atol=1e-5)


def test_the_same_after_another_scaling_is_another_dataset(tmp_path):
    values, labels = vectors()["train"]
    names = []
    for unit in (1, 2):  # which changes no bit of the scaled numbers
        np.savez(tmp_path / f"in_{unit}.npz", features=values * unit, label=labels)
        facts, train, _ = read(tmp_path, f"vectors(path='in_{unit}.npz', test_share=0.2)")
        path = OwnFiles(tmp_path, tmp_path / "results").results.data(facts.name, "train")
        scaling = read_metadata(path)["scaling"]
        raw = (train.images[:, 0, 0] * scaling["scale"] + scaling["shift"]) / unit
        assert np.abs(raw[:, None] - values).max(axis=2).min(axis=1).max() < 1e-4
        names.append(facts.name)
    assert names[0] != names[1]
