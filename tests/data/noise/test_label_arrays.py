"""Files of labels that are crafted or broken: none is run, believed or allocated for."""

import dataclasses
import io
import pickle
import struct
import zipfile
from contextlib import nullcontext

import numpy as np
import pytest
import torch

from noisyfl.core.options import BadInput
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.data.noise.human_labels import load_columns

FACTS = dataclasses.replace(DATASETS["cifar10"], train_size=40)
LABELS = np.arange(40) % 10


class Pickled:
    """Is pickled as a call of something, with a state."""

    def __init__(self, function, *arguments, state=None):
        self.call = (function, arguments, *(() if state is None else (state,)))

    def __reduce__(self):
        return self.call


RECONSTRUCT = LABELS.__reduce__()[0]


def array(dtype, content=b"A" * 320, shape=(40,)):
    """An array by its pickled parts."""
    start = (np.ndarray, (0,), b"b")
    return Pickled(RECONSTRUCT, *start, state=(1, shape, dtype, False, content))


def dtype(name, *state):
    return Pickled(np.dtype, name, False, True, state=state or None)


NO_FLAGS = (3, "|", None, None, None, -1, -1, 0)
WITH_FIELDS = (3, "<", None, ("a",), {"a": (np.dtype("u8"), 0)}, 8, 8, 63)
ATTACKS = {
    "objects that are said to be none": array(dtype("O8", *NO_FLAGS)),
    "objects": array(dtype("O8")),
    "fields": array(dtype("V8", *WITH_FIELDS)),
    "integers with the flags of objects": array(dtype("O", 3, "<", None, None, None, 8, 8, 63)),
    "texts": array(dtype("U2", 3, "<", None, None, None, 8, 4, 8)),
    "text as content": array(dtype("i8", *NO_FLAGS), content="A" * 320),
    "too little": array(dtype("i8", *NO_FLAGS), content=b"A"),
    "another shape": array(dtype("i8", *NO_FLAGS), shape=(10**12,)),
    "an array from nothing": Pickled(np.ndarray, (10**12,)),
    "objects from bytes": Pickled(np.ndarray, (40,), "O8", b"A" * 320),
    "a dtype": dtype("O8", *NO_FLAGS),
    "an array without a state": Pickled(RECONSTRUCT, np.ndarray, (40,), b"O"),
    "another codec": {"x": Pickled(__import__("_codecs").encode, "A" * 40, "utf-16")},
}


def write_npy(path, pickled, shape="()"):
    """An .npy file of objects whose pickle is any."""
    header = f"{{'descr': '|O', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
    with path.open("ab") as file:
        file.write(pickled)


def refused(tmp_path, name, key="x"):
    """What is said of a file, which is named once."""
    with pytest.raises(BadInput) as raised:
        load_columns(name, key, FACTS, tmp_path)
    assert raised.value.path == ("file",)
    text = str(raised.value)
    assert str(tmp_path / name) in text
    assert "\n" not in text
    assert "weights_only" not in text
    return text


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_array_of_objects_comes_from_a_pickle(tmp_path, attack, protocol):
    holder = array(dtype("O8", 3, "|", None, None, None, -1, -1, 63), [{"x": ATTACKS[attack]}], ())
    write_npy(tmp_path / "a.npy", pickle.dumps(holder, protocol))
    refused(tmp_path, "a.npy")
    torch.save({"x": ATTACKS[attack]}, tmp_path / "a.pt", pickle_protocol=protocol)
    refused(tmp_path, "a.pt")
    torch.save(
        {"x": ATTACKS[attack]},
        tmp_path / "old.pt",
        _use_new_zipfile_serialization=False,
        pickle_protocol=protocol,
    )
    refused(tmp_path, "old.pt")


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_object_comes_from_the_holder_of_a_mapping(tmp_path, attack):
    write_npy(tmp_path / "a.npy", pickle.dumps(ATTACKS[attack]))
    refused(tmp_path, "a.npy")
    write_npy(tmp_path / "b.npy", pickle.dumps(ATTACKS[attack]), "(40,)")
    refused(tmp_path, "b.npy", None)
    content = io.BytesIO((tmp_path / "b.npy").read_bytes())
    with zipfile.ZipFile(tmp_path / "c.npz", "w") as file:
        file.writestr("x.npy", content.getvalue())
    refused(tmp_path, "c.npz")


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
def test_whole_numbers_of_every_kind_are_read(tmp_path, order, kind):
    labels = {"x": LABELS.astype(order + kind)}
    torch.save(labels, tmp_path / "a.pt")
    np.save(tmp_path / "a.npy", np.array(labels, dtype=object), allow_pickle=True)
    np.savez_compressed(tmp_path / "a.npz", **labels, image=np.zeros((40, 8, 8, 3)))
    for name in ("a.pt", "a.npy", "a.npz"):
        assert load_columns(name, "x", FACTS, tmp_path)[0].tolist() == LABELS.tolist()


