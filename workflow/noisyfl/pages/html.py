"""HTML pages from the templates of the report."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import jinja2

from noisyfl.core.places import ROOT

TEMPLATES = ROOT / "workflow" / "report"


def render(template: str, folder: Path = TEMPLATES, **values: Any) -> str:
    """A page from a template in a folder; texts in ``values`` are escaped."""
    return _templates(folder).get_template(template).render(**values)


@functools.cache  # it keeps each template that it has compiled
def _templates(folder: Path) -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
