"""A file of published numbers: what is no row of it is refused with its line."""

import pytest

from noisyfl.core.options import BadInput
from noisyfl.specs.published import KEY, PRINTED, read_published

COLUMNS = (*KEY, *PRINTED, "note")
ROW = {**dict.fromkeys(COLUMNS, ""), "paper": "mine", "value": "70", "unit": "percent"}


def write(path, *lines):
    """Write a file of the column names and lines."""
    path.write_text("\n".join([",".join(COLUMNS), *lines, ""]))
    return path


def line(**changes):
    """A row as a line."""
    return ",".join({**ROW, **changes}.values())


def test_each_value_stands_under_its_column_and_blank_lines_are_none(tmp_path):
    path = write(tmp_path / "mine.csv", line(std="1.5"), "", line(table="two", note="n"))
    first, second = read_published(path)
    assert (first.value, first.std, first.line) == (70.0, 1.5, 2)
    assert (second.fields, second.line) == ({**ROW, "table": "two", "note": "n"}, 4)


@pytest.mark.parametrize(("commas", "got"), [(-1, 14), (-3, 12), (1, 16)])
def test_a_line_with_another_number_of_values_than_columns_is_refused(tmp_path, commas, got):
    wrong = line(table="two")
    wrong = wrong[:commas] if commas < 0 else f"{wrong},"
    path = write(tmp_path / "mine.csv", line(), wrong)
    message = rf"mine\.csv, line 3: number of values: got {got}, expected 15, one for each column"
    with pytest.raises(BadInput, match=message):
        read_published(path)


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("value", "nan", "a finite number"),
        ("value", "-inf", "a finite number"),
        ("std", "nan", "a finite number"),
        ("value", "", "a number"),
        ("std", "x", "a number"),
        ("trials", "2.5", "a number"),
    ],
)
def test_a_number_that_is_none_is_refused(tmp_path, column, value, expected):
    path = write(tmp_path / "mine.csv", line(**{column: value}))
    message = rf"mine\.csv, line 2: {column}: got '{value}', expected {expected}$"
    with pytest.raises(BadInput, match=message):
        read_published(path)
