"""No run is renamed by accident: a run with another id is trained again.

Where ids are meant to change, ``make ids`` notes the new ones; the file's diff says which scales'.
"""

import json

import pytest

from ids import FILE, ids_of, scales

NOTED = json.loads(FILE.read_text())


@pytest.mark.parametrize("path", scales(), ids=lambda path: path.stem)
@pytest.mark.slow
def test_the_runs_have_the_ids_that_they_had(path):
    assert ids_of(path) == NOTED[path.stem], "if this is meant: make ids"


def test_every_scale_is_noted():
    assert [path.stem for path in scales()] == list(NOTED)
