"""Datasets on request: official trees in, parts out, held against torchvision's transforms."""

import io

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from pyarrow import feather
from torchvision import transforms

import official_trees as trees
from noisyfl.core.artifacts import DamagedArtifact
from noisyfl.core.options import BadInput
from noisyfl.data.datasets import shards
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.data.datasets.parts import read_part
from noisyfl.data.datasets.shards import Encoded
from small_files import shrink


def reference(path, transform):
    return np.asarray(transform(Image.open(path).convert("RGB")))


def pixels_of(images, row):
    return images.decoded(row).transpose(1, 2, 0) if isinstance(images, Encoded) else images[row]


def near(made, expected):
    """The same but for what JPEG of quality 95 loses: a few grey levels."""
    difference = made.astype(int) - expected
    return np.sqrt((difference**2).mean()) < 3 and abs(difference.mean()) < 1


@pytest.fixture
def small_shards(monkeypatch):
    monkeypatch.setattr(shards, "SHARD_SIZE", 10)


@pytest.fixture
def clothing(tmp_path, monkeypatch, small_shards):
    shrink(monkeypatch, "clothing1m", 32, 16)
    parts = trees.clothing1m(tmp_path / "data")
    return tmp_path / "data", tmp_path / "results", parts


def test_clothing1m_is_stretched_to_256_for_crops_and_to_224_for_testing(clothing):
    data, results, parts = clothing
    paths = trees.prepared(data, results, "clothing1m")
    for name, side, (keys, labels) in zip(paths, (256, 224), parts, strict=True):
        part = read_part(paths[name])
        resize = transforms.Resize((side, side))
        assert len(part.images) == len(keys)
        assert part.labels.tolist() == labels.tolist()
        for row, key in enumerate(keys):
            made = pixels_of(part.images, row)
            assert made.shape == (side, side, 3)
            assert near(made, reference(data / "clothing1m" / key, resize))


@pytest.mark.parametrize("layout", ["annotations", "without images", "other name"])
def test_clothing1m_is_read_however_it_was_unpacked(clothing, layout):
    data, results, (train, _) = clothing
    folder = data / "clothing1m"
    if layout == "annotations":
        (folder / "annotations").mkdir()
        for path in folder.glob("*.txt"):
            path.rename(folder / "annotations" / path.name)
    elif layout == "without images":
        for path in (folder / "images").iterdir():
            path.rename(folder / path.name)
        (folder / "images").rmdir()
    else:
        folder.rename(data / "Clothing1M")
    part = read_part(trees.prepared(data, results, "clothing1m")["train"])
    assert part.labels.tolist() == train[1].tolist()


def test_shards_are_plain_arrow_files_and_hold_each_image_as_it_is(clothing):
    data, results, ((keys, labels), _) = clothing
    paths = trees.prepared(data, results, "clothing1m")
    files = sorted(paths["train"].with_suffix("").iterdir())
    assert [path.name for path in files] == [f"0000{i}.arrow" for i in range(4)]
    frame = pd.concat([pd.read_feather(path) for path in files], ignore_index=True)
    assert frame.file.tolist() == keys
    assert frame.label.tolist() == labels.tolist()
    part = read_part(paths["train"])
    for row, image in enumerate(frame.image):
        assert part.images.jpeg(row) == image
        opened = Image.open(io.BytesIO(image))
        assert opened.format == "JPEG"
        np.testing.assert_array_equal(np.asarray(opened), pixels_of(part.images, row))


def test_making_a_part_again_goes_on_where_it_stopped(clothing, monkeypatch):
    data, results, _ = clothing
    written = []
    real = shards._write_shard

    def counted(path, files, digest):
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(path.name)
        return real(path, files, digest)

    monkeypatch.setattr(shards, "_write_shard", counted)
    with pytest.raises(KeyboardInterrupt):
        trees.prepared(data, results, "clothing1m")
    folder = results / "clothing1m" / "train"
    assert sorted(path.name for path in folder.iterdir()) == ["00000.arrow", "00001.arrow"]
    assert not (results / "clothing1m" / "train.parquet").exists()
    kept = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    (folder / "00001.arrow").write_bytes((folder / "00001.arrow").read_bytes()[:-9])
    monkeypatch.setattr(shards, "_write_shard", real)
    paths = trees.prepared(data, results, "clothing1m")
    assert (folder / "00000.arrow").stat().st_mtime_ns == kept[folder / "00000.arrow"]
    resumed = paths["train"].read_bytes()
    other = trees.prepared(data, results / "at once", "clothing1m")
    assert read_part(other["train"]).labels.tolist() == read_part(paths["train"]).labels.tolist()
    for row in range(32):
        parts = [read_part(path).images for path in (paths["train"], other["train"])]
        assert parts[0].jpeg(row) == parts[1].jpeg(row)
    assert resumed == other["train"].read_bytes()


