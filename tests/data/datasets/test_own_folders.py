"""Folders of images of one's own: which of their files and folders are read, and as what."""

import json
import os
import socket

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import own_sets
from noisyfl.core.options import BadInput
from noisyfl.data.datasets import images
from noisyfl.data.own_files import OwnFiles
from own_sets import known, wanted


def put(folder, name, level=0):
    """An image."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (3, 3), level).save(path)
    return path


def classes(folder, *parts, count=4):
    """Folders of classes, in the folders of parts."""
    for part in parts or ("",):
        for number, name in enumerate(("ant", "bee")):
            for image in range(count):
                put(folder / part, f"{name}/{image}.png", number * 50 + image)


def read(folder, text):
    """What is known of a dataset, and the remarks."""
    own = OwnFiles(folder, folder / "results")
    known = own.read(wanted(text)).own
    of_pixels = ("equal to a training image", "two labels or more")
    return known, [one for one in own.remarks[known["sha256"]] if not one.endswith(of_pixels)]


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("Training", "Testing"),
        ("TRAIN", "val"),
        ("train", "dev"),
        ("seg_train", "seg-test"),
    ],
)
def test_the_usual_names_of_parts_in_any_case(tmp_path, train, test):
    classes(tmp_path / "data", train)
    classes(tmp_path / "data", test, count=1)
    found, notes = read(tmp_path, "images(path='data')")
    assert (found["classes"], found["train_size"], found["test_size"]) == (["ant", "bee"], 8, 2)
    assert notes == []
    with pytest.raises(BadInput, match=r"got test_share and the parts in path, expected one of"):
        read(tmp_path, "images(path='data', test_share=0.2)")


def test_other_parts_are_not_read_and_are_reported(tmp_path):
    classes(tmp_path / "data", "train", "val", "test")
    put(tmp_path / "data", "unlabeled/1.png")
    found, notes = read(tmp_path, "images(path='data')")
    assert (found["train_size"], found["test_size"]) == (8, 8)
    assert notes == ["data: skipped the part unlabeled, the part val"]


@pytest.mark.parametrize("text", ["images(path='data')", "images(path='data', test_share=0.2)"])
@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (("train", "unlabeled"), r"data has folders for train and unlabeled, expected train and"),
        (("Test", "Val"), r"has folders for test and validation, expected train and test"),
        (("train", "Training", "test"), r"has the folders Training and train, expected one for tr"),
        (("train", "test", "Testing"), r"has the folders Testing and test, expected one for test"),
        (("Train",), r"data has only the folder Train, expected one for each class, or train and"),
        (("fold1", "fold2"), r"each of the folders fold1, fold2 has the subfolders ant, bee, as"),
        (("my_train", "holdout"), r"each of the folders holdout, my_train has the subfolders ant,"),
    ],
)
def test_parts_are_never_classes(tmp_path, parts, message, text):
    classes(tmp_path / "data", *parts)
    with pytest.raises(BadInput, match=f"^path: .*{message}") as error:
        read(tmp_path, text)
    assert "test_share" not in str(error.value)


def test_a_class_may_have_the_name_of_a_part_or_a_folder_as_other_classes_have(tmp_path):
    for name in ("train", "tram", "bus"):
        for number in range(3):
            put(tmp_path / "data", f"{name}/images/{number}.png", number)
    found, _ = read(tmp_path, "images(path='data', test_share=0.3)")
    assert found["classes"] == ["bus", "train", "tram"]
    for name in ("test_tube", "bullet_train"):
        for number in range(3):
            put(tmp_path / "data", f"{name}/{number}.png", number)
    assert len(read(tmp_path, "images(path='data', test_share=0.3)")[0]["classes"]) == 5


def test_hidden_and_system_files_are_skipped_and_counted(tmp_path):
    classes(tmp_path / "data")
    for name in (".ipynb_checkpoints", "__MACOSX/ant", "@eaDir", "ant/.thumbs", "ant/@eaDir"):
        put(tmp_path / "data", f"{name}/1.png")
    for name in ("ant/._0.png", "Thumbs.db", ".DS_Store", "bee/desktop.ini"):
        (tmp_path / "data" / name).write_bytes(b"no image")
    (tmp_path / "data/ant/readme.txt").write_text("words")
    (tmp_path / "data/ant/photo.HEIC").write_text("photo")
    (tmp_path / "data/list").write_text("words")
    found, notes = read(tmp_path, "images(path='data', test_share=0.3)")
    assert found["classes"] == ["ant", "bee"]
    assert found["train_size"] + found["test_size"] == 8
    assert notes == [
        "data: skipped 9 hidden or system files and folders, 1 file .heic, "
        "1 file .txt, 1 file without a suffix"
    ]
    # Of files that have not changed, the notes are kept.
    assert read(tmp_path, "images(path='data', test_share=0.3)") == (found, notes)


def test_what_pillow_reads_is_read(tmp_path):
    suffixes = ["gif", "jpe", "jfif", "mpo", "JPG", "jpeg", "webp", "bmp", "tif", "TIFF", "pgm"]
    suffixes += ["pnm", "png", "apng", "jp2", "tga", "ico", "pcx", "qoi", "sgi"]
    for label in ("a", "b"):
        for number, suffix in enumerate(suffixes):
            path = tmp_path / "data" / label / f"{number}.{suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            shape = (16, 16) if suffix != "qoi" else (16, 16, 3)
            options = {"save_all": True} if suffix == "mpo" else {}
            level = 200 if label == "a" else 100
            Image.fromarray(np.full(shape, level + number, np.uint8)).save(path, **options)
    found, notes = read(tmp_path, "images(path='data', test_share=0.2, std=[1, 1, 1])")
    assert found["train_size"] + found["test_size"] == 2 * len(suffixes)
    assert notes == []


def test_no_file_is_given_to_another_program(tmp_path):
    assert not {".eps", ".ps", ".wmf", ".h5"} & images.image_formats().keys()
    classes(tmp_path / "data")
    (tmp_path / "data/ant/4.png").write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 3 3\n%%EndComments\nshowpage\n%%EOF\n"
    )
    with pytest.raises(BadInput, match=r"1 image cannot be read: .*4\.png: cannot identify"):
        read(tmp_path, "images(path='data', test_share=0.2)")


def test_a_class_without_images_is_an_error(tmp_path):
    classes(tmp_path / "data")
    (tmp_path / "data/cat").mkdir()
    (tmp_path / "data/cat/1.heic").write_bytes(b"")
    with pytest.raises(BadInput, match=r"path: .*for each class \(found no image in cat\)"):
        read(tmp_path, "images(path='data', test_share=0.2)")


# ---------------------------------------------------------------- links


def test_linked_folders_are_read_and_their_changes_noticed(tmp_path):
    classes(tmp_path / "store")
    (tmp_path / "data").mkdir()
    for name in ("ant", "bee"):
        (tmp_path / "data" / name).symlink_to(tmp_path / "store" / name)
    own = OwnFiles(tmp_path, tmp_path / "results")
    text = "images(path='data', test_share=0.3)"
    own.read(wanted(text))
    assert not own.stale(own.stamps, own.fingerprints)
    put(tmp_path / "store", "ant/0.png", 99)
    assert own.stale(own.stamps, own.fingerprints)
    found, notes = read(tmp_path, text)
    assert found["train_size"] + found["test_size"] == 8
    assert notes == []


def test_each_file_is_read_once_whatever_leads_to_it(tmp_path):
    data = tmp_path / "data"
    classes(data)
    (data / "ant/up").symlink_to("..")
    (data / "ant/top").symlink_to(tmp_path)
    (data / "bee/loop1").symlink_to(data)
    (data / "bee/loop2").symlink_to("loop1")
    (data / "loop").symlink_to("loop")
    (data / "all").symlink_to(".")
    (data / "ant/5.png").symlink_to("0.png")
    (data / "ant/other").symlink_to(tmp_path / "other")
    (data / "bee/other").symlink_to(tmp_path / "other")
    put(tmp_path / "other", "6.png")
    (tmp_path / "other/back").symlink_to(data)
    found, notes = read(tmp_path, "images(path='data', test_share=0.3)")
    assert found["classes"] == ["ant", "bee"]
    assert found["train_size"] + found["test_size"] == 9
    assert notes == ["data: skipped 8 links to what is read already, 1 file without a suffix"]


def test_a_link_that_leads_nowhere_is_an_image_that_cannot_be_read(tmp_path):
    classes(tmp_path / "data")
    (tmp_path / "data/ant/9.png").symlink_to("nothing.png")
    with pytest.raises(BadInput, match=r"1 image cannot be read: .*ant/9\.png: .*No such file"):
        read(tmp_path, "images(path='data', test_share=0.3)")


def test_pipes_and_sockets_are_never_opened(tmp_path):
    classes(tmp_path / "data")
    os.mkfifo(tmp_path / "data/ant/8.png")
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "data/ant/9.png").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(tmp_path / "data/bee/7.png"))
        found, notes = read(tmp_path, "images(path='data', test_share=0.3)")
    assert found["train_size"] + found["test_size"] == 8
    assert notes == ["data: skipped 3 pipes, sockets and devices"]
    with pytest.raises(BadInput, match=r"path: got 'pipe\.csv', expected a folder or a \.csv"):
        read(tmp_path, "images(path='pipe.csv', test_share=0.3)")
    lines = ["image,label", "data/ant/0.png,a", "data/ant/8.png,a", "/dev/zero,b"]
    (tmp_path / "list.csv").write_text("\n".join(lines))
    with pytest.raises(
        BadInput,
        match=r"2 images cannot be read: /dev/zero: it is no regular file, .*8\.png: it is no reg",
    ):
        read(tmp_path, "images(path='list.csv', test_share=0.3)")


def test_a_folder_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    classes(tmp_path / "data")

    def refused(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(BadInput, match=r"^path: .*/data: cannot be read \(Permission denied\)"):
        known(tmp_path, "images(path='data', test_share=0.3)")


# ---------------------------------------------------------------- Parquet as the hub has it


def parquet(path, levels):
    """A file with an image and a label for each grey level."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"bytes": own_sets.png(np.full((2, 2, 1), level, np.uint8))} for level in levels]
    pq.write_table(pa.table({"image": rows, "label": [level % 2 for level in levels]}), path)


