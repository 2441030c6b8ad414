"""Partitions: who gets which samples."""

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from noisyfl.core.options import BadInput
from noisyfl.core.randomness import stream
from noisyfl.data.partitioning.partition import PARTITIONS
from noisyfl.data.partitioning.subsets import long_tailed

EVERY_PARTITION = [
    "iid(clients=8)",
    "iid(clients=8, stratified=True)",
    "iid_subset(clients=8, per_client=31)",
    "shard(clients=8, shards=3)",
    "dirichlet(clients=8, alpha=0.5)",
    "dirichlet(clients=8, alpha=0.5, cap=True, min_size=2)",
    "dirichlet(clients=8, alpha=1, per_client=40)",
    "dirichlet_official(clients=8, beta=0.5, min_size=5)",
    "bernoulli_dirichlet(clients=8, p=0.5, alpha=10)",
    "quantity_dirichlet(clients=8, beta=20, per_client=37)",
    "label_quantity(clients=8, classes=3)",
    "quantity_skew(clients=8, beta=0.5, min_size=3)",
    "shard(clients=8, shards=3, samples=200)",
    "bernoulli_dirichlet(clients=8, p=0.5, alpha=10, samples=200)",
]


def build(text):
    return PARTITIONS.build(text, "partition")


def assign(text, labels, seed=0, classes=10):
    return build(text).assign(labels, classes, stream(seed, "partition"))


def shuffled_labels(per_class, classes=10, seed=0):
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(classes), per_class))


def class_counts(rows, labels, classes=10):
    return np.array([np.bincount(labels[part], minlength=classes) for part in rows])


def distance_to_uniform(counts):
    """Mean total variation distance of the clients' class shares to equal ones."""
    shares = counts / counts.sum(axis=1, keepdims=True)
    return np.abs(shares - 1 / counts.shape[1]).sum(axis=1).mean() / 2


@pytest.mark.parametrize("text", EVERY_PARTITION)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), per_class=st.integers(40, 60), data_seed=st.integers(0, 99))
def test_a_sample_is_on_one_client_at_most_and_every_client_has_some(
    text, seed, per_class, data_seed
):
    labels = shuffled_labels(per_class, seed=data_seed)
    try:
        rows = assign(text, labels, seed)
    except BadInput as error:  # an uneven partition may by chance leave a client without a sample
        if "of 8 has no sample; use fewer clients" in str(error):
            reject()
        raise
    assert len(rows) == 8
    together = np.concatenate(rows)
    assert len(np.unique(together)) == len(together)
    assert together.min() >= 0
    assert together.max() < len(labels)
    for part in rows:
        assert len(part) > 0
        assert part.dtype == np.int64
        assert (np.diff(part) > 0).all()


@pytest.mark.parametrize("text", EVERY_PARTITION)
def test_the_seed_decides_and_nothing_else(text):
    labels = shuffled_labels(50)
    once, again, other = (assign(text, labels, seed) for seed in (3, 3, 4))
    assert [part.tolist() for part in once] == [part.tolist() for part in again]
    assert [part.tolist() for part in once] != [part.tolist() for part in other]


@pytest.mark.parametrize(
    "text", ["iid(clients=8, samples=240)", "shard(clients=8, shards=3, samples=240)"]
)
def test_a_subset_has_equal_class_counts_and_is_partitioned_as_all_samples_are(text):
    labels = shuffled_labels(50)
    rows = assign(text, labels)
    assert [len(part) for part in rows] == [30] * 8
    assert class_counts(rows, labels).sum(axis=0).tolist() == [24] * 10


def test_a_subset_larger_than_the_dataset_or_smaller_than_the_partition_is_refused():
    with pytest.raises(BadInput, match="samples: got 501, and the dataset has 500"):
        assign("iid(clients=8, samples=501)", shuffled_labels(50))
    with pytest.raises(BadInput, match="needs 24 training samples, and samples leaves 20"):
        assign("shard(clients=8, shards=3, samples=20)", shuffled_labels(50))


