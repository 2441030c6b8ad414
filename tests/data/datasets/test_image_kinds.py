"""Images of one's own in every mode, depth and format: the right pixels, or an error by name."""

import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from noisyfl.core.options import BadInput
from noisyfl.data.datasets.dataset import dataset
from noisyfl.data.datasets.parts import read_part
from own_sets import known

GREY = np.array([[0, 1, 100], [127, 200, 255]], np.uint8)
COLOUR = np.stack([GREY, GREY[::-1], 255 - GREY], axis=2)


def read(folder, one, *, colour=False):
    """The pixels of an image that is read among images of 8 bits; it is the first of its class."""
    for number in range(4):
        other = folder / "data" / ("a" if number % 2 else "b") / f"{number + 1}.png"
        other.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(COLOUR if colour else GREY).save(other)
    one(folder / "data" / "a")
    name = dataset(known(folder, "images(path='data', test_share=0.3)")).name
    parts = [
        read_part(folder / f"results/data/{name}/{part}.parquet") for part in ("train", "test")
    ]
    every = np.concatenate([part.images for part in parts])
    assert len(every) == 5
    plain = COLOUR if colour else GREY[..., None]
    return [image for image in every if image.shape != plain.shape or (image != plain).any()], every


def saved(image, name, **options):
    return lambda folder: image.save(folder / name, **options)


def tiff(values, name="0.tif", **options):
    return saved(Image.fromarray(values), name, **options)


SIXTEEN = GREY.astype(np.uint16) << 8 | 77
SAME = {
    "float TIFF from 0 to 1": tiff((GREY / 255).astype(np.float32)),
    "int32 TIFF from 0 to 255": tiff(GREY.astype(np.int32)),
    "16-bit TIFF": tiff(SIXTEEN),
    "16-bit big-endian TIFF": lambda folder: big_endian(folder / "0.tiff"),
    "12-bit TIFF": lambda folder: twelve_bits(folder / "0.tif"),
    "16-bit PNG": tiff(SIXTEEN, "0.png"),
    "16-bit PGM": tiff(SIXTEEN, "0.pgm"),
    "grey with transparency": saved(Image.fromarray(GREY).convert("LA"), "0.png"),
    "BMP": tiff(GREY, "0.dib"),
    "JPEG 2000 of 16 bits": tiff(SIXTEEN, "0.jp2"),
}


def big_endian(path):
    """A TIFF of 16 bits from a Motorola processor."""
    entries = [(256, 4, 3), (257, 4, 2), (258, 3, 16), (259, 3, 1), (262, 3, 1), (273, 4, 0)]
    entries += [(278, 4, 2), (279, 4, SIXTEEN.nbytes)]
    write_tiff(path, entries, SIXTEEN.astype(">u2").tobytes(), "big")


