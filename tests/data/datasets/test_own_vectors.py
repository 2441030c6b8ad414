"""Vectors of one's own: embeddings, measurements, the rows of a table."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import noisyfl
import own_vectors
from noisyfl.commands.data import export_partition
from noisyfl.core.artifacts import read_metadata
from noisyfl.core.options import BadInput
from noisyfl.data import noisy_partition
from noisyfl.data.augmentation.augment import KINDS, View
from noisyfl.data.client_images import FederatedData
from noisyfl.data.datasets.prepared import provide
from noisyfl.data.noise.instance import likenesses
from noisyfl.data.own_files import OwnFiles
from noisyfl.specs.identity import identity
from noisyfl.specs.spec import canonical_run
from own_sets import spec
from own_vectors import FEATURES, FORMATS, TEST, TRAIN, given_labels, read, vectors, wanted
from small_partitions import canonical_of


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


def table_of(folder, **columns):
    """A .csv with 20 rows of two classes."""
    frame = pd.DataFrame({"label": list("ab") * 10, "x": np.linspace(0, 1, 20) ** 2, **columns})
    frame.to_csv(folder / "table.csv", index=False)
    return "vectors(path='table.csv', test_share=0.2)"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"city": ["Bern", "Rome"] * 10},
            r"features: .*'city' has 'Bern' in row 0, expected a",
        ),
        (
            {"y": ["1", "?"] * 10},
            r"features: .*'y' has '\?' in row 1, expected a number",
        ),
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


def test_an_array_of_images_is_no_array_of_vectors(tmp_path):
    np.savez(tmp_path / "set.npz", features=np.zeros((20, 3, 3)), label=[0, 1] * 10)
    with pytest.raises(BadInput, match=r"holds float64 .20, 3, 3., expected numbers.* or a vector"):
        read(tmp_path, "vectors(path='set.npz', test_share=0.2)")


def test_a_folder_without_parquet_files_is_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(BadInput, match="folder has no Parquet files, expected some, or a file"):
        read(tmp_path, "vectors(path='folder')")


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


def test_every_view_shows_vectors_as_they_are(tmp_path):
    facts, train, _ = read(tmp_path, own_vectors.as_csv(tmp_path))
    view = View(facts, "none", "dataset", torch.device("cpu"))
    shown = torch.from_numpy(train.images.copy()).permute(0, 3, 1, 2)
    before = shown.clone()
    for kind in KINDS:
        draws = view.draw(kind, TRAIN, np.random.default_rng(0))
        assert torch.equal(view.show(kind, shown, draws), before)
        assert view.is_fixed(kind)
    assert torch.equal(shown, before)


RUN = {
    "partition": "iid(clients=2)",
    "label_noise": "symmetric",
    "noise_level": "constant(level=0.2)",
    "model": "mlp",
    "augmentation": "none",
    "normalization": "dataset",
    "schedule": {
        "rounds": 3,
        "participation": 1.0,
        "local_epochs": 1,
        "batch_size": 5,
        "learning_rate": 0.1,
    },
    "method": "fedavg",
    "seed": 1,
}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "augmentation",
            "crop_flip",
            "augmentation: got 'crop_flip', which is for images, and tra",
        ),
        ("normalization", "imagenet", "normalization: got 'imagenet', which is for images, and tr"),
        ("model", "cnn", "model: cnn cannot take images of 1x1, expected at least 4x4"),
    ],
)
def test_what_is_for_images_is_refused(tmp_path, key, value, message):
    own = OwnFiles(tmp_path, tmp_path / "results")
    given = {**RUN, "dataset": own_vectors.as_csv(tmp_path)}
    canonical_run(given, "run", own)
    with pytest.raises(BadInput, match=message):
        canonical_run({**given, key: value}, "run", own)


def test_what_is_recorded_names_the_kind(tmp_path):
    asked = wanted(own_vectors.as_csv(tmp_path))
    assert asked.options()["name"] == "vectors"
    again = OwnFiles(tmp_path, tmp_path / "results")
    facts = again.read(asked)
    assert facts.name.startswith("vectors_")
    assert again.image_names(facts.name).train[3] == f"{tmp_path / 'train.csv'}, row 3"


def test_vectors_are_exported_and_read_back(tmp_path):
    text, own = own_vectors.as_csv(tmp_path), OwnFiles(tmp_path, tmp_path / "results")
    _, train, test = read(tmp_path, text)
    partition = spec(text, own)
    path = own.results.partition(identity(partition))
    noisy_partition.write(path, partition, train.labels, own)
    export_partition(identity(partition), tmp_path / "out", own.results.root, [tmp_path], False)
    card = (tmp_path / "out" / "README.md").read_text()
    assert "tabular-classification" in card
    assert "| `features` | the vector |" in card
    again = "vectors(path='out', label='true_label', given='label', standardize=False)"
    _, read_train, read_test = read(tmp_path, again)
    assert (read_test.images == test.images).all()
    rows = np.concatenate([one.samples for one in noisy_partition.read(path).clients])
    assert (read_train.images == train.images[rows]).all()


def test_noise_that_depends_on_the_vectors(tmp_path):
    _, train, _ = read(tmp_path, own_vectors.as_csv(tmp_path))
    near, far = (likenesses(train.images * scale, train.labels, 2, 0) for scale in (1, 1_000))
    assert (near.argmax(1) == 1 - train.labels).all()
    assert (far.sum(1) == 1).all()


def test_clients_have_vectors_in_torch(tmp_path):
    text, own = own_vectors.as_csv(tmp_path), OwnFiles(tmp_path, tmp_path / "results")
    _, train, test = read(tmp_path, text)
    partition = spec(text, own)
    noisy_partition.write(tmp_path / "partition.parquet", partition, train.labels, own)
    found = noisy_partition.read(tmp_path / "partition.parquet")
    data = FederatedData(found, train, test)
    vector, _, true = data.client(0)[2]
    row = found.clients[0].samples[2]
    assert torch.equal(vector, torch.from_numpy(train.images[row].copy()).permute(2, 0, 1))
    assert true == train.labels[row]


def test_a_kept_model_takes_vectors(tmp_path):
    text = own_vectors.as_csv(tmp_path)
    run = noisyfl.train(
        {**RUN, "dataset": text},
        results=tmp_path / "results",
        data=tmp_path,
        device="cpu",
        keep_model=True,
    )
    model = noisyfl.load_model(run.id, results=tmp_path / "results")
    _, _, test = read(tmp_path, text)
    shown = torch.from_numpy(test.images.copy()).permute(0, 3, 1, 2)
    right = model(shown).argmax(1).numpy() == test.labels
    assert right.mean() == pytest.approx(run.accuracies[-1])
    with pytest.raises(BadInput, match=r"images: got .*, expected float32 \[n, 3, 1, 1\]"):
        model(shown.to(torch.uint8))


def test_an_audit_of_vectors_has_pages_without_pictures(tmp_path):
    found = noisyfl.audit(
        ["fedavg"],
        dataset=own_vectors.as_npz(tmp_path),
        partition="iid(clients=4)",
        rounds=4,
        results=tmp_path / "results",
        data=tmp_path,
        device="cpu",
        jobs=1,
    )
    found.write(tmp_path / "audit")
    page = (tmp_path / "audit" / "index.html").read_text()
    assert "set.npz, row" in page
    assert "<img" not in page


def with_sites(folder):
    """A table that also has a number and a site for each row; returns what reads the vectors."""
    train = pd.read_csv(own_vectors.as_csv(folder) and folder / "train.csv")
    sites = ["east", "west", "north", "west"] * (TRAIN // 4)
    train.assign(case=range(TRAIN), site=sites).to_csv(folder / "records.csv", index=False)
    return sites, "vectors(path='records.csv', test_share=0.2, without=['case', 'site', 'given'])"


def test_columns_can_be_left_out(tmp_path):
    _, text = with_sites(tmp_path)
    facts, *_ = read(tmp_path, text)
    assert facts.shape == (1, 1, len(FEATURES))
    with pytest.raises(BadInput, match=r"without: got 'cases'; did you mean 'case'"):
        read(tmp_path, text.replace("'case'", "'cases'"))
    with pytest.raises(BadInput, match=r"without: got \['case'.* and features, expected one of"):
        read(tmp_path, text, features=["age"])


def test_a_table_says_itself_which_site_has_a_row(tmp_path):
    sites, text = with_sites(tmp_path)
    own = OwnFiles(tmp_path, tmp_path / "results")
    partition = "file(path='records.csv', column='site')"
    given = {"dataset": text, "partition": partition, "label_noise": "none", "seed": 1}
    known = canonical_of(given, own=own)
    facts, train, _ = read(tmp_path, text)
    noisy_partition.write(tmp_path / "partition.parquet", known, train.labels, own)
    clients = noisy_partition.read(tmp_path / "partition.parquet").clients
    names = own.client_names(known["partition"])
    rows = [int(name.rpartition(" ")[2]) for name in own.image_names(facts.name).train]
    assert names == ["east", "north", "west"]
    for name, client in zip(names, clients, strict=True):
        assert {sites[rows[sample]] for sample in client.samples} == {name}
    assert sum(len(client.samples) for client in clients) == len(rows)


def test_another_table_does_not_say_which_site_has_a_vector(tmp_path):
    _, text = with_sites(tmp_path)
    own = OwnFiles(tmp_path, tmp_path / "results")
    (tmp_path / "other.csv").write_bytes((tmp_path / "records.csv").read_bytes())
    given = {"dataset": text, "label_noise": "none", "seed": 1}
    with pytest.raises(BadInput, match=r"other\.csv has .*, expected 'sample'"):
        canonical_of({**given, "partition": "file(path='other.csv', column='site')"}, own=own)
    with pytest.raises(BadInput, match=r"partition\.file\.column: .*expected 'sites'.*'site'"):
        canonical_of({**given, "partition": "file(path='records.csv', column='sites')"}, own=own)


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


def test_a_test_vector_that_is_too_far_away_is_refused(tmp_path):
    table_of(tmp_path, y=[1e-25, 2e-25] * 10)
    frame = pd.read_csv(tmp_path / "table.csv")
    frame.assign(x=0.5, y=3e20).to_csv(tmp_path / "test.csv", index=False)
    with pytest.raises(BadInput, match=r"feature 'y' has 3e\+20, which is too far from its train"):
        read(tmp_path, "vectors(path='table.csv', test='test.csv')")


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


def test_a_tables_own_column_of_samples_does_not_count(tmp_path):
    """Such as that of an exported partition, which counts in another dataset."""
    sites, text = with_sites(tmp_path)
    records = pd.read_csv(tmp_path / "records.csv").assign(sample=np.arange(TRAIN)[::-1])
    records.to_csv(tmp_path / "records.csv", index=False)
    own = OwnFiles(tmp_path, tmp_path / "results")
    dataset = text.replace("'case'", "'case', 'sample'")
    given = {"dataset": dataset, "label_noise": "none", "seed": 1}
    known = canonical_of({**given, "partition": "file(path='records.csv', column='site')"}, own=own)
    kept, names = own.load(known["partition"]["sha256"]), own.client_names(known["partition"])
    facts = own.read(wanted(dataset))
    rows = [int(name.rpartition(" ")[2]) for name in own.image_names(facts.name).train]
    for client, sample in zip(kept["client"], kept["sample"], strict=True):
        assert sites[rows[sample]] == names[client]


def test_given_labels_of_the_same_table_go_with_its_rows(tmp_path):
    _, text = with_sites(tmp_path)
    own = OwnFiles(tmp_path, tmp_path / "results")
    noise = spec(text, own, "file(path='records.csv', key='given')", None)["label_noise"]
    kept = own.load(noise["sha256"])["label"]
    facts = own.read(wanted(text))
    rows = [int(name.rpartition(" ")[2]) for name in own.image_names(facts.name).train]
    assert kept.tolist() == given_labels()[rows].tolist()


@pytest.mark.parametrize(
    ("sites", "message"),
    [
        (["east", ""], r"column: .*'site' is empty in row 1"),
        (["east", "east "], r"column: got the clients 'east' and 'east ', expected one spelling"),
    ],
)
def test_sites_need_one_spelling_each(tmp_path, sites, message):
    _, text = with_sites(tmp_path)
    records = pd.read_csv(tmp_path / "records.csv").assign(site=sites * (TRAIN // 2))
    records.to_csv(tmp_path / "records.csv", index=False)
    own = OwnFiles(tmp_path, tmp_path / "results")
    partition = "file(path='records.csv', column='site')"
    with pytest.raises(BadInput, match=message):
        canonical_of(
            {"dataset": text, "partition": partition, "label_noise": "none", "seed": 1}, own=own
        )
