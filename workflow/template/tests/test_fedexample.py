"""What every method has to do."""

import pytest

from noisyfl.checks.method import CHECKS
from noisyfl.checks.small_run import prepare_digits
from noisyfl.core.plugins import load

METHOD = {"name": "fedexample"}

load([])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return prepare_digits(tmp_path_factory.mktemp("data"))


@pytest.mark.parametrize("check", CHECKS)
def test_what_every_method_has_to_do(check, data, tmp_path):
    CHECKS[check](METHOD, data, tmp_path)
