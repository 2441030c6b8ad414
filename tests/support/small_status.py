"""The status of a run, as tests write one."""

from noisyfl.runs.status import StatusRecord


def status_with(**changes):
    """A status that is whole, with some values of one's own."""
    moments = dict.fromkeys(("begun", "updated"), "2026-01-01T00:00:00+00:00")
    whole = {**moments, "setting": "a", "host": "a", "process": 1}
    return StatusRecord.read({**whole, **changes}).model_dump(mode="json")
