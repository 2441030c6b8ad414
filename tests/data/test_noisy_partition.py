"""Noisy partitions: from a spec to a file and back."""

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisyfl.core.artifacts import DamagedArtifact, checksum, read_table, write_table
from noisyfl.core.options import BadInput
from noisyfl.core.randomness import stream
from noisyfl.data import noisy_partition
from noisyfl.data.own_files import OwnFiles
from noisyfl.data.remarks import doubt_about, remarks_on
from noisyfl.data.roots import NotRead
from small_partitions import LABELS, SETTING, canonical, canonical_of, made


def test_a_canonical_spec_is_its_own_canonical_spec():
    spec = canonical(partition="dirichlet(clients=5, alpha=1)")
    given = {key: spec[key] for key in noisy_partition.PartitionSpec.model_fields}
    assert canonical_of(given) == spec


def test_all_clean_settings_share_one_spec():
    clean = canonical(label_noise="none", noise_level="none")
    assert clean["label_noise"] == clean["noise_level"] == {"name": "none"}
    assert canonical(noise_level="none") == clean
    assert canonical(label_noise="none") == clean
    without_level = {key: SETTING[key] for key in SETTING if key != "noise_level"}
    assert canonical_of({**without_level, "label_noise": "none"}) == clean


def test_the_checksum_of_human_labels_becomes_part_of_the_spec(tmp_path):
    np.save(tmp_path / "labels.npy", (LABELS + 1) % 10)
    noise = {"label_noise": "human(file='labels.npy')", "noise_level": "none"}
    with pytest.raises(NotRead, match=r"got 'labels\.npy', which has not been read yet"):
        canonical(**noise)
    spec = canonical(data_folder=tmp_path, **noise)
    assert len(spec["label_noise"]["sha256"]) == 64
    path = tmp_path / "partition.parquet"
    own = OwnFiles(tmp_path, tmp_path / "results")
    noisy_partition.write(path, spec, LABELS, own)
    partition = noisy_partition.read(path)
    assert (partition.realised == 1).all()
    assert np.isnan(partition.noise_levels).all()
    for client in partition.clients:
        assert (client.given_label == (LABELS[client.samples] + 1) % 10).all()
    given = f"human(file='labels.npy', sha256='{spec['label_noise']['sha256']}')"
    np.save(tmp_path / "labels.npy", LABELS)
    with pytest.raises(BadInput, match=r"label_noise\.human\.sha256: the labels .* have .* expect"):
        canonical(data_folder=tmp_path, label_noise=given, noise_level="none")
    # With the checksum given, a plan can be made without the file.
    (tmp_path / "labels.npy").unlink()
    planned = canonical(data_folder=tmp_path, label_noise=given, noise_level="none")
    assert planned == spec
    with pytest.raises(BadInput, match=r"spec\.label_noise\.human\.file: cannot read .*none\.npy"):
        canonical(data_folder=tmp_path, label_noise="human(file='none.npy')", noise_level="none")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dataset": "digit"}, r"a\.yaml\.dataset: .*'digit'; did you mean 'digits'"),
        ({"noise": "pair"}, "a.yaml: unknown key 'noise'; did you mean 'noise_level'"),
        ({"seed": -1}, r"a\.yaml\.seed: Input should be greater than or equal to 0 \(got -1\)"),
        ({"partition": "iid"}, r"a\.yaml\.partition\.iid\.clients: Field required"),
        (
            {"dataset": "cifar10", "label_noise": "human(key='worse_label')"},
            r"a\.yaml\.noise_level: got 'constant', expected none",
        ),
    ],
)
def test_bad_specs_are_refused_with_key_and_value(given, message):
    with pytest.raises(BadInput, match=message):
        canonical(where="a.yaml", **given)


@pytest.mark.parametrize("key", ["seed", "noise_level"])
def test_a_missing_key_is_named(key):
    given = {name: value for name, value in SETTING.items() if name != key}
    with pytest.raises(BadInput, match=rf"spec\.{key}: Field required"):
        canonical_of(given, "spec")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"partition": "iid(clients=2000)"}, r"s\.partition\.iid: clients=2000 needs 2000 .* 1437"),
        ({"noise_level": "client_variance(level=0.9, eta=0.4)"}, r"s\.noise_level\.client_var"),
        ({"noise_level": f"groups(levels={[0.1] * 21})"}, "21 groups of clients.*clients=20"),
        (
            {"dataset": "fashion_mnist", "label_noise": "asymmetric(map='classic')"},
            r"s\.label_noise\.asymmetric\.map: got 'classic'",
        ),
        (
            {"label_noise": "mixed", "noise_level": "constant(level=0.3, scope='dataset')"},
            r"s\.noise_level\.constant\.scope: got 'dataset', expected 'client', since mixed",
        ),
    ],
)
def test_what_cannot_be_made_is_found_without_data(given, message):
    with pytest.raises(BadInput, match=message):
        canonical(where="s", **given)


