"""From an empty folder: one's own images and clients, and which labels are wrong."""

import csv
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import noisyfl
from noisyfl.__main__ import main
from noisyfl.analysis.audit import clients_of, confused_classes, samples_of, scores_of, suspected
from noisyfl.core.artifacts import read_table
from noisyfl.core.options import BadInput
from noisyfl.data.datasets.own_images import RequestedImages
from noisyfl.data.datasets.parts import read_part
from noisyfl.data.own_files import OwnFiles
from noisyfl.experiments.audit import worth_reading
from small_runs import spec_of

CLIENTS, WRONG, TRAIN = 5, 5, 1_400
SITES = ("Aachen", "Bonn", "Köln", "Mainz", "Trier")


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(lines)


def own_images(folder):
    """Digits as PNGs, five of which have a wrong label; returns which."""
    digits, rng = load_digits(), np.random.default_rng(1)
    wrong = sorted(rng.choice(TRAIN, WRONG, replace=False).tolist())
    rows = []
    for number, (image, label) in enumerate(zip(digits.images, digits.target, strict=True)):
        file = folder / "images" / f"{number:04d}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((image * 15).astype(np.uint8)).save(file)
        given = (label + 1 + rng.integers(9)) % 10 if number in wrong else label
        rows.append([f"images/{number:04d}.png", f"digit_{given}"])
    write(folder / "train.csv", [["image", "label"], *rows[:TRAIN]])
    write(folder / "test.csv", [["image", "label"], *rows[TRAIN:]])
    sites = [[SITES[rng.integers(CLIENTS)], sample] for sample in range(TRAIN)]
    write(folder / "sites.csv", [["client", "sample"], *sites])
    return wrong


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """A folder with an audit of the default methods, the wrong samples, and what was printed."""
    folder = tmp_path_factory.mktemp("audit")
    wrong = own_images(folder / "data" / "mine")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["noisyfl", "audit", *SETTING])
        main()
    return folder, wrong


SETTING = [
    *("--data", 'images(path="mine/train.csv", test="mine/test.csv")'),
    *("--partition", 'file(path="mine/sites.csv")', "--participation", "0.4", "--device", "cpu"),
    *("--rounds", "12", "--jobs", "1"),
]


@pytest.mark.slow
def test_planted_wrong_labels_are_at_the_top(audited):
    folder, wrong = audited
    samples = pd.read_csv(folder / "audit" / "samples.csv")
    assert len(samples) == TRAIN
    assert sorted(samples["sample"].head(WRONG)) == wrong
    assert samples["suspicion"].is_monotonic_decreasing
    first = samples.head(WRONG)
    assert (first["given_label"] != first["suggested_label"]).all()
    digits = load_digits().target
    assert [f"digit_{digits[one]}" for one in first["sample"]] == first["suggested_label"].tolist()
    for _, row in first.iterrows():
        assert row["image"] == f"data/mine/images/{row['sample']:04d}.png"
    assert (samples["runs"] == 2).all()
    assert (
        samples["judged_by"].isin([1, 2]).all()
    )  # FedRN judges whoever takes part after its warm-up
    assert not samples["in_sample"].any()
    parquet = read_table(folder / "audit" / "samples.parquet")[0].to_pandas()
    assert parquet["sample"].tolist() == samples["sample"].tolist()


@pytest.mark.slow
def test_each_client_has_a_row_and_a_page(audited):
    folder, _ = audited
    clients = pd.read_csv(folder / "audit" / "clients.csv")
    assert sorted(clients["client"]) == list(range(CLIENTS))
    assert clients["samples"].sum() == TRAIN
    assert clients["suspected"].sum() >= WRONG - 1
    assert clients["flagged"].isin([0, 1]).all()
    page = (folder / "audit" / "index.html").read_text()
    assert page.count("data:image/png;base64,") >= WRONG
    assert "did not take part" in page
    for client in range(CLIENTS):
        own = (folder / "audit" / f"client_{client}.html").read_text()
        assert f"<h1>{SITES[client]}</h1>" in own
        assert f'<a href="client_{client}.html">{SITES[client]}</a>' in page


@pytest.mark.slow
def test_clients_are_called_by_their_names_and_labels_are_corrected(audited):
    folder, _ = audited
    samples, clients = (
        pd.read_csv(folder / "audit" / f"{name}.csv") for name in ("samples", "clients")
    )
    for table in (samples, clients):
        assert table["client_name"].tolist() == [SITES[number] for number in table["client"]]
    suspected = samples["suspected"]
    assert (samples["corrected_label"] == samples["suggested_label"])[suspected].all()
    assert (samples["corrected_label"] == samples["given_label"])[~suspected].all()
    digits = load_digits().target
    true = samples["sample"].map(lambda sample: f"digit_{digits[sample]}")
    assert (samples["given_label"] != true).sum() == WRONG
    assert (samples["corrected_label"] != true).sum() < WRONG


