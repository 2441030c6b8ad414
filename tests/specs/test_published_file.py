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
    assert (first.number.value, first.number.std, first.line) == (70.0, 1.5, 2)
    assert (second.fields, second.line) == ({**ROW, "table": "two", "note": "n"}, 4)


@pytest.mark.parametrize(("end", "got"), [(None, 14), (",,", 16)])
def test_a_line_with_another_number_of_values_than_columns_is_refused(tmp_path, end, got):
    path = write(tmp_path / "mine.csv", line(), line(table="two").removesuffix(",") + (end or ""))
    message = rf"mine\.csv, line 3: number of values: got {got}, expected 15, one for each column"
    with pytest.raises(BadInput, match=message):
        read_published(path)


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("value", "nan", "0 to 100, since the unit is percent"),
        ("value", "", "a number"),
        ("std", "x", "a number"),
        ("trials", "2.5", "a number"),
        ("trials", "0", "a finite number of 1 or more"),
        ("value", "500", "0 to 100, since the unit is percent"),
        ("std", "-0.5", "0 to 100, since the unit is percent"),
        ("converged", "maybe", "true, false or nothing"),
        ("unit", "hours", "percent or fraction or seconds"),
    ],
)
def test_a_number_that_is_none_is_refused(tmp_path, column, value, expected):
    path = write(tmp_path / "mine.csv", line(**{column: value}))
    message = rf"mine\.csv, line 2: {column}: got '{value}', expected {expected}$"
    with pytest.raises(BadInput, match=message):
        read_published(path)


@pytest.mark.parametrize(
    ("unit", "value", "expected"),
    [
        ("fraction", "95.1", "0 to 1, since the unit is fraction"),
        ("seconds", "-1", "a finite number of 0 or more"),
    ],
)
def test_a_number_fits_its_unit(tmp_path, unit, value, expected):
    path = write(tmp_path / "mine.csv", line(unit=unit, value=value))
    with pytest.raises(BadInput, match=rf"line 2: value: got '{value}', expected {expected}$"):
        read_published(path)
    right = write(tmp_path / "mine.csv", line(unit="fraction", value="1"), line(table="b"))
    assert [row.number.value for row in read_published(right)] == [100.0, 70.0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            f"{','.join(COLUMNS)}\n{line(note='é')}\n".encode("latin-1"),
            r"line 2: got the byte 0xe9",
        ),
        (b"", r"mine\.csv, line 1: got no column 'paper', expected one"),
        (",".join((*COLUMNS, "value")).encode(), r"line 1: got more than one column 'value'"),
        (",".join(COLUMNS).encode(), r"mine\.csv: got no rows, expected one for each published"),
        (f"{','.join(COLUMNS)}\n{'a' * 200_000}\n".encode(), r"line 2: not CSV \(field larger"),
    ],
)
def test_a_file_that_is_none_is_named(tmp_path, content, message):
    path = tmp_path / "mine.csv"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=message):
        read_published(path)


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    path = write(tmp_path / "mine.csv", line())
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert len(read_published(path)) == 1
