"""Every choice of every method comes to what it came to when it was recorded."""

import json

import pytest
import torch

from recorded_runs import FILE, figures_of, in_short, small_run, with_another_choice

RECORDED = json.loads(FILE.read_text(encoding="utf-8"))
CHOSEN = with_another_choice()
USUAL = {name: in_short(RECORDED[name]) for name in RECORDED if "(" not in name}
IDLE = [name for name in CHOSEN if RECORDED[name] == USUAL[name.partition("(")[0]]]
"""Choices that come to what the usual ones do in this small setting: the methods' own tests have
them.
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CHOSEN if name not in IDLE])
def test_a_choice_comes_to_what_it_came_to(name, data, tmp_path):
    torch.set_default_dtype(torch.float64)
    try:
        found = small_run(CHOSEN[name], data, tmp_path)
    finally:
        torch.set_default_dtype(torch.float32)
    assert in_short(figures_of(found)) == pytest.approx(RECORDED[name], rel=1e-6)


def test_hardly_a_choice_changes_nothing():
    assert len(IDLE) < len(CHOSEN) / 3, IDLE