@pytest.mark.slow
def test_runs_are_audited_again_without_training(audited, monkeypatch, capsys):
    folder, _ = audited
    monkeypatch.chdir(folder)
    monkeypatch.setattr("noisyfl.experiments.places.train_all", None)
    runs = sorted(path.name for path in (folder / "results" / "runs").iterdir())
    monkeypatch.setattr(sys, "argv", ["noisyfl", "audit", *runs, "--to", "again"])
    main()
    one, two = (pd.read_csv(folder / name / "samples.csv") for name in ("audit", "again"))
    assert set(one["sample"].head(WRONG)) == set(two["sample"].head(WRONG))
    assert "again/index.html" in capsys.readouterr().out

    found = noisyfl.audit(runs=runs, device="cpu")
    assert found.samples["sample"].tolist() == two["sample"].tolist()
    assert found.scores == {}
    found.write("from_python")
    for name in ("samples.csv", "clients.csv", "classes.csv", "index.html"):
        assert (folder / "from_python" / name).read_bytes() == (
            folder / "again" / name
        ).read_bytes()
    with pytest.raises(BadInput, match="runs: expected either runs, or a method and its setting"):
        noisyfl.audit(["fedavg"], runs=runs)


@pytest.mark.slow
def test_an_audit_of_fewer_clients_leaves_no_page_of_others(audited, monkeypatch):
    folder, _ = audited
    monkeypatch.chdir(folder)
    stale, foreign = (folder / "again" / f"client_{name}.html" for name in (CLIENTS, "list"))
    stale.parent.mkdir(exist_ok=True)
    stale.touch()
    foreign.touch()
    run, *_ = (path.name for path in (folder / "results" / "runs").iterdir())
    monkeypatch.setattr(sys, "argv", ["noisyfl", "audit", run, "--to", "again"])
    main()
    pages = {foreign.name, *(f"client_{client}.html" for client in range(CLIENTS))}
    assert {path.name for path in stale.parent.glob("client_*.html")} == pages
    monkeypatch.setattr(sys, "argv", ["noisyfl", "audit", run, run])
    with pytest.raises(SystemExit, match=f"RUN: .*{run}"):
        main()


@pytest.mark.slow
def test_names_of_an_audit_may_be_read_as_labels_and_clients(audited, monkeypatch):
    """Its rows have an order of their own, which is not that of the dataset."""
    folder, _ = audited
    monkeypatch.chdir(folder)
    own = OwnFiles(Path("data"), Path("results"))
    facts = own.read(RequestedImages(path="mine/train.csv", test="mine/test.csv"))
    path = str(folder / "audit" / "samples.csv")
    kept = own.load(own.labels(path, "given_label", facts))["label"]
    part = read_part(own.results.data(facts.name, "train"))
    assert kept.tolist() == part.labels.tolist()
    assert own.clients(path, facts) == own.clients("mine/sites.csv", facts)


