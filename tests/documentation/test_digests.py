"""Tracked runs are of the methods as they are now, or were found to be equal to them."""

from platform import python_version

import pytest

from noisyfl.core.artifacts import read_json
from noisyfl.documentation import digests
from noisyfl.runs.edited import minor_version


def test_methods_of_tracked_runs_were_not_edited_unnoticed():
    found = digests.files()
    assert found
    recorded = {path: read_json(path) for path in found}
    same = {
        p
        for p, one in recorded.items()
        if minor_version(one["python"]) == minor_version(python_version())
    }
    if not same:
        pytest.skip("another Python prints syntax trees otherwise")
    edited = [path.parent.name for path in same if path.read_text() != found[path]]
    assert not edited, "raise the method's revision, or, if no number has changed, make digests"
