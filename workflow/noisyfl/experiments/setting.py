"""What scales and experiments both write: settings, and texts of several kinds."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field, WithJsonSchema

from noisyfl.core.options import BadInput
from noisyfl.core.typed import Typed, each_once


def _text(pattern: str, expected: str) -> Any:
    """Text that matches a pattern as a whole."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise BadInput(f"got {text!r}, expected {expected}")
        return text

    return AfterValidator(check)


def schema_of(name: str) -> WithJsonSchema:
    """The schema for editors that is made from what components declare, by its name."""
    return WithJsonSchema({"declared": name})


LINE = r"[^\x00-\x1f\x7f\x85\u2028\u2029]*"

NAME = "[a-z][a-z0-9_]*"
LETTERS = "a small letter, then small letters, digits and underscores"

Name = Annotated[str, Field(max_length=100), _text(NAME, LETTERS)]
FileName = Annotated[
    str,
    Field(max_length=100),
    _text(NAME, f"the name of a file without its folder and .yaml: {LETTERS}"),
]
Line = Annotated[str, _text(LINE, "text without line breaks (in YAML `>-` leaves them out)")]
Heading = Annotated[Line, _text(r".*\S.*", "text that is not empty")]
Names = Annotated[list[str], Field(min_length=1), AfterValidator(each_once)]
Trials = Annotated[int, Field(ge=1, le=1000)]
Method = Annotated[str | dict[str, Any], schema_of("method")]
Methods = Annotated[dict[str, dict[str, Any]], schema_of("methods")]
Component = str | dict[str, Any]


class Setting(Typed):
    """Everything of a run but its method and seed, or a part of it.

    Components stay as they are written, since another setting may be laid over them.
    """

    dataset: Annotated[Component, schema_of("dataset")] = ""
    clients: int = Field(0, ge=1)
    partition: Annotated[Component, schema_of("partition")] = ""
    label_noise: Annotated[Component, schema_of("label_noise")] = ""
    noise_level: Annotated[Component, schema_of("noise_level")] = ""
    model: Annotated[Component, schema_of("model")] = ""
    augmentation: Annotated[str, schema_of("augmentation")] = ""
    normalization: Annotated[str, schema_of("normalization")] = ""
    schedule: Annotated[dict[str, Any], schema_of("schedule")] = Field(default_factory=dict)

    def given(self) -> dict[str, Any]:
        """The keys that were given, and their values."""
        return self.model_dump(exclude_unset=True)
