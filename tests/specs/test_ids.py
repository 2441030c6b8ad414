"""No run is renamed by accident: a run with another id is trained again.

Where ids are meant to change, ``make ids`` notes the new ones; the file's diff says which scales'.
"""

import json

import pytest

from ids import FILE, noted, runs_of, scales
from noisyfl.specs.identity import identity
from noisyfl.specs.spec import check_run

NOTED = json.loads(FILE.read_text())


@pytest.mark.parametrize("path", scales(), ids=lambda path: path.stem)
@pytest.mark.slow
def test_the_runs_have_the_ids_that_they_had(path):
    runs = runs_of(path)
    assert noted(runs) == NOTED[path.stem], "if this is meant: make ids"
    for run in sorted(runs)[::50]:
        assert run == identity(runs[run])
        check_run(runs[run], "here")


def test_every_scale_is_noted():
    assert [path.stem for path in scales()] == list(NOTED)
