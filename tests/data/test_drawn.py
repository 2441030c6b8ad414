"""What a component of a noisy partition gives back is checked before anything is made of it."""

import numpy as np
import pytest

from noisyfl.core.options import BadInput
from noisyfl.core.plugins import load
from noisyfl.data import noisy_partition
from noisyfl.data.noise.label_noise import LABEL_NOISES
from noisyfl.data.noise.noise_level import NOISE_LEVELS
from noisyfl.data.partitioning.partition import PARTITIONS
from outside import PARTS
from small_partitions import canonical

LABELS = np.arange(1437) % 10


def make():
    spec = canonical(partition="iid(clients=3)", noise_level="uniform(low=0.1, high=0.4)")
    return noisy_partition.make(spec, LABELS)


THREE = [np.arange(9), np.arange(9, 20), np.arange(20, 25)]


IID, SYMMETRIC, UNIFORM = (
    PARTITIONS.get("iid"),
    LABEL_NOISES.get("symmetric"),
    NOISE_LEVELS.get("uniform"),
)


SEQUENCES = ((IID, "_draw"), (SYMMETRIC, "flip"), (SYMMETRIC, "replace"))


@pytest.mark.parametrize(
    ("component", "hook", "gives", "message"),
    [
        (IID, "_draw", THREE[:2], "partition.iid: got list of 2, expected an array for each of 3"),
        (IID, "_draw", [*THREE[:2], np.arange(8, 12)], "row 8 2 times, expected each row once"),
        (IID, "_draw", [*THREE[:2], [30, 30.5]], "client 2: got list of 2, expected integers"),
        (IID, "_draw", [*THREE[:2], np.ones(9, bool)], "client 2: got bool"),
        (IID, "_draw", [*THREE[:2], [1437]], "got rows 0 to 1437, expected 0 to 1436"),
        (IID, "_draw", [[], *THREE[1:]], "client 0 of 3 has no sample; use fewer"),
        (IID, "_draw", [*THREE[:2], [-1]], "got rows -1 to 19, expected 0 to 1436"),
        (IID, "_draw", [*THREE[:2], None], "client 2: got None, expected integers"),
        *(
            (one, hook, None, f"{hook}|iid: got None, expected an array for each")
            for one, hook in SEQUENCES
        ),
        (SYMMETRIC, "replace", [[-1], [0], [1]], "replace: got rows -1 to 1, expected"),
        (SYMMETRIC, "replace", THREE, "client 0: got 9 rows, expected 479"),
        (UNIFORM, "draw", np.full(3, 30.0), "got 30 to 30, expected 3 shares"),
        (UNIFORM, "draw", np.full(3, np.nan), "got nan to nan, expected 3 shares"),
        (
            UNIFORM,
            "draw",
            [0.1, 0.2, 0.3],
            "got list of 3, expected 3 shares from 0 to 1, an array",
        ),
        (UNIFORM, "draw", np.array([None] * 3), "got object .3., expected 3 shares"),
        (UNIFORM, "draw", 0.3, "noise_level.uniform.draw: got 0.3, expected 3 shares"),
        (SYMMETRIC, "flip", THREE, "client 0: got int64 .9., expected an array of 479 integers"),
        (SYMMETRIC, "flip", [None] * 3, "client 0: got None, expected an array of 479 integers"),
        (SYMMETRIC, "flip", [[1]] * 3, "client 0: got list of 1, expected an array"),
        (SYMMETRIC, "flip", [], "got list of 0, expected an array for each of 3 clients"),
    ],
)
def test_what_does_not_fit_is_named(component, hook, gives, message, monkeypatch):
    monkeypatch.setattr(component, hook, lambda *given: gives)
    with pytest.raises(BadInput, match=message):
        make()


@pytest.mark.parametrize("draw", [np.random.rand, lambda: np.random.seed(1)])
@pytest.mark.parametrize(("component", "hook"), [*SEQUENCES, (UNIFORM, "draw")])
def test_numbers_that_no_trial_seeds_are_an_error(component, hook, draw, monkeypatch):
    drawn = getattr(component, hook)

    def drawing(*given):
        draw()
        return drawn(*given)

    monkeypatch.setattr(component, hook, drawing)
    words = "draws from the random numbers that all of NumPy shares"
    with pytest.raises(BadInput, match=rf"{component.name}\.?.*: {words}"):
        make()


@pytest.mark.usefixtures("forgotten")
def test_any_error_of_a_plugin_is_told_with_its_line(tmp_path):
    text = PARTS.replace("return given\n", "return given['all']\n")
    (tmp_path / "parts.py").write_text(text)
    load([str(tmp_path / "parts.py")])
    spec = canonical(label_noise="zeroed", noise_level="constant(level=0.3)")
    line = text.splitlines().index("        return given['all']") + 1
    with pytest.raises(BadInput, match=rf"^{tmp_path}/parts.py, line {line}: TypeError: list ind"):
        noisy_partition.write(tmp_path / "p.parquet", spec, LABELS)


def test_labels_are_those_of_classes(monkeypatch):
    flip = LABEL_NOISES.get("symmetric").flip
    monkeypatch.setattr(
        LABEL_NOISES.get("symmetric"),
        "flip",
        lambda *given: [labels + 5 for labels in flip(*given)],
    )
    with pytest.raises(BadInput, match="client 0: got labels 5 to 14, expected 0 to 9"):
        make()
