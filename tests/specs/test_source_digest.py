"""The digest of the sources: of what computes a run, all of it and nothing else."""

import subprocess
import sys

import pytest

from noisyfl.core.places import PACKAGE
from noisyfl.specs import sources
from noisyfl.specs.sources import COMPUTING, MESSAGE_MODULES, computing_sources

COMPUTE = (
    *("core/randomness.py", "data/noise/label_noise.py", "methods/fedavg.py", "models/__init__.py"),
    *("simulation/optimizer.py", *(part for part in COMPUTING if part.endswith(".py"))),
)
"""Some of what computes a run."""

REPORT = (
    *("figures/style.py", "pages/print_table.py", "experiments/plan.py", "specs/cost.py"),
    *("runs/job.py", "runs/devices.py", "commands/runs.py", "runs/archive.py", *MESSAGE_MODULES),
)
"""Some of what reports, plans and starts runs."""

NAMES_A_RUN = {
    "core/code.py",
    "__init__.py",
    "core/places.py",
    "core/text.py",
    "runs/__init__.py",
    "runs/kept_labels.py",
    "runs/store.py",
    "runs/trackers.py",
    "specs/__init__.py",
    "specs/catalogue.py",
    "specs/identity.py",
    "specs/run_words.py",
    "specs/words.py",
    "specs/sources.py",
    "specs/spec.py",
}
"""What training imports besides: the id of a run, which every checkpoint has next to the digest,
where files lie, how messages are shown, and how what a run found is written."""


def test_the_digest_changes_with_what_computes_a_run_and_with_nothing_else(tmp_path, monkeypatch):
    for name in (*COMPUTE, *REPORT):
        assert (PACKAGE / name).exists()
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setattr(sources, "PACKAGE", tmp_path)
    digest = sources.source_digest.__wrapped__()
    for name in (*COMPUTE, *REPORT):
        (tmp_path / name).write_text("# A line.\n")
        before, digest = digest, sources.source_digest.__wrapped__()
        assert (digest != before) == (name in COMPUTE), name


@pytest.mark.slow
def test_all_that_training_imports_is_in_the_digest():
    code = (
        "import sys, noisyfl.runs.train, noisyfl.methods;"
        "print(*(m.__file__ for n, m in sys.modules.items() if n.split('.')[0] == 'noisyfl'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = {path.removeprefix(f"{PACKAGE}/") for path in done.stdout.split()}
    assert "runs/train.py" in imported
    assert imported - set(computing_sources()) == NAMES_A_RUN
