"""A plugin's dataset: its facts are checked, and what its loader returns or raises is named."""

import numpy as np
import pytest

from noisyfl.core.options import BadInput
from noisyfl.core.plugins import load
from noisyfl.data.datasets.dataset import DATASETS
from outside import PARTS
from small_files import prepare_in

pytestmark = pytest.mark.usefixtures("forgotten")

RETURNS = "    return (images[:400], labels[:400]), (images[400:], labels[400:])\n"
FILE = '    images = np.load(folder / "stripes.npy")\n'
PAIRS = r", expected \(\(images, labels\), \(images, labels\)\) of the training and the test part"


@pytest.fixture
def plugin(tmp_path):
    """Load the plugin, in which one text replaces another."""

    def loaded(old, new):
        assert old in PARTS
        (tmp_path / "parts.py").write_text(PARTS.replace(old, new))
        load([str(tmp_path / "parts.py")])

    return loaded


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("None", "got None"),
        (
            "images, labels, images, labels",
            r"got \(uint8 \[500, 6, 6, 1\], int64 \[500\], uint8 \[500, 6, 6, 1\], int64 \[500\]\)",
        ),
        (
            "(images.tolist(), labels), (images, labels)",
            r"got \(\(list of 500, int64 \[500\]\), \(uint8 \[500, 6, 6, 1\], int64 \[500\]\)\)",
        ),
    ],
)
def test_what_a_loader_returns_is_named(tmp_path, plugin, returned, message):
    plugin(RETURNS, f"    return {returned}\n")
    with pytest.raises(
        BadInput, match=f"^dataset 'stripes': load: {message}{PAIRS}, NumPy arrays$"
    ):
        prepare_in(tmp_path, "stripes", tmp_path)


def test_an_error_of_a_loader_has_its_line(tmp_path, plugin):
    plugin(RETURNS, "    return images['train']\n")
    line = PARTS[: PARTS.index(RETURNS)].count("\n") + 1
    with pytest.raises(BadInput, match=rf"^{tmp_path}/parts\.py, line {line}: IndexError: only"):
        prepare_in(tmp_path, "stripes", tmp_path)


def test_a_file_is_looked_for_in_each_folder(tmp_path, plugin):
    plugin(RETURNS, FILE + RETURNS)
    roots = [tmp_path / name for name in ("first", "second", "third")]
    for root in roots:
        root.mkdir()
    with pytest.raises(BadInput) as missing:
        prepare_in(tmp_path, "stripes", roots)
    assert str(missing.value) == "stripes: " + "; ".join(
        f"not in the data folder {root} ({root}/stripes.npy: No such file or directory)"
        for root in roots
    )
    np.save(roots[1] / "stripes.npy", np.zeros((500, 6, 6, 1), np.uint8))
    assert prepare_in(tmp_path, "stripes", roots)["train"].exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(0.4,)", "(102.0,)", r"mean\[0\]: Input should be less than or equal to 1 \(got 102.0\)"),
        ("(0.2,)", "(0.0,)", r"std\[0\]: Input should be greater than or equal to 0.0001 \(got 0"),
        ('"light")', '"dark")', r"classes: got \['dark', 'dark'\], expected each once"),
    ],
)
def test_facts_that_cannot_be_are_named(plugin, old, new, message):
    with pytest.raises(BadInput, match=rf"parts\.py, line \d+: dataset 'stripes'\.{message}"):
        plugin(old, new)
    assert "stripes" not in DATASETS
