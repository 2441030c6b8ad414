"""A dataset of one's own: what is wrong with its files is said in one line."""

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import own_sets
from noisyfl.core.options import BadInput
from noisyfl.data.own_files import OwnFiles
from own_sets import known, spec


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


def of_header(change):
    """The .csv with another header, and maybe no rows."""

    def make(folder):
        text = own_sets.as_csv(folder)
        path = folder / "train.csv"
        path.write_text(change(path.read_text()))
        return text

    return make


twice = of_header(lambda text: text.replace("given", "label", 1))


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


def no_known_format(folder):
    (folder / "a.zip").write_bytes(b"")
    return "images(path='a.zip', test_share=0.5)"


def wrong_given_name(folder):
    text = own_sets.as_csv(folder)
    path = folder / "train.csv"
    path.write_text(path.read_text().replace(",bee\n", ",wasp\n", 1))
    return text.replace(")", ", given='given')")


def latin(data):
    (data / "latin.csv").write_bytes("image,label\na.png,blå\nb.png,ant\n".encode("latin-1"))
    return "images(path='latin.csv')"


def no_path(folder):
    return "images(path='', test_share=0.5)"


def unnamed_image(folder):
    text = own_sets.as_csv(folder)
    path = folder / "train.csv"
    path.write_text(path.read_text().replace("folder/train/ant/002.png", ""))
    return text


def unlabelled_image(folder):
    text = own_sets.as_csv(folder)
    path = folder / "train.csv"
    path.write_text(path.read_text().replace("ant/002.png,ant", "ant/002.png,", 1))
    return text


def broken_bytes(folder):
    text = own_sets.as_parquet(folder)
    path = folder / "hub/data/test-00000-of-00001.parquet"
    table = pq.read_table(path)
    rows = pa.array([{"bytes": b"no image", "path": None}] * len(table))
    pq.write_table(table.set_column(0, "image", rows), path)
    return text


def in_utf16(folder):
    text = own_sets.as_csv(folder)
    path = folder / "train.csv"
    path.write_text(path.read_text(), encoding="utf-16")
    return text


def with_semicolons(folder):
    text = own_sets.as_csv(folder)
    path = folder / "train.csv"
    path.write_text(path.read_text().replace(",", ";"))
    return text


def linked_part(folder):
    text = own_sets.as_folder(folder)
    shutil.rmtree(folder / "folder/test")
    (folder / "folder/test").symlink_to("train")
    return text


def few_images(folder):
    for number in range(6):
        path = folder / "few" / f"class_{number}" / "0.png"
        path.parent.mkdir(parents=True)
        path.write_bytes(own_sets.png(np.full((4, 4, 1), number, np.uint8)))
    return "images(path='few', test_share=0.3)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (no_path, r"path: got '', expected a path"),
        (unnamed_image, r"image: .*train\.csv: 'image' is empty in row 2$"),
        (unlabelled_image, r"label: .*ant/002\.png: got an empty label"),
        (broken_bytes, r"path: 9 images cannot be read: .*, row 0: cannot identify image, "),
        (
            with_semicolons,
            r"path: cannot read .*train\.csv: its columns are separated by semicolons, expected",
        ),
        (in_utf16, r"path: cannot read .*train\.csv: it is not text in UTF-8, but maybe in UTF-16"),
        (linked_part, r"path: .*folder/test leads to .*folder/train, which is another part"),
        (few_images, r"test_share: few: class 'class_\d' has no training image, since test_share"),
        (
            edited(lambda a: a.update(train_image=a["train_image"] * 0)),
            r"std: the training images are of one level in some channel",
        ),
        (
            edited(lambda a: [a.pop(name) for name in ("test_image", "test_label")]),
            r"test: got no test part, expected one of test, test_share",
        ),
        (
            wrong_label,
            r"label: .*test/bee/003\.png has the label 'wasp', expected .* ant, bee, cat",
        ),
        (missing_image, r"path: 1 image cannot be read: .*bee/010\.png: .*No such file"),
        (no_image, r"path: 1 image cannot be read: .*bee/010\.png: cannot identify image"),
        (
            another_size,
            r"size: .*bee/010\.png is 4x4, and .*000\.png is 6x5; expected images of on",
        ),
        (cut_short, r"path: cannot read .*test-00000-of-00001\.parquet: "),
        (without_bytes, r"image: .*test-.*parquet: 'image' has no bytes of an image in row 0"),
        (only_one_part, r"test: got no test part, expected one of test, test_share, the parts in"),
        (no_folder, r"path: got 'nowhere', and there is neither file nor folder .*/nowhere"),
        (empty_folder, r"path: .*empty: expected a subfolder of images for each class"),
        (no_known_format, r"path: got 'a\.zip', expected a folder or a \.csv, \.npz, \.parquet"),
        (
            asked(own_sets.as_csv, "label='lable'"),
            r"label: .*train\.csv has image, label, given, expected 'lable'; did you mean 'label'",
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
            asked(own_sets.as_npz, "mean=[128]", 1),
            r"mean\[0\]: Input should be less than or equal to 1 \(got 128",
        ),
        (
            asked(own_sets.as_npz, "std=[-0.5]", 1),
            r"std\[0\]: Input should be greater than or equal to 0\.0001 \(got -0\.5",
        ),
        (twice, r"label: .*train\.csv has image, label, label, expected 'label' once"),
        (
            asked(latin, "test_share=0.5"),
            r"label: .*latin\.csv: 'label' holds bytes that are not text in UTF-8",
        ),
        (wrong_given_name, r"given: .*\.png has the given label 'wasp', expected one of 3"),
        (
            asked(edited(lambda a: a.update(train_given=a["train_given"][1:])), "given='given'"),
            r"given: .*'train_given' holds int64 \(23,\), expected whole",
        ),
        (
            edited(lambda a: a.pop("test_image")),
            r"image: .*set\.npz has train_given, .*, test_label, expected 'test_image'; did you",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, make, message):
    with pytest.raises(BadInput, match=message) as error:
        spec(make(tmp_path), OwnFiles(tmp_path, tmp_path / "results"))
    assert str(error.value).startswith("spec.dataset.images.")
    assert "\n" not in str(error.value)
    assert not list((tmp_path / "results").rglob("*.parquet"))


def test_more_pixels_than_memory_holds_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("noisyfl.data.datasets.own_pixels.MOST_GB", 1e-6)
    with pytest.raises(BadInput, match=r"GB of pixels, expected at most .*a smaller size helps"):
        known(tmp_path, own_sets.as_folder(tmp_path))


def test_a_size_that_no_memory_holds_is_refused_before_an_image_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("noisyfl.data.datasets.own_pixels.in_order", None)
    text = own_sets.as_folder(tmp_path)
    with pytest.raises(BadInput, match=r"size: 330 GB of pixels, expected at most 16"):
        known(tmp_path, text, size=[100_000, 100_000])
