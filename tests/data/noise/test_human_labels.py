"""Files of human labels in every layout that they come in."""

import dataclasses
import os
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from noisyfl.core.options import BadInput
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.data.datasets.validation import divided
from noisyfl.data.noise.human_labels import digest, find_file, load_columns
from noisyfl.data.noise.label_noise import LABEL_NOISES, Context
from noisyfl.data.own_files import OwnFiles

FACTS = dataclasses.replace(DATASETS["cifar10"], train_size=40)
TRUE = np.arange(40) % 10
LABELS = {"clean_label": TRUE, "worse_label": (TRUE + (np.arange(40) < 16)) % 10}


def load_labels(key, true, facts, folder):
    """The labels that a noisy partition gets."""
    own = OwnFiles(folder, folder / "results")
    noise = LABEL_NOISES.build(f"human(key='{key}')")
    (labels,) = noise.flip([true], np.zeros(1), Context(facts, 0, own))
    return labels


def npz(path, arrays, prefix="c10_"):
    np.savez(path, **{f"{prefix}{name}": array for name, array in arrays.items()})


def npy(path, arrays):
    np.save(path, np.array(arrays, dtype=object), allow_pickle=True)


LAYOUTS = {
    "CIFAR-10_human.pt": lambda path: torch.save(LABELS, path),
    "CIFAR-10_human.npy": lambda path: npy(path, LABELS),
    "CIFAR-10_human.npz": lambda path: npz(path, LABELS, ""),
    "cifar_n_labels.npz": lambda path: npz(
        path, {name: array.astype(np.uint8) for name, array in LABELS.items()}
    ),
}


@pytest.mark.parametrize("place", [".", "cifar-n"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_gives_the_same_labels(tmp_path, name, place):
    folder = tmp_path / place
    folder.mkdir(exist_ok=True)
    LAYOUTS[name](folder / name)
    assert find_file(None, "cifar10", tmp_path) == folder / name
    labels = load_labels("worse_label", TRUE, FACTS, tmp_path)
    assert labels.dtype == np.int64
    assert labels.tolist() == LABELS["worse_label"].tolist()
    named, _ = load_columns(f"{place}/{name}", "worse_label", FACTS, tmp_path)
    assert digest(named) == digest(labels)


def test_files_of_tensors_and_lists_are_read_too(tmp_path):
    torch.save({"worse_label": torch.tensor(LABELS["worse_label"])}, tmp_path / "a.pt")
    torch.save({"worse_label": LABELS["worse_label"].tolist()}, tmp_path / "b.pt")
    for file in ("a.pt", "b.pt"):
        labels, clean = load_columns(file, "worse_label", FACTS, tmp_path)
        assert clean is None
        assert labels.tolist() == LABELS["worse_label"].tolist()


def test_one_array_and_a_table_are_read(tmp_path):
    np.save(tmp_path / "one.npy", LABELS["worse_label"])
    lines = "\n".join(f"{i},{y}" for i, y in enumerate(LABELS["worse_label"]))
    (tmp_path / "table.csv").write_text(f"id,label\n{lines}\n")
    for file, key in (("one.npy", None), ("table.csv", "label")):
        labels, clean = load_columns(file, key, FACTS, tmp_path)
        assert clean is None
        assert labels.tolist() == LABELS["worse_label"].tolist()
    with pytest.raises(BadInput, match=r"key: got 'label' \(in .*one.npy: only one array, so null"):
        load_columns("one.npy", "label", FACTS, tmp_path)


@pytest.mark.parametrize("kind", ["categories", "views"])
def test_parquet_may_have_texts_and_numbers_of_any_type(tmp_path, kind):
    names = pa.array([FACTS.classes[label] for label in TRUE])
    numbers = pa.array(TRUE)
    if kind == "categories":  # as pandas writes a column of categories
        table = pa.table({"a": names.dictionary_encode(), "b": numbers.dictionary_encode()})
    else:
        table = pa.table({"a": names.cast(pa.string_view()), "b": numbers.cast(pa.uint8())})
    pq.write_table(table, tmp_path / "labels.parquet")
    for key in "ab":
        labels, _ = load_columns("labels.parquet", key, FACTS, tmp_path)
        assert labels.tolist() == TRUE.tolist()


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("values", [list(map(str, TRUE)), [FACTS.classes[label] for label in TRUE]])
def test_an_empty_line_is_a_row_without_a_label(tmp_path, values, newline):
    path = tmp_path / "labels.csv"
    for lines in (["label", *values, "", ""], ["", "label", *values]):
        path.write_text(newline.join(lines), newline="")
        assert load_columns(path.name, "label", FACTS, tmp_path)[0].tolist() == TRUE.tolist()
    path.write_text(newline.join(["label", *values[:4], "", *values[5:]]), newline="")
    with pytest.raises(BadInput, match=r"'label' (is empty in row|gives sample) 4( the label '')?"):
        load_columns(path.name, "label", FACTS, tmp_path)


def test_labels_in_another_order_are_refused(tmp_path):
    order = np.random.default_rng(0).permutation(40)
    moved = {name: array[order] for name, array in LABELS.items()}
    npy(tmp_path / "CIFAR-10_human.npy", moved)
    differing = int((TRUE[order] != TRUE).sum())
    message = rf"file: .*another order than cifar10: its 'clean_label' differ in {differing} places"
    with pytest.raises(BadInput, match=message):
        load_labels("worse_label", TRUE, FACTS, tmp_path)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            TRUE[:-1],
            r"holds int64 \(39,\), expected whole numbers or names, one for each of 40",
        ),
        (TRUE / 2, r"holds float64 \(40,\)"),
        (
            TRUE - 1,
            "gives sample 0 the label -1, expected 0 to 9, or one of 10 classes: airplane, ",
        ),
    ],
)
def test_what_cannot_be_the_datasets_labels_is_refused(tmp_path, labels, message):
    np.savez(tmp_path / "a.npz", x=labels)
    with pytest.raises(BadInput, match=message):
        load_columns("a.npz", "x", FACTS, tmp_path)