@pytest.mark.slow
def test_a_run_that_diverged_is_named_with_a_remedy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["--method", "fedavg", "--learning-rate", "1e30", "--rounds", "2"]
    words += ["--participation", "0.2", "--model", "cnn2conv", "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", ["noisyfl", "audit", *words, "--jobs", "1"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert str(ended.value.code).startswith("error: fedavg on digits")
    assert str(ended.value.code).endswith("a smaller learning rate helps")


def finished(*accuracies, diverged=False):
    return SimpleNamespace(accuracies=accuracies, spec=spec_of("fedavg"), diverged=diverged)


def test_runs_that_diverged_or_guess_are_left_out():
    diverged, guessing, learned = finished(diverged=True), finished(0.5, 0.14), finished(0.1, 0.2)
    said = []
    assert worth_reading([diverged, guessing, learned], said.append) == [learned]
    assert said[0].startswith("fedavg on digits")
    assert said[0].endswith("a smaller learning rate helps")
    assert said[1].endswith("accuracy of 14.0%, which is little more than chance: it is left out")


def test_runs_that_guess_are_audited_if_there_are_no_others():
    runs, said = [finished(0.14), finished(0.1)], []
    assert worth_reading(runs, said.append) == runs
    assert said[0].endswith("chance: what it says of labels is worth nothing")


@pytest.mark.slow
def test_seeds_share_clients_from_a_file_and_file_names_may_be_of_any_bytes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    for part, count in (("train", 12), ("test", 4)):
        for number in range(count):
            folder = tmp_path / "data" / "mine" / part / f"class_{number % 2}"
            folder.mkdir(parents=True, exist_ok=True)
            pixels = rng.integers(0, 256, (8, 8), dtype=np.uint8)
            name = os.fsdecode(b"\xff.png") if number == 0 else f"{number}.png"
            Image.fromarray(pixels).save(folder / name)
    write(tmp_path / "data" / "sites.csv", [["client", "sample"], *([n % 2, n] for n in range(12))])
    words = ["--data", 'images(path="mine")', "--partition", 'file(path="sites.csv")']
    words += ["--model", "cnn2conv", "--rounds", "2", "--participation", "0.5", "--seeds", "2"]
    words += ["--method", "fedavg"]
    monkeypatch.setattr(sys, "argv", ["noisyfl", "audit", *words, "--device", "cpu", "--jobs", "1"])
    main()
    samples = pd.read_csv(tmp_path / "audit" / "samples.csv")
    assert (samples["runs"] == 2).all()
    assert samples["image"].str.endswith("\\udcff.png").sum() == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["0123456789abcdef"], "0123456789abcdef: no run in results or reproduced/ has"),
        (["0123456789abcdef", "--method", "gce"], "RUN: expected either runs, or a method"),
        (["--method", "fedavgg"], "--method: no method is called 'fedavgg'"),
        (["--level", "0.3"], "--level: got 0.3, expected none, since the label noise none"),
        (["--level", "[0.3, 0.4]"], "--level: got several values, expected one: an audit has one"),
        (["--to", "file"], "--to: got 'file', expected a folder"),
        (["--method", "coteaching"], "--method.coteaching.forget_rate: got null, which stands for"),
        (["--method", "centralized"], "centralized pools the samples of all clients, which an"),
        (
            ["--seeds", "2"],
            "fedrn(warm_up_rounds=4) on digits, dirichlet(clients=20, alpha=0.5), no label noise, ",
        ),
        (
            ["fedavg", "--data", "digits"],
            "RUN: expected either runs, or a method and its setting; fed",
        ),
        (["0123456789abcdef", "--seeds", "2"], "RUN: expected either runs, or a method"),
        (["--data", "digits", "--seeds", "0"], "--seeds: got 0, expected a whole number from 1"),
    ],
)
def test_a_mistake_is_one_line_before_training(tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    monkeypatch.setattr(sys, "argv", ["noisyfl", "audit", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert str(ended.value.code).startswith(f"error: {said}")
    assert "\n" not in str(ended.value.code)


def judgements(**columns):
    """Of three samples of one client, in two runs."""
    given = {
        "run": ["a"] * 3 + ["b"] * 3,
        "client": [0] * 6,
        "sample": [0, 1, 2] * 2,
        "given_label": [0, 0, 1] * 2,
        "given_probability": [0.9, 0.1, 0.8, 0.7, 0.3, 0.8],
        "suggested_label": [0, 1, 1, 0, 1, 1],
        "suggested_probability": [0.9, 0.9, 0.8, 0.7, 0.6, 0.8],
        "in_sample": [False] * 6,
        "judged": [1, 1, 1, 0, 0, 0],
        "last_selected": [1, 0, 1, -1, -1, -1],
        "learnt_label": [0, 1, 1, 0, 0, 1],
        "relabelled_in": [0, 3, 0, 0, 5, 0],
    }
    return pd.DataFrame({**given, **columns})


def test_a_label_is_suspected_where_another_is_as_probable_as_it_usually_is():
    first = judgements().head(3)
    assert suspected(first).tolist() == [False, True, False]
    # Samples with the label 1 have it with 0.8 on average.
    assert not suspected(first.assign(suggested_probability=[0.9, 0.79, 0.8])).any()


def test_as_many_labels_are_suspected_as_a_run_suspects_and_the_most_suspicious_ones():
    found = judgements(suspected=[False, True, True, False, False, True])
    for runs, expected in ((["a"], [1, 2]), (["b"], [1]), (["a", "b"], [0, 1])):
        some = found[found["run"].isin(runs)]
        samples = samples_of(some, ["cat", "dog"])
        assert sorted(samples.loc[samples["suspected"], "sample"]) == expected
        assert samples["suspected"].is_monotonic_decreasing
        assert clients_of(some, samples, [])["suspected"].tolist() == [len(expected)]


def test_confused_classes_and_the_scores_of_known_labels():
    samples = pd.DataFrame(
        {
            "given_label": ["cat", "cat", "dog", "cat", "dog"],
            "suggested_label": ["dog", "dog", "cat", "cat", "dog"],
            "suspected": [True, True, True, True, False],
            "suspicion": [0.9, 0.8, 0.7, 0.6, 0.1],
        }
    )
    assert confused_classes(samples).to_numpy().tolist() == [
        ["cat", "dog", 3, 2, pytest.approx(2 / 3)],
        ["dog", "cat", 2, 1, 0.5],
    ]
    assert confused_classes(samples.assign(suspected=False)).empty
    wrong = pd.Series([True, False, True, False, False])
    assert scores_of(samples, wrong) == pytest.approx(
        {"AP": (1 + 2 / 3) / 2, "AUROC": 5 / 6, "precision": 0.5, "recall": 1.0}
    )


def test_runs_agree_or_do_not():
    found = judgements()
    found["suspected"] = [False, True, False, False, False, False]
    samples = samples_of(found, ["cat", "dog"])
    top = samples.iloc[0]
    assert (top["sample"], top["given_label"], top["suggested_label"]) == (1, "cat", "dog")
    assert top["suspicion"] == pytest.approx(0.8)
    assert (top["suspected_by"], top["runs"]) == (1, 2)
    assert (top["left_out_by"], top["judged_by"]) == (1, 1)
    assert (top["relabelled_by"], top["learnt_label"], top["relabelled_in"]) == (1, "dog", 3)
    assert samples["relabelled_in"].tolist()[1:] == [0, 0]
