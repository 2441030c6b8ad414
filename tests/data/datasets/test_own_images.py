"""A dataset of one's own: in every format the same."""

import json

import numpy as np
import pytest

import own_sets
from noisyfl.core.options import BadInput
from noisyfl.data.datasets.dataset import dataset
from noisyfl.data.datasets.own_formats import SampleColumns, list_samples
from noisyfl.data.datasets.parts import read_part
from noisyfl.data.datasets.prepared import provide
from noisyfl.data.own_files import OwnFiles
from noisyfl.data.roots import NotRead
from own_sets import known, spec, wanted


def parts_of(folder, found):
    name = dataset(found).name
    return {
        p: read_part(folder / "results/data" / name / f"{p}.parquet") for p in ("train", "test")
    }


@pytest.mark.parametrize("channels", [1, 3])
def test_every_format_gives_the_same_dataset(tmp_path, channels):
    found = []
    for make in own_sets.FORMATS.values():
        folder = tmp_path / make.__name__
        folder.mkdir()
        found.append(known(folder, make(folder, channels)))
        parts = parts_of(folder, found[-1])
        for part, (images, labels) in own_sets.arrays(channels).items():
            np.testing.assert_array_equal(parts[part].images, images)
            assert parts[part].labels.tolist() == labels.tolist()
    assert all(one == found[0] for one in found)
    assert found[0]["shape"] == [6, 5, channels]
    assert found[0]["classes"] == list(own_sets.CLASSES)
    train = own_sets.arrays(channels)["train"][0] / 255
    np.testing.assert_allclose(found[0]["mean"], train.mean(axis=(0, 1, 2)), atol=5e-5)
    np.testing.assert_allclose(found[0]["std"], train.std(axis=(0, 1, 2)), atol=5e-5)


def test_medmnist_is_read_as_it_is_and_says_what_it_leaves_out(tmp_path):
    own = OwnFiles(tmp_path, tmp_path / "results")
    found = own.read(own_sets.wanted(own_sets.as_medmnist(tmp_path))).own
    assert (found["train_size"], found["test_size"]) == (own_sets.TRAIN, own_sets.TEST)
    assert own.remarks[found["sha256"]] == ["insects.npz: not read: val_images, val_labels"]


def test_an_npz_without_a_test_part_is_split(tmp_path):
    own_sets.as_npz(tmp_path)
    arrays = dict(np.load(tmp_path / "set.npz"))
    np.savez(tmp_path / "set.npz", **{k: v for k, v in arrays.items() if k.startswith("train_")})
    found = known(tmp_path, "images(path='set.npz', test_share=0.25, given='given')")
    assert (found["train_size"], found["test_size"]) == (18, 6)


def test_a_path_may_be_in_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    own_sets.as_npz(tmp_path / "home")
    np.save(tmp_path / "home/labels.npy", own_sets.given_labels())
    own = OwnFiles(tmp_path / "data", tmp_path / "results")
    text = "images(path='~/set.npz', classes=['ant', 'bee', 'cat'], given='given')"
    assert spec(text, own, "file(path='~/labels.npy')", None) == spec(text, own, "file", None)


def test_labels_of_several_classes_each_are_an_error(tmp_path):
    images = np.zeros((4, 6, 5), dtype=np.uint8)
    several = {f"{part}_labels": np.eye(4, dtype=np.uint8) for part in ("train", "test")}
    np.savez(tmp_path / "chest.npz", train_images=images, test_images=images, **several)
    with pytest.raises(BadInput, match=r"'train_labels' holds uint8 \(4, 4\), expected whole"):
        known(tmp_path, "images(path='chest.npz')")


def test_what_a_dataset_holds_decides_its_name(tmp_path):
    text = own_sets.as_npz(tmp_path)
    names = {dataset(known(tmp_path, text)).name}
    for more in ({"size": [4, 4]}, {"true_labels": False}, {"mean": [0.5] * 3}, {"std": [1.0] * 3}):
        names.add(dataset(known(tmp_path, text, **more)).name)
    arrays = dict(np.load(tmp_path / "set.npz"))
    arrays["test_image"][0, 0, 0, 0] ^= 1
    np.savez(tmp_path / "set.npz", **arrays)
    names.add(dataset(known(tmp_path, text)).name)
    assert len(names) == 6


