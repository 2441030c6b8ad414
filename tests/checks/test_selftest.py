"""The self-test on a CPU, and what it writes about a GPU."""

import json
import math
import sys
from types import SimpleNamespace

import pytest
import torch

from noisyfl.checks import selftest
from noisyfl.core.options import BadInput
from noisyfl.runs import gpu, timing
from noisyfl.runs.train import choose_device
from noisyfl.simulation.federation import Federation
from noisyfl.specs import speeds
from noisyfl.specs.gpu_facts import GpuFacts

FACTS = {
    "device": "NVIDIA H100",
    "slots": 8,
    "steps_a_graph": 4,
    "fused_update": True,
    "layout": {"float32": "contiguous", "tf32": "channels_last"},
    "factors": {
        "launch_seconds": 1e-5,
        "matrix_flops": dict.fromkeys(speeds.PRECISIONS, 1e13),
        "evaluation_images_per_second": 1000,
    },
}


@pytest.mark.slow
def test_every_check_holds_on_a_cpu(tmp_path):
    lines = []
    facts = tmp_path / "gpu.json"
    assert selftest.selftest("cpu", facts, lines.append, ["fedavg", "coteaching"], ["cnn"])
    assert [line.split(":")[0].split(maxsplit=1)[1] for line in lines[:-2]] == [
        "versions",
        "batch normalisation, loop on the CPU against fast",
        "products in float32",
        "one slot against all",
        "steps one by one against several in a graph",
        "an eager round under CUDA's sanitizer",
        "epochs that wait for nothing",
        "memory",
        "cnn, captured",
        "fedavg, loop on the CPU against fast",
        "coteaching, loop on the CPU against fast",
    ]
    assert all(line.startswith("ok ") for line in lines[:-2])
    assert lines[-1] == "All checks hold on this CPU. There is nothing to set."
    assert not facts.exists()
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize("driver", [None, SimpleNamespace(nvmlInit=lambda: 1 / 0)])
def test_a_driver_that_nobody_can_ask_is_of_unknown_version(monkeypatch, driver):
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    assert selftest._driver() == "of unknown version"


def test_what_does_not_hold_is_said_and_nothing_is_set(tmp_path, monkeypatch):
    def wrong(device, method=None):
        raise selftest.Failed("0.classifier.bias is 1.0e-02 apart")

    monkeypatch.setattr(selftest, "check_captures", lambda device, model: "as it should be")
    monkeypatch.setattr(selftest, "check_method", wrong)
    monkeypatch.setattr(selftest, "check_slots", wrong)
    monkeypatch.setattr(selftest, "check_graphs", lambda device: "as it should be")
    monkeypatch.setattr(selftest, "check_batch_norm", lambda device: "as it should be")
    lines = []
    assert not selftest.selftest("cpu", tmp_path / "gpu.json", lines.append, ["rofl"], ["cnn"])
    assert "FAILED  rofl, loop on the CPU against fast: 0.classifier.bias is 1.0e-02 apart" in lines
    assert lines[-1].startswith("2 checks failed: nothing is set.")


