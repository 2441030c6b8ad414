"""Files of labels and clients that name images: by name, in whatever order they list them."""

import csv
import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import own_sets
from noisyfl.core.options import BadInput
from noisyfl.data.image_names import ImageNames
from noisyfl.data.own_files import OwnFiles
from own_sets import CLASSES, spec, wanted
from small_partitions import canonical_of

SHARE = "images(path='folder/train', test_share=0.25)"


@pytest.fixture
def own(tmp_path):
    own_sets.as_folder(tmp_path)
    return OwnFiles(tmp_path, tmp_path / "results")


def listed():
    """The training images in an order of their own, relative to their folder, with labels."""
    rows = [
        (f"{CLASSES[label]}/{row:03d}.png", CLASSES[given], CLASSES[label])
        for row, (label, given) in enumerate(
            zip(own_sets.arrays()["train"][1], own_sets.given_labels(), strict=True)
        )
    ]
    return [rows[row] for row in np.random.default_rng(0).permutation(len(rows))]


def as_csv(path, names, rows):
    with path.with_suffix(".csv").open("w", newline="") as file:
        csv.writer(file).writerows([names, *rows])
    return path.with_suffix(".csv").name


def as_parquet(path, names, rows):
    columns = {name: [row[n] for row in rows] for n, name in enumerate(names)}
    pq.write_table(pa.table(columns), path.with_suffix(".parquet"))
    return path.with_suffix(".parquet").name


def as_npz(path, names, rows):
    np.savez(path, **{name: np.array([row[n] for row in rows]) for n, name in enumerate(names)})
    return f"{path.name}.npz"


def labels(own, dataset, file):
    """The given labels of a dataset's training samples, by the last parts of their names."""
    made = spec(dataset, own, f"file(path='{file}', key='given')", None)
    kept = own.load(made["label_noise"]["sha256"])
    names = own.image_names(own.read(wanted(dataset)).name).train
    parts = ["/".join(name.split("/")[-2:]) for name in names]
    assert {**kept, "label": 0}.keys() == {"label", "clean_label"}
    return dict(zip(parts, [CLASSES[label] for label in kept["label"]], strict=True))


@pytest.mark.parametrize("dataset", [SHARE, "images(path='folder')"])
@pytest.mark.parametrize("write", [as_csv, as_parquet, as_npz])
@pytest.mark.parametrize(
    "prefix", ["", "./", "train/", "{folder}/folder/train/", "../x/folder/train/"]
)
def test_labels_are_those_of_the_images_that_the_file_names(own, tmp_path, dataset, write, prefix):
    prefix = prefix.format(folder=tmp_path).replace("../x", f"../{tmp_path.name}")
    rows = [(prefix + image, *more) for image, *more in listed()]
    file = write(tmp_path / "labels", ["image", "given", "clean_label"], rows)
    found = labels(own, dataset, file)
    expected = {image: given for image, given, _ in listed()}
    assert found.items() <= expected.items()
    assert len(found) == (18 if dataset == SHARE else own_sets.TRAIN)


@pytest.mark.parametrize("make", [own_sets.as_npz, own_sets.as_parquet])
def test_images_without_files_have_the_names_that_an_audit_writes(tmp_path, make):
    text, own = make(tmp_path), OwnFiles(tmp_path, tmp_path / "results")
    names = own.image_names(own.read(wanted(text)).name).train
    rows = list(zip(names, own_sets.given_labels(), own_sets.arrays()["train"][1], strict=True))
    as_csv(tmp_path / "labels", ["image", "given", "clean_label"], rows[::-1])
    made = spec(text, own, "file(path='labels.csv', key='given')", None)
    kept = own.load(made["label_noise"]["sha256"])["label"]
    assert kept.tolist() == own_sets.given_labels().tolist()
    # Pixels are no names, and the file is in the dataset's order.
    if make is own_sets.as_npz:
        arrays = {
            f"{name.removeprefix('train_')}": array
            for name, array in np.load(tmp_path / "set.npz").items()
            if name.startswith("train")
        }
        np.savez(tmp_path / "own.npz", **arrays)
        assert spec(text, own, "file(path='own.npz', key='given')", None) == made


