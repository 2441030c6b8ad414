"""The verdict on a number of ours beside the published one."""

from __future__ import annotations

import math

from noisyfl.analysis.statistics import Summary
from noisyfl.specs.published import Number

POINTS = 2.0
"""Percentage points that count as the published spread over trials where the paper prints none."""

SHARE = 0.1
"""The same for a number that is not a percentage, as a share of that number."""

CLOSE_SPREADS = 3.0
"""How many published spreads a number that is not reproduced may be off and still be close."""

REPRODUCED, CLOSE, DIFFERS, NOT_RUN, DIVERGED, OTHER_SCALE = VERDICTS = (
    "reproduced",
    "close",
    "differs",
    "not run",
    "diverged",
    "other scale",
)

MARKS = dict(zip(VERDICTS, ("✓", "≈", "≠", "", "⚡", ""), strict=True))
"""What stands beside a number in a table."""


def verdict(
    published: Number | None,
    ours: Summary | None,
    unit: str,
    as_published: bool,
    diverged: bool,
) -> str:
    """One of :data:`VERDICTS`; empty where there is no published number.

    Our mean is reproduced if it is off by at most the published spread plus its own standard error,
    and close if it is off by at most three published spreads plus that error.

    Args:
        published: the paper's number, whose spread, if there is one, is over trials.
        ours: our number over the trials that did not diverge; its spread likewise.
        unit: of both, a key of :data:`noisyfl.analysis.metrics.FACTORS`; shares are in percent.
        as_published: whether ours was made exactly in the paper's setting; else its verdict is
            :data:`OTHER_SCALE`.
        diverged: whether most of our trials diverged.
    """
    if published is None:
        return ""
    if ours is None and not diverged:
        return NOT_RUN
    if not as_published:
        return OTHER_SCALE
    if ours is None or diverged:
        return DIVERGED
    off = abs(ours.mean - published.value)
    spread = published.std or (POINTS if unit == "percent" else SHARE * abs(published.value))
    error = (ours.std or 0.0) / math.sqrt(ours.trials)
    if off <= spread + error:
        return REPRODUCED
    return CLOSE if off <= CLOSE_SPREADS * spread + error else DIFFERS
