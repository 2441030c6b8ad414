"""What the provenance says of the processor."""

import pytest
import torch

from noisyfl.runs import processor

INTEL = """processor\t: 0
model name\t: A Processor @ 2.00GHz
flags\t\t: fpu fma avx avx2 amx_bf16

processor\t: 1
model name\t: Another
flags\t\t: fpu
"""


def test_the_model_and_the_instructions_of_the_first_core_are_noted(tmp_path, monkeypatch):
    path = tmp_path / "cpuinfo"
    path.write_text(INTEL)
    monkeypatch.setattr(processor, "CPUINFO", path)
    assert processor.processor_facts() == {
        "processor": "A Processor @ 2.00GHz",
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "instruction_sets": ["amx_bf16", "avx", "avx2", "fma"],
    }


@pytest.mark.parametrize("text", [None, "", "processor\t: 0\n"])
def test_a_system_that_does_not_say_is_no_obstacle(tmp_path, monkeypatch, text):
    path = tmp_path / "cpuinfo"
    if text is not None:
        path.write_text(text)
    monkeypatch.setattr(processor, "CPUINFO", path)
    found = processor.processor_facts()
    assert (found["processor"], found["instruction_sets"]) == (None, [])
