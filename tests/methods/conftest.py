"""What the methods' tests share."""

import pytest


@pytest.fixture(scope="module")
def digits(data):
    """The folder that holds the parts of the digits."""
    return data.data("digits", "train").parent