def test_shards_of_other_labels_are_not_kept(clothing):
    data, results, _ = clothing
    trees.prepared(data, results, "clothing1m")
    path = data / "clothing1m" / "noisy_label_kv.txt"
    path.write_text(path.read_text().replace(".jpg 0\n", ".jpg 1\n", 1))
    paths = trees.prepared(data, results, "clothing1m")
    frame = pd.concat(
        [pd.read_feather(p) for p in sorted(paths["train"].with_suffix("").iterdir())]
    )
    assert frame.label.tolist() == read_part(paths["train"]).labels.tolist()


def test_missing_images_are_all_listed(clothing):
    data, results, ((keys, _), (clean, _)) = clothing
    for key in (*keys[3:9], clean[0]):
        (data / "clothing1m" / key).unlink()
    message = rf"clothing1m: 7 of its images are missing: .*{keys[3]}.* and 4 more .*missing\.txt"
    with pytest.raises(BadInput, match=message):
        trees.prepared(data, results, "clothing1m")
    listed = (results / "clothing1m" / "missing.txt").read_text().splitlines()
    assert listed == [str(data / "clothing1m" / key) for key in (*keys[3:9], clean[0])]
    assert not (results / "clothing1m" / "train").exists()


def test_damaged_images_are_all_listed_and_only_their_shards_are_missing(clothing):
    data, results, ((keys, _), _) = clothing
    folder = data / "clothing1m"
    (folder / keys[12]).write_bytes((folder / keys[12]).read_bytes()[:500])
    (folder / keys[15]).write_text("<html>not found</html>")
    with pytest.raises(BadInput, match=r"clothing1m: 2 of its images cannot be read: .*missing"):
        trees.prepared(data, results, "clothing1m")
    listed = (results / "clothing1m" / "missing.txt").read_text()
    assert keys[12] in listed
    assert keys[15] in listed
    kept = sorted(path.name for path in (results / "clothing1m" / "train").iterdir())
    assert kept == ["00000.arrow", "00002.arrow", "00003.arrow"]
    for key in (keys[12], keys[15]):
        trees.save(folder / key, np.zeros((300, 300, 3), dtype=np.uint8))
    trees.prepared(data, results, "clothing1m")
    assert not (results / "clothing1m" / "missing.txt").exists()


def test_an_altered_or_missing_shard_is_noticed_where_it_is_read(clothing):
    data, results, _ = clothing
    paths = trees.prepared(data, results, "clothing1m")
    shard = paths["train"].with_suffix("") / "00001.arrow"
    content = bytearray(shard.read_bytes())
    image = feather.read_table(shard)["image"][2].as_py()
    place = content.find(image) + len(image) // 2
    content[place] ^= 255
    shard.write_bytes(content)
    images = read_part(paths["train"]).images
    images.decoded(11)
    with pytest.raises(DamagedArtifact, match=r"00001\.arrow: image 12 does not fit its check"):
        images.decoded(12)
    shard.write_bytes(content[:-9])
    with pytest.raises(DamagedArtifact, match=r"00001\.arrow: not a whole shard"):
        read_part(paths["train"])
    shard.write_bytes((shard.parent / "00003.arrow").read_bytes())
    with pytest.raises(DamagedArtifact, match=r"train: its shards have 24 images, expected 32"):
        read_part(paths["train"])
    shard.unlink()
    with pytest.raises(DamagedArtifact, match=r"00001\.arrow: cannot be read"):
        read_part(paths["train"])