class Harmful:
    def __reduce__(self):
        return os.mkdir, ("harm",)


@pytest.mark.parametrize("suffix", ["npy", "pt", "npz"])
def test_a_file_cannot_run_code(tmp_path, monkeypatch, suffix):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / f"evil.{suffix}"
    if suffix == "npy":
        np.save(path, np.array({"x": Harmful()}, dtype=object), allow_pickle=True)
    elif suffix == "npz":
        np.savez(path, x=np.array([Harmful()], dtype=object))
    else:
        torch.save({"x": Harmful()}, path)
    with pytest.raises(BadInput, match=r"file: .*evil.*(refers to|holds object)"):
        load_columns(path.name, "x", FACTS, tmp_path)
    assert not (tmp_path / "harm").exists()


def test_damaged_and_missing_files_say_so(tmp_path):
    for suffix in ("npy", "npz", "pt", "csv"):
        (tmp_path / f"a.{suffix}").write_bytes(b"\x93NUMPY")
        with pytest.raises(BadInput, match=rf"(file: cannot read .*a\.{suffix}|key: )"):
            load_columns(f"a.{suffix}", "x", FACTS, tmp_path)
    with pytest.raises(BadInput, match=r"file: cannot read .*b\.pt \(No such file"):
        load_columns("b.pt", "x", FACTS, tmp_path)
    with pytest.raises(BadInput, match=r"file: got 'b\.txt', expected a \.npz"):
        load_columns("b.txt", "x", FACTS, tmp_path)
    (tmp_path / "c.npy").write_bytes(b"\x93NUMPY\x01\x00" + pickle.dumps(1))
    with pytest.raises(BadInput, match=r"file: cannot read .*c\.npy"):
        load_columns("c.npy", None, FACTS, tmp_path)


