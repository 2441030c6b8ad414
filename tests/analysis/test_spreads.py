"""How far trials lie apart: what methods share in a seed, and what is their own."""

import math

import numpy as np
import pytest

from noisyfl.analysis.spreads import Spread, Spreads


def made_up(rng, shared, own, seeds, methods):
    """Cells of one start: the luck of a seed is shared, of which the last method has a half."""
    luck = shared * rng.standard_normal(seeds)
    cells = luck + own * rng.standard_normal((methods, seeds)) + 50
    return [dict(enumerate(cell[: seeds if n else seeds // 2], 1)) for n, cell in enumerate(cells)]


def test_what_methods_share_in_a_seed_is_told_from_their_own_spread():
    rng = np.random.default_rng(0)
    found = Spreads.pool([made_up(rng, 3, 1, 4, 6) for _ in range(200)])
    assert (found.shared.std, found.own.std) == (pytest.approx(3, 0.1), pytest.approx(1, 0.05))
    assert found.luck == {}
    column = made_up(rng, 3, 0.001, 4, 6)
    luck = Spreads.pool([column]).luck
    apart = {seed: value - np.mean(list(column[1].values())) for seed, value in column[1].items()}
    assert luck == pytest.approx(apart, abs=0.01)
    assert (found.shared.freedom, found.own.freedom) == (200 * 3, 200 * (22 - 6 - 3))
    nothing = Spreads.pool([made_up(rng, 0, 1, 4, 6) for _ in range(200)])
    assert (nothing.shared.std, nothing.own.std) == (
        pytest.approx(0, abs=0.2),
        pytest.approx(1, 0.05),
    )


def test_the_spread_of_a_single_method_is_its_own():
    one = Spreads.pool([[{1: 50.0, 2: 52.0}, {1: 60.0}], [{1: 70.0}], []])
    assert (one.shared, one.own) == (Spread(), Spread(2**0.5, 1))
    assert Spreads.pool([[{1: 70.0}]]) == Spreads()
    assert one.luck == {}
    assert math.isnan(Spread().half_width(1.0))


def test_each_spread_is_that_of_the_smallest_group_which_knows_it_well():
    vague, column, all_columns = (
        Spread(std, freedom) for std, freedom in ((9, 1), (1, 2), (2, 40))
    )
    groups = [Spreads(vague, column), Spreads(all_columns, all_columns)]
    assert Spreads.of_smallest(groups)[:2] == (all_columns, column)
    assert Spreads.of_smallest([Spreads(vague, vague)])[:2] == (vague, vague)


def test_the_luck_of_a_seed_cancels_between_cells_that_start_from_the_same():
    spreads = Spreads(Spread(3.0, 100), Spread(1.0, 100), {1: 4.0, 2: -4.0})
    pair = {1: 54.0, 2: 46.0}
    one, other = (spreads.draws(pair, ["start"], [cell]) for cell in ("one", "other"))
    alone = spreads.draws({1: 54.0}, ["start"], ["third"])
    elsewhere = spreads.draws(pair, ["another start"], ["fourth"])
    assert np.std(one) == pytest.approx(((9 + 1) / 2) ** 0.5, 0.1)
    assert np.std(one - other) == pytest.approx(1, 0.1)
    assert np.std(one - alone) == pytest.approx((9 / 2 + 1 / 2 + 1) ** 0.5, 0.1)
    assert np.std(one - elsewhere) == pytest.approx(10**0.5, 0.1)
    # How far its trials lie apart counts if that is more, without what the seeds have in common.
    wide = spreads.draws({1: 57.0, 2: 43.0}, ["start"], ["one"])
    assert np.std(wide - other) == pytest.approx(((18 + 1) / 2) ** 0.5, 0.1)