@given(n=st.integers(8, 200), clients=st.integers(1, 8))
def test_iid_sizes_are_equal_and_the_remainder_is_left_out(n, clients):
    rows = assign(f"iid(clients={clients})", np.zeros(n, dtype=int))
    assert {len(part) for part in rows} == {n // clients}


@given(
    labels=st.lists(st.integers(0, 4), min_size=9, max_size=120),
    clients=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_stratified_clients_differ_by_one_sample_at_most(labels, clients, seed):
    labels = np.array(labels)
    rows = assign(f"iid(clients={clients}, stratified=True)", labels, seed, classes=5)
    counts = class_counts(rows, labels, 5)
    assert counts.sum() == len(labels)
    assert np.ptp(counts, axis=0).max() <= 1
    assert np.ptp(counts.sum(axis=1)) <= 1


def test_iid_subset_is_balanced_in_the_whole_and_on_each_client():
    labels = shuffled_labels(1000)
    counts = class_counts(assign("iid_subset(clients=20, per_client=100)", labels), labels)
    assert (counts == 10).all()
    counts = class_counts(assign("iid_subset(clients=20, per_client=105)", labels), labels)
    assert (counts.sum(axis=1) == 105).all()
    assert (counts.sum(axis=0) == 210).all()
    assert np.ptp(counts, axis=0).max() <= 1


def test_a_rare_class_gives_all_that_it_has_to_a_subset():
    labels = np.repeat([0, 1, 2], [5, 100, 100])
    counts = class_counts(assign("iid_subset(clients=5, per_client=21)", labels, classes=3), labels)
    assert counts.sum(axis=0)[:3].tolist() == [5, 50, 50]


def test_shards_are_of_one_class_and_the_sort_is_stable():
    labels = shuffled_labels(5000)
    counts = class_counts(assign("shard(clients=100, shards=2)", labels), labels)
    assert (counts.sum(axis=1) == 500).all()
    assert set(counts.ravel()) == {0, 250, 500}
    ordered = np.tile([0, 1], 6)
    rows = assign("shard(clients=3, shards=2)", ordered, classes=2)
    shards = {tuple(part) for part in ([0, 2], [4, 6], [8, 10], [1, 3], [5, 7], [9, 11])}
    for part in rows:
        held = [shard for shard in shards if set(shard) <= set(part.tolist())]
        assert len(held) == 2


def test_what_is_left_of_the_shards_is_of_the_last_class():
    labels = np.repeat([0, 1], [10, 13])
    counts = class_counts(assign("shard(clients=2, shards=2)", labels, classes=2), labels)
    assert counts.sum(axis=0)[:2].tolist() == [10, 10]


def test_dirichlet_clients_differ_in_classes_and_have_the_minimum():
    labels = shuffled_labels(1000)
    rows = assign("dirichlet(clients=50, alpha=0.5, min_size=20)", labels)
    assert min(map(len, rows)) >= 20
    assert sum(map(len, rows)) == len(labels)
    assert distance_to_uniform(class_counts(rows, labels)) > 0.35
    even = assign("dirichlet(clients=50, alpha=10000)", labels)
    assert distance_to_uniform(class_counts(even, labels)) < 0.02


def test_a_cap_ends_what_a_client_gets():
    labels = shuffled_labels(100)
    counts = class_counts(assign("dirichlet(clients=5, alpha=0.5, cap=True)", labels), labels)
    before = np.cumsum(counts, axis=1) - counts
    assert (counts[before >= 200] == 0).all()
    assert (before >= 200).any()


def test_dirichlet_per_client_takes_a_balanced_subset():
    labels = shuffled_labels(200)
    rows = assign("dirichlet(clients=10, alpha=1, per_client=50)", labels)
    assert (class_counts(rows, labels).sum(axis=0) == 50).all()


def test_fedrns_official_dirichlet_is_nearly_iid_in_classes():
    labels = shuffled_labels(5000)
    rows = assign("dirichlet_official(clients=100, beta=0.5)", labels)
    sizes = np.array([len(part) for part in rows])
    counts = class_counts(rows, labels)
    assert sizes.sum() == 50_000
    assert sizes.min() >= 10
    assert sizes.max() > 4 * sizes.min()
    shares = counts / counts.sum(axis=1, keepdims=True)
    # An IID partition has 0.123 and 0.054.
    assert shares.max(axis=1).mean() == pytest.approx(0.123, abs=0.008)
    assert distance_to_uniform(counts) == pytest.approx(0.055, abs=0.006)
    ignorant = assign("dirichlet_official(clients=100, beta=0.5)", labels[::-1].copy())
    assert all((a == b).all() for a, b in zip(rows, ignorant, strict=True))


def test_bernoulli_dirichlet_follows_p_and_alpha():
    labels = shuffled_labels(5000)
    held = {}
    for p, alpha in ((0.7, 10), (0.7, 1), (0.3, 10)):
        text = f"bernoulli_dirichlet(clients=100, p={p}, alpha={alpha})"
        rows = assign(text, labels)
        assert sum(map(len, rows)) == len(labels)
        held[p, alpha] = class_counts(rows, labels)
    assert (held[0.7, 10] > 0).mean() == pytest.approx(0.7, abs=0.06)
    assert (held[0.3, 10] > 0).mean() == pytest.approx(0.3, abs=0.06)
    assert held[0.7, 1].sum(axis=1).std() > held[0.7, 10].sum(axis=1).std()


@given(seed=st.integers(0, 10_000))
def test_bernoulli_dirichlet_leaves_out_no_class(seed):
    labels = shuffled_labels(40)
    rows = assign("bernoulli_dirichlet(clients=2, p=0.2, alpha=100)", labels, seed)
    assert sum(map(len, rows)) == len(labels)


def test_quantity_dirichlet_is_uneven_in_size_and_balanced_in_classes():
    labels = shuffled_labels(1000)
    rows = assign("quantity_dirichlet(clients=20, beta=20, per_client=100)", labels)
    sizes = np.array([len(part) for part in rows])
    counts = class_counts(rows, labels)
    assert sizes.sum() == 2000
    # q_k ~ Dir(20) of 20 clients has the coefficient of variation sqrt(19 / 401) = 0.218.
    assert 0.1 < sizes.std() / sizes.mean() < 0.35
    assert np.ptp(counts, axis=1).max() <= 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("iid(clients=1001)", r"clients=1001 needs 1001 training samples.* has 1000"),
        ("shard(clients=100, shards=11)", "clients=100 with shards=11 needs 1100"),
        ("iid_subset(clients=10, per_client=101)", "clients=10 with per_client=101 needs 1010"),
        ("quantity_dirichlet(clients=10, beta=1, per_client=101)", "per_client=101 needs 1010"),
        ("dirichlet(clients=10, alpha=1, per_client=101)", "per_client=101 needs 1010"),
        ("dirichlet(clients=101, alpha=1)", "clients=101 with min_size=10 needs 1010"),
        ("dirichlet_official(clients=101, beta=1)", "clients=101 with min_size=10 needs 1010"),
        ("quantity_skew(clients=101, beta=1)", "clients=101 with min_size=10 needs 1010"),
        ("dirichlet(clients=5, alpha=1, per_client=9)", "min_size=10 is more .*per_client=9"),
    ],
)
def test_too_few_samples_are_found_before_any_job(text, message):
    with pytest.raises(BadInput, match=message):
        build(text).check(1000)
    with pytest.raises(BadInput):
        assign(text, shuffled_labels(100))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dirichlet(clients=3, alpha=0)", r"dirichlet\.alpha: Input should be greater than 0"),
        ("shards(clients=3)", "no partition is called 'shards'; did you mean 'shard'"),
    ],
)
def test_bad_options_are_refused(text, message):
    with pytest.raises(BadInput, match=message):
        build(text)