def test_images_are_stretched_to_the_size_that_is_wanted(tmp_path):
    found = known(tmp_path, own_sets.as_folder(tmp_path), size=[4, 7])
    assert found["shape"] == [4, 7, 3]
    assert parts_of(tmp_path, found)["test"].images.shape == (own_sets.TEST, 4, 7, 3)


def test_a_share_of_each_class_is_split_off_and_always_the_same(tmp_path):
    own_sets.as_csv(tmp_path)
    text = "images(path='train.csv', test_share=0.25, given='given')"
    found = known(tmp_path, text)
    assert (found["train_size"], found["test_size"]) == (18, 6)
    parts = parts_of(tmp_path, found)
    assert np.bincount(parts["test"].labels).tolist() == [2, 2, 2]
    assert known(tmp_path, text) == found
    # Given labels are those of the samples that are left.
    own = OwnFiles(tmp_path, tmp_path / "results")
    kept = own.load(own.read(wanted(text)).given)["label"]
    images, _ = own_sets.arrays()["train"]
    rows = [
        next(row for row, image in enumerate(images) if (image == one).all())
        for one in parts["train"].images
    ]
    assert kept.tolist() == own_sets.given_labels()[rows].tolist()


def test_files_are_read_once_and_again_when_they_change(tmp_path, monkeypatch):
    text = own_sets.as_folder(tmp_path)
    before = known(tmp_path, text)
    monkeypatch.setattr("noisyfl.data.own_files.read_data", None)
    assert known(tmp_path, text) == before
    own = OwnFiles(tmp_path, tmp_path / "results")
    own.read(wanted(text))
    assert not own.stale(own.stamps, own.fingerprints)
    monkeypatch.undo()
    next((tmp_path / "folder/test/ant").iterdir()).unlink()
    assert own.stale(own.stamps, own.fingerprints)
    assert known(tmp_path, text)["test_size"] == before["test_size"] - 1


def test_lost_parts_are_made_again_as_long_as_the_files_hold_the_same(tmp_path):
    text = own_sets.as_npz(tmp_path)
    found = known(tmp_path, text)
    name = dataset(found).name
    before = parts_of(tmp_path, found)["train"].images
    own = OwnFiles(tmp_path, tmp_path / "results")
    own.results.data(name, "train").unlink()
    provide(name, own, False, [])
    np.testing.assert_array_equal(parts_of(tmp_path, found)["train"].images, before)
    # Elsewhere, they are taken from a folder of prepared datasets.
    elsewhere = OwnFiles(tmp_path, tmp_path / "elsewhere")
    provide(name, elsewhere, False, [tmp_path / "results" / "data"])
    assert elsewhere.results.data(name, "test").is_file()
    with pytest.raises(BadInput, match=rf"{name}: .*there is no .*images.json; plan its scale"):
        provide(name, OwnFiles(tmp_path, tmp_path / "nowhere"), False, [])
    arrays = dict(np.load(tmp_path / "set.npz"))
    np.savez(tmp_path / "set.npz", **{**arrays, "test_label": arrays["test_label"][::-1]})
    with pytest.raises(BadInput, match=f"{name}: its files hold something else"):
        provide(name, own, False, [])


def test_a_spec_says_all_that_is_known_and_not_where_it_lies(tmp_path):
    text = own_sets.as_parquet(tmp_path)
    with pytest.raises(NotRead, match=r"spec\.dataset\.images\.path: got 'hub'"):
        spec(text, None)
    made = spec(text, OwnFiles(tmp_path, tmp_path / "results"))
    assert "hub" not in json.dumps(made)
    assert spec(made["dataset"], None) == made
    assert dataset(made["dataset"]).classes == own_sets.CLASSES


