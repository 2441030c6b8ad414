"""HTML pages from the templates of the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2

from noisyfl.core.places import ROOT

TEMPLATES = ROOT / "workflow" / "report"


def render(template: str, folder: Path = TEMPLATES, **values: Any) -> str:
    """A page that is made from a template in a folder; texts in ``values`` are escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template(template).render(**values)
