"""What ``import noisyfl`` gives, and the notebook that shows it."""

import json
import shutil
import subprocess
import sys

import matplotlib
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader
from torchvision.transforms import Normalize

import noisyfl
from noisyfl.core.options import BadInput
from noisyfl.core.places import ROOT
from noisyfl.core.tracked import REPRODUCED
from noisyfl.data.noisy_partition import UNKNOWN

SPEC = {
    "dataset": "digits",
    "partition": "iid(clients=4)",
    "label_noise": "symmetric",
    "noise_level": "constant(level=0.3)",
    "model": "cnn",
    "augmentation": "none",
    "normalization": "dataset",
    "schedule": {
        "rounds": 2,
        "participation": 0.5,
        "local_epochs": 1,
        "batch_size": 20,
        "learning_rate": 0.1,
    },
    "method": "fedavg",
    "seed": 1,
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder in which a run was trained, and the run."""
    folder = tmp_path_factory.mktemp("notebook")
    return folder, noisyfl.train(SPEC, folder / "results", folder, device="cpu", keep_model=True)


def test_importing_it_is_quick_and_takes_no_torch():
    code = "import noisyfl, sys; print(sorted(sys.modules.keys() & {'torch', 'pandas', 'numpy'}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_name_is_there_and_others_are_not():
    assert {name for name in noisyfl.__all__ if callable(getattr(noisyfl, name))} == set(
        noisyfl.__all__
    )
    assert set(noisyfl.__all__) <= set(dir(noisyfl))
    with pytest.raises(AttributeError, match="no attribute 'load_tabel'"):
        noisyfl.load_tabel  # noqa: B018


def test_a_run_is_trained_once_and_read_again(trained):
    folder, run = trained
    assert len(run.rounds["round"]) == 2
    written = run.files.provenance.stat().st_mtime_ns
    for spec in (SPEC, run.spec):
        assert noisyfl.train(spec, folder / "results", folder).id == run.id
    again = noisyfl.load_run(run.id, folder / "results")
    assert again.spec == run.spec
    assert again.files.provenance.stat().st_mtime_ns == written


def test_clients_are_datasets_with_true_and_given_labels(trained):
    folder, run = trained
    federation = noisyfl.load_partition(run.partition, folder / "results", folder)
    assert len(federation) == 4
    for number, one in enumerate(federation.partition.clients):
        client = federation.client(number)
        images, given, true = next(iter(DataLoader(client, batch_size=len(client))))
        assert given.tolist() == client.labels[0].tolist() == one.given_label.tolist()
        assert true.tolist() == one.true_label.tolist()
        assert float((given != true).float().mean()) == pytest.approx(federation.noise[number])
        expected = federation.train.images[one.samples].transpose(0, 3, 1, 2) / 255
        np.testing.assert_allclose(images.numpy(), expected, rtol=1e-6)
    image, label = federation.test(Normalize([0.5], [0.25]))[-1]
    pixels = torch.from_numpy(federation.test_part.images[-1] / 255)[..., 0]
    torch.testing.assert_close(image[0].double(), (pixels - 0.5) / 0.25, rtol=1e-5, atol=1e-5)
    assert label == federation.test_part.labels[-1]
    with pytest.raises(IndexError):
        client[len(client)]
    with pytest.raises(BadInput, match="client: got 4, expected 0 to 3"):
        federation.client(4)


@pytest.fixture(scope="module")
def tested(trained):
    """A run's federation, its model, the test images, and which of them the model recognises."""
    folder, run = trained
    federation = noisyfl.load_partition(run.partition, folder / "results", folder)
    model = noisyfl.load_model(run.id, folder / "results")
    pixels = torch.from_numpy(federation.test_part.images).permute(0, 3, 1, 2)
    with torch.no_grad():
        guessed = model(pixels).argmax(1).numpy()
    return federation, model, pixels, guessed == federation.test_part.labels


def test_the_model_that_a_run_kept_predicts_as_recorded(trained, tested):
    _, run = trained
    _, model, pixels, right = tested
    assert right.mean() == pytest.approx(run.rounds["test_accuracy"].iloc[-1])
    for wrong in (pixels / 255, pixels.permute(0, 2, 3, 1)):
        with pytest.raises(
            BadInput, match=r"images: got .*, expected uint8 \[n, 1, height, width\]"
        ):
            model(wrong)


def test_clients_have_the_accuracy_on_their_own_mixture_of_classes(trained, tested):
    folder, run = trained
    federation, _, _, right = tested
    frame = noisyfl.load_clients(run.id, folder / "results")
    assert list(frame) == ["client", "samples", "noise_level", "imbalance", "accuracy"]
    for number, one in enumerate(federation.partition.clients):
        shares = np.bincount(one.true_label, minlength=10) / len(one.true_label)
        weights = (shares / np.bincount(federation.test_part.labels))[federation.test_part.labels]
        assert frame["accuracy"][number] == pytest.approx(100 * weights @ right)
        assert frame["noise_level"][number] == pytest.approx(100 * federation.noise[number])


def test_methods_have_their_options():
    methods = noisyfl.load_methods()
    assert "forget_rate" in methods.loc["coteaching", "options"]
    assert methods.loc["krum", "server"]


def test_unknown_truth_is_said_by_minus_one(trained):
    folder, run = trained
    federation = noisyfl.load_partition(run.partition, folder / "results", folder)
    federation.partition.clients[0].true_label[:] = UNKNOWN
    assert federation.client(0)[0][2] == -1


SMALL = """
scale: small
experiments: [methods]
trials: 1
"""


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: noisyfl.train({**SPEC, "method": "fedavgg"}, f), r"spec\.method: no method is"),
        (lambda f: noisyfl.train({"noisy_partition": {}}, f), "spec: not a run's spec"),
        (lambda f: noisyfl.load_run("0" * 16, f), "or reproduced/ has this id"),
        (lambda f: noisyfl.load_model("0" * 16, f), "or reproduced/ has this id"),
        (lambda f: noisyfl.load_partition("0" * 16, f), "no noisy partition in "),
        (lambda f: noisyfl.plan("dekk"), "no scale is called 'dekk'; did you mean 'desk'"),
        (lambda f: noisyfl.load_table("methods/a", f.parent / "s.yaml", f), "no table is called"),
        (
            lambda f: noisyfl.load_table("fedcorr/table2", "quick", f),
            "fedcorr/table2: none of its runs exists; train it first",
        ),
    ],
)
def test_what_is_not_there_is_said_in_one_line(tmp_path, call, message):
    (tmp_path / "s.yaml").write_text(SMALL)
    with pytest.raises(BadInput, match=message) as error:
        call(tmp_path / "results")
    assert "\n" not in str(error.value)


