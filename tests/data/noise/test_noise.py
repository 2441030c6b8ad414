"""Label noises: which labels are flipped, and into what."""

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chisquare

from noisyfl.core.options import BadInput
from noisyfl.data.datasets.classes import CIFAR100_SUPERCLASSES
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.data.noise.label_noise import LABEL_NOISES, Context
from noisyfl.data.noise.transitions import MAPS
from noisyfl.data.own_files import OwnFiles

CIFAR10 = DATASETS["cifar10"]


def build_noise(text):
    return LABEL_NOISES.build(text, "label_noise")


def flip(text, clients, levels, dataset="cifar10", seed=0):
    return build_noise(text).flip(clients, np.asarray(levels), Context(DATASETS[dataset], seed))


def same_clients(n_clients, per_class, classes=10):
    return [np.repeat(np.arange(classes), per_class) for _ in range(n_clients)]


def transition_counts(true, given, classes=10):
    counts = np.zeros((classes, classes), dtype=int)
    np.add.at(counts, (np.concatenate(true), np.concatenate(given)), 1)
    return counts


EVERY_FLIPPING = [
    "symmetric",
    "symmetric(include_true=True)",
    "symmetric(noise_classes=3)",
    "pair",
    "pair(direction=-1)",
    "client_pair",
    "asymmetric(map='classic')",
    "asymmetric(map='full')",
    "mixed",
    "pair4groups",
    "class_noise",
    "local(kind='symmetric')",
    "local(kind='pair')",
]


@pytest.mark.parametrize("text", [*EVERY_FLIPPING, "none"])
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), level=st.floats(0, 1))
def test_given_labels_are_labels_and_true_labels_are_left_alone(text, seed, level):
    clients = same_clients(4, 7)
    given_labels = flip(text, clients, [level] * 4, seed=seed)
    assert [part.tolist() for part in clients] == [part.tolist() for part in same_clients(4, 7)]
    for true, got in zip(clients, given_labels, strict=True):
        assert got.shape == true.shape
        assert got.dtype == np.int64
        assert ((got >= 0) & (got < 10)).all()
    again = flip(text, clients, [level] * 4, seed=seed)
    assert all((a == b).all() for a, b in zip(given_labels, again, strict=True))


def test_a_whole_number_of_labels_is_flipped_though_its_product_is_just_below_it():
    assert 0.29 * 100 < 29
    (true,) = same_clients(1, 10)
    (flipped,) = flip("symmetric(count='floor')", [true], [0.29])
    assert (true != flipped).sum() == 29


@pytest.mark.parametrize("text", EVERY_FLIPPING)
def test_the_flips_of_a_client_depend_on_the_seed_and_its_number_alone(text):
    clients = same_clients(8, 20)
    first = flip(text, clients, [0.5] * 8)
    changed = flip(text, [clients[0][:50], *clients[1:]], [0.1, *[0.5] * 7])
    assert all((a == b).all() for a, b in zip(first[1:], changed[1:], strict=True))
    other = flip(text, clients, [0.5] * 8, seed=1)
    assert any((a != b).any() for a, b in zip(first, other, strict=True))
    wrong = [labels != clients[0] for labels in first]
    assert (wrong[0] != wrong[1]).any()


@given(n=st.integers(1, 300), level=st.floats(0, 1), seed=st.integers(0, 99))
def test_exact_and_floor_counts_are_what_they_say(n, level, seed):
    labels = np.arange(n) % 10
    exact = int(level * n + 0.5 + 1e-9) if n <= 25 else round(level * n)
    for count, expected in (("exact", exact), ("floor", int(level * n + 1e-9))):
        (got,) = flip(f"pair(count='{count}')", [labels], [level], seed=seed)
        assert (got != labels).sum() == expected


@pytest.mark.parametrize(
    ("level", "n", "expected"),
    [
        (0.5, 1, 1),
        (0.1, 25, 3),
        (0.5, 357, 178),
    ],
)
def test_half_a_label_is_rounded_up_where_it_matters(level, n, expected):
    labels = np.arange(n) % 10
    (got,) = flip("pair", [labels], [level])
    assert (got != labels).sum() == expected


