"""The self-test on a CPU, and what runs ask of a GPU."""

import sys
from types import SimpleNamespace

import pytest
import torch

from noisyfl.checks import selftest
from noisyfl.runs import gpu, timing
from noisyfl.runs.train import choose_device
from noisyfl.simulation.federation import Federation


@pytest.mark.slow
def test_every_check_holds_on_a_cpu():
    lines = []
    assert selftest.selftest("cpu", lines.append, ["coteaching"], ["cnn"])
    assert [line.split(":")[0].split(maxsplit=1)[1] for line in lines[:-2]] == [
        "versions",
        "batch normalisation, loop on the CPU against fast",
        "products in float32",
        "one slot against all",
        "an eager round under CUDA's sanitizer",
        "epochs that wait for nothing",
        "cnn, captured",
        "coteaching, loop on the CPU against fast",
    ]
    assert all(line.startswith("ok ") for line in lines[:-2])
    assert lines[-2].startswith("speed   cnn, batches of 20, float32: ")
    assert lines[-1] == "All checks passed."
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize("driver", [None, SimpleNamespace(nvmlInit=lambda: 1 / 0)])
def test_a_driver_that_nobody_can_ask_is_of_unknown_version(monkeypatch, driver):
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    assert selftest._driver() == "of unknown version"


def test_what_does_not_hold_is_said_and_the_speed_too(monkeypatch):
    def wrong(device, method=None):
        raise selftest.Failed("0.classifier.bias is 1.0e-02 apart")

    monkeypatch.setattr(selftest, "check_captures", lambda device, model: "as it should be")
    monkeypatch.setattr(selftest, "compare_rounds", wrong)
    monkeypatch.setattr(selftest, "check_slots", wrong)
    monkeypatch.setattr(selftest, "check_batch_norm", lambda device: "as it should be")
    lines = []
    assert not selftest.selftest("cpu", lines.append, ["rofl"], ["cnn"])
    assert "FAILED  rofl, loop on the CPU against fast: 0.classifier.bias is 1.0e-02 apart" in lines
    assert lines[-2].startswith("speed   cnn")
    assert lines[-1].startswith("2 checks failed. Train with `executor: loop`")


def test_checks_end_where_the_time_does(monkeypatch):
    clock = iter(range(0, 10_000, 25))  # a check takes 25 seconds
    monkeypatch.setattr(selftest.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(selftest, "check_captures", lambda device, model: "as it should be")
    for name in ("check_batch_norm", "check_products", "check_slots"):
        monkeypatch.setattr(selftest, name, lambda device: "as it should be")
    monkeypatch.setattr(timing, "show_speeds", lambda device, say: None)
    lines = []
    assert selftest.selftest("cpu", lines.append, ["rofl"], ["cnn"], minutes=2.5)
    assert lines[-2:] == [
        "not checked, as 2.5 minutes are over: cnn, captured; rofl, loop on the CPU against fast",
        "The checks that were made passed.",
    ]


def test_products_that_are_rounded_are_found(monkeypatch):
    plain = torch.nn.functional.conv2d
    assert "off; in tf32" in selftest.check_products(torch.device("cpu"))

    def rounded(*given, **options):
        made = plain(*given, **options)
        return made.bfloat16().float() if made.dtype == torch.float32 else made

    monkeypatch.setattr(torch.nn.functional, "conv2d", rounded)
    with pytest.raises(selftest.Failed, match=r"they are \d.\de-03 off"):
        selftest.check_products(torch.device("cpu"))


@pytest.fixture
def driver(monkeypatch):
    """CUDA's answers, under torch's own functions, which check their arguments as on a GPU."""
    props = SimpleNamespace(total_memory=10_000 * 10**6)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "_get_device_properties", lambda device: props, raising=False)
    monkeypatch.setattr(torch.cuda, "_cached_device_count", 2)
    for module in (torch.cuda, torch.cuda.memory):
        monkeypatch.setattr(module, "_lazy_init", lambda: None)
    for name in ("_exchange_device", "_maybe_exchange_device"):
        monkeypatch.setattr(torch.cuda, name, lambda index: 0)
    answers = {
        "_cuda_getDevice": lambda: 1,
        "_cuda_resetPeakMemoryStats": lambda device: None,
        "_cuda_clearCublasWorkspaces": lambda: None,
        "_cuda_synchronize": lambda: None,
        "_cuda_emptyCache": lambda: None,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(torch._C, name, answer)


@pytest.mark.parametrize(("wanted", "index"), [("auto", 1), ("cuda", 1), ("cuda:0", 0)])
def test_a_gpu_has_its_index_which_torch_asks_for(driver, wanted, index):
    device = choose_device(wanted)
    assert device == torch.device("cuda", index)
    gpu.start_anew(device)
    federation = SimpleNamespace(executor=SimpleNamespace(device=device), clients=[])
    Federation.make_room(federation)


def test_the_provenance_has_what_a_gpu_was_used_for(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91002)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda device: 3 * 2**30)
    facts = {"cudnn": 91002, "peak_gpu_memory_mb": 3072.0}
    assert gpu.gpu_facts(torch.device("cuda")) == facts


def test_mps_is_known_by_its_pipe(tmp_path, monkeypatch):
    monkeypatch.setenv(gpu.MPS_PIPES, str(tmp_path))
    assert not gpu.mps_is_there()
    (tmp_path / "control").touch()
    assert gpu.mps_is_there()