def test_a_hopeless_minimum_is_given_up():
    message = r"partition\.dirichlet: not one of 2000 draws gave each of 5 clients min_size"
    with pytest.raises(BadInput, match=message):
        assign("dirichlet(clients=5, alpha=0.0001)", shuffled_labels(40, classes=2), classes=2)


def test_a_hopeless_indicator_is_given_up():
    with pytest.raises(BadInput, match=r"p=1e-09 is so small that in 2000 tries"):
        assign("bernoulli_dirichlet(clients=20, p=1e-9, alpha=1)", shuffled_labels(40))


def test_a_client_without_a_sample_is_named():
    message = r"partition\.quantity_dirichlet: client \d+ of 20 has no sample"
    with pytest.raises(BadInput, match=message):
        assign("quantity_dirichlet(clients=20, beta=0.01, per_client=10)", shuffled_labels(40))
    message = r"partition\.bernoulli_dirichlet: client \d+ of 20 has no sample"
    with pytest.raises(BadInput, match=message):
        assign("bernoulli_dirichlet(clients=20, p=0.5, alpha=0.001)", shuffled_labels(40))


@pytest.mark.parametrize("total", [300, 317])
@pytest.mark.parametrize("kind", ["iid(clients=4,", "dirichlet(clients=4, alpha=1, min_size=1,"])
def test_a_long_tail_falls_by_the_same_factor_from_class_to_class(total, kind):
    labels = shuffled_labels(200)
    rows = assign(f"{kind} samples={total}, long_tail=20)", labels)
    counts = class_counts(rows, labels).sum(0)
    used = total if "dirichlet" in kind else total // 4 * 4
    assert counts.sum() == used
    shares = 20.0 ** -(np.arange(10) / 9)
    assert np.abs(counts - shares / shares.sum() * total).max() <= 1 + (total - used)
    assert counts[0] > 10 * counts[-1]
    again = assign(f"{kind} samples={total}, long_tail=20)", labels)
    assert all((one == other).all() for one, other in zip(rows, again, strict=True))