def test_floor_counts_follow_fedrns_ramp():
    clients = same_clients(100, 50)
    levels = 0.004 * np.arange(100)
    got = flip("symmetric(count='floor')", clients, levels)
    flipped = [(a != b).sum() for a, b in zip(got, clients, strict=True)]
    assert flipped == [2 * k for k in range(100)]


def test_bernoulli_counts_are_binomial():
    clients = same_clients(60, 50)
    got = flip("pair(count='bernoulli')", clients, [0.3] * 60)
    flipped = np.array([(a != b).sum() for a, b in zip(got, clients, strict=True)])
    low, high = binom.interval(1 - 1e-6, 500, 0.3)
    assert ((flipped >= low) & (flipped <= high)).all()
    assert flipped.std() == pytest.approx(binom.std(500, 0.3), rel=0.4)


def assert_uniform_over(counts, kept, wrong):
    """A row of transition counts: its kept labels, and a fair share for each wrong one."""
    for label, row in enumerate(counts):
        assert row[label] == pytest.approx(kept, abs=5 * np.sqrt(kept) + 1e-9)
        others = [c for c in wrong if c != label]
        assert row.sum() == row[label] + row[others].sum()
        assert chisquare(row[others]).pvalue > 1e-4


def test_symmetric_noise_is_uniform_over_the_other_classes():
    clients = same_clients(10, 400)
    counts = transition_counts(clients, flip("symmetric", clients, [0.45] * 10))
    assert counts.trace() == 0.55 * 40_000
    assert_uniform_over(counts, 0.55 * 4000, range(10))


def test_symmetric_noise_with_the_true_class_changes_less():
    clients = same_clients(10, 400)
    counts = transition_counts(clients, flip("symmetric(include_true=True)", clients, [0.4] * 10))
    assert_uniform_over(counts, (0.6 + 0.04) * 4000, range(10))
    realised = 1 - counts.trace() / counts.sum()
    assert realised == pytest.approx(0.4 * (1 - 1 / 10), abs=0.005)


@pytest.mark.parametrize("include_true", [True, False])
def test_noise_can_be_drawn_from_the_first_classes_only(include_true):
    clients = same_clients(10, 40, classes=100)
    text = f"symmetric(include_true={include_true}, noise_classes=10)"
    got = flip(text, clients, [1.0] * 10, dataset="cifar100")
    counts = transition_counts(clients, got, classes=100)
    assert counts[:, 10:].sum() == 0
    assert chisquare(counts[10:, :10].sum(axis=0)).pvalue > 1e-4
    assert (np.diagonal(counts)[:10] > 0).all() == include_true


@pytest.mark.parametrize(("text", "step"), [("pair", 1), ("pair(direction=-1)", -1)])
def test_pair_noise_leads_to_the_neighbouring_class(text, step):
    clients = same_clients(2, 50)
    for true, got in zip(clients, flip(text, clients, [0.4, 0.4]), strict=True):
        changed = true != got
        assert changed.sum() == 200
        assert (got[changed] == (true[changed] + step) % 10).all()


def names(dataset, kind):
    classes = DATASETS[dataset].classes
    table = MAPS[dataset, kind]
    return {classes[a]: classes[b] for a, b in enumerate(table) if a != b}


@pytest.mark.parametrize("dataset", ["cifar10_validation", "cifar10_with_svhn"])
@pytest.mark.parametrize(
    "noise", ['asymmetric(map="full")', 'asymmetric(map="classic")', "pair4groups"]
)
def test_datasets_made_of_others_have_the_maps_of_their_classes(dataset, noise):
    clients = same_clients(4, 10)
    for one, other in zip(
        flip(noise, clients, [1.0] * 4, dataset=dataset),
        flip(noise, clients, [1.0] * 4, dataset="cifar10"),
        strict=True,
    ):
        assert (one == other).all()


def test_the_classic_maps_are_patrinis():
    assert names("cifar10", "classic") == {
        "truck": "automobile",
        "bird": "airplane",
        "deer": "horse",
        "cat": "dog",
        "dog": "cat",
    }
    expected = {"2": "7", "3": "8", "7": "1", "5": "6", "6": "5"}
    assert names("mnist", "classic") == names("digits", "classic") == expected