@pytest.mark.parametrize(
    ("files", "sizes", "skipped"),
    [
        (["data/train-0.parquet", "data/val-0.parquet"], (4, 2), ""),
        (["train-00000-of-00002.parquet", "train-00001-of-00002.parquet", "Test.parquet"], 0, ""),
        (["train/0.parquet", "test/0.parquet"], (4, 2), ""),
        (["train/a/0.parquet", "dev/a/0.parquet"], (4, 2), ""),
        (["a/train.parquet", "a/test.parquet", "a/val.parquet"], (4, 2), "the part validation"),
        (
            ["train-0.parquet", "test-0.parquet", "extra-0-of-1.parquet"],
            (4, 2),
            "1 file .parquet",
        ),
    ],
)
def test_parts_of_the_hub(tmp_path, files, sizes, skipped):
    for number, name in enumerate(files):
        parquet(tmp_path / "hub" / name, range(number * 10, number * 10 + (2 if number else 4)))
    found, notes = read(tmp_path, "images(path='hub')")
    assert (found["train_size"], found["test_size"]) == (sizes or (6, 2))
    assert notes == ([f"hub: skipped {skipped}"] if skipped else [])


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            ["one/train-0.parquet", "one/test-0.parquet", "two/train-0.parquet"],
            r"has the configurations one/train, two/train, expected one: name its folder in path",
        ),
        (
            ["data/train-0-of-1.parquet", "data/train_noisy-0-of-1.parquet"],
            r"has the configurations train, train_noisy, expected one",
        ),
        (["test.parquet", "trainval.parquet"], r"Parquet files for test and others, such as .*tra"),
        (["test.parquet", "val.parquet"], r"Parquet files for test and validation, expected train"),
    ],
)
def test_configurations_and_parts_that_cannot_be_told_apart(tmp_path, files, message):
    for name in files:
        parquet(tmp_path / "hub" / name, range(4))
    for text in ("images(path='hub')", "images(path='hub', test_share=0.5)"):
        with pytest.raises(BadInput, match=f"^path: .*/hub .*{message}") as error:
            read(tmp_path, text)
        assert "test_share" not in str(error.value)


