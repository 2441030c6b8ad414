"""The digest of the sources: of what computes a run, all of it and nothing else."""

import shutil
import subprocess
import sys

import pytest

from noisyfl.specs.sources import MESSAGE_MODULES, PACKAGE, computing_sources, source_digest

NAMES_A_RUN = {
    "__init__.py",
    "core/places.py",
    "core/text.py",
    "runs/__init__.py",
    "runs/kept_labels.py",
    "runs/store.py",
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


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the package."""
    ignored = shutil.ignore_patterns("__pycache__")
    return shutil.copytree(PACKAGE, tmp_path_factory.mktemp("copy") / "noisyfl", ignore=ignored)


def changed(package, name):
    """Whether another line in a file makes another digest."""
    path = package / name
    text = path.read_text()
    before = source_digest.__wrapped__(package)
    path.write_text(f"{text}\n# Another line.\n")
    after = source_digest.__wrapped__(package)
    path.write_text(text)
    return before != after


@pytest.mark.parametrize(
    "name",
    [
        "core/randomness.py",
        "data/noise/label_noise.py",
        "methods/fedavg.py",
        "models/__init__.py",
        "simulation/sgd.py",
        "specs/build.py",
        "runs/train.py",
    ],
)
def test_what_computes_a_run_is_in_the_digest(package, name):
    assert changed(package, name)


@pytest.mark.parametrize(
    "name",
    [
        "figures/style.py",
        "pages/print_table.py",
        "experiments/plan.py",
        "specs/cost.py",
        "runs/job.py",
        "runs/devices.py",
        "commands/runs.py",
        "runs/archive.py",
        *MESSAGE_MODULES,
    ],
)
def test_what_reports_plans_and_starts_runs_is_not(package, name):
    assert not changed(package, name)


@pytest.mark.slow
def test_all_that_training_imports_is_in_the_digest():
    code = (
        "import sys, noisyfl.runs.train, noisyfl.methods;"
        "print(*(m.__file__ for n, m in sys.modules.items() if n.split('.')[0] == 'noisyfl'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = {path.removeprefix(f"{PACKAGE}/") for path in done.stdout.split()}
    assert "runs/train.py" in imported
    assert imported - set(computing_sources(PACKAGE)) == NAMES_A_RUN