def test_the_full_map_keeps_the_classic_arrows_and_spares_no_class():
    full = names("cifar10", "full")
    assert full.items() >= names("cifar10", "classic").items()
    assert sorted(full.values()) == sorted(CIFAR10.classes)
    assert len(full) == 10


def test_full_noise_is_a_permutation_that_moves_every_class():
    """Within the superclass on CIFAR-100; to the next class where a dataset has no map."""
    arrows = {}
    for dataset, count in (("cifar10", 10), ("cifar100", 100), ("digits", 10)):
        classes = DATASETS[dataset].classes
        (got,) = flip("asymmetric(map='full')", [np.arange(count)], [1.0], dataset=dataset)
        assert sorted(got) == list(range(count))
        assert (got != np.arange(count)).all()
        arrows[dataset] = {classes[a]: classes[b] for a, b in enumerate(got)}
    assert arrows["cifar10"] == names("cifar10", "full")
    assert arrows["cifar100"]["beaver"] == "dolphin"
    assert arrows["cifar100"]["whale"] == "beaver"
    superclass = dict(zip(DATASETS["cifar100"].classes, CIFAR100_SUPERCLASSES, strict=True))
    assert all(superclass[a] == superclass[b] for a, b in arrows["cifar100"].items())
    assert arrows["digits"] == {str(digit): str((digit + 1) % 10) for digit in range(10)}


def test_classic_noise_leaves_some_classes_as_they_are():
    clients = same_clients(1, 200)
    (got,) = flip("asymmetric(map='classic')", clients, [0.6])
    changed = clients[0] != got
    assert 0.25 < changed.mean() < 0.35
    assert set(clients[0][changed]) == {2, 3, 4, 5, 9}


def test_mixed_noise_is_symmetric_in_the_first_half_and_pair_in_the_second():
    clients = same_clients(5, 200)
    got = flip("mixed", clients, [0.5] * 5)
    symmetric = transition_counts(clients[:3], got[:3])
    assert_uniform_over(symmetric, 0.5 * 600, range(10))
    for true, labels in zip(clients[3:], got[3:], strict=True):
        changed = true != labels
        assert changed.sum() == 1000
        assert (labels[changed] == (true[changed] - 1) % 10).all()


def test_each_client_has_a_pair_of_its_own():
    clients = same_clients(40, 10)
    shifts = []
    for true, labels in zip(clients, flip("client_pair", clients, [0.5] * 40), strict=True):
        changed = true != labels
        assert changed.mean() == 0.5
        (shift,) = {*((labels - true)[changed] % 10)}
        shifts.append(shift)
    assert set(shifts) == set(range(1, 10))


@pytest.mark.parametrize("dataset", ["cifar10", "mnist"])
def test_four_groups_of_clients_have_four_maps(dataset):
    clients = same_clients(20, 10)
    got = flip("pair4groups", clients, [1.0] * 20, dataset=dataset)
    maps = [tuple(labels[::10]) for labels in got]
    assert len(set(maps)) == 4
    assert {maps.count(item) for item in maps} == {5}
    assert maps[:5] != [maps[0]] * 5
    for label in range(10):
        assert len({item[label] for item in maps} | {label}) == 5
    first = MAPS["cifar10", "full"] if dataset == "cifar10" else (np.arange(10) + 1) % 10
    assert tuple(first) in maps


HALF_OF_FOURS = [[float(i == j) for j in range(10)] for i in range(10)]
"""A transition matrix: half of the fours are called nine, and a quarter each zero and four."""
HALF_OF_FOURS[4] = [0.25, 0, 0, 0, 0.25, 0, 0, 0, 0, 0.5]


