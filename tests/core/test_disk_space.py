"""Whether the disk of Snakemake's own folder has room."""

import errno
import io
import logging
import tempfile

import pytest

from noisyfl.core.disk_space import check_room
from noisyfl.core.options import BadInput


class Full(io.BytesIO):
    """A file on a disk that has no room, or too little."""

    def __init__(self, room):
        super().__init__()
        self.room = room

    def write(self, content):
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(content[: self.room])


@pytest.mark.parametrize("room", [0, 1000])
def test_a_full_disk_is_said_before_snakemake_writes_its_locks(tmp_path, monkeypatch, room):
    monkeypatch.setattr(logging, "raiseExceptions", True)
    check_room(tmp_path / "own")
    assert logging.raiseExceptions
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **options: Full(room))
    with pytest.raises(BadInput, match=r"own: cannot be written \(No space left on device\), exp"):
        check_room(tmp_path / "own")
    assert not logging.raiseExceptions


def test_a_folder_that_is_closed_is_left_to_snakemake(tmp_path, monkeypatch):
    def closed(**options):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", closed)
    check_room(tmp_path / "own")