def test_a_spec_of_another_revision_or_dataset_is_not_made():
    with pytest.raises(BadInput, match="spec is of revision 0, and this version makes revision"):
        noisy_partition.make({**canonical(), "revision": 0}, LABELS)
    with pytest.raises(BadInput, match="got 1436 labels, expected the 1437 of the training part"):
        noisy_partition.make(canonical(), LABELS[1:])


NOISES = st.sampled_from(
    [
        {"label_noise": "symmetric(count='bernoulli')"},
        {"label_noise": "pair(direction=-1)", "noise_level": "client_linear(low=0, high=0.4)"},
        {"label_noise": "mixed", "noise_level": "truncnorm(mu=0.4, sigma=0.2)"},
        {"label_noise": "pair4groups", "noise_level": "bernoulli_uniform(rho=0.5, tau=0.5)"},
        {"noise_level": "constant(level=0.4, scope='dataset')"},
        {"label_noise": "none"},
    ]
)
SPLITS = st.sampled_from(
    ["iid(clients=20)", "shard(clients=7, shards=2)", "dirichlet(clients=10, alpha=0.5)"]
)


@settings(max_examples=25, deadline=None)
@given(noise=NOISES, split=SPLITS, seed=st.integers(0, 2**40))
def test_what_is_written_is_what_is_read(tmp_path_factory, noise, split, seed):
    partition = made(tmp_path_factory.mktemp("p"), partition=split, seed=seed, **noise)
    assert partition.spec == canonical(partition=split, seed=seed, **noise)
    assert len(partition.clients) == partition.spec["partition"]["clients"]
    together = np.concatenate([client.samples for client in partition.clients])
    assert len(np.unique(together)) == len(together)
    true, given = (
        np.concatenate([getattr(client, name) for client in partition.clients])
        for name in ("true_label", "given_label")
    )
    assert partition.overall_noise == pytest.approx((true != given).mean())
    for client, realised in zip(partition.clients, partition.realised, strict=True):
        assert (client.true_label == LABELS[client.samples]).all()
        assert (client.given_label != client.true_label).mean() == realised
        for array in (client.samples, client.true_label, client.given_label):
            assert array.dtype == np.int64
            assert array.flags.writeable
            assert len(array) == len(client.samples)


