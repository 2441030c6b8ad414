"""The table of component names in Configuration."""

import re

import pytest

from noisyfl.core.places import ROOT
from noisyfl.specs.spec import REGISTRIES

KINDS = {
    "partitions": "partition",
    "label noises": "label_noise",
    "noise levels": "noise_level",
    "models": "model",
}


@pytest.mark.parametrize(("words", "key"), KINDS.items())
def test_every_component_is_listed(words, key):
    text = (ROOT / "docs" / "configuration.md").read_text()
    (line,) = re.findall(rf"^\| \[{words}\]\([^)]*\) \| (.*) \|$", text, re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", line)) == REGISTRIES[key].names()