def test_a_matrix_has_the_chances_of_the_given_labels():
    clients = same_clients(3, 400)
    given_labels = flip(f"matrix(rows={HALF_OF_FOURS})", clients, [0.0] * 3)
    counts = transition_counts(clients, given_labels)
    others = np.delete(counts, 4, axis=0)
    assert (others == 1200 * np.delete(np.eye(10), 4, axis=0)).all()
    assert set(np.flatnonzero(counts[4])) == {0, 4, 9}
    assert chisquare(counts[4, [0, 4, 9]], [300, 300, 600]).pvalue > 1e-4
    assert (given_labels[0] != given_labels[1]).any()
    changed = flip(f"matrix(rows={HALF_OF_FOURS})", [clients[0][:50], *clients[1:]], [0.0] * 3)
    assert all((a == b).all() for a, b in zip(given_labels[1:], changed[1:], strict=True))


def test_rows_of_a_matrix_may_be_rounded_but_have_to_fit():
    thirds = [[0.3333, 0.3333, 0.3333, *[0] * 7] for _ in range(10)]
    (got,) = flip(f"matrix(rows={thirds})", [np.zeros(3000, dtype=np.int64)], [0.0])
    assert set(got) == {0, 1, 2}
    for rows, words in (
        (HALF_OF_FOURS[1:], "got 9 rows, expected 10, the classes of cifar10"),
        ([*HALF_OF_FOURS[1:], [1.0]], "class truck: got 1 numbers, expected 10, one a class"),
        ([[0.5] * 10, *HALF_OF_FOURS[1:]], "class airplane: the sum is 5, expected 1"),
    ):
        with pytest.raises(BadInput, match=re.escape(words)):
            build_noise({"name": "matrix", "rows": rows}).check(CIFAR10, 5)


def test_class_noise_spoils_one_class_that_the_client_holds():
    clients = [np.repeat([1, 4, 7], 100), *same_clients(5, 100)]
    spoiled = []
    for true, got in zip(clients, flip("class_noise", clients, [0.2] * 6), strict=True):
        wrong = {label: (got != true)[true == label].mean() for label in np.unique(true)}
        (ruined,) = [label for label, share in wrong.items() if share == 1]
        spoiled.append(ruined)
        others = true != ruined
        assert (got != true)[others].sum() == 0.2 * others.sum()
    assert spoiled[0] in (1, 4, 7)
    assert len(set(spoiled)) > 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("symmetric(count='some')", r"symmetric\.count: Input should be 'exact'"),
        ("symetric", "no label noise is called 'symetric'; did you mean 'symmetric'"),
    ],
)
def test_bad_options_of_a_noise_are_refused(text, message):
    with pytest.raises(BadInput, match=message):
        build_noise(text)


@pytest.mark.parametrize(
    ("text", "dataset", "message"),
    [
        (
            "asymmetric(map='classic')",
            "fashion_mnist",
            r"map: got 'classic', which fashion_mnist does not have "
            r"\(cifar10, digits, mnist do\); use 'full'",
        ),
        ("symmetric(noise_classes=11)", "cifar10", "noise_classes: got 11, expected at most 10"),
        ("pair4groups", "cifar10", "needs at least 4 clients, got clients=1"),
        ("mixed", "cifar10", "needs at least 2 clients, got clients=1"),
        ("human", "cifar100", r"key: got null, expected the name of an array"),
        ("human(key='x')", "mnist", r"file: got null, .* no human labels are known"),
    ],
)
def test_noise_that_cannot_be_is_found_before_any_job(text, dataset, message):
    with pytest.raises(BadInput, match=message):
        build_noise(text).check(DATASETS[dataset], 1)


def test_four_maps_need_classes_to_differ_in():
    with pytest.raises(BadInput, match="got covidx with 3 classes, expected at least 7"):
        build_noise("pair4groups").check(DATASETS["covidx"], 20)


SMALL = dataclasses.replace(CIFAR10, train_size=30)


def test_the_order_of_a_datasets_labels_that_were_not_known_before_is_checked_by_the_job(tmp_path):
    labels = np.arange(30) % 10
    np.savez(tmp_path / "a.npz", worse=labels, clean_label=labels[::-1])
    own = OwnFiles(tmp_path, tmp_path / "results")
    noise = build_noise("file(path='a.npz', key='worse')").resolve(SMALL, own)
    with pytest.raises(BadInput, match=r"^path: the file has its labels in another order than cif"):
        noise.flip([labels], np.zeros(1), Context(SMALL, 0, own))
