"""A dataset of one's own that claims more than it has, or is broken in many places."""

import io
import struct
import zipfile
import zlib

import numpy as np
import pytest

import own_sets
from noisyfl.core.options import BadInput
from noisyfl.data import own_table
from own_sets import known


def npz(path, arrays):
    """An .npz whose members have a header and as many bytes as is said, all zero."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, (dtype, shape, size) in arrays.items():
            head = io.BytesIO()
            np.lib.format.write_array_header_1_0(
                head, {"descr": dtype, "fortran_order": False, "shape": shape}
            )
            with file.open(f"{name}.npy", "w", force_zip64=True) as member:
                member.write(head.getvalue())
                member.write(bytes(size))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"image": ("|u1", (10**9, 99, 99), 99), "label": ("<i8", (10**9,), 99)},
            r"set\.npz: 'image' is uint8 \(1000000000, 99, 99\), expected at most 0\.001 GB, 100 r",
        ),
        (
            {"image": ("|u1", (9, 2, 2), 36), "label": ("<U100000", (9,), 3_600_000)},
            r"'label' holds <U100000 \(9,\), expected whole numbers or names",
        ),
        (
            {"image": ("|u1", (9, 999, 999), 8_982_009), "label": ("<i8", (9,), 72)},
            r"'image' is uint8 \(9, 999, 999\), expected at most 0\.001 GB",
        ),
        (
            {"image": ("|u1", (10**9, 0, 0), 0), "label": ("|u1", (10**9,), 0)},
            r"'image' is uint8 \(1000000000, 0, 0\), expected uint8 \[n, height, width\]",
        ),
        (
            {"image": ("|u1", (101, 1, 1), 101), "label": ("|u1", (101,), 101)},
            r"'image' is uint8 \(101, 1, 1\), expected at most .* 100 rows",
        ),
        (
            {"image": ("|u1", (90, 99, 99), 99), "label": ("|u1", (90,), 90)},
            r"set\.npz: 'image' EOF: reading array data, expected 262144 bytes got 99",
        ),
    ],
)
def test_arrays_are_checked_before_they_are_read(tmp_path, monkeypatch, arrays, message):
    monkeypatch.setattr(own_table, "MOST_GB", 1e-3)
    monkeypatch.setattr(own_table, "MOST_ROWS", 100)
    npz(tmp_path / "set.npz", arrays)
    with pytest.raises(BadInput, match=message):
        known(tmp_path, "images(path='set.npz', test_share=0.5)")


def test_a_path_with_a_null_character_is_no_image(tmp_path):
    own_sets.as_csv(tmp_path)
    text = (tmp_path / "train.csv").read_text().replace("ant/000", "ant/\0")
    (tmp_path / "train.csv").write_text(text)
    with pytest.raises(BadInput, match=r"path: 1 image cannot be read: .*null byte"):
        known(tmp_path, "images(path='train.csv', test='test.csv')")


def huge(width, height):
    """The beginning of a PNG of one bit a pixel."""

    def chunk(name, content):
        crc = zlib.crc32(name + content)
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", crc)

    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b""))


def test_all_broken_images_are_named_at_once(tmp_path):
    text = own_sets.as_folder(tmp_path)
    folder = tmp_path / "folder"
    whole = (folder / "train/ant/003.png").read_bytes()
    (folder / "train/ant/003.png").write_bytes(whole[: len(whole) // 2])
    (folder / "train/bee/010.png").write_bytes(b"no image")
    (folder / "train/cat/020.png").write_bytes(huge(20_000, 10_000))
    (folder / "test/ant/000.png").write_bytes(b"")
    (folder / "test/bee/004.png").write_bytes(own_sets.png(np.zeros((9, 9, 3), np.uint8)))
    with pytest.raises(BadInput, match=r"^path: 4 images cannot be read: ") as error:
        known(tmp_path, text)
    for name, why in (
        ("train/ant/003", "truncated|not enough|broken"),
        ("train/bee/010", "cannot identify"),
        ("train/cat/020", r"Image size \(200000000 pixels\) exceeds limit of 178956970 pixels"),
        ("test/ant/000", "cannot identify"),
    ):
        assert error.match(rf"{name}\.png: [^,]*({why})")
    for name in ("train/ant/003", "train/bee/010", "train/cat/020", "test/ant/000"):
        (folder / f"{name}.png").unlink()
    with pytest.raises(BadInput, match=r"4\.png is 9x9"):
        known(tmp_path, text)