def test_a_list_that_has_an_image_twice_labels_its_own_rows(tmp_path):
    own_sets.as_csv(tmp_path)
    lines = (tmp_path / "train.csv").read_text().splitlines()
    (tmp_path / "train.csv").write_text("\n".join([*lines, *lines[1:3]]))
    own = OwnFiles(tmp_path, tmp_path / "results")
    text = "images(path='train.csv', test='test.csv', given='given')"
    of_column = spec(text, own, "file", None)
    assert spec(text, own, "file(path='train.csv', key='given')", None) == of_column


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[1:], r"does not have each training image once: 1 are missing or"),
        (lambda rows: [*rows, rows[0]], r"not have each training image once: 1 are missing or rep"),
        (
            lambda rows: [("cat/999.png", *rows[0][1:]), *rows[1:]],
            r"'image' has 'cat/999\.png', none of the dataset's images, such as .*/ant/000\.png",
        ),
        (lambda rows: [("", *rows[0][1:]), *rows[1:]], r"'image' has '', none of the dataset's"),
    ],
)
def test_images_that_are_not_the_datasets_are_an_error(own, tmp_path, change, message):
    as_csv(tmp_path / "labels", ["image", "given", "clean_label"], change(listed()))
    with pytest.raises(
        BadInput, match=rf"^spec\.label_noise\.file\.path: .*labels\.csv: .*{message}"
    ):
        labels(own, "images(path='folder')", "labels.csv")


def test_a_name_that_fits_several_images_is_an_error(tmp_path):
    own_sets.as_folder(tmp_path)
    (tmp_path / "folder/train/bee/010.png").rename(tmp_path / "folder/train/bee/000.png")
    own = OwnFiles(tmp_path, tmp_path / "results")
    rows = [(image[-7:].replace("010", "000"), *more) for image, *more in listed()]
    as_csv(tmp_path / "labels", ["image", "given", "clean_label"], rows)
    with pytest.raises(BadInput, match=r"'image' has '000\.png', the end of several training"):
        labels(own, "images(path='folder')", "labels.csv")


def test_a_name_that_fits_several_images_is_an_error_in_whatever_order_the_rows_are(tmp_path):
    """The rows fit the images of the dataset's order, though class b comes before class a."""
    for name in "ab":
        for row in range(4):
            path = tmp_path / "set" / name / f"{row:03d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(own_sets.png(own_sets.arrays()["train"][0][row]))
    names = [f"{row:03d}.png" for _ in "ba" for row in range(4)]
    paths = [str(tmp_path / "set" / name / f"{row:03d}.png") for name in "ab" for row in range(4)]
    with pytest.raises(BadInput, match=r"'image' has '000\.png', .*, the end of several training"):
        ImageNames(paths, []).samples(names, "labels.csv")
    assert ImageNames(paths, []).samples(paths, "labels.csv").tolist() == [*range(8)]


@pytest.mark.parametrize("write", [as_csv, as_parquet])
def test_clients_have_the_images_that_the_file_names(own, tmp_path, write):
    rows = [(number % 3, image) for number, (image, *_) in enumerate(listed())]
    file = write(tmp_path / "sites", ["client", "image"], rows)
    facts = own.read(wanted(SHARE))
    sha256, clients, samples = own.clients(file, facts)
    kept, names = own.load(sha256), own.image_names(facts.name).train
    assert (clients, samples) == (3, 18)
    client_of = {image: client for client, image in rows}
    for client, sample in zip(kept["client"], kept["sample"], strict=True):
        assert client_of["/".join(names[sample].split("/")[-2:])] == client
    # With numbers too, they have to be those of the images.
    both = [
        (client, names[sample], sample)
        for client, sample in zip(kept["client"], kept["sample"], strict=True)
    ]
    write(tmp_path / "both", ["client", "image", "sample"], both)
    assert own.clients(file.replace("sites", "both"), facts)[0] == sha256
    moved = [(client, image, (sample + 1) % 18) for client, image, sample in both]
    write(tmp_path / "moved", ["client", "image", "sample"], moved)
    with pytest.raises(BadInput, match=r"moved.*, row 0: sample 1 is .*png, and 'image' has"):
        own.clients(file.replace("sites", "moved"), facts)
    # An error names the row of the file, of whose images some are in the test part.
    in_training = next(row for row in rows if any(name.endswith(row[1]) for name in names))
    write(tmp_path / "twice", ["client", "image"], [*rows, in_training])
    with pytest.raises(BadInput, match=rf"row {len(rows)} \(client \d, .*there twice"):
        own.clients(file.replace("sites", "twice"), facts)