def test_a_device_that_there_is_not_and_remarks_are_told_before_training(tmp_path):
    with pytest.raises(BadInput, match="device: got 'gpu', expected auto, cpu, cuda or"):
        noisyfl.compare(["fedavg"], device="gpu")
    given = {"results": tmp_path / "results", "figure": tmp_path / "figure.txt"}
    with (
        pytest.warns(UserWarning, match="its local updates amount to 5 rounds|would begin"),
        pytest.raises(BadInput, match="figure"),
    ):
        noisyfl.compare(["fedcorr"], rounds=2, seeds=1, clients=4, **given)


def test_results_are_where_the_scale_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(f"{SMALL}results: here\n")
    assert noisyfl.plan("s.yaml").scale == "small"
    assert (tmp_path / "here").is_dir()


def test_a_tracked_run_is_not_trained_again(tmp_path):
    run = next(name for name in REPRODUCED.batches if "runs" in name).removeprefix("runs/")
    spec = noisyfl.load_run(run).spec
    assert noisyfl.train(spec, tmp_path / "results").id == run
    assert not (tmp_path / "results" / "runs").exists()


def test_a_dataset_in_place_of_the_folder_of_data_files_is_named():
    for name in ("cifar10", "images(path='mine')"):
        with pytest.raises(BadInput, match=r"data: got .*; did you mean dataset="):
            noisyfl.compare(["fedavg"], data=name)


def test_a_run_without_a_model_is_trained_once_more_for_it(trained, tmp_path):
    _, run = trained
    results = tmp_path / "results"
    shutil.copytree(run.files.folder, results / "runs" / run.id)
    (results / "runs" / run.id / run.files.model.name).unlink()
    with pytest.raises(BadInput, match=r"no model was saved; .* trains it once more"):
        noisyfl.load_model(run.id, results)
    noisyfl.train(run.spec, results, tmp_path, keep_model=True)
    assert noisyfl.load_model(run.id, results).facts["run"] == run.id


def test_the_notebook_is_stored_with_the_outputs_of_one_execution():
    cells = json.loads((ROOT / "docs" / "notebook.ipynb").read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    kinds = {kind for cell in code for one in cell["outputs"] for kind in one.get("data", {})}
    assert {"image/png", "text/html"} <= kinds
    assert "error" not in {one["output_type"] for cell in code for one in cell["outputs"]}


@pytest.mark.slow  # plans the scale `reduced`, and trains for some seconds
def test_the_notebook_runs_from_top_to_bottom(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    cells = json.loads((ROOT / "docs" / "notebook.ipynb").read_text())["cells"]
    names = {"__name__": "__main__"}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    plain, kept = (float(share) for share in (names["plain"], names["ours"]))
    assert min(plain, kept) > 0.5
    assert names["frame"]["value"].notna().any()
    assert "5 clients" in capsys.readouterr().out
    # Both columns of the pivot are there, ours and the paper's.
    cells = noisyfl.load_cells(results=tmp_path / "results")
    assert cells["ours"].notna().sum() > 100
    # Most of it is of tables with the oracle and without published numbers, as `fedcorr_headroom`.
    assert cells["headroom"].notna().sum() > 100
