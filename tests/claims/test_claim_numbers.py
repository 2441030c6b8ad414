"""Labelled numbers: selecting, pairing, reducing, and what comparisons amount to."""

import math

import numpy as np
import pytest
from scipy import stats

from noisyfl.analysis.statistics import draws_of_correlation, draws_of_deviation
from noisyfl.claims.labels import Place, among, but, since, until
from noisyfl.claims.numbers import Entry, Numbers
from noisyfl.core.options import BadInput

NAN = float("nan")


def numbers(by, **found):
    """Numbers by the labels that the keys are made of: ``a_x=1`` is that of method a, noise x."""
    return Numbers.of(
        [
            Entry(
                dict(zip(by.split(), map(plain, key.split("_")), strict=False)),
                np.atleast_1d(np.array(value, dtype=float)),
                Place("t", key, "c"),
            )
            for key, value in found.items()
        ],
        by.split(),
        "here",
    )


def plain(text):
    return float(text[1:]) if text[1:].isdigit() else text


def curve(*values, start=1, **labels):
    rows = [
        Entry({**labels, "work": float(n)}, np.array([value]), Place("t", "r", "c"))
        for n, value in enumerate(values, start)
    ]
    return Numbers.of(rows, [*labels, "work"], "here")


def told(found):
    """Values by their labels."""
    keys = [tuple(row) for row in found.labels.to_numpy().tolist()]
    return dict(zip(keys, found.values[:, 0].tolist(), strict=True))


ACCURACY = numbers("method noise", a_x=5, a_y=4, b_x=3, b_y=6, c_x=1, c_y=2)


def test_one_value_of_a_label_drops_it():
    assert told(ACCURACY["a"]) == {("x",): 5, ("y",): 4}
    assert told(ACCURACY.at(noise="y", method=but("a"))) == {("b",): 6, ("c",): 2}
    assert told(ACCURACY["a"]["x"]) == {(): 5}
    assert not told(ACCURACY["d"])
    with pytest.raises(BadInput, match="no label is called 'nois'"):
        ACCURACY.at(nois="x")


def test_a_list_must_be_whole_in_each_setting():
    some = numbers("method noise", a_x=5, a_y=4, b_x=3)
    assert told(some[["a", "b"]]) == {("a", "x"): 5, ("b", "x"): 3}
    assert told(some[among("a", "b")]) == {("a", "x"): 5, ("a", "y"): 4, ("b", "x"): 3}
    assert not told(some[["a", "c"]])


def test_numbers_are_paired_by_the_labels_that_both_have():
    assert told(ACCURACY["a"] - ACCURACY["b"]) == {("x",): 2, ("y",): -2}
    # One beside many stands beside each; the order of labels is that of the longer side.
    lead = ACCURACY["a"] - ACCURACY[but("a")]
    assert lead.names == ["method", "noise"]
    assert told(lead) == {("b", "x"): 2, ("c", "x"): 4, ("b", "y"): -2, ("c", "y"): 2}
    assert told(ACCURACY["a"]["x"] - ACCURACY["b"]) == {("x",): 2, ("y",): -1}
    # A setting in which one has no number is no case.
    few = numbers("method noise", a_x=5, a_y=4, b_x=3)
    assert told(few["a"] - few["b"]) == {("x",): 2}
    assert told(2 * ACCURACY["c"] / ACCURACY["c"] + 1) == {("x",): 3, ("y",): 3}


def test_two_numbers_with_the_same_labels_are_a_mistake():
    both = [Entry({"a": "x", "b": n}, np.array([1.0]), Place("", "", "")) for n in "12"]
    assert len(Numbers.of(both, ["a", "b"], "here").labels) == 2
    with pytest.raises(BadInput, match="here: several numbers have the same labels, a=x"):
        Numbers.of(both, ["a"], "here")


def test_many_become_one():
    others = ACCURACY[but("a")]
    assert told(others.max("method")) == {("x",): 3, ("y",): 6}
    assert told(others.min("noise")) == {("b",): 3, ("c",): 1}
    assert told(ACCURACY.mean()) == {(): 3.5}
    assert told(ACCURACY.sum("noise")) == {("a",): 9, ("b",): 9, ("c",): 3}
    assert told(ACCURACY["a"].std()) == {(): 0.5}
    unknown = numbers("method", a=1, b=NAN)
    assert np.isnan(unknown.max().values).all()
    assert not told(ACCURACY["d"].max())


def test_a_draw_is_compared_with_the_same_draw():
    first, second = numbers("m", a=[3, 3, 5]), numbers("m", a=[2, 4, 4])
    assert (first - second).values.tolist() == [[1, -1, 1]]
    assert (first > second).truth.tolist() == [[1, 0, 1]]


def test_halves_are_rounded_up():
    assert told(numbers("m", a=1.5, b=-1.5, c=2.4).rounded()) == {("a",): 2, ("b",): -1, ("c",): 2}