def test_python_2s_pickles_of_arrays_are_read(tmp_path):
    holder = np.array({"x": LABELS}, dtype=object)
    write_npy(tmp_path / "a.npy", pickle.dumps(holder, 2).replace(b"numpy._core", b"numpy.core"))
    assert load_columns("a.npy", "x", FACTS, tmp_path)[0].tolist() == LABELS.tolist()


TENSORS = {
    "sparse": torch.ones(40, dtype=torch.int64).to_sparse(),
    "expanded": torch.ones(1, dtype=torch.int64).expand(10**12),
    "ragged": [[1, 2], [3]],
    "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
    "text": "1" * 40,
    "large": [2**70] * 40,
}


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_that_holds_no_labels_is_refused_by_file_and_name(tmp_path, name):
    torch.save({"x": TENSORS[name]}, tmp_path / "a.pt")
    refused(tmp_path, "a.pt")


def test_only_what_is_asked_for_has_to_hold_labels(tmp_path):
    torch.save({**TENSORS, "x": torch.as_tensor(LABELS)}, tmp_path / "a.pt")
    assert load_columns("a.pt", "x", FACTS, tmp_path)[0].tolist() == LABELS.tolist()


@pytest.mark.parametrize(
    "content", [torch.ones(40), [1, 2], {1: torch.ones(40)}, torch.nn.Linear(1, 1)]
)
def test_a_pt_file_without_names_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "a.pt")
    refused(tmp_path, "a.pt")


HEADERS = {
    "large": "{'descr': '<i8', 'fortran_order': False, 'shape': (10000000000000,), }",
    "negative": "{'descr': '<i8', 'fortran_order': False, 'shape': (-40,), }",
    "wide texts": "{'descr': '<U1000000000', 'fortran_order': False, 'shape': (40,), }",
    "fields": "{'descr': [('a', 'O')], 'fortran_order': False, 'shape': (40,), }",
    "nonsense": "(" * 5000,
    "not closed": "{",
}


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("version", [b"\x01\x00", b"\x02\x00", b"\x03\x00"])
def test_headers_are_checked_before_memory_is_allocated(tmp_path, header, version):
    text = HEADERS[header].encode()
    size = struct.pack("<H" if version == b"\x01\x00" else "<I", len(text))
    content = b"\x93NUMPY" + version + size + text
    (tmp_path / "a.npy").write_bytes(content)
    refused(tmp_path, "a.npy", None)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        file.writestr("x.npy", content)
    refused(tmp_path, "a.npz")


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (range(40), ""),
        (np.random.default_rng(0).permutation(40), ""),
        ([0, *range(39)], "'sample' does not have each number from 0 to 39 once"),
        (range(1, 41), "'sample' does not have each number from 0 to 39 once"),
        (range(39), "'sample' does not have each number from 0 to 39 once"),
    ],
)
def test_rows_are_of_the_samples_whose_numbers_they_have(tmp_path, numbers, message):
    rows = "".join(f"{number},{LABELS[number % 40]}\n" for number in numbers)
    (tmp_path / "labels.csv").write_text(f"sample,mine\n{rows}")
    with pytest.raises(BadInput, match=message) if message else nullcontext():
        labels, _ = load_columns("labels.csv", "mine", FACTS, tmp_path)
        assert labels.tolist() == LABELS.tolist()