def test_files_of_no_part_are_one_part(tmp_path):
    for name in ("a/0000.parquet", "b/0000.parquet"):
        parquet(tmp_path / "hub" / name, range(4))
    found, _ = read(tmp_path, "images(path='hub', test_share=0.5)")
    assert (found["train_size"], found["test_size"]) == (4, 4)


def test_linked_files_of_the_hubs_cache_are_read(tmp_path):
    for name in ("train", "test"):
        parquet(tmp_path / "blobs" / name, range(2))
        link = tmp_path / "snapshots/1a" / f"{name}-0.parquet"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(f"../../blobs/{name}")
    found, _ = read(tmp_path, "images(path='snapshots/1a')")
    assert (found["train_size"], found["test_size"]) == (2, 2)


@pytest.mark.parametrize(
    "said",
    [
        "no json",
        "[1]",
        json.dumps({"info": {"features": {"label": {"names": 3}}}}),
    ],
)
def test_broken_metadata_of_the_hub_name_their_file(tmp_path, said):
    text = own_sets.as_parquet(tmp_path)
    path = tmp_path / "hub/data/test-00000-of-00001.parquet"
    pq.write_table(pq.read_table(path).replace_schema_metadata({"huggingface": said}), path)
    with pytest.raises(
        BadInput, match=rf"^path: {path}: the metadata `huggingface` do not have the classes of"
    ):
        read(tmp_path, text)
