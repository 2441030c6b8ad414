"""Every recorded step of the official codes: ours gives the same numbers."""

import numpy as np
import pytest
from conformance import COMMITS
from conformance.record import VECTORS, as_read, difference, path_of, recorded, text_of
from conformance.recorders import MODULES, steps
from conformance.steps import Code, relative

STEPS = [(repository, step) for repository in MODULES for step in steps(repository)]
NAMES = [f"{repository}:{step.name}" for repository, step in STEPS]
COMPUTED = [
    pytest.param(*step, marks=[pytest.mark.slow] * ("ResNet" in name))
    for step, name in zip(STEPS, NAMES, strict=True)
]


@pytest.fixture(scope="module")
def vectors():
    return {repository: recorded(repository) for repository in MODULES}


@pytest.mark.parametrize(("repository", "step"), COMPUTED, ids=NAMES)
def test_ours_gives_what_the_official_code_gave(vectors, repository, step):
    assert difference(step, vectors[repository]["steps"][step.name]) <= step.tolerance


@pytest.mark.parametrize(("repository", "step"), STEPS, ids=NAMES)
def test_inputs_are_those_that_a_recorder_would_draw(vectors, repository, step):
    kept = vectors[repository]["steps"][step.name]
    drawn = as_read(step.inputs(np.random.RandomState(step.seed)))
    assert drawn.keys() == kept["inputs"].keys()
    for name, value in drawn.items():
        if not isinstance(value, str):
            assert flat(value) == pytest.approx(flat(kept["inputs"][name]), rel=1e-5, abs=1e-9)


def flat(value):
    """The numbers in lists and mappings of them."""
    if isinstance(value, dict):
        value = list(value.values())
    return [n for part in value for n in flat(part)] if isinstance(value, list) else [value]


def test_files_are_of_the_steps_and_commits_that_are_declared(vectors):
    for repository, held in vectors.items():
        assert held["repository"] == repository
        assert held["commit"] == COMMITS[repository]
        assert list(held["steps"]) == [step.name for step in steps(repository)]
        for step in steps(repository):
            kept = held["steps"][step.name]
            assert (kept["file"], kept["function"]) == (step.file, step.function)
            assert kept["lines"][0] <= kept["lines"][1]
    assert {path.name for path in VECTORS.iterdir()} == {path_of(r).name for r in MODULES}


def test_files_are_as_the_recorder_writes_them(vectors):
    for repository, held in vectors.items():
        assert path_of(repository).read_text() == text_of(held)


def test_files_are_small():
    assert sum(path.stat().st_size for path in VECTORS.iterdir()) < 1_000_000


@pytest.mark.parametrize(
    ("ours", "official", "apart"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0),
        ([1.0, 2.0], [1.0, 4.0], 0.5),
        ({"a": [0.0], "b": [3.0]}, {"a": [0.0], "b": [2.0]}, 0.5),
        ([], [], 0),
    ],
)
def test_a_difference_is_relative_to_the_largest_number(ours, official, apart):
    assert relative(ours, official, "x") == apart


def test_other_shapes_are_no_small_difference():
    with pytest.raises(ValueError, match=r"x: got shape \(2,\), recorded \(3,\)"):
        relative([1, 2], [1, 2, 3], "x")


def test_a_step_that_gives_something_else_is_seen(vectors):
    repository, step = STEPS[0]
    kept = vectors[repository]["steps"][step.name]
    name, value = next(iter(kept["outputs"].items()))
    changed = {**kept["outputs"], name: (np.array(value) * 1.001).tolist()}
    assert difference(step, {**kept, "outputs": changed}) > step.tolerance
    with pytest.raises(ValueError, match="got"):
        difference(step, {**kept, "outputs": {}})


def test_parts_of_scripts_are_run_without_the_rest(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "def double(x):\n    return 2 * x + OFFSET\n\nraise SystemExit('ran')\n"
        "if True:\n    a = b + 1\n    c = a + 1\n"
    )
    code = Code(tmp_path)
    assert code.definitions("script.py", ["double"], OFFSET=1).double(3) == 7
    assert code.block("script.py", (6, 7), b=1)["c"] == 3
    assert code.lines("script.py", "double") == (1, 2)