@pytest.mark.parametrize("make", [own_sets.as_csv, own_sets.as_npz, own_sets.as_parquet])
def test_given_labels_beside_the_true_ones_are_a_label_noise(tmp_path, make):
    text = make(tmp_path).removesuffix(")") + ", given='given')"
    own = OwnFiles(tmp_path, tmp_path / "results")
    made = spec(text, own, "file", None)
    assert (
        own.load(made["label_noise"]["sha256"])["label"].tolist()
        == own_sets.given_labels().tolist()
    )
    # Names that are numbered by the alphabet alone need not be numbered so in another file.
    labels, names = own_sets.given_labels(), np.array(own_sets.CLASSES)
    np.save(tmp_path / "labels.npy", names[labels] if make is own_sets.as_csv else labels)
    assert spec(text, own, "file(path='labels.npy')", None) == made
    with pytest.raises(BadInput, match=r"path: got null, expected a file, since digits has no"):
        spec("digits", own, "file", None)


def test_two_columns_of_given_labels_are_two_noises_of_one_data_set(tmp_path):
    text = own_sets.as_npz(tmp_path)
    arrays = dict(np.load(tmp_path / "set.npz"))
    other = (arrays["train_given"] + 1) % len(own_sets.CLASSES)
    np.savez(tmp_path / "set.npz", **arrays, train_other=other)
    own = OwnFiles(tmp_path, tmp_path / "results")
    one, two = (text.replace(")", f", given='{name}')") for name in ("given", "other"))
    made = [spec(each, own, "file", None) for each in (one, two, one)]
    assert made[0] == made[2]
    assert made[0]["dataset"] == made[1]["dataset"]
    kept = own.load(made[1]["label_noise"]["sha256"])["label"]
    assert kept.tolist() == other.tolist()
    with pytest.raises(BadInput, match=r"path: got null, expected a file, since set\.npz has no"):
        spec(text, own, "file", None)


def test_true_labels_that_are_corrected_in_a_labels_file_are_kept_anew(tmp_path):
    own_sets.as_npz(tmp_path)
    given, true = own_sets.given_labels(), own_sets.arrays()["train"][1]
    for clean in ({}, {"clean_label": true}, {}):
        np.savez(tmp_path / "labels.npz", given=given, **clean)
        own = OwnFiles(tmp_path, tmp_path / "results")
        text = "images(path='set.npz')"
        made = spec(text, own, "file(path='labels.npz', key='given')", None)
        kept = own.load(made["label_noise"]["sha256"])
        assert {**kept, "label": None}.keys() == {"label", *clean}
        assert all((kept[name] == values).all() for name, values in clean.items())


@pytest.mark.parametrize(
    ("clean", "message"),
    [
        (
            lambda true: true[::-1],
            r"labels\.npz has its labels in another order than set\.npz",
        ),
        (lambda true: true[1:], r"labels\.npz: 'clean_label' holds int64 \(23,\), expected whole"),
    ],
)
def test_true_labels_beside_given_ones_have_to_be_the_datasets(tmp_path, clean, message):
    text = own_sets.as_npz(tmp_path)
    true = own_sets.arrays()["train"][1]
    np.savez(tmp_path / "labels.npz", given=own_sets.given_labels(), clean_label=clean(true))
    own = OwnFiles(tmp_path, tmp_path / "results")
    with pytest.raises(BadInput, match=rf"^spec\.label_noise\.file\.path: .*{message}"):
        spec(text, own, "file(path='labels.npz', key='given')", None)


def test_an_image_is_named_by_its_row_in_the_file(tmp_path):
    images = np.zeros((20, 2, 2), np.uint8)
    np.savez(tmp_path / "set.npz", image=images, label=[0, 1] * 10, given=[1, 0] * 10)
    found, _ = list_samples(tmp_path / "set.npz", SampleColumns("label", "given"))
    some = found["all"].rows(np.array([3, 15]))
    assert [name.rpartition(", ")[2] for name in some.names] == ["row 3", "row 15"]
    assert (len(some.samples), some.labels, some.given) == (2, [1, 1], [0, 0])
