"""What each table costs stands beside it in docs/papers/, as it is estimated.

``make costs`` writes it anew, where a scale, a method or the estimate has changed.
"""

import pytest

from noisyfl.core.places import ROOT
from noisyfl.documentation import costs


@pytest.mark.slow
def test_the_pages_have_the_costs_of_their_tables_and_commands_the_sum():
    files = costs.files()
    assert ROOT / "docs" / "commands.md" in files
    for path, text in files.items():
        assert path.read_text() == text, f"{path}: if this is meant: make costs"


def test_a_range_has_two_digits():
    assert costs.hours(1234) == "820 to 2,500"
    assert costs.hours(0.123) == "0.082 to 0.25"
