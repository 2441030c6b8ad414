"""All files of the repository that are generated from the declarations, in whole or in part."""

from __future__ import annotations

from pathlib import Path

from noisyfl.documentation import option_tables
from noisyfl.experiments.config import ROOT


def generated(root: Path = ROOT) -> dict[Path, str]:
    """What each generated file should hold, by path.

    Raises:
        BadInput: a comment in a page names something that is not declared.
    """
    return option_tables.pages(root)
