"""A dataset of one's own: in every format the same, and refused where something is wrong."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import own_sets
from noisyfl.core.options import BadInput
from noisyfl.core.registry import parse_component
from noisyfl.data.datasets.dataset import dataset
from noisyfl.data.datasets.own_formats import Listing
from noisyfl.data.datasets.own_images import Images
from noisyfl.data.datasets.parts import read_part
from noisyfl.data.datasets.prepared import provide
from noisyfl.data.own_files import OwnFiles
from noisyfl.data.roots import NotRead
from small_partitions import canonical_of


def wanted(text, **more):
    options = parse_component(text)
    options.pop("name")
    return Images.read({**options, **more})


def known(folder, text, **more):
    return OwnFiles(folder, folder / "results").images(wanted(text, **more))


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
    kept = own.load(own.labels(None, None, own.facts(wanted(text))))["label"]
    images, _ = own_sets.arrays()["train"]
    rows = [
        next(row for row, image in enumerate(images) if (image == one).all())
        for one in parts["train"].images
    ]
    assert kept.tolist() == own_sets.given_labels()[rows].tolist()


def test_files_are_read_once_and_again_when_they_change(tmp_path, monkeypatch):
    text = own_sets.as_folder(tmp_path)
    before = known(tmp_path, text)
    monkeypatch.setattr("noisyfl.data.own_files.read_images", None)
    assert known(tmp_path, text) == before
    own = OwnFiles(tmp_path, tmp_path / "results")
    own.images(wanted(text))
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


def spec(dataset, own, noise="symmetric", level="constant(level=0.2)"):
    given = {"dataset": dataset, "partition": "iid(clients=3)", "label_noise": noise, "seed": 1}
    return canonical_of({**given, **({"noise_level": level} if level else {})}, own=own)


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
    np.save(tmp_path / "labels.npy", own_sets.given_labels())
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
    with pytest.raises(BadInput, match=r"path: got null, expected a file, since images_.* has no"):
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
            r"labels\.npz has its labels in another order than images_",
        ),
        (lambda true: true[1:], r"labels\.npz: 'clean_label' holds int64 \(23,\), expected whole"),
        (
            lambda true: true / 1,
            r"labels\.npz: 'clean_label' holds float64 \(24,\), expected",
        ),
        (
            lambda true: true + 1,
            r"labels\.npz: 'clean_label' gives sample 16 the label 3",
        ),
    ],
)
def test_true_labels_beside_given_ones_have_to_be_the_datasets(tmp_path, clean, message):
    text = own_sets.as_npz(tmp_path)
    true = own_sets.arrays()["train"][1]
    np.savez(tmp_path / "labels.npz", given=own_sets.given_labels(), clean_label=clean(true))
    own = OwnFiles(tmp_path, tmp_path / "results")
    with pytest.raises(BadInput, match=rf"^spec\.label_noise\.file\.path: .*{message}"):
        spec(text, own, "file(path='labels.npz', key='given')", None)


def edited(change):
    """The npz with other arrays."""

    def make(folder):
        text = own_sets.as_npz(folder)
        arrays = dict(np.load(folder / "set.npz"))
        change(arrays)
        np.savez(folder / "set.npz", **arrays)
        return text

    return make


def asked(make, more, *channels):
    """A dataset with another option."""
    return lambda folder: make(folder, *channels).replace(")", f", {more})")


def wrong_label(folder):
    text = own_sets.as_csv(folder)
    path = folder / "test.csv"
    path.write_text(path.read_text().replace(",bee,", ",wasp,", 1))
    return text


def missing_image(folder):
    text = own_sets.as_csv(folder)
    (folder / "folder/train/bee/010.png").unlink()
    return text


def no_image(folder):
    text = own_sets.as_folder(folder)
    (folder / "folder/train/bee/010.png").write_bytes(b"no image")
    return text


def another_size(folder):
    text = own_sets.as_folder(folder)
    (folder / "folder/train/bee/010.png").write_bytes(own_sets.png(np.zeros((4, 4, 3), np.uint8)))
    return text


def cut_short(folder):
    text = own_sets.as_parquet(folder)
    path = folder / "hub/data/test-00000-of-00001.parquet"
    path.write_bytes(path.read_bytes()[:200])
    return text


def without_bytes(folder):
    text = own_sets.as_parquet(folder)
    path = folder / "hub/data/test-00000-of-00001.parquet"
    table = pq.read_table(path)
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = pa.array([{"bytes": None, "path": "x.png"}] * len(table), kind)
    pq.write_table(table.set_column(0, "image", rows), path)
    return text


def only_one_part(folder):
    own_sets.as_csv(folder)
    return "images(path='train.csv')"


def no_folder(folder):
    return "images(path='nowhere')"


def empty_folder(folder):
    (folder / "empty").mkdir()
    return "images(path='empty', test_share=0.5)"


def a_folder_above(folder):
    """The part of a set without its test part, whose classes are a folder further down."""
    place = folder / "above" / "train" / "ant"
    place.mkdir(parents=True)
    for number in range(4):
        Image.new("L", (4, 4)).save(place / f"{number}.png")
    return "images(path='above', test_share=0.5)"


def no_known_format(folder):
    (folder / "a.zip").write_bytes(b"")
    return "images(path='a.zip', test_share=0.5)"


def the_same_test(folder):
    own_sets.as_csv(folder)
    return "images(path='train.csv', test='./train.csv')"


def wrong_given_name(folder):
    text = own_sets.as_csv(folder)
    path = folder / "train.csv"
    path.write_text(path.read_text().replace(",bee\n", ",wasp\n", 1))
    return text.replace(")", ", given='given')")


def given_shares(folder):
    text = own_sets.as_csv(folder)
    path = folder / "train.csv"
    header, *lines = path.read_text().splitlines()
    path.write_text("\n".join([header, *(f"{line.rpartition(',')[0]},0.5" for line in lines)]))
    return text.replace(")", ", given='given')")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            wrong_label,
            r"label: .*test/bee/003\.png has the label 'wasp', expected .* ant, bee, cat",
        ),
        (missing_image, r"path: 1 images cannot be read: .*bee/010\.png: .*No such file"),
        (no_image, r"path: 1 images cannot be read: .*bee/010\.png: cannot identify image"),
        (
            another_size,
            r"size: .*bee/010\.png is 4x4, and .*000\.png is 6x5; expected images of on",
        ),
        (cut_short, r"path: .*test-00000-of-00001\.parquet: not a whole Parquet file"),
        (without_bytes, r"image: .*test-.*parquet: row 0 of 'image' has no bytes of an image"),
        (only_one_part, r"test: got no test part, expected one of test, test_share, the parts in"),
        (
            asked(own_sets.as_folder, "test_share=0.5"),
            r"test: got test_share and the parts in path, expected one of",
        ),
        (no_folder, r"path: got 'nowhere', and there is neither file nor folder .*/nowhere"),
        (empty_folder, r"path: .*empty: expected a subfolder of images for each class"),
        (no_known_format, r"path: got 'a\.zip', expected a folder or a \.csv, \.npz, \.parquet"),
        (
            asked(own_sets.as_csv, "label='lable'"),
            r"label: got 'lable'; did you mean 'label'\? \(.*train\.csv has image, la",
        ),
        (
            asked(own_sets.as_folder, "given='given'"),
            r"given: got 'given', and a folder of images has no given labels",
        ),
        (
            asked(own_sets.as_npz, "mean=[0.5, 0.5, 0.5]", 1),
            r"mean: got \[0\.5, 0\.5, 0\.5\], expected a number for each of 1 chann",
        ),
        (
            edited(lambda a: a.update(test_label=a["test_label"] + 1)),
            r"label: .*set\.npz, row 6 .* 3",
        ),
        (
            edited(lambda a: a.update(train_label=a["train_label"] // 2)),
            r"class 'cat' has no traini",
        ),
        (
            edited(lambda a: a.update(train_image=a["train_image"] / 1)),
            r"is float64 .*expected uint8",
        ),
        (
            edited(lambda a: a.update(train_label=a["train_label"][1:])),
            r"one name or number of a cla",
        ),
        (
            a_folder_above,
            r"label: .*got the classes \['train'\], expected two or more, each with a",
        ),
        (the_same_test, r"test: got '\./train\.csv', which is path too, expected other images"),
        (
            asked(own_sets.as_npz, "mean=[128]", 1),
            r"mean: got \[128\.0\], expected numbers from 0 to 1, which pixels are",
        ),
        (
            asked(own_sets.as_npz, "std=[-0.5]", 1),
            r"std: got \[-0\.5\], expected numbers from 0 to 1, which pixels are",
        ),
        (given_shares, r"given: .*train\.csv: column 'given' is double, expected text or"),
        (wrong_given_name, r"given: .*\.png has the given label 'wasp', expected one of 3"),
        (
            asked(edited(lambda a: a.update(train_given=a["train_given"][1:])), "given='given'"),
            r"given: .*'train_given' is int64 \(23,\), expected one name",
        ),
        (
            asked(edited(lambda a: a.pop("train_given")), "given='given'"),
            r"given: .*set\.npz has train_image, .*; expected 'image' and 'label' and 'given', or ",
        ),
        (
            edited(lambda a: a.pop("test_image")),
            r"image: .*set\.npz has train_given, train_image, train_label, test_label; expected "
            r"'image' and 'label', or 'train_image', 'train_label', 'test_image', 'test_label'",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, make, message):
    with pytest.raises(BadInput, match=message) as error:
        spec(make(tmp_path), OwnFiles(tmp_path, tmp_path / "results"))
    assert str(error.value).startswith("spec.dataset.images.")
    assert "\n" not in str(error.value)
    assert not list((tmp_path / "results").rglob("*.parquet"))


def test_an_image_is_named_by_its_row_in_the_file(tmp_path):
    images = np.zeros((20, 2, 2), np.uint8)
    listed = Listing(tmp_path / "set.npz", list(images), [0, 1] * 10, [1, 0] * 10)
    some = listed.rows(np.array([3, 15]))
    assert [some.name(row).rpartition(", ")[2] for row in range(2)] == ["row 3", "row 15"]
    assert (len(some), some.labels, some.given) == (2, [1, 1], [0, 0])


def test_more_pixels_than_memory_holds_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("noisyfl.data.datasets.own_images.MOST_GB", 1e-6)
    with pytest.raises(BadInput, match=r"GB of pixels, expected at most .*a smaller size helps"):
        known(tmp_path, own_sets.as_folder(tmp_path))
