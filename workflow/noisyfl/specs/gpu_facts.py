"""The file ``gpu.json``, in which the self-test writes what it measured of a kind of GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from pydantic import Field

from noisyfl.core.options import reading
from noisyfl.core.typed import Typed

Layout = Literal["contiguous", "channels_last"]


class Rates(Typed):
    """Floating-point operations per second in training, by precision."""

    float32: float = Field(gt=0)
    tf32: float = Field(gt=0)
    bfloat16: float = Field(gt=0)


class Factors(Typed):
    """What the self-test measured of a device, from which a run's time is estimated."""

    launch_seconds: float = Field(ge=0, lt=1)
    matrix_flops: Rates
    evaluation_images_per_second: float = Field(gt=0)


class GpuFacts(Typed):
    """What ``python -m noisyfl selftest`` wrote about a kind of GPU.

    Attributes:
        device: its name.
        slots: the most stream slots that the fast executor should have.
        steps_a_graph: how many steps of a local update it should capture as one graph.
        fused_update: whether one kernel should update the weights.
        layout: of images and weights in memory, by precision.
        factors: see docs/speed.md.
    """

    device: str
    slots: int = Field(ge=1)
    steps_a_graph: int = Field(ge=1)
    fused_update: bool
    layout: dict[str, Layout]
    factors: Factors

    @classmethod
    def read_file(cls, path: Path) -> GpuFacts:
        """The facts in a file.

        Raises:
            BadInput: it cannot be read, or is not what the self-test writes.
        """
        with reading(str(path)):
            return cls.read(json.loads(path.read_text()), f"{path}: ")