def test_checks_end_where_the_time_does(tmp_path, monkeypatch):
    clock = iter(range(0, 10_000, 25))  # a check takes 25 seconds
    monkeypatch.setattr(selftest.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(selftest, "check_captures", lambda device, model: "as it should be")
    for name in ("check_batch_norm", "check_products", "check_slots", "check_graphs"):
        monkeypatch.setattr(selftest, name, lambda device: "as it should be")
    monkeypatch.setattr(timing, "measure", lambda device, say: {})
    lines = []
    assert selftest.selftest("cpu", tmp_path, lines.append, ["rofl"], ["cnn"], minutes=7)
    assert lines[-2:] == [
        "left out, as half of 7 minutes is over: cnn, captured; rofl, loop on the CPU against fast",
        "The checks that were made hold on this CPU. There is nothing to set.",
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


def test_plans_and_runs_read_what_is_measured(tmp_path, monkeypatch):
    """Of a GPU on which eight slots are nearly as good as sixteen and four steps a graph as many
    more, and channels last and one kernel for an update are better.
    """

    def said(device, say, work, precision, slots, channels_last=None, **options):
        speed = 1000.0 if channels_last in (True, None) else 800.0
        speed *= 1 if slots >= 8 else slots / 8
        speed *= 1 if options.get("steps_a_graph", 4) >= 4 else 0.5
        return speed * (1.1 if options.get("fused_update") else 1)

    monkeypatch.setattr(timing, "_measure_speed", said)
    monkeypatch.setattr(timing, "images_tested_per_second", lambda device, model: 5000.0)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H100")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    path = tmp_path / "gpu.json"
    path.write_text(json.dumps(timing.measure(torch.device("cuda"), str)))
    facts = GpuFacts.read_file(path)
    assert (facts.device, facts.slots) == ("NVIDIA H100", 8)
    assert (facts.steps_a_graph, facts.fused_update) == (4, True)
    assert facts.layout == dict.fromkeys(timing.PRECISIONS, "channels_last")
    name, speed = speeds.measured_speed(path)
    assert (name, speed.evaluation) == ("NVIDIA H100", 5000.0)
    # ResNet-18 multiplies 555 million times an image; three products, each of two operations.
    assert speed.flops["tf32"] == pytest.approx(1000 * 6 * speeds.IMAGE, rel=0.01)
    # 275 steps a second, each of the kernels of four layers.
    assert speed.launch == pytest.approx(1 / 275 / (4 * speeds.KERNELS))


def test_bfloat16_is_not_measured_where_a_gpu_cannot_compute_in_it(monkeypatch):
    measured = []

    def said(device, say, work, precision, **options):
        measured.append(precision)
        return 800.0

    monkeypatch.setattr(timing, "_measure_speed", said)
    monkeypatch.setattr(timing, "images_tested_per_second", lambda device, model: 5000.0)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    found = timing.measure(torch.device("cuda"), str)
    rates = found["factors"]["matrix_flops"]
    assert "bfloat16" not in measured
    assert rates["bfloat16"] == rates["float32"]
    assert found["layout"]["bfloat16"] == found["layout"]["float32"]


def test_a_run_takes_slots_and_layout_of_its_own_kind_of_gpu(tmp_path, monkeypatch):
    path = tmp_path / "gpu.json"
    cuda, log = torch.device("cuda"), []
    assert gpu.measured_options(path, cuda, "tf32", log.append) == {}
    path.write_text(json.dumps(FACTS))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H100")
    best = {"slots": 8, "steps_a_graph": 4, "fused_update": True}
    for precision, layout in (
        ("tf32", {"channels_last": True}),
        ("float32", {"channels_last": False}),
        ("bfloat16", {}),
    ):
        assert gpu.measured_options(path, cuda, precision, log.append) == {**best, **layout}
    assert gpu.measured_options(path, torch.device("cpu"), "tf32", log.append) == {}
    assert log == []
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    assert gpu.measured_options(path, cuda, "tf32", log.append) == {}
    assert log == [f"{path} is of NVIDIA H100, not of Tesla T4: nothing is taken from it"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slots": 0}, "gpu.json: slots: got 0, expected at least 1"),
        ({"slots": "8"}, "slots: got '8'"),
        ({"steps_a_graph": 0}, "gpu.json: steps_a_graph: got 0, expected at least 1"),
        (
            {"layout": {"tf32": "rows"}},
            "layout.tf32: got 'rows', expected one of 'contiguous', 'channels_last'",
        ),
        ({"layout": 3}, "layout: got 3, expected keys and values"),
    ],
)
def test_a_file_that_is_something_else_is_refused(tmp_path, change, message):
    path = tmp_path / "gpu.json"
    path.write_text(json.dumps({**FACTS, **change}))
    with pytest.raises(BadInput, match=message):
        GpuFacts.read_file(path)
    path.write_text("{}")
    with pytest.raises(BadInput, match=r"gpu.json: key 'device' is missing"):
        GpuFacts.read_file(path)


@pytest.fixture
def driver(monkeypatch):
    """CUDA's answers, under torch's own functions, which check their arguments as on a GPU."""
    said = SimpleNamespace(fraction={0: 1.0, 1: 1.0})
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
        "_cuda_setMemoryFraction": lambda share, device: said.fraction.update({device: share}),
        "_cuda_getMemoryFraction": lambda device: said.fraction[device],
        "_cuda_resetPeakMemoryStats": lambda device: None,
        "_cuda_clearCublasWorkspaces": lambda: None,
        "_cuda_synchronize": lambda: None,
        "_cuda_emptyCache": lambda: None,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(torch._C, name, answer)
    return said


@pytest.mark.parametrize(("wanted", "index"), [("auto", 1), ("cuda", 1), ("cuda:0", 0)])
def test_a_gpu_has_its_index_which_torch_asks_for(driver, wanted, index):
    device = choose_device(wanted)
    assert device == torch.device("cuda", index)
    gpu.limit_memory(device, 4700)
    assert driver.fraction[index] == pytest.approx(0.4)
    federation = SimpleNamespace(executor=SimpleNamespace(device=device), clients=[])
    Federation.make_room(federation)


@pytest.mark.parametrize(("claimed", "share"), [(None, 1.0), (4700, 0.4), (1e6, 1.0), (10, 0.0064)])
def test_a_run_allocates_no_more_than_it_claimed(driver, claimed, share):
    gpu.limit_memory(choose_device("cuda"), claimed)
    assert driver.fraction[1] == pytest.approx(share)


def test_the_provenance_has_what_a_gpu_was_used_for(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91002)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda device: 3 * 2**30)
    facts = {"cudnn": 91002, "peak_gpu_memory_mb": 3072.0}
    assert gpu.facts_of(torch.device("cuda")) == facts


def test_the_memory_of_the_gpu_that_a_run_is_given_is_known(monkeypatch):
    assert gpu.memory_mb("cpu") == math.inf
    asked = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(
        torch.cuda,
        "get_device_properties",
        lambda device: asked.append(device) or SimpleNamespace(total_memory=16_000 * 10**6),
    )
    assert [gpu.memory_mb(name) for name in ("auto", "cuda:1")] == [16_000.0] * 2
    assert asked == [torch.device("cuda"), torch.device("cuda:1")]


def test_mps_is_known_by_its_pipe(tmp_path, monkeypatch):
    monkeypatch.setenv(gpu.MPS_PIPES, str(tmp_path))
    assert not gpu.mps_is_there()
    (tmp_path / "control").touch()
    assert gpu.mps_is_there()
