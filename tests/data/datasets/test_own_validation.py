"""A tenth of one's own training images stands for the test part."""

import csv

import numpy as np
import pytest

import own_sets
from noisyfl.core.options import BadInput
from noisyfl.data import noisy_partition
from noisyfl.data.datasets.parts import read_part
from noisyfl.data.image_names import ImageNames
from noisyfl.data.own_files import OwnFiles
from noisyfl.experiments.comparison_input import read_comparison
from own_sets import CLASSES, TRAIN, given_labels, wanted
from small_partitions import canonical_of

HELD_OUT = 2
CLIENTS = np.arange(TRAIN) % 3
NO_NOISE = {"label_noise": "none", "noise_level": "none", "seed": 1}


def held_out(folder, text):
    """What is known of the validation dataset, its parts, what reads it, and the row of the whole
    training part of each of its training images.
    """
    own = OwnFiles(folder, folder / "results")
    facts = own.read(wanted(text, validation=True))
    parts = [read_part(own.results.data(facts.name, part)) for part in ("train", "test")]
    images, _ = own_sets.arrays()["train"]
    all_rows = {image.tobytes(): row for row, image in enumerate(images)}
    return own, facts, parts, np.array([all_rows[one.tobytes()] for one in parts[0].images])


@pytest.mark.parametrize("make", own_sets.FORMATS.values())
def test_the_training_part_is_split_and_the_test_part_is_not_read(make, tmp_path):
    own, facts, (train, test), rows = held_out(tmp_path, make(tmp_path))
    images, labels = own_sets.arrays()["train"]
    assert (facts.train_size, facts.test_size) == (TRAIN - HELD_OUT, HELD_OUT)
    assert train.labels.tolist() == labels[rows].tolist()
    rest = np.setdiff1d(np.arange(TRAIN), rows)
    np.testing.assert_array_equal(test.images, images[rest])
    assert facts.title.endswith(", validation")
    whole = own.read(wanted(make(tmp_path)))
    assert (whole.train_size, whole.whole) == (TRAIN, 0)
    assert whole.name != facts.name


def test_what_test_share_leaves_is_split_again(tmp_path):
    text = own_sets.as_csv(tmp_path).replace("test='test.csv'", "test_share=0.25")
    _, facts, *_ = held_out(tmp_path, text)
    assert (facts.train_size, facts.test_size, facts.whole) == (16, 2, 18)


def test_given_labels_are_those_of_the_images_that_are_left(tmp_path):
    text = own_sets.as_csv(tmp_path).replace("test=", "given='given', test=")
    own, facts, _, rows = held_out(tmp_path, text)
    assert own.load(facts.given)["label"].tolist() == given_labels()[rows].tolist()


def listed(folder, columns):
    """A file with a row for each image of the whole training part, in another order if it has their
    names.
    """
    labels = own_sets.arrays()["train"][1]
    values = {
        "image": [f"{CLASSES[label]}/{row:03d}.png" for row, label in enumerate(labels)],
        "sample": range(TRAIN),
        "client": CLIENTS.tolist(),
        "label": [CLASSES[label] for label in given_labels()],
    }
    order = range(TRAIN)[:: -1 if "image" in columns or "sample" in columns else 1]
    with (folder / "rows.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(columns)
        lines.writerows([values[name][row] for name in columns] for row in order)
    return "rows.csv"


@pytest.mark.parametrize("columns", [["label"], ["image", "label"]])
def test_files_of_labels_are_those_of_the_whole_training_part(columns, tmp_path):
    own, facts, _, rows = held_out(tmp_path, own_sets.as_csv(tmp_path))
    kept = own.load(own.labels(listed(tmp_path, columns), "label", facts))["label"]
    assert kept.tolist() == given_labels()[rows].tolist()
    (tmp_path / "few.csv").write_text("label\n" + "ant\n" * (TRAIN - HELD_OUT))
    with pytest.raises(BadInput, match=f"one for each of {TRAIN} rows"):
        own.labels("few.csv", "label", facts)


@pytest.mark.parametrize(
    "columns", [["client", "sample"], ["client", "image"], ["client", "sample", "image"]]
)
def test_files_of_clients_are_those_of_the_whole_training_part(columns, tmp_path):
    own, facts, _, rows = held_out(tmp_path, own_sets.as_csv(tmp_path))
    sha256, clients, samples = own.clients(listed(tmp_path, columns), facts)
    assert (clients, samples) == (3, TRAIN - HELD_OUT)
    kept = own.load(sha256)
    assert CLIENTS[rows][kept["sample"]].tolist() == kept["client"].tolist()
    assert sorted(kept["sample"]) == list(range(TRAIN - HELD_OUT))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([(0, 0), (0, TRAIN)], f"sample is none of the {TRAIN} training samples"),
        ([(0, 0), (0, 0)], "sample is there twice"),
        ("last held out", "all samples of client 1 are held out for validation"),
        ("all held out", "all samples of client 0 are held out for validation"),
        ("held out", "all samples of client 1 are held out for validation"),
    ],
)
def test_files_of_clients_that_do_not_fit_are_refused(lines, said, tmp_path):
    own, facts, _, rows = held_out(tmp_path, own_sets.as_csv(tmp_path))
    if "held out" in lines:
        (one, *_) = np.setdiff1d(np.arange(TRAIN), rows).tolist()
        lines = {
            "held out": [(0, int(rows[0])), (1, one), (2, int(rows[1]))],
            "last held out": [(0, int(rows[0])), (1, one)],
            "all held out": [(0, one)],
        }[lines]
    rows_text = "\n".join(f"{client},{sample}" for client, sample in lines)
    (tmp_path / "rows.csv").write_text(f"client,sample\n{rows_text}\n")
    with pytest.raises(BadInput, match=said):
        own.clients("rows.csv", facts)


