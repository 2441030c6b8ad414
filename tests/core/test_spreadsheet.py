"""Cells of CSV files that no spreadsheet takes for formulas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisyfl.core.spreadsheet import QUOTE, RUN, as_text, from_text


@pytest.mark.parametrize("start", RUN)
def test_a_text_that_begins_like_a_formula_is_written_as_text(start):
    text = f"{start}cmd|' /C calc'!A0"
    assert as_text(text) == f"'{text}"
    assert from_text(as_text(text)) == text


@pytest.mark.parametrize("number", ["-1", "+2.5e-3", "-inf", "-1.0 -2.0 nan", -3.5, None, True])
def test_numbers_are_written_as_they_are(number):
    assert as_text(number) is number


@given(st.text() | st.builds(str.__add__, st.sampled_from([*RUN, QUOTE]), st.text()))
@pytest.mark.slow
def test_every_text_comes_back(text):
    written = as_text(text)
    assert from_text(written) == text
    if written.startswith(RUN):
        assert [float(word) for word in written.split()]
