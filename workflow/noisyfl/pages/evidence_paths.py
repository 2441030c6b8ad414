"""Where the pages of evidence lie.

The rule names them whenever Snakemake starts, so this module imports little.
"""

from __future__ import annotations

from noisyfl.specs.published import PAPERS

METHODS = "methods"
"""The name of the page of every method, and of its file of reasons."""

CLAIMS = "claims"
"""The name of the page of every claim."""

PAGES = ("evidence.md", *(f"evidence/{name}.md" for name in (CLAIMS, METHODS, *PAPERS)))
"""All pages, by their paths from where the first one is."""
