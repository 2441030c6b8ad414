"""What all tests share."""

import os

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more process than cores: one waits most of the time for a Slurm (``tests/slurm``)."""
    return (os.cpu_count() or 1) + 1
