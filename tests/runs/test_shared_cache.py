"""Snakemake's between-workflow cache: what one clone has trained, another one takes from there."""

import hashlib
import json
import re
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from noisyfl.core.tracked import Tracked
from small_repository import Repository, ended

pytestmark = pytest.mark.slow
TABLE = "results/tiny/tables/tiny/one.csv"
FILES = ("spec.json", "rounds.parquet", "clients.parquet", "provenance.json")


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A clone that has trained, with a cache."""
    first = Repository(tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("cache"))
    made(first)
    assert trained(first) == set(runs(first)) == {"fedavg", "fedprox 0.1"}
    return first


@pytest.fixture(scope="module")
def cache(first):
    """The cache that the first clone has filled."""
    return first.cache


@pytest.fixture
def clone(tmp_path, cache):
    """Another clone that has trained nothing."""
    (tmp_path / "clone").mkdir()
    return Repository(tmp_path / "clone", cache)


def made(clone, *arguments, target=TABLE):
    """Make the table that needs both runs."""
    run = clone.snakemake(target, *arguments)
    assert run.returncode == 0, run.stdout + run.stderr


def runs(clone, results="results"):
    """The folder of each run, by its method and that one's option."""
    found = {}
    for path in (clone.folder / results / "runs").glob("*/spec.json"):
        method = json.loads(path.read_text())["method"]
        found[f"{method['name']} {method.get('mu', '')}".strip()] = path.parent
    return found


def trained(clone, results="results"):
    """The runs that this clone has trained itself: a run that trains leaves a log."""
    logs = clone.folder / results / "logs" / "runs"
    return {
        run
        for run, folder in runs(clone, results).items()
        if (logs / f"{folder.name}.log").read_text()
    }


def table(clone, results="results"):
    return (clone.folder / results / "tiny" / "tables" / "tiny" / "one.csv").read_text()


def contents(folder):
    """What a cache holds, and since when."""
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()}


def assert_whole(folder):
    """The four files of a run are complete, and of the run that the folder is named by."""
    spec, rounds, clients, provenance = (folder / name for name in FILES)
    text = json.dumps(json.loads(spec.read_text()), sort_keys=True, separators=(",", ":"))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == folder.name
    for path in (rounds, clients):
        assert json.loads(pq.read_schema(path).metadata[b"noisyfl"])["run"] == folder.name
    assert pq.read_table(rounds)["round"].to_pylist() == [1, 2]
    assert json.loads(provenance.read_text())["status"] == "finished"


def test_a_second_clone_trains_nothing_wherever_its_folders_are(first, cache, clone):
    before = contents(cache)
    clone.edit(
        "config/tiny.yaml",
        "scale: tiny",
        "scale: tiny\nresults: elsewhere\ndata: {folder: other}\ndevice: cpu\nexecutor: loop",
    )
    elsewhere = TABLE.replace("results", "elsewhere")
    made(clone, target=elsewhere)
    assert trained(clone, "elsewhere") == set()
    assert table(clone, "elsewhere") == table(first)
    assert contents(cache) == before
    assert clone.jobs(elsewhere) == {}
    for run, folder in runs(clone, "elsewhere").items():
        assert_whole(folder)
        for name in FILES:
            assert (folder / name).read_bytes() == (runs(first)[run] / name).read_bytes()


@pytest.mark.storm
def test_a_changed_revision_or_option_is_trained(clone):
    clone.edit(
        "workflow/noisyfl/methods/fedavg.py",
        '    reference = "McMahan',
        '    revision = 2\n    reference = "McMahan',
    )
    row = "      - {name: FedProx, method: fedprox(mu=0.1)}\n"
    other = row.replace("FedProx", "Other").replace("0.1", "0.2")
    clone.edit("config/papers/tiny.yaml", row, row + other)
    made(clone)
    assert set(runs(clone)) == {"fedavg", "fedprox 0.1", "fedprox 0.2"}
    assert trained(clone) == {"fedavg", "fedprox 0.2"}


@pytest.mark.storm
def test_two_clones_at_once_leave_whole_runs(tmp_path):
    cache = tmp_path / "cache"
    for name in ("cache", "one", "other"):
        (tmp_path / name).mkdir()
    clones = [Repository(tmp_path / name, cache) for name in ("one", "other")]
    under_way = [clone.start_snakemake("tiny_one") for clone in clones]
    for run in [ended(process) for process in under_way]:
        assert run.returncode == 0, run.stdout + run.stderr
    assert len(list(cache.iterdir())) == 2 * len(FILES)
    for clone in clones:
        assert set(runs(clone)) == {"fedavg", "fedprox 0.1"}
        for folder in runs(clone).values():
            assert_whole(folder)
        # At most a table of runs that the other clone has replaced since is printed again.
        assert "train" not in clone.jobs(TABLE)
    assert table(clones[0]) == table(clones[1])


@pytest.mark.storm
def test_what_a_clone_makes_again_keeps_or_removes_stays_in_the_cache(cache, clone):
    before = contents(cache)
    made(clone)
    made(clone, "--forcerun", "train")
    assert trained(clone) == set()
    assert contents(cache) == before

    links = runs(clone)
    keep = clone.start("noisyfl", "archive", "--config", "config/tiny.yaml", "--commit", "0123abc")
    assert ended(keep).returncode == 0
    assert runs(clone) == {}
    tracked = Tracked(clone.folder / "reproduced", packed=clone.folder / "reproduced")
    for folder in links.values():
        kept = tracked.run(folder.name).folder
        assert not any(path.is_symlink() for path in kept.iterdir())
        assert_whole(kept)
    assert contents(cache) == before

    shutil.rmtree(clone.folder / "reproduced")
    made(clone)
    assert clone.snakemake("tiny_one", "--delete-all-output").returncode == 0
    assert runs(clone) == {}
    assert contents(cache) == before


def test_an_altered_file_is_refused_and_an_entry_without_it_is_trained_again(tmp_path, first):
    entries, clone = tmp_path / "cache", tmp_path / "clone"
    shutil.copytree(first.cache, entries)
    clone.mkdir()
    clone = Repository(clone, entries)
    rounds = entries / (runs(first)["fedavg"] / "rounds.parquet").readlink().name
    whole = pq.read_table(rounds)
    accuracy = whole.column_names.index("test_accuracy")
    pq.write_table(whole.set_column(accuracy, "test_accuracy", pa.array([1.0, 1.0])), rounds)

    said = clone.fails(TABLE)
    assert re.search(r"rounds\.parquet: the content does not match .* altered", said)
    assert trained(clone) == set()

    rounds.unlink()
    made(clone, target=TABLE)
    assert trained(clone) == {"fedavg"}
    assert_whole(runs(clone)["fedavg"])
    assert table(clone) == table(first)
    assert rounds.exists()


@pytest.mark.storm
def test_a_variable_without_a_folder_shares_nothing(tmp_path):
    (tmp_path / "clone").mkdir()
    clone = Repository(tmp_path / "clone", cache="")
    run = clone.snakemake("tiny_two")
    assert run.returncode == 0, run.stdout + run.stderr
    assert trained(clone) == {"fedavg"}
    assert not any(path.is_symlink() for path in runs(clone)["fedavg"].iterdir())