def test_names_are_those_of_the_folder_that_was_asked_for(own, tmp_path):
    shutil.copytree(tmp_path / "folder", tmp_path / "copy")
    for path in ("folder", "copy", "folder"):
        name = own.read(wanted(f"images(path='{path}')")).name
        assert own.image_names(name).train[0] == str(tmp_path / path / "train/ant/000.png")
    # Nothing asked for: what was read last, unless it has changed.
    assert "/copy/" in OwnFiles(tmp_path, own.results.root).image_names(name).train[0]
    (tmp_path / "copy/train/ant/000.png").unlink()
    other = OwnFiles(tmp_path, own.results.root)
    assert "/folder/" in other.image_names(name).train[0]
    # Touched files still hold the same.
    os.utime(tmp_path / "folder/train/ant/000.png")
    assert "/folder/" in other.image_names(name).train[0]
    (tmp_path / "folder/train/ant/001.png").unlink()
    assert other.image_names(name) is None


def test_lost_parts_are_read_from_any_folder_that_holds_them(own, tmp_path):
    shutil.copytree(tmp_path / "folder", tmp_path / "copy")
    for path in ("folder", "copy"):
        name = own.read(wanted(f"images(path='{path}')")).name
    shutil.rmtree(tmp_path / "copy")
    train = own.results.data(name, "train")
    train.unlink()
    OwnFiles(tmp_path, own.results.root).prepare_again(name)
    assert train.is_file()


@pytest.mark.parametrize("file", ["folder/train/ant/000.png", "labels.npy"])
def test_a_file_that_is_replaced_by_one_of_its_size_and_time_is_noticed(own, tmp_path, file):
    np.save(tmp_path / "labels.npy", np.array(CLASSES)[own_sets.given_labels()])
    spec("images(path='folder')", own, "file(path='labels.npy')", None)
    assert not own.stale(own.stamps, own.fingerprints)
    before = (tmp_path / file).stat()
    (tmp_path / file).write_bytes((tmp_path / file).read_bytes()[::-1])
    os.utime(tmp_path / file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert own.stale(own.stamps, own.fingerprints)


def test_a_list_of_images_may_say_their_sites(tmp_path):
    own_sets.as_folder(tmp_path)
    sites = ["east", "west", "west"] * 8
    rows = [
        (f"folder/train/{image}", label, site)
        for (image, _, label), site in zip(listed(), sites, strict=True)
    ]
    as_csv(tmp_path / "list", ["image", "label", "site"], rows)
    own, text = OwnFiles(tmp_path, tmp_path / "results"), "images(path='list.csv', test_share=0.25)"
    given = {"dataset": text, "partition": "file(path='list.csv', column='site')", "seed": 1}
    partition = canonical_of({**given, "label_noise": "none"}, own=own)["partition"]
    kept, names = own.load(partition["sha256"]), own.image_names(own.read(wanted(text)).name).train
    expected = {image: site for image, _, site in rows}
    assert own.client_names(partition) == ["east", "west"]
    for client, sample in zip(kept["client"], kept["sample"], strict=True):
        image = os.path.relpath(names[sample], tmp_path)
        assert expected[image] == ["east", "west"][client]