def test_a_case_says_what_was_compared():
    (case,) = (ACCURACY["a"]["y"] >= ACCURACY["b"]["y"]).decide()
    assert (case.label, case.numbers, case.margin, case.holds) == ("", "4 ≥ 6", -2, False)
    assert [cell.row for cell in case.cells] == ["a_y", "b_y"]
    cases = (ACCURACY["a"] > ACCURACY[but("a")].max("method")).decide()
    assert [(case.label, case.holds) for case in cases] == [("x", True), ("y", False)]
    (case,) = ACCURACY["a"]["x"].between(2, 4).decide()
    assert (case.numbers, case.margin, case.holds) == ("5 ≥ 2 and 5 ≤ 4", -1, False)
    (case,) = ACCURACY["a"]["x"].about(4.8, within=0.3).decide()
    assert (case.numbers, case.holds) == ("5 ≥ 4.5 and 5 ≤ 5.1", True)


def test_what_is_unknown_decides_nothing_but_a_failure_does():
    known, unknown = numbers("m", a=1), numbers("m", a=NAN)
    assert [case.holds for case in (known > unknown).decide()] == [None]
    assert [case.holds for case in ((known > 0) & (unknown > 0)).decide()] == [None]
    assert [case.holds for case in ((known > 2) & (unknown > 0)).decide()] == [False]
    assert not (Numbers.unknown(["m"]) > 1).known
    assert not (Numbers.unknown(["m"]) - known["a"] > 1).known


def test_nearly_all_draws_must_agree():
    draws = np.ones(100)
    draws[:2] = -1
    assert [c.holds for c in (numbers("m", a=[1, *draws]) > 0).decide()] == [True]
    draws[:4] = -1
    assert [c.holds for c in (numbers("m", a=[1, *draws]) > 0).decide()] == [None]
    assert [c.holds for c in (numbers("m", a=[-1, *-draws]) > 0).decide()] == [None]


def test_bounds_nearer_than_the_draws_lie_apart_fail_only_where_one_is_missed_for_sure():
    apart = np.linspace(-1, 1, 101)

    def about_zero(found: float) -> bool | None:
        (case,) = numbers("m", a=[found, *(found + apart)]).about(0, within=0.01).decide()
        return case.holds

    assert about_zero(0) is None
    assert about_zero(0.5) is None
    assert about_zero(-0.98) is False
    assert about_zero(1.5) is False


def test_whether_every_case_holds():
    assert told((ACCURACY > 2).every("noise")) == {("a",): 1, ("b",): 1, ("c",): 0}
    assert told((ACCURACY["a"] > 4).every()) == {(): 0}
    # One that fails decides, whatever the unknown one comes out to be; one that holds does not.
    some = numbers("m n", a_1=1, a_2=NAN, b_1=3, b_2=NAN)
    assert [case.holds for case in ((some > 2).every("n") < 1).decide()] == [True, None]


def test_curves():
    found = curve(1, 4, 2, 8)
    assert told(found.end()) == {(): 8}
    assert told(found.last(2)) == {(3,): 2, (4,): 8}
    assert told(found.smooth(2)) == {(1,): 1, (2,): 2.5, (3,): 3, (4,): 5}
    assert told(found.at(work=since(3))) == {(3,): 2, (4,): 8}
    assert told(found.at(work=until(1))) == {(1,): 1}
    assert not told(curve().end())


def test_each_curve_has_an_end_of_its_own():
    found = Numbers.of(
        [
            Entry({"work": work, "m": m}, np.array([work]), Place("t", m, "c"))
            for m, length in (("a", 2), ("b", 4))
            for work in map(float, range(1, length + 1))
        ],
        ["work", "m"],
        "here",
    )
    assert told(found.last(1)) == {(2, "a"): 2, (4, "b"): 4}


@pytest.mark.parametrize(("level", "at"), [(1, 1), (3, 2), (8, 4), (9, np.inf)])
def test_the_first_round_that_reaches_a_level(level, at):
    assert told(curve(1, 4, 2, 8).reach(numbers("m", a=level)["a"])) == {(): at}


def test_where_an_unknown_curve_reaches_a_level_is_unknown():
    unknown = curve(1, 4, np.nan, 8).reach(numbers("m", a=3)["a"])
    assert np.isnan(told(unknown)[()])


def test_a_case_that_fails_for_sure_is_known_whatever_else_is_not():
    one = numbers("m", a=1.0)
    surely = one > numbers("m", a=2.0)
    unknown = one > numbers("m", a=np.nan)
    for both in (surely & unknown, unknown & surely):
        (case,) = both.decide()
        assert (case.holds, case.known, case.margin) == (False, True, -1)
    (case,) = (unknown & (one > numbers("m", a=0.5))).decide()
    assert (case.holds, case.known) == (None, False)


def test_each_curve_has_its_own_end_and_level():
    rows = [
        Entry({"m": m, "work": float(n)}, np.array([float(v)]), Place("t", m, "c"))
        for m, values in (("a", (3, 1, 2)), ("b", (1, 5)))
        for n, v in reversed(list(enumerate(values, 1)))
    ]
    found = Numbers.of(rows, ["m", "work"], "here")
    assert told(found.end()) == {("a",): 2, ("b",): 5}
    assert told(found.reach(found.end())) == {("a",): 1, ("b",): 2}


