"""The page in one file: data, library, style and scripts; it needs no network."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
from pathlib import Path
from typing import Any

from markupsafe import Markup

from noisyfl.core.artifacts import write_text
from noisyfl.explorer.gather import Sources, gather
from noisyfl.pages.html import render

ASSETS = Path(__file__).parent / "assets"

MODULES = (
    *("dom", "data", "place", "names", "csv", "charts", "heatmap"),
    *("tables", "settings", "diagnostics", "cell", "claims", "methods", "runs", "main"),
)
"""The page's scripts, each after those that it imports."""

LIBRARY = ("d3.min.js", "plot.umd.min.js")
"""Files of the library that draws charts; it is loaded when the first chart is drawn."""

FIDELITY = "docs/fidelity.md"
"""Where a clone has the reasons of choices; the pages of a scale lie in ``results/<scale>/``."""

IMPORT = re.compile(r"^import \{([^}]*)\} from \"\./(\w+)\.js\";", re.MULTILINE)

EXPORT = re.compile(r"^export (?:async )?(?:function|const) (\w+)", re.MULTILINE)


def write_explorer(sources: Sources, path: Path) -> None:
    """Write the page of a scale."""
    index, details = gather(sources)
    index["fidelity"] = fidelity_link(path)
    page = explorer_page(index, details, sources.scale.name)
    write_text(path, page)


def fidelity_link(path: Path) -> str | None:
    """The link to :data:`FIDELITY` on a page; None if a browser that opens the page finds no file.

    A browser takes ``..`` away from the page's address without looking at the disk.
    """
    # An explorer of a few tables lies in one or two folders of its scale's.
    links = ["../" * up + FIDELITY for up in (2, 3, 4)]
    found = (
        link for link in links if Path(os.path.normpath(path.absolute().parent / link)).is_file()
    )
    return next(found, None)


def explorer_page(index: dict[str, Any], details: dict[str, Any], scale: str) -> str:
    """The page as HTML."""
    library = "\n".join((ASSETS / "vendor" / name).read_text("utf-8") for name in LIBRARY)
    return render(
        "page.html.jinja",
        ASSETS,
        scale=scale,
        style=Markup((ASSETS / "style.css").read_text(encoding="utf-8")),
        script=Markup(script()),
        index=compress(json.dumps(index, separators=(",", ":"), allow_nan=False)),
        details=compress(json.dumps(details, separators=(",", ":"), allow_nan=False)),
        library=compress(library),
    )


def compress(text: str) -> str:
    """A text, gzipped for a browser's DecompressionStream, in base64, which is safe in HTML."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def script() -> str:
    """All modules as one script, since a page that is opened from a disk may not import modules."""
    return "\n".join(['"use strict";', "const modules = {};", *map(_module, MODULES)])


def _module(name: str) -> str:
    """A module as a function that is called at once and returns what the module exports."""
    text = (ASSETS / f"{name}.js").read_text(encoding="utf-8")
    names = ", ".join(EXPORT.findall(text))
    own = re.sub(r"^export ", "", IMPORT.sub(r"const {\1} = modules.\2;", text), flags=re.M)
    return f"modules.{name} = (() => {{\n{own}return {{ {names} }};\n}})();"
