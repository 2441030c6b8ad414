"""FNBench's noise levels are those of its code."""

import numpy as np
import pytest

from noisyfl.data.noise.noise_level import NOISE_LEVELS

from .plans import plan_of, spec_at


@pytest.mark.parametrize(("noise", "groups"), [("symmetric", [100]), ("mixed", [50, 50])])
def test_fnbenchs_levels_are_those_of_its_code(noise, groups):
    """A group's client i of n has i (0.4 - 0.0) / n."""
    spec = spec_at(plan_of("fnbench"), "cifar10", "FedAvg", f"IID, {noise} 0.0–0.4")
    level = NOISE_LEVELS.build(spec["noisy_partition"]["noise_level"])
    expected = np.concatenate([np.arange(n) * 0.4 / n for n in groups])
    np.testing.assert_allclose(level.draw(100, np.random.default_rng(0)), expected)
