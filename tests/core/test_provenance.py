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
        ({"status": "diverged"}, "the content does not fit its checksum, so it was altered"),
        ({"status": "done"}, "status: Input should be 'finished' or 'diverged' .got 'done'"),
        ({"status": None}, "status: Input should be 'finished' or 'diverged' .got None"),
        ({"training_seconds": "x"}, "training_seconds: Input should be a valid number .got 'x'"),
        ({"training_seconds": True}, "training_seconds: Input should be a valid number .got True"),
        ({"device": ["a"]}, "device: Input should be a valid string .got"),
        ({"run": "f" * 16}, f"expected the run {RUN}, found '{'f' * 16}'"),
        ({"note": "more"}, "the content does not fit its checksum"),
        ({"rounds": 2.5}, "rounds: Input should be a valid integer .got 2.5"),
    ],
)
def test_what_is_altered_is_refused(path, changes, message):
    change(path, **changes)
    with pytest.raises(DamagedArtifact, match=f"provenance.json: {message}"):
        read_provenance(path, RUN)


def test_another_runs_is_refused(path):
    with pytest.raises(DamagedArtifact, match=f"expected the run {'f' * 16}, found '{RUN}'"):
        read_provenance(path, "f" * 16)


@pytest.mark.parametrize("key", [*CONTENT, "checksum"])
def test_a_missing_key_is_named(path, key):
    content = json.loads(path.read_text())
    del content[key]
    write_json(path, content)
    with pytest.raises(DamagedArtifact, match=f"{key}: Field required"):
        read_provenance(path, RUN)


@pytest.mark.parametrize("text", ["", "[]", "3", "[" * 100_000, "\x00", '{"status": "fin'])
def test_what_is_no_mapping_is_refused(path, text):
    path.write_text(text)
    with pytest.raises(DamagedArtifact, match=r"provenance\.json"):
        read_provenance(path, RUN)


def test_a_folder_in_its_place_is_refused(path):
    path.unlink()
    path.mkdir()
    with pytest.raises(DamagedArtifact, match="a folder, where a file should be"):
        read_provenance(path, RUN)
