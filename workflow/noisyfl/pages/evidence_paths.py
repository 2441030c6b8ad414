"""Where the pages of evidence lie.

The rules name them whenever Snakemake starts, so this module imports little.
"""

from __future__ import annotations

from noisyfl.specs.published import PAPERS

METHODS = "methods"
"""The name of the page of every method, and of its file of reasons."""

METHODS_PAGE = f"evidence/{METHODS}.md"
"""The page of every method, by its path from where the first one is."""

CLAIMS = "claims"
"""The name of the page of every claim."""

LEADS = "evidence/leads.png"
"""The figure of the first page, by its path from there."""

PAGES = ("evidence.md", *(f"evidence/{name}.md" for name in (CLAIMS, *PAPERS)))
"""The pages of claims and papers, by their paths from where the first one is."""
