"""What only torch can tell and planning has to know, kept in the user's cache folder.

It lies there under a digest of the sources that it was computed from, so that a changed source has
it computed anew. Where the folder cannot be written to, it is computed in every process.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from noisyfl.specs.catalogue import COMPUTING, digest_of, keep, kept_file

Answer = TypeVar("Answer")


def kept(function: Callable[[str], Answer]) -> Callable[[str], Answer]:
    """Decorate a function of a text whose answer JSON can hold: nothing is computed twice."""

    @functools.cache
    def answers() -> dict[str, Any]:
        with suppress(OSError, ValueError):
            return dict(json.loads(_file(function).read_text()))
        return {}

    @functools.wraps(function)
    def remembered(text: str) -> Answer:
        known = answers()
        if text not in known:
            # As JSON gives it back, so that the first answer is as all later ones.
            known[text] = json.loads(json.dumps(function(text)))
            keep(_file(function), json.dumps(known))
        answer: Answer = known[text]
        return answer

    return remembered


def _file(function: Callable[..., Any]) -> Path:
    return kept_file(function.__name__.strip("_"), digest_of(*COMPUTING, "specs"))