def test_what_is_missing_is_told_with_who_gives_it(tmp_path):
    with pytest.raises(BadInput, match=r"none of CIFAR-100_human.pt.*UCSC-REAL.*CC BY-NC 4.0"):
        find_file(None, "cifar100", tmp_path)


def test_a_wrong_key_is_answered_with_a_hint(tmp_path):
    torch.save(LABELS, tmp_path / "CIFAR-10_human.pt")
    with pytest.raises(BadInput, match=r"key: got 'worst_label'; did you mean 'worse_label'"):
        load_columns(None, "worst_label", FACTS, tmp_path)
    np.savez(tmp_path / "a.npz", **LABELS)
    with pytest.raises(BadInput, match=r"key: got null, expected the name of an array or column"):
        load_columns("a.npz", None, FACTS, tmp_path)


OF_CIFAR100 = dataclasses.replace(DATASETS["cifar100"], train_size=40)


@pytest.mark.parametrize("name", ["CIFAR-100_human.pt", "cifar_n_labels.npz"])
def test_only_the_arrays_of_the_datasets_own_classes_are_read(tmp_path, name):
    arrays = {
        **dict.fromkeys(("clean_label", "noisy_label"), TRUE),
        **dict.fromkeys(("clean_coarse_label", "noisy_coarse_label"), TRUE // 2),
    }
    if name.endswith(".pt"):
        torch.save(arrays, tmp_path / name)
    else:
        other = {f"c10_{key}": values for key, values in LABELS.items()}
        np.savez(tmp_path / name, **{f"c100_{k}": v for k, v in arrays.items()}, **other)
    for key in ("clean_label", "noisy_label"):
        for file in (None, name):
            assert load_columns(file, key, OF_CIFAR100, tmp_path)[0].tolist() == TRUE.tolist()
    wrong = ("noisy_coarse_label", "c100_noisy_coarse_label", "c10_worse_label", "worse_label")
    for key in wrong:
        message = rf"key: got '{key}'.*has clean_label, noisy_label\)"
        for file in (None, name):
            with pytest.raises(BadInput, match=message):
                load_columns(file, key, OF_CIFAR100, tmp_path)
        with pytest.raises(BadInput, match=message):
            LABEL_NOISES.build(f"human(key='{key}')").check(OF_CIFAR100, 1)


def test_every_array_of_cifar10_is_known():
    for key in ("clean_label", "aggre_label", "worse_label", *(f"random_label{n}" for n in "123")):
        LABEL_NOISES.build(f"human(key='{key}')").check(FACTS, 1)
    with pytest.raises(BadInput, match=r"key: got 'c10_worse_label'; did you mean 'worse_label'"):
        LABEL_NOISES.build("human(key='c10_worse_label')").check(FACTS, 1)


def test_a_validation_dataset_has_the_labels_of_the_images_that_are_left(tmp_path):
    whole = DATASETS["cifar10"]
    rng = np.random.default_rng(0)
    clean = rng.integers(10, size=whole.train_size)
    worse = rng.integers(10, size=whole.train_size)
    np.savez(tmp_path / "CIFAR-10_human.npz", clean_label=clean, worse_label=worse)
    rest, _ = divided(whole.train_size)
    facts = DATASETS["cifar10_validation"]
    LABEL_NOISES.build("human(key='worse_label')").check(facts, 1)
    labels = load_labels("worse_label", clean[rest], facts, tmp_path)
    np.testing.assert_array_equal(labels, worse[rest])
    with pytest.raises(BadInput, match="in another order than cifar10_validation"):
        load_labels("worse_label", clean[: len(rest)], facts, tmp_path)
    noise = LABEL_NOISES.build("human(key='worse_label')")
    resolved = noise.resolve(facts, OwnFiles(tmp_path, tmp_path / "results"))
    assert resolved.sha256 == digest(worse[rest])
    with pytest.raises(BadInput, match="no human labels are known of mnist_validation"):
        noise.check(DATASETS["mnist_validation"], 1)
