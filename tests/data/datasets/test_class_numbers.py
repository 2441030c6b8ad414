"""Labels mean the same class in every file, whether it has names or numbers of classes."""

import csv
import dataclasses
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from noisyfl.core.options import BadInput
from noisyfl.data.datasets.classes import names_of, numbers_of
from noisyfl.data.datasets.dataset import DATASETS, dataset
from noisyfl.data.datasets.parts import read_part
from noisyfl.data.noise.human_labels import load_columns
from noisyfl.data.own_files import OwnFiles
from own_sets import known, png, spec, wanted

NUMBERS = tuple(map(str, range(12)))
WORDS = ("dog", "cat", "ant")
AS_TEXT = sorted(NUMBERS)
"""The order in which folders of these names are listed, which is not that of the numbers."""


def images_of(names):
    """Two images of each class, which show its place among the names."""
    shades = np.repeat(np.arange(len(names)) * 20, 2).astype(np.uint8)
    return np.tile(shades[:, None, None, None], (1, 4, 4, 1)) + np.arange(16).reshape(
        4, 4, 1
    ).astype(np.uint8)


def folder(place, names, shown):
    for row, (image, name) in enumerate(zip(images_of(names), np.repeat(names, 2), strict=True)):
        path = place / name / f"{row:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(image))
    return place


