"""The status of a run, as tests write one."""

from noisyfl.runs.status import KEYS


def status_with(**changes):
    """A status that is whole, with some values of one's own."""
    whole = {key: None if type(None) in kinds else "a" for key, kinds in KEYS.items()}
    moments = dict.fromkeys(("begun", "updated"), "2026-01-01T00:00:00+00:00")
    return {**whole, **moments, "state": "running", "process": 1, "permanent": False, **changes}
