"""Files that hold no vectors, or that say too little of them."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import own_vectors
from noisyfl.core.options import BadInput
from own_vectors import (
    read,
    table_of,
)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"city": ["Bern", "Rome"] * 10},
            r"features: .*'city' has the text 'Bern' in row 0, expected a",
        ),
        (
            {"y": ["1", "?"] * 10},
            r"features: .*'y' has the text '\?' in row 1, expected a number",
        ),
        ({"y": ["5", "1_000"] * 10}, r"features: .*'y' has the text '1_000' in row 1, expected"),
        (
            {"case": range(20)},
            r"features: 'case' has another whole number.*without=\['c",
        ),
        (
            {"case": np.arange(20)[::-1] * 10.0},
            r"features: 'case' has another whole number",
        ),
        ({"Unnamed: 0": [0, 1] * 10}, r"features: 'Unnamed: 0' has no name, as an index"),
        ({"y": [1.5, None] * 10}, r"features: .*'y' has nan in row 1, expected a number"),
        ({"y": [1.5, np.inf] * 10}, r"features: .*'y' has inf in row 1, expected a number"),
        ({"y": [1e300, 0] * 10}, r"features: .*'y' has 1e\+300 in row 0, expected a number of fl"),
        ({"day": ["2020-01-02", "2020-02-03"] * 10}, r"features: .*'day' holds date32"),
        ({"": range(1, 21)}, r"features: '' has no name, as an index"),
    ],
)
def test_columns_that_are_no_features_are_refused(tmp_path, columns, message):
    with pytest.raises(BadInput, match=message):
        read(tmp_path, table_of(tmp_path, **columns))


def test_a_column_that_is_not_there_has_a_suggestion(tmp_path):
    text = table_of(tmp_path, y=np.arange(20) % 3)
    with pytest.raises(BadInput, match=r"features: .* has label, x, y, expected 'xx'.*'x'"):
        read(tmp_path, text, features=["y", "xx"])


@pytest.mark.parametrize("columns", [["age", "pulse"], ["pulse", "age", "smokes"]])
def test_parts_with_other_columns_are_refused(tmp_path, columns):
    text = own_vectors.as_csv(tmp_path)
    test = pd.read_csv(tmp_path / "test.csv")
    test[["label", *columns]].to_csv(tmp_path / "test.csv", index=False)
    with pytest.raises(BadInput, match="features: the training part and the test part have other"):
        read(tmp_path, text)


def test_files_of_a_part_with_other_columns_are_refused(tmp_path):
    text = own_vectors.as_columns(tmp_path)
    table = pq.read_table(tmp_path / "columns/train.parquet")
    for number, columns in enumerate(
        (table.column_names, ["pulse", "age", *table.column_names[2:]])
    ):
        pq.write_table(table.select(columns), tmp_path / f"columns/train-{number}.parquet")
    (tmp_path / "columns/train.parquet").unlink()
    with pytest.raises(BadInput, match=r"train-1\.parquet and .*train-0\.parquet have other"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ([[1.0, 2.0], [3.0]] * 10, "has vectors of 1 to 2 numbers, expected one size"),
        ([[]] * 20, "holds list<.*null>.*, expected numbers"),
        ([[1.0, 2.0], None] * 10, "is empty in row 1"),
        ([[1.0, 2.0], [3.0, None]] * 10, "has nan in row 1, feature 1, expected a number"),
        ([["a"], ["b"]] * 10, "holds list<.*string>.*, expected numbers"),
    ],
)
def test_lists_that_are_no_vectors_are_refused(tmp_path, lists, message):
    columns = {"features": lists, "label": list("ab") * 10}
    pq.write_table(pa.table(columns), tmp_path / "table.parquet")
    with pytest.raises(BadInput, match=f"features: .*'features' {message}"):
        read(tmp_path, "vectors(path='table.parquet', test_share=0.2)")


def test_an_array_of_images_is_no_array_of_vectors(tmp_path):
    np.savez(tmp_path / "set.npz", features=np.zeros((20, 3, 3)), label=[0, 1] * 10)
    with pytest.raises(BadInput, match=r"holds float64 .20, 3, 3., expected numbers.* or a vector"):
        read(tmp_path, "vectors(path='set.npz', test_share=0.2)")


def test_a_folder_without_parquet_files_is_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(BadInput, match="folder has no Parquet files, expected some, or a file"):
        read(tmp_path, "vectors(path='folder')")


@pytest.mark.parametrize("options", ["features='label'", "features=['x', 'given'], given='given'"])
def test_labels_are_no_features(tmp_path, options):
    table_of(tmp_path, given=list("ab") * 10)
    with pytest.raises(BadInput, match=r"features: got '(label|given)', which has labels"):
        read(tmp_path, f"vectors(path='table.csv', test_share=0.2, {options})")


def test_nothing_is_left_for_features(tmp_path):
    text = table_of(tmp_path).replace("test_share", "without=['x'], test_share")
    with pytest.raises(BadInput, match=r"features: .*table\.csv has no column that is left"):
        read(tmp_path, text)


def test_a_mistyped_label_is_named_before_any_feature(tmp_path):
    text = table_of(tmp_path, city=["Bern", "Rome"] * 10)
    with pytest.raises(BadInput, match=r"label: .*expected 'lable'; did you mean 'label'"):
        read(tmp_path, text, label="lable")


def test_a_test_vector_that_is_too_far_away_is_refused(tmp_path):
    table_of(tmp_path, y=[1e-25, 2e-25] * 10)
    frame = pd.read_csv(tmp_path / "table.csv")
    frame.assign(x=0.5, y=3e20).to_csv(tmp_path / "test.csv", index=False)
    with pytest.raises(BadInput, match=r"feature 'y' has 3e\+20, which is too far from its train"):
        read(tmp_path, "vectors(path='table.csv', test='test.csv')")


def test_numbers_that_are_stored_as_text_are_refused(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"label": ["a", "b"] * 10, "x": list(map(str, range(20)))}), path)
    with pytest.raises(BadInput, match=r"features: .*'x' has the text '0' in row 0, expected a nu"):
        read(tmp_path, f"vectors(path='{path}', test_share=0.2)")


def test_arrays_of_different_lengths_are_refused(tmp_path):
    np.savez(tmp_path / "t.npz", x=np.zeros(20), y=np.zeros(19), label=np.arange(20) % 2)
    with pytest.raises(BadInput, match=r"features: .*t\.npz: 'y' has 19 rows, 'x' 20"):
        read(tmp_path, "vectors(path='t.npz', test_share=0.2)", features=["x", "y"])