def twelve_bits(path):
    """A TIFF with 12 bits a pixel, of which two share three bytes."""
    content = bytearray()
    for line in GREY.astype(int) << 4 | 5:
        bits = "".join(f"{value:012b}" for value in line)
        bits = bits.ljust(-(-len(bits) // 8) * 8, "0")
        content += int(bits, 2).to_bytes(len(bits) // 8, "big")
    entries = [(256, 4, 3), (257, 4, 2), (258, 3, 12), (259, 3, 1), (262, 3, 1), (273, 4, 0)]
    entries += [(278, 4, 2), (279, 4, len(content))]
    write_tiff(path, entries, bytes(content), "little")


def write_tiff(path, entries, content, order):
    def number(value, size):
        return value.to_bytes(size, order)

    start = 8 + 2 + 12 * len(entries) + 4
    made = (b"MM" if order == "big" else b"II") + number(42, 2) + number(8, 4)
    made += number(len(entries), 2)
    for tag, kind, value in entries:
        value = start if tag == 273 else value
        inline = number(value, 4) if kind == 4 else number(value, 2) + bytes(2)
        made += number(tag, 2) + number(kind, 2) + number(1, 4) + inline
    path.write_bytes(made + bytes(4) + content)


@pytest.mark.parametrize("kind", SAME)
def test_a_grey_image_of_any_kind_has_the_pixels_of_eight_bits(tmp_path, kind):
    other, every = read(tmp_path, SAME[kind])
    assert not other
    assert every.shape[1:] == (2, 3, 1)


def with_palette(folder):
    image = Image.fromarray(COLOUR).quantize(6)
    image.save(folder / "0.png", transparency=bytes([0, 128, 255]))


COLOURS = {
    "palette with transparency": with_palette,
    "RGBA": saved(Image.fromarray(np.dstack([COLOUR, GREY])), "0.webp", lossless=True, exact=True),
    "CMYK": saved(Image.fromarray(COLOUR).convert("CMYK"), "0.tif"),
    "TIFF of RGB": saved(Image.fromarray(COLOUR), "0.tif"),
    "PPM": saved(Image.fromarray(COLOUR), "0.ppm"),
    "TGA": saved(Image.fromarray(COLOUR), "0.TGA"),
}


@pytest.mark.parametrize("kind", COLOURS)
def test_a_coloured_image_of_any_kind_has_the_pixels_of_rgb(tmp_path, kind):
    other, every = read(tmp_path, COLOURS[kind], colour=True)
    assert not other
    assert every.shape[1:] == (2, 3, 3)


def test_one_bit_is_black_or_white_and_lab_and_ycbcr_are_colours(tmp_path):
    (image,), every = read(tmp_path, saved(Image.fromarray(GREY > 99), "0.png"))
    assert image[..., 0].tolist() == [[0, 0, 255], [255, 255, 255]]
    assert every.shape[3] == 1
    lab = Image.merge("LAB", [Image.new("L", (3, 2), level) for level in (255, 128, 128)])
    (image,), _ = read(tmp_path / "lab", saved(lab, "0.tif"), colour=True)
    assert (image >= 250).all()
    red = Image.new("RGB", (3, 2), (250, 0, 0)).convert("YCbCr")
    (image,), _ = read(tmp_path / "ycbcr", saved(red, "0.tif"), colour=True)
    assert np.abs(image.astype(int) - [250, 0, 0]).max() <= 2


def test_a_black_image_of_16_bits_is_black(tmp_path):
    (image,), _ = read(tmp_path, tiff(np.zeros((2, 3), np.uint16)))
    assert not image.any()


def test_a_palette_of_greys_counts_as_colours(tmp_path):
    _, every = read(tmp_path, tiff(GREY, "0.gif"))
    np.testing.assert_array_equal(every, np.repeat(GREY[None, ..., None], 5, 0).repeat(3, 3))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_are_turned_as_their_exif_data_say(tmp_path, orientation):
    from PIL import ImageOps

    exif = Image.Exif()
    exif[274] = orientation
    stored = Image.fromarray(COLOUR)
    path = tmp_path / "reference.png"
    stored.save(path, exif=exif)
    with Image.open(path) as image:
        expected = np.asarray(ImageOps.exif_transpose(image))
    for label in "ab":
        for number in range(2):
            file = tmp_path / "data" / label / f"{number}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(path.read_bytes())
    found = known(tmp_path, "images(path='data', test_share=0.3)")
    assert found["shape"] == [*expected.shape]
    images = read_part(tmp_path / f"results/data/{dataset(found).name}/train.parquet").images
    assert all((image == expected).all() for image in images)
    assert orientation == 1 or (expected.shape != COLOUR.shape or (expected != COLOUR).any())


def test_the_first_of_several_frames_is_read(tmp_path):
    first, *more = (Image.fromarray(np.roll(COLOUR, shift, 1)) for shift in range(3))
    for name in ("0.gif", "0.tif", "0.png", "0.webp"):
        options = {"save_all": True, "append_images": more, "lossless": True}
        other, _ = read(tmp_path / name, saved(first, name, **options), colour=True)
        assert not other


def deep_png(kind, values):
    """A PNG of 16 bits a channel."""
    height, width = values.shape[:2]
    lines = b"".join(b"\0" + line.tobytes() for line in values.astype(">u2"))
    head = struct.pack(">IIBBBBB", width, height, 16, kind, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n"
    for name, chunk in ((b"IHDR", head), (b"IDAT", zlib.compress(lines)), (b"IEND", b"")):
        content += struct.pack(">I", len(chunk)) + name + chunk
        content += struct.pack(">I", zlib.crc32(name + chunk))
    return content


def deep_sgi(values):
    height, width = values.shape[:2]
    head = struct.pack(">HBBHHHH", 474, 0, 2, 3, width, height, 3)
    planes = values[::-1].transpose(2, 0, 1).astype(">u2")
    return head.ljust(512, b"\0") + planes.tobytes()


def deep_tiff(values):
    """A TIFF of one strip; its tag of bits has three numbers, which lie behind the tags."""
    height, width = values.shape[:2]
    bits, strip = 8 + 2 + 12 * 9 + 4, 8 + 2 + 12 * 9 + 4 + 6
    tags = [(256, 1, width), (257, 1, height), (258, 3, bits), (259, 1, 1), (262, 1, 2)]
    tags += [(273, 1, strip), (277, 1, 3), (278, 1, height), (279, 1, 2 * values.size)]
    made = b"II*\0" + struct.pack("<IH", 8, len(tags))
    for tag, count, value in tags:
        made += struct.pack("<HHII", tag, 3, count, value)
    return made + bytes(4) + struct.pack("<HHH", 16, 16, 16) + values.astype("<u2").tobytes()


ALPHA = np.full((*GREY.shape, 1), 4095)
DEEP = {
    "RGB.png": lambda scale: deep_png(2, COLOUR.astype(int) * scale),
    "RGBA.png": lambda scale: deep_png(6, np.dstack([COLOUR.astype(int) * scale, ALPHA])),
    "LA.png": lambda scale: deep_png(4, np.dstack([GREY.astype(int) * scale, ALPHA])),
    "RGB.sgi": lambda scale: deep_sgi(COLOUR.astype(int) * scale),
    "RGB.tif": lambda scale: deep_tiff(COLOUR.astype(int) * scale),
}


@pytest.mark.parametrize("name", DEEP)
def test_colours_of_16_bits_that_have_only_12_are_an_error(tmp_path, name):
    def written(scale):
        return lambda folder: (folder / name).write_bytes(DEEP[name](scale))

    other, _ = read(tmp_path / "all", written(256 + 1), colour=True)
    grey = np.repeat(GREY[..., None], 3, axis=2)
    assert not other or (name == "LA.png" and (other[0] == grey).all())
    with pytest.raises(BadInput, match=rf"^path: 1 images have 16 .*{name}, and no pixel of them"):
        read(tmp_path / "few", written(16), colour=True)


def bits(values):
    return tiff(np.asarray(values))


@pytest.mark.parametrize(
    ("one", "message"),
    [
        (bits(GREY.astype(np.float32)), r"0\.tif: float pixels from 0 to 255, expected 0 to 1"),
        (
            bits(np.where(GREY > 9, np.nan, GREY).astype(np.float32)),
            r"float pixels from nan to nan, expected 0 to 1",
        ),
        (bits(GREY.astype(np.int32) * 99), r"pixels of 32 bits \(mode I\) from 0 to 25245, exp"),
        (bits(GREY.astype(np.int32) - 1), r"pixels of 32 bits \(mode I\) from -1 to 254, exp"),
        (bits(GREY.astype(np.uint16)), r"16 bits per pixel, of which the brightest is 255, exp"),
        (tiff(GREY.astype(np.uint16) * 16, "0.png"), r"reaches 4,096, expected up to 65,535"),
        (
            tiff(SIXTEEN, tiffinfo={262: 0}),
            r"mode I;16 in which 0 is white, expected 0 to be black",
        ),
    ],
)
def test_pixels_of_an_unknown_range_are_an_error(tmp_path, one, message):
    with pytest.raises(BadInput, match=f"^path: .*{message}"):
        read(tmp_path, one)
