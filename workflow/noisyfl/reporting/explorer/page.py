"""The page in one file: data, library, style and scripts, of which none asks a network."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from noisyfl.core.artifacts import replacing
from noisyfl.reporting.explorer.gather import Sources, gather

ASSETS = Path(__file__).parent / "assets"

MODULES = (
    *("dom", "data", "place", "names", "csv", "charts", "heatmap"),
    *("tables", "settings", "thought", "cell", "claims", "methods", "runs", "main"),
)
"""The page's scripts, each after those that it imports."""

LIBRARY = ("d3.min.js", "plot.umd.min.js")
"""What draws charts: read when the first is drawn."""

IMPORT = re.compile(r"^import \{([^}]*)\} from \"\./(\w+)\.js\";", re.MULTILINE)

EXPORT = re.compile(r"^export (?:async )?(?:function|const) (\w+)", re.MULTILINE)


def write_explorer(sources: Sources, path: Path) -> None:
    """Write the page of a scale.

    Raises:
        DamagedArtifact: a file of a run or a partition is damaged, or another's.
    """
    page = explorer_page(*gather(sources), sources.scale)
    with replacing(path) as draft:
        draft.write_text(page, encoding="utf-8")


def explorer_page(index: dict[str, Any], details: dict[str, Any], scale: str) -> str:
    """The page as HTML.

    Args:
        index: what it shows at once.
        details: what it shows of single cells.
        scale: its name.
    """
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string((ASSETS / "page.html.jinja").read_text(encoding="utf-8"))
    library = "\n".join((ASSETS / "vendor" / name).read_text("utf-8") for name in LIBRARY)
    return template.render(
        scale=scale,
        style=Markup((ASSETS / "style.css").read_text(encoding="utf-8")),
        script=Markup(script()),
        index=packed(json.dumps(index, separators=(",", ":"), allow_nan=False)),
        details=packed(json.dumps(details, separators=(",", ":"), allow_nan=False)),
        library=packed(library),
    )


def packed(text: str) -> str:
    """A text for a browser's DecompressionStream, in letters that HTML leaves alone."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def script() -> str:
    """The modules as one script: a page that is opened from a disk may import none."""
    return "\n".join(['"use strict";', "const modules = {};", *map(_module, MODULES)])


def _module(name: str) -> str:
    """A module as a function of its own, which notes what it exports."""
    text = (ASSETS / f"{name}.js").read_text(encoding="utf-8")
    names = ", ".join(EXPORT.findall(text))
    own = re.sub(r"^export ", "", IMPORT.sub(r"const {\1} = modules.\2;", text), flags=re.M)
    return f"modules.{name} = (() => {{\n{own}return {{ {names} }};\n}})();"
