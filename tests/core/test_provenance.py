"""A provenance: what is written is read, and what is something else is refused by name."""

import json

import pytest

from noisyfl.core.artifacts import DamagedArtifact, write_json
from noisyfl.core.provenance import read_provenance, write_provenance

RUN = "0123456789abcdef"
CONTENT = {
    **dict.fromkeys(("noisyfl", "source_digest", "python", "torch", "device"), "text"),
    **dict.fromkeys(("setup_seconds", "training_seconds"), 1.5),
    "status": "finished",
    "run": RUN,
    "rounds": 3,
}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "provenance.json"
    write_provenance(path, CONTENT)
    return path


def change(path, **changes):
    write_json(path, {**json.loads(path.read_text()), **changes})


def test_what_is_written_is_read(path):
    found = read_provenance(path, RUN)
    assert found.as_given() == {**CONTENT, "checksum": found.checksum}
    assert found.devices == ["text"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"status": "diverged"}, "the content does not match its checksum, so it was altered"),
        ({"status": "done"}, "status: Input should be 'finished' or 'diverged' .got 'done'"),
        ({"run": "f" * 16}, f"expected the run {RUN}, found '{'f' * 16}'"),
        ({"note": "more"}, "the content does not match its checksum"),
    ],
)
def test_what_is_altered_is_refused(path, changes, message):
    change(path, **changes)
    with pytest.raises(DamagedArtifact, match=f"provenance.json: {message}"):
        read_provenance(path, RUN)


def test_a_missing_key_is_named(path):
    content = json.loads(path.read_text())
    del content["rounds"]
    write_json(path, content)
    with pytest.raises(DamagedArtifact, match="rounds: Field required"):
        read_provenance(path, RUN)