def test_without_a_long_tail_nothing_changes():
    assert "long_tail" not in build("iid(clients=4, samples=80)").canonical()
    assert build("iid(clients=4, samples=80, long_tail=5)").canonical()["long_tail"] == 5


@given(total=st.integers(50, 5000), classes=st.integers(2, 100), ratio=st.floats(1.01, 1000))
def test_the_counts_of_a_long_tail_add_up_and_never_rise(total, classes, ratio):
    counts = long_tailed(total, classes, ratio)
    assert counts.sum() == total
    assert (np.diff(counts) <= 1).all()  # rounding
    exact = ratio ** -(np.arange(classes) / (classes - 1))
    assert np.abs(counts - exact / exact.sum() * total).max() < 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("iid(clients=4, long_tail=5)", r"long_tail: got 5 without samples, expected their number"),
        ("iid(clients=4, samples=80, long_tail=1)", "long_tail: .*greater than 1"),
        (
            "dirichlet(clients=4, alpha=1, per_client=9, samples=80, long_tail=5)",
            "long_tail: got 5 and per_client",
        ),
        ("file(path='a.csv', long_tail=5)", "long_tail: got 5, expected null"),
    ],
)
def test_long_tails_that_cannot_be_are_refused(text, message):
    with pytest.raises(BadInput, match=message):
        build(text)


@pytest.mark.parametrize(
    ("samples", "ratio", "message"),
    [
        (300, 20, r"got 20 with samples=300, of which class 0 has \d+, expected 1 to 50"),
        (30, 1000, r"got 1000 with samples=30, of which class 5 has 0, expected 1 to 50"),
    ],
)
def test_a_long_tail_that_the_classes_do_not_have_is_refused(samples, ratio, message):
    with pytest.raises(BadInput, match=f"partition.iid.long_tail: {message}"):
        assign(f"iid(clients=4, samples={samples}, long_tail={ratio})", shuffled_labels(50))