def test_the_same_spec_makes_the_same_bytes(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        noisy_partition.write(tmp_path / name, canonical(seed=seed), LABELS)
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b
    assert a != c


def test_what_is_drawn_for_one_thing_does_not_move_another(tmp_path):
    level = "bernoulli_uniform(rho=0.5, tau=0.2)"
    base = made(tmp_path, noise_level=level)
    split = made(tmp_path, noise_level=level, partition="shard(clients=20, shards=2)")
    noise = made(tmp_path, noise_level=level, label_noise="pair")
    quiet = made(tmp_path, noise_level="constant(level=0.1)")
    assert (base.noise_levels == split.noise_levels).all()
    for other in (noise, quiet):
        pairs = zip(base.clients, other.clients, strict=True)
        assert all((a.samples == b.samples).all() for a, b in pairs)


@pytest.mark.parametrize("split", ["iid(clients=20)", "shard(clients=10, shards=2)"])
def test_batches_of_a_data_set_sorted_by_class_are_as_mixed_as_at_random(split):
    """A client's samples come in passes as they stand; the classes that it has must be mixed."""
    labels = np.sort(LABELS)
    table, _ = noisy_partition.make(canonical(partition=split), labels)
    rng = np.random.default_rng(0)
    ours, random = [], []
    for _, client in table.to_pandas().groupby("client"):
        own = client["true_label"].to_numpy()
        mixed = rng.permutation(own)
        for found, order in ((ours, own), (random, mixed)):
            found += [len(np.unique(order[at : at + 10])) for at in range(0, len(order) - 9, 10)]
    assert np.mean(ours) == pytest.approx(np.mean(random), rel=0.05)


def test_noise_stays_with_its_samples_whatever_their_order(tmp_path, monkeypatch):
    ordered = made(tmp_path).clients
    rng = np.random.default_rng
    monkeypatch.setattr(
        noisy_partition,
        "stream",
        lambda seed, *name: rng(7) if name[0] == "order" else stream(seed, *name),
    )
    for one, other in zip(ordered, made(tmp_path).clients, strict=True):
        assert one.samples.tolist() != other.samples.tolist()
        labels = [dict(zip(c.samples, c.given_label, strict=True)) for c in (one, other)]
        assert labels[0] == labels[1]


def test_dataset_scope_flips_before_the_split(tmp_path):
    level = "constant(level=0.4, scope='dataset')"
    partitions = [
        made(tmp_path, noise_level=level, partition=f"iid(clients={clients}, stratified=True)")
        for clients in (20, 30)
    ]
    given_labels = []
    for partition in partitions:
        whole = np.empty_like(LABELS)
        for client in partition.clients:
            whole[client.samples] = client.given_label
        given_labels.append(whole)
        assert (partition.noise_levels == 0.4).all()
    assert (given_labels[0] == given_labels[1]).all()
    assert (given_labels[0] != LABELS).sum() == round(0.4 * 1437)
    assert partitions[0].realised.std() > 0.02


def test_fedcorrs_noise_level_is_what_the_paper_says(tmp_path):
    rates = [
        made(
            tmp_path,
            partition="iid(clients=100)",
            label_noise="symmetric(include_true=True, count='bernoulli')",
            noise_level="bernoulli_uniform(rho=0.6, tau=0.5)",
            seed=seed,
        ).realised.mean()
        for seed in range(10)
    ]
    assert np.mean(rates) == pytest.approx(0.405, abs=0.03)


def test_the_file_can_be_read_with_pandas_alone(tmp_path):
    partition = made(tmp_path)
    frame = pd.read_parquet(tmp_path / "partition.parquet")
    assert list(frame.columns) == ["client", "sample", "true_label", "given_label"]
    assert frame["client"].is_monotonic_increasing
    wrong = (frame.true_label != frame.given_label).groupby(frame.client).mean()
    np.testing.assert_array_equal(wrong.to_numpy(), partition.realised)


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "partition.parquet"
    write_table(path, pa.table({"round": [1]}), {})
    with pytest.raises(DamagedArtifact, match="not a noisy partition"):
        noisy_partition.read(path)
    with pytest.raises(FileNotFoundError):
        noisy_partition.read(tmp_path / "none.parquet")


def test_a_file_of_a_revision_that_there_is_not_is_refused(tmp_path):
    made(tmp_path)
    path = tmp_path / "partition.parquet"
    table, metadata = read_table(path)
    write_table(path, table, {**metadata, "revision": 99})
    with pytest.raises(DamagedArtifact, match=r"partition\.parquet: it is of revision 99, and"):
        noisy_partition.read(path)


def test_the_revision_stands_for_the_bytes_that_are_made():
    """If this fails the arithmetic has changed: raise REVISION, then note the new checksums."""
    specs = {
        "dd34ffae6fa062df": {
            "partition": "bernoulli_dirichlet(clients=20, p=0.7, alpha=10)",
            "label_noise": "symmetric(include_true=True, count='bernoulli')",
            "noise_level": "bernoulli_uniform(rho=0.6, tau=0.5)",
        },
        "fcbe32f9b6d8d29b": {
            "partition": "shard(clients=20, shards=2)",
            "label_noise": "mixed(count='floor')",
            "noise_level": "client_linear(low=0, high=0.4, ramps=2)",
        },
    }
    tables = [noisy_partition.make(canonical(**given), LABELS)[0] for given in specs.values()]
    assert [checksum(table)[:16] for table in tables] == list(specs)
    assert noisy_partition.REVISION == 2


@pytest.mark.parametrize(
    ("noise", "level", "clients", "said"),
    [
        ("symmetric", "constant(level=0.5)", 287, "flips 60% .* of clients with 5 samples, .* 50%"),
        ("pair", "constant(level=0.4)", 1437, "flips 0% .* of clients with 1 samples, .* say 40%"),
        ("symmetric(count='floor')", "constant(level=0.5)", 287, "count=floor flips 40% .* 50%"),
        ("symmetric(count='floor')", "constant(level=0.5)", 31, None),
        ("symmetric(count='bernoulli')", "constant(level=0.5)", 287, None),
        ("symmetric", "constant(level=0.4)", 287, None),
        ("symmetric", "uniform(low=0, high=1)", 287, None),
        ("symmetric", "constant(level=0.5, scope='dataset')", 287, None),
        ("none", "none", 1437, None),
    ],
)
def test_clients_too_small_for_their_levels_are_remarked_on(noise, level, clients, said):
    spec = canonical(partition=f"iid(clients={clients})", label_noise=noise, noise_level=level)
    remarks = remarks_on(spec)
    assert len(remarks) == (said is not None)
    if said:
        assert re.search(said, remarks[0])


@pytest.mark.parametrize(("shift", "doubted"), [(0, False), (1, True)])
def test_labels_from_a_file_are_compared_once_the_true_ones_are_known(tmp_path, shift, doubted):
    given = np.where(np.arange(1437) % 3 > 0, LABELS, (LABELS + 1) % 10)
    np.save(tmp_path / "labels.npy", (given + shift * np.arange(1437)) % 10)
    spec = canonical(
        data_folder=tmp_path, label_noise="file(path='labels.npy')", noise_level="none"
    )
    path = tmp_path / "partition.parquet"
    noisy_partition.write(path, spec, LABELS, OwnFiles(tmp_path, tmp_path / "results"))
    assert bool(doubt_about(path)) == doubted
