"""Where the repository's files lie that the package reads: a wheel has a copy of them."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parents[1]
"""The folder of the package ``noisyfl``."""

COPY = PACKAGE / "repository"
"""Where a wheel has its copy; there is none in a clone."""

IN_A_CLONE = not COPY.exists()
"""Whether the package is that of a clone of the repository."""

ROOT = PACKAGE.parents[1] if IN_A_CLONE else COPY
"""The folder with ``Snakefile``, ``config/``, ``reproduced/`` and so on, in a clone or a wheel."""