@pytest.mark.slow
def test_no_flipped_bit_of_a_shard_goes_unnoticed(clothing):
    """Neither in an image nor in what leads to it, which must not make Arrow leave the file."""
    data, results, _ = clothing
    paths = trees.prepared(data, results, "clothing1m")
    expected = [read_part(paths["train"]).images.jpeg(row) for row in range(32)]
    shard = paths["train"].with_suffix("") / "00001.arrow"
    whole = shard.read_bytes()
    rng = np.random.default_rng(0)
    ends = [*range(600), *range(len(whole) - 1500, len(whole))]
    for place in (*rng.choice(ends, 150, replace=False), *rng.choice(len(whole), 50)):
        content = bytearray(whole)
        content[place] ^= 1 << rng.integers(8)
        shard.write_bytes(content)
        try:
            images = read_part(paths["train"]).images
            assert [images.jpeg(row) for row in range(32)] == expected
        except DamagedArtifact:
            pass


def test_mini_webvision_is_scaled_by_its_shorter_side(tmp_path, monkeypatch):
    listed = trees.webvision(tmp_path / "data")
    shrink(monkeypatch, "mini_webvision", len(listed[0]), len(listed[1]))
    paths = trees.prepared(tmp_path / "data", tmp_path / "results", "mini_webvision")
    folder = tmp_path / "data" / "webvision"
    for name, place, side, lines in zip(
        paths, (folder, folder / "val_images_256"), (33, 32), listed, strict=True
    ):
        part = read_part(paths[name])
        assert part.images.shape == (len(lines), side, side, 3)
        assert part.labels.tolist() == [label for _, label in lines]
        transform = transforms.Compose([transforms.Resize(33), transforms.CenterCrop(side)])
        for image, (file, _) in zip(part.images, lines, strict=True):
            np.testing.assert_array_equal(image, reference(place / file, transform))


def test_covidx_takes_grey_coloured_and_16_bit_images(tmp_path, monkeypatch):
    listed = trees.covidx(tmp_path / "data")
    shrink(monkeypatch, "covidx", 12, 6)
    paths = trees.prepared(tmp_path / "data", tmp_path / "results", "covidx")
    for name, side, lines in zip(paths, (256, 224), listed, strict=True):
        part = read_part(paths[name])
        assert part.labels.tolist() == [label for _, label in lines]
        for row, (file, _) in enumerate(lines):
            with Image.open(tmp_path / "data" / "covidx" / name / file) as image:
                values = np.asarray(image)
            if values.dtype == np.uint16:
                values = (values // 256).astype(np.uint8)
            image = Image.fromarray(values).convert("RGB")
            expected = np.asarray(transforms.Resize((side, side))(image))
            assert near(pixels_of(part.images, row), expected)


def test_a_missing_dataset_says_what_it_is_and_who_gives_it(tmp_path):
    message = r"clothing1m: there is no folder .*clothing1m; .*by e-mail.*FedCorr table 5.*--keep"
    with pytest.raises(BadInput, match=message):
        trees.prepared(tmp_path / "data", tmp_path / "results", "clothing1m")


def test_lists_that_are_not_what_they_should_be_are_refused(clothing, tmp_path, monkeypatch):
    data, results, ((keys, _), _) = clothing
    labels = data / "clothing1m" / "noisy_label_kv.txt"
    text = labels.read_text()
    labels.write_text(text.replace(f"{keys[5]} ", f"{keys[5]}x "))
    with pytest.raises(BadInput, match=rf"names '{keys[5]}', of which noisy_label_kv.txt has no"):
        trees.prepared(data, results, "clothing1m")
    labels.write_text(text + "images/1.jpg shirt\n")
    with pytest.raises(BadInput, match=r"line 52: got 'images/1.jpg shirt', expected a file and"):
        trees.prepared(data, results, "clothing1m")
    labels.unlink()
    with pytest.raises(BadInput, match=r"no file .*noisy_label_kv.txt; clothing1m cannot be down"):
        trees.prepared(data, results, "clothing1m")
    labels.write_text(text)
    shrink(monkeypatch, "clothing1m", 33, 16)
    with pytest.raises(BadInput, match=r"the train part has 32 images, expected 33"):
        trees.prepared(data, results, "clothing1m")
    trees.covidx(data)
    path = data / "covidx" / "test_COVIDx5.txt"
    path.write_text("patient1 a.png healthy\n")
    with pytest.raises(BadInput, match=r"covidx: .*line 1: .* expected a patient, a file, one of"):
        trees.prepared(data, results, "covidx")


def test_webvisions_classes_are_imagenets_first():
    from torchvision.models import ResNet50_Weights

    names = ResNet50_Weights.IMAGENET1K_V1.meta["categories"]
    assert list(DATASETS["mini_webvision"].classes) == names[:50]