def table(place, names, shown):
    place.mkdir()
    with (place / "list.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["image", "label", "given"])
        for row, label in enumerate(np.repeat(shown, 2)):
            Image.fromarray(images_of(names)[row, ..., 0]).save(place / f"{row}.png")
            lines.writerow([f"{row}.png", label, label])
    return place / "list.csv"


def arrays(place, names, shown):
    path = place.with_suffix(".npz")
    labels = np.repeat(shown, 2)
    np.savez(path, image=images_of(names), label=labels, given=labels)
    return path


def parquet(place, names, shown, features=None):
    path = place.with_suffix(".parquet")
    labels = np.repeat(shown, 2)
    content = {"image": list(map(png, images_of(names))), "label": labels, "given": labels}
    said = {"info": {"features": features or {}}}
    pq.write_table(
        pa.table(content).replace_schema_metadata({"huggingface": json.dumps(said)}), path
    )
    return path


def class_label(place, names, shown, order=None):
    """With the names of the classes as the hub has them, and in an order of its own."""
    order = order or sorted(names)
    features = {name: {"names": list(order), "_type": "ClassLabel"} for name in ("label", "given")}
    return parquet(place, names, [order.index(name) for name in names], features)


def ints(make):
    return lambda place, names: make(place, names, list(map(int, names)))


def texts(make):
    return lambda place, names: make(place, names, list(names))


OF_NUMBERS = {
    "folder": texts(folder),
    "csv": texts(table),
    "npz": ints(arrays),
    "npz of texts": texts(arrays),
    "parquet": ints(parquet),
    "parquet of texts": texts(parquet),
    "ClassLabel": texts(class_label),
}
OF_WORDS = {
    "folder": texts(folder),
    "csv": texts(table),
    "npz": texts(arrays),
    "parquet": texts(parquet),
    "ClassLabel": texts(class_label),
}


def checked(data, names, **options):
    """Check that every image of a dataset has its class; return what is known of it."""
    own = OwnFiles(data, data / "results")
    facts = own.read(wanted("images(size=[4, 4])", **options))
    for part in ("train", "test"):
        found = read_part(data / "results/data" / facts.name / f"{part}.parquet")
        shown = [names[image[0, 0, 0] // 20] for image in found.images]
        assert [facts.classes[label] for label in found.labels] == shown
        assert len(set(shown)) == len(names)
    if facts.given:
        train = read_part(data / "results/data" / facts.name / "train.parquet")
        assert own.load(facts.given)["label"].tolist() == train.labels.tolist()
    return facts


@pytest.mark.parametrize("test", OF_NUMBERS)
@pytest.mark.parametrize("train", OF_NUMBERS)
def test_names_that_are_numbers_are_the_same_in_every_pair_of_formats(tmp_path, train, test):
    path = OF_NUMBERS[train](tmp_path / "train", NUMBERS)
    other = OF_NUMBERS[test](tmp_path / "test", NUMBERS)
    given = {} if train == "folder" else {"given": "given"}
    facts = checked(
        tmp_path,
        NUMBERS,
        path=str(path.relative_to(tmp_path)),
        test=str(other.relative_to(tmp_path)),
        **given,
    )
    assert facts.classes == (tuple(AS_TEXT) if train == "ClassLabel" else NUMBERS)


@pytest.mark.parametrize("test", OF_WORDS)
@pytest.mark.parametrize("train", OF_WORDS)
def test_words_are_the_same_in_every_pair_of_formats(tmp_path, train, test):
    path = OF_WORDS[train](tmp_path / "train", WORDS)
    other = OF_WORDS[test](tmp_path / "test", WORDS)
    given = {} if train == "folder" else {"given": "given"}
    paths = {"path": str(path.relative_to(tmp_path)), "test": str(other.relative_to(tmp_path))}
    assert checked(tmp_path, WORDS, **paths, **given).classes == tuple(sorted(WORDS))
    assert checked(tmp_path, WORDS, **paths, classes=list(WORDS)).classes == WORDS


@pytest.mark.parametrize("numbers", [arrays, parquet, table])
@pytest.mark.parametrize("train", OF_WORDS)
def test_numbers_of_words_need_an_order_that_somebody_gave(tmp_path, train, numbers):
    path = OF_WORDS[train](tmp_path / "train", WORDS)
    order = sorted(WORDS) if train == "ClassLabel" else list(WORDS)
    other = numbers(tmp_path / "test", WORDS, [order.index(name) for name in WORDS])
    paths = {"path": str(path.relative_to(tmp_path)), "test": str(other.relative_to(tmp_path))}
    if train == "ClassLabel":
        checked(tmp_path, WORDS, **paths)
        # Two orders that differ: a number may be meant by either.
        with pytest.raises(BadInput, match=r"label: .* has the label 2, expected one of 3 classes"):
            checked(tmp_path, WORDS, **paths, classes=list(WORDS))
        return
    message = r"label: .*test.* has the label 0, expected one of 3 classes: ant, cat, dog \(numbers"
    with pytest.raises(BadInput, match=message):
        checked(tmp_path, WORDS, **paths)
    checked(tmp_path, WORDS, **paths, classes=list(WORDS))


def test_given_labels_with_an_order_of_their_own_are_read_by_name(tmp_path):
    orders = {"label": ["ant", "cat", "dog"], "given": ["dog", "ant", "cat"]}
    features = {name: {"names": order, "_type": "ClassLabel"} for name, order in orders.items()}
    parquet(tmp_path / "set", WORDS, [0] * 3, features)
    content = pq.read_table(tmp_path / "set.parquet").to_pydict()
    for name, order in orders.items():
        content[name] = [order.index(word) for word in np.repeat(WORDS, 2)]
    said = json.dumps({"info": {"features": features}})
    made = pa.table(content).replace_schema_metadata({"huggingface": said})
    pq.write_table(made, tmp_path / "set.parquet")
    checked(tmp_path, WORDS, path="set.parquet", test_share=0.5, given="given")


def test_numbers_beside_names_that_are_none_are_refused(tmp_path):
    names = [f"c{number}" for number in NUMBERS]
    path = table(tmp_path / "set", names, names)
    header, *lines = path.read_text().splitlines()
    changed = [f"{line.rpartition(',')[0]},{line.rpartition('c')[2]}" for line in lines]
    path.write_text("\n".join([header, *changed]))
    text = "images(path='set/list.csv', test_share=0.5, given='given')"
    with pytest.raises(
        BadInput, match=r"given: .*0\.png has the given label 0, expected one of 12"
    ):
        known(tmp_path, text)
    known(tmp_path, text, classes=names)


WRITTEN = {
    "npz": lambda path, labels: np.savez(path, label=labels, clean_label=labels),
    "csv": lambda path, labels: path.write_text(
        "\n".join(["label,clean_label", *(f"{label},{label}" for label in labels)])
    ),
    "parquet": lambda path, labels: pq.write_table(
        pa.table({"label": labels, "clean_label": labels}), path
    ),
    "pt": lambda path, labels: torch.save(
        {"label": labels.tolist(), "clean_label": labels.tolist()}, path
    ),
    "npy": lambda path, labels: np.save(path, labels),
}


@pytest.mark.parametrize("kind", [int, str])
@pytest.mark.parametrize("suffix", WRITTEN)
def test_files_of_labels_have_the_names_of_folders(tmp_path, suffix, kind):
    folder(tmp_path / "train", NUMBERS, None)
    folder(tmp_path / "test", NUMBERS, None)
    # In the order of the training part, which is that of the folders' names as texts.
    WRITTEN[suffix](tmp_path / f"labels.{suffix}", np.array(AS_TEXT).repeat(2).astype(kind))
    own = OwnFiles(tmp_path, tmp_path / "results")
    key = "" if suffix == "npy" else ", key='label'"
    made = spec(
        "images(path='train', test='test')", own, f"file(path='labels.{suffix}'{key})", None
    )
    part = tmp_path / "results/data" / dataset(made["dataset"]).name / "train.parquet"
    kept = own.load(made["label_noise"]["sha256"])["label"]
    assert kept.tolist() == read_part(part).labels.tolist()
    assert kept.tolist() == [int(name) for name in AS_TEXT for _ in range(2)]


def test_files_of_labels_name_or_number_the_classes_of_official_datasets(tmp_path):
    facts = dataclasses.replace(DATASETS["cifar10"], train_size=10)
    np.savez(tmp_path / "labels.npz", names=np.array(facts.classes), numbers=np.arange(10))
    for key in ("names", "numbers"):
        assert load_columns("labels.npz", key, facts, tmp_path)[0].tolist() == list(range(10))
    np.savez(tmp_path / "labels.npz", names=np.array(["cats", *facts.classes[1:]]))
    message = r"'names' gives sample 0 the label 'cats', expected 0 to 9, or .*; did you mean 'cat'"
    with pytest.raises(BadInput, match=message):
        load_columns("labels.npz", "names", facts, tmp_path)


def test_numbers_in_files_of_labels_need_an_order_too(tmp_path):
    path = folder(tmp_path / "train", WORDS, None)
    folder(tmp_path / "test", WORDS, None)
    np.save(tmp_path / "labels.npy", np.repeat(range(3), 2))
    own, text = OwnFiles(tmp_path, tmp_path / "results"), f"images(path='{path.name}', test='test'"
    with pytest.raises(BadInput, match=r"labels\.npy gives sample 0 the label 0, expected one of"):
        spec(f"{text})", own, "file(path='labels.npy')", None)
    spec(f"{text}, classes=['ant', 'cat', 'dog'])", own, "file(path='labels.npy')", None)


@pytest.mark.parametrize(
    "labels",
    [
        ("cat", "cat "),
        ("a  b", "a b"),
        ("cat", "\u200bcat"),
        ("cat", "cat\u00a0"),
        ("caf\u00e9", "cafe\u0301"),
        ("1", "01"),
    ],
)
def test_one_class_has_one_spelling(tmp_path, labels):
    path = table(tmp_path / "set", labels, labels)
    if "1" in labels:  # in a .csv both would be the number 1
        path = arrays(tmp_path / "set", labels, list(labels))
    with pytest.raises(BadInput, match=r"(list\.csv|set\.npz): got the classes .*one spelling of"):
        known(tmp_path, f"images(path='{path.relative_to(tmp_path)}', test_share=0.5)")


def test_letters_of_either_case_are_classes_of_their_own():
    assert names_of(["a", "B", "A", "b"]) == ["A", "B", "a", "b"]
    assert names_of(["10", "9", "x"]) == ["10", "9", "x"]
    assert names_of(["10", "9", "011"]) == ["9", "10", "011"]
    assert names_of([2, 0, 0]) == ["0", "1", "2"]


@pytest.mark.parametrize("name", ["caf\udce9", "\x1b[31m", "a\tb", "\x9b"])
def test_a_class_that_cannot_be_written_is_refused(tmp_path, name):
    folder(tmp_path / "set", (name, "b"), None)
    with pytest.raises(BadInput, match=r"^label: set: got the class .*, expected a name in UTF-8"):
        known(tmp_path, "images(path='set', test_share=0.5)")


@pytest.mark.parametrize("make", [arrays, parquet, table])
def test_numbers_that_do_not_count_from_0_need_names(tmp_path, make):
    names = ("1", "2", "10")
    path = make(tmp_path / "set", names, list(map(int, names)))
    text = f"images(path='{path.relative_to(tmp_path)}', test_share=0.5)"
    message = r"label: .*: got labels from 1 to 10, .*: classes=\['1', '2', '10'\]$"
    with pytest.raises(BadInput, match=message):
        known(tmp_path, text)
    assert known(tmp_path, text, classes=list(names))["classes"] == list(names)


def test_classes_that_differ_in_capital_letters_are_remarked_on(tmp_path):
    folder(tmp_path / "set", ("Cat", "cat", "dog"), None)
    own = OwnFiles(tmp_path, tmp_path / "results")
    made = spec("images(path='set', test_share=0.5)", own)
    assert (
        own.remarks_on(made)[0] == "set: the classes 'Cat' and 'cat' differ only in capital letters"
    )


@pytest.mark.parametrize("wrong", [300_000_000, -1])
def test_a_number_that_no_images_can_reach_makes_no_list_of_classes(wrong):
    with pytest.raises(BadInput, match=f"got the label {wrong} and 2 images, expected numbers"):
        names_of([0, wrong])


def test_names_in_one_file_and_numbers_in_another_are_no_labels():
    with pytest.raises(BadInput, match="got the labels 'b' and 0, expected names of classes or"):
        names_of(["a", "b", 0])


def test_zeros_before_a_number_change_nothing():
    found = numbers_of(["007", 11, "7"], ["7", "11"], False, str)
    assert found.tolist() == [0, 1, 0]
    with pytest.raises(BadInput, match=r"^0 '3', expected one of 2 classes: 7, 11$"):
        numbers_of(["3"], ["7", "11"], True, str)


def test_names_of_files_may_be_digits(tmp_path):
    path = table(tmp_path / "set", WORDS, WORDS)
    for image in path.parent.glob("*.png"):
        image.rename(image.parent / f"000{image.stem}")
    path.write_text(
        "\n".join(
            f"000{line.replace('.png', '')}" if ".png" in line else line
            for line in path.read_text().splitlines()
        )
    )
    checked(tmp_path, WORDS, path="set/list.csv", test_share=0.5)
