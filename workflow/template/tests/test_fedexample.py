"""What every method has to do, and that it learns."""

import pytest

from noisyfl.checks.method import CHECKS
from noisyfl.checks.small_run import prepare_digits, spec_of, train_small
from noisyfl.core.artifacts import read_table
from noisyfl.core.plugins import load

METHOD = {"name": "fedexample"}

load([])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return prepare_digits(tmp_path_factory.mktemp("data"))


@pytest.mark.parametrize("check", CHECKS)
def test_what_every_method_has_to_do(check, data, tmp_path):
    CHECKS[check](METHOD, data, tmp_path)


def test_it_learns(data, tmp_path):
    rounds = read_table(train_small(spec_of(METHOD), data, tmp_path).rounds)[0].to_pylist()
    assert rounds[-1]["test_accuracy"] > rounds[0]["test_accuracy"] + 0.1
