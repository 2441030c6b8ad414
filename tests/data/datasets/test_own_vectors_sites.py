"""Tables of vectors that say themselves which site has a row."""

import numpy as np
import pandas as pd
import pytest

from noisyfl.core.options import BadInput
from noisyfl.data import noisy_partition
from noisyfl.data.own_files import OwnFiles
from own_sets import spec
from own_vectors import (
    FEATURES,
    TRAIN,
    given_labels,
    read,
    wanted,
    with_sites,
)
from small_partitions import canonical_of


def test_columns_can_be_left_out(tmp_path):
    _, text = with_sites(tmp_path)
    facts, *_ = read(tmp_path, text)
    assert facts.shape == (1, 1, len(FEATURES))
    with pytest.raises(BadInput, match=r"without: got 'cases'; did you mean 'case'"):
        read(tmp_path, text.replace("'case'", "'cases'"))
    with pytest.raises(BadInput, match=r"without: got \['case'.* and features, expected one of"):
        read(tmp_path, text, features=["age"])


def test_a_table_says_itself_which_site_has_a_row(tmp_path):
    sites, text = with_sites(tmp_path)
    own = OwnFiles(tmp_path, tmp_path / "results")
    partition = "file(path='records.csv', column='site')"
    given = {"dataset": text, "partition": partition, "label_noise": "none", "seed": 1}
    known = canonical_of(given, own=own)
    facts, train, _ = read(tmp_path, text)
    noisy_partition.write(tmp_path / "partition.parquet", known, train.labels, own)
    clients = noisy_partition.read(tmp_path / "partition.parquet").clients
    names = own.client_names(known["partition"])
    rows = [int(name.rpartition(" ")[2]) for name in own.image_names(facts.name).train]
    assert names == ["east", "north", "west"]
    for name, client in zip(names, clients, strict=True):
        assert {sites[rows[sample]] for sample in client.samples} == {name}
    assert sum(len(client.samples) for client in clients) == len(rows)


def test_sites_that_differ_in_capital_letters_are_remarked_on(tmp_path):
    _, text = with_sites(tmp_path)
    path = tmp_path / "records.csv"
    path.write_text(path.read_text().replace("west", "West", 1))
    own = OwnFiles(tmp_path, tmp_path / "results")
    partition = "file(path='records.csv', column='site')"
    canonical_of(
        {"dataset": text, "partition": partition, "label_noise": "none", "seed": 1}, own=own
    )
    expected = "records.csv, site: the clients 'West' and 'west' differ only in capital letters"
    assert expected in own.doubts


def test_another_table_does_not_say_which_site_has_a_vector(tmp_path):
    _, text = with_sites(tmp_path)
    own = OwnFiles(tmp_path, tmp_path / "results")
    (tmp_path / "other.csv").write_bytes((tmp_path / "records.csv").read_bytes())
    given = {"dataset": text, "label_noise": "none", "seed": 1}
    with pytest.raises(BadInput, match=r"other\.csv has .*, expected 'sample'"):
        canonical_of({**given, "partition": "file(path='other.csv', column='site')"}, own=own)
    with pytest.raises(BadInput, match=r"partition\.file\.column: .*expected 'sites'.*'site'"):
        canonical_of({**given, "partition": "file(path='records.csv', column='sites')"}, own=own)


def test_a_tables_own_column_of_samples_does_not_count(tmp_path):
    """Such as that of an exported partition, which counts in another dataset."""
    sites, text = with_sites(tmp_path)
    records = pd.read_csv(tmp_path / "records.csv").assign(sample=np.arange(TRAIN)[::-1])
    records.to_csv(tmp_path / "records.csv", index=False)
    own = OwnFiles(tmp_path, tmp_path / "results")
    dataset = text.replace("'case'", "'case', 'sample'")
    given = {"dataset": dataset, "label_noise": "none", "seed": 1}
    known = canonical_of({**given, "partition": "file(path='records.csv', column='site')"}, own=own)
    kept, names = own.load(known["partition"]["sha256"]), own.client_names(known["partition"])
    facts = own.read(wanted(dataset))
    rows = [int(name.rpartition(" ")[2]) for name in own.image_names(facts.name).train]
    for client, sample in zip(kept["client"], kept["sample"], strict=True):
        assert sites[rows[sample]] == names[client]


def test_given_labels_of_the_same_table_go_with_its_rows(tmp_path):
    _, text = with_sites(tmp_path)
    own = OwnFiles(tmp_path, tmp_path / "results")
    noise = spec(text, own, "file(path='records.csv', key='given')", None)["label_noise"]
    kept = own.load(noise["sha256"])["label"]
    facts = own.read(wanted(text))
    rows = [int(name.rpartition(" ")[2]) for name in own.image_names(facts.name).train]
    assert kept.tolist() == given_labels()[rows].tolist()


@pytest.mark.parametrize(
    ("sites", "message"),
    [
        (["east", ""], r"column: .*'site' is empty in row 1"),
        (["east", "east "], r"column: got the clients 'east' and 'east ', expected one spelling"),
    ],
)
def test_sites_need_one_spelling_each(tmp_path, sites, message):
    _, text = with_sites(tmp_path)
    records = pd.read_csv(tmp_path / "records.csv").assign(site=sites * (TRAIN // 2))
    records.to_csv(tmp_path / "records.csv", index=False)
    own = OwnFiles(tmp_path, tmp_path / "results")
    partition = "file(path='records.csv', column='site')"
    with pytest.raises(BadInput, match=message):
        canonical_of(
            {"dataset": text, "partition": partition, "label_noise": "none", "seed": 1}, own=own
        )
