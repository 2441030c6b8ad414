"""A cache on disk for answers that planning needs and that take torch to compute.

They are kept in the user's cache folder under a digest of the sources that they were computed from,
so that they are computed anew after a source has changed. Where the folder cannot be written to,
they are computed in every process.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from noisyfl.specs.catalogue import keep, kept_file
from noisyfl.specs.sources import COMPUTING, digest_of

Answer = TypeVar("Answer")


def kept(function: Callable[[str], Answer]) -> Callable[[str], Answer]:
    """Decorate a function of a text, whose answers JSON can hold, so that it computes each once."""

    @functools.cache
    def answers() -> dict[str, Any]:
        with suppress(OSError, ValueError):
            return dict(json.loads(_file(function).read_text()))
        return {}

    @functools.wraps(function)
    def remembered(text: str) -> Answer:
        known = answers()
        if text not in known:
            # Through JSON, so that the first answer is the same as those read from the file.
            known[text] = json.loads(json.dumps(function(text)))
            keep(_file(function), json.dumps(known))
        answer: Answer = known[text]
        return answer

    return remembered


def _file(function: Callable[..., Any]) -> Path:
    return kept_file(function.__name__.strip("_"), digest_of(*COMPUTING, "specs"))