def test_the_end_is_the_last_number_also_of_numbers_less_than_a_round_apart():
    rows = [
        Entry({"work": work}, np.array([value]), Place("t", "m", "c"))
        for work, value in ((1.0, 3.0), (1.5, 4.0), (1.75, 2.0))
    ]
    assert told(Numbers.of(rows, ["work"], "here").end()) == {(): 2}


CLIENTS = np.random.default_rng(1).random((2, 12))


def by_client(values):
    rows = [
        Entry({"client": float(n)}, np.array([value]), Place("t", "r", "c"))
        for n, value in enumerate(values)
    ]
    return Numbers.of(rows, ["client"], "here")


def test_correlations():
    x, y = map(by_client, CLIENTS)
    assert told(x.pearson(y))[()] == pytest.approx(stats.pearsonr(*CLIENTS)[0])
    assert told(x.spearman(y))[()] == pytest.approx(stats.spearmanr(*CLIENTS)[0])
    # A client without a value is left out, and less than three are too few.
    gone = CLIENTS[0].copy()
    gone[0] = NAN
    expected = stats.spearmanr(*CLIENTS[:, 1:])[0]
    assert told(by_client(gone).spearman(y))[()] == pytest.approx(expected)
    gone[:10] = NAN
    assert np.isnan(told(by_client(gone).pearson(y))[()])
    assert np.isnan(told(by_client(np.ones(12)).pearson(y))[()])


def test_a_correlation_over_few_clients_leaves_a_range_open():
    rng = np.random.default_rng(1)
    level = rng.random(20)
    x, y = by_client(level), by_client(-level + 0.1 * rng.standard_normal(20))
    found = x.pearson(y).values[0]
    assert -0.93 < found[0] < -0.8
    low, high = np.quantile(found, [0.025, 0.975])
    # As Fisher's interval has it: tanh(atanh(r) ± 1.96 / sqrt(17)).
    expected = np.tanh(np.arctanh(found[0]) + np.array([-1.96, 1.96]) / math.sqrt(17))
    assert (low, high) == pytest.approx(expected, abs=0.02)
    assert [case.holds for case in (x.pearson(y) < -0.93).decide()] == [None]
    assert [case.holds for case in (x.pearson(y) < -0.3).decide()] == [True]


def test_ranks_of_clients_leave_more_open_than_their_values():
    """By variances of z: (1 + 0.8² / 2) / 17 for ranks (Bonett and Wright), and 1 / 17."""
    for method, variance in (("spearman", 1.32 / 17), ("pearson", 1 / 17)):
        spread = np.arctanh(draws_of_correlation(0.8, 20, method)[1:]).std()
        assert spread == pytest.approx(variance**0.5, rel=0.06)


def test_a_deviation_of_few_trials_may_be_much_larger_but_not_much_smaller():
    """Of three trials: from 0.52 to 6.3 times (χ² of two degrees of freedom)."""
    draws = draws_of_deviation(1.0, 3, np.random.default_rng(0))[1:]
    low, high = np.quantile(draws, [0.025, 0.975])
    assert low == pytest.approx((2 / 7.378) ** 0.5, rel=0.1)
    assert high == pytest.approx((2 / 0.0506) ** 0.5, rel=0.4)


def test_pairs_of_clients_count_as_their_clients():
    """190 pairs are of 20 clients: the mean is off by a twentieth of the variance."""
    values = np.random.default_rng(0).normal(0, 1, 190)
    rows = [
        Entry({"pair": float(n)}, np.array([value]), Place("t", "r", "c"))
        for n, value in enumerate(values)
    ]
    (mean,) = Numbers.of(rows, ["pair"], "here").mean().values
    assert mean.std() == pytest.approx(values.std() / 20**0.5, rel=0.15)


def test_two_numbers_over_clients_are_drawn_independently():
    for values, count in ((0.5, -0.5), 20), ((0.9, 0.1), 3):
        one, other = (draws_of_correlation(value, count, "pearson")[1:] for value in values)
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.15


def test_means_and_deviations_over_clients_are_off_by_as_much_as_clients_differ():
    values = np.random.default_rng(0).normal(50, 10, 30)
    sample = by_client(values)
    mean, std = sample.mean().values[0], sample.std().values[0]
    assert (mean[0], std[0]) == (pytest.approx(values.mean()), pytest.approx(values.std()))
    assert mean.std() == pytest.approx(values.std() / math.sqrt(30), rel=0.15)
    assert std.std() == pytest.approx(values.std() / math.sqrt(60), rel=0.2)
    near, far = by_client(values + 0.1), by_client(values + 50)
    assert [(one.mean() > sample.mean()).decide()[0].holds for one in (near, far)] == [None, True]
    (single,) = by_client(values[:1]).mean().values
    assert np.isnan(single[1:]).all()