def test_a_sample_that_is_not_the_image_beside_it_is_refused(tmp_path):
    own, facts, _, rows = held_out(tmp_path, own_sets.as_csv(tmp_path))
    first, second = rows[:2].tolist()
    (tmp_path / "rows.csv").write_text(f"client,sample,image\n0,{first},ant/{second:03d}.png\n")
    with pytest.raises(BadInput, match=rf"sample {first} is .*{first:03d}\.png, and 'image' has"):
        own.clients("rows.csv", facts)


def test_a_held_out_sample_that_is_not_the_image_beside_it_is_refused(tmp_path):
    own, facts, _, rows = held_out(tmp_path, own_sets.as_csv(tmp_path))
    (one, *_) = np.setdiff1d(np.arange(TRAIN), rows).tolist()
    (tmp_path / "rows.csv").write_text(f"client,sample,image\n0,{one},nonsense.png\n")
    with pytest.raises(BadInput, match=r"'image' has 'nonsense\.png'"):
        own.clients("rows.csv", facts)


def test_files_may_name_the_test_images_too(tmp_path):
    text = own_sets.as_csv(tmp_path).replace("test='test.csv'", "test_share=0.25")
    file = listed(tmp_path, ["client", "image", "label"])
    own, facts, _, rows = held_out(tmp_path, text)
    kept = own.load(own.clients(file, facts)[0])
    assert CLIENTS[rows][kept["sample"]].tolist() == kept["client"].tolist()
    labels = own.load(own.labels(file, "label", facts))["label"]
    assert labels.tolist() == given_labels()[rows].tolist()


def test_a_name_that_a_held_out_image_has_too_is_not_anothers():
    names = ImageNames(["a/1.png", "b/1.png", "a/2.png"], ["c/2.png"], np.array([0, -1, 1]))
    assert names.train == ["a/1.png", "a/2.png"]
    assert names.samples(["2.png", "b/1.png"], "here").tolist() == [2, 1]
    with pytest.raises(BadInput, match="the end of several training images' paths"):
        names.samples(["1.png"], "here")
    assert names.rows_of(["b/1.png", "a/2.png", "a/1.png", "c/2.png"], "here").tolist() == [2, 1]


def test_files_that_have_changed_are_not_taken_for_the_same(tmp_path):
    own, facts, *_ = held_out(tmp_path, own_sets.as_npz(tmp_path))
    (tmp_path / "set.npz").unlink()
    with pytest.raises(BadInput, match="its files have changed; plan its scale again"):
        own.clients(listed(tmp_path, ["client", "sample"]), facts)


def test_values_of_options_are_chosen_on_it(tmp_path):
    text = own_sets.as_csv(tmp_path)
    own = OwnFiles(tmp_path, tmp_path / "results")
    clients = f"file(path={listed(tmp_path, ['client', 'sample'])!r})"
    setting = {
        "dataset": text,
        "partition": clients,
        "rounds": 2,
        "label_noise": "symmetric",
        "noise_level": 0.2,
    }
    methods = ["fedavg", "fedprox(mu=[0.1, 1])"]
    comparison = read_comparison(methods, setting, own, seeds=1)
    first = comparison.on_validation()
    sizes = {
        (
            spec["noisy_partition"]["dataset"]["train_size"],
            spec["noisy_partition"]["dataset"]["test_size"],
        )
        for spec in first.runs.values()
    }
    assert sizes == {(TRAIN - HELD_OUT, HELD_OUT)}
    again = read_comparison(
        methods, {**setting, "dataset": f"{text[:-1]}, validation=true)"}, own, seeds=1
    )
    with pytest.raises(BadInput, match="is a validation part already"):
        again.on_validation()
    last = comparison.choose({"fedprox(mu=0.1)": 1, "fedprox(mu=1)": 2})
    assert {s["noisy_partition"]["dataset"]["train_size"] for s in last.runs.values()} == {TRAIN}


def test_a_stored_partition_gives_the_clients_the_samples_that_it_has(tmp_path):
    """Its samples are numbers of those that are left, not of the whole training part."""
    own, facts, (train, _), _ = held_out(tmp_path, own_sets.as_csv(tmp_path))
    text = "images(path='train.csv', test='test.csv', validation=true)"
    path = tmp_path / "partition.parquet"
    found = []
    for partition in ("iid(clients=2)", f"file(path='{path}')"):
        made = canonical_of({**NO_NOISE, "dataset": text, "partition": partition}, own=own)
        noisy_partition.write(path, made, train.labels, own)
        clients = noisy_partition.read(path).clients
        found.append([sorted(client.samples.tolist()) for client in clients])
    assert found[0] == found[1]
    assert sorted(found[0][0] + found[0][1]) == [*range(facts.train_size)]


def test_a_file_of_clients_with_test_images_alone_is_refused(tmp_path):
    own_sets.as_csv(tmp_path)
    rows = [(line.split(",")[0], n % 2) for n, line in enumerate(lines(tmp_path / "test.csv")[1:])]
    with (tmp_path / "sites.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("image", "client"), *rows])
    own = OwnFiles(tmp_path, tmp_path / "results")
    text = "images(path='train.csv', test='test.csv')"
    with pytest.raises(BadInput, match=r"sites\.csv: it lists no training sample of"):
        canonical_of({**NO_NOISE, "dataset": text, "partition": "file(path='sites.csv')"}, own=own)


def lines(path):
    return path.read_text().splitlines()
