"""The file of a scale."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from noisyfl.core.checked_yaml import read_yaml
from noisyfl.core.options import BadInput, find
from noisyfl.core.places import ROOT


def named_scale(name: str | Path, where: str = "scale") -> Path:
    """The file of a scale, by its name or its path; ``where`` is what errors call the name."""
    path = Path(name)
    is_file = path.suffix in (".yaml", ".yml")
    return path if is_file else scale_file(path.name, ROOT / "config", where)


def scale_file(name: str | None, folder: Path, where: str = "--config scale") -> Path:
    """The file in a folder that has the scale of that name; the default scale's for no name.

    Raises:
        BadInput: no file has that scale, or two have it, or the file cannot be read; Snakemake,
            which reads it next, would end in a traceback.
    """
    known: dict[str, Path] = {}
    for path in sorted(folder.glob("*.yaml")):
        scale = re.search(r"^scale: *[\"']?(\w+)", path.read_text(errors="replace"), re.MULTILINE)
        if scale and scale[1] in known:
            raise BadInput(
                f"scale: {scale[1]!r} is the scale of {known[scale[1]]} and of {path}, expected a "
                "name of its own for each"
            )
        if scale:
            known[scale[1]] = path
    default = folder / "config.yaml"
    file = default if name is None else find(known, str(name), "scale", where)
    read_yaml(file)
    return file


def check_scale(name: str | None, files: Sequence[Path]) -> None:
    """Raise :class:`BadInput` if ``--config`` names another scale than the last of the files that
    ``--configfile`` or a profile gives.
    """
    own = [scale for file in files if (scale := read_yaml(file).get("scale")) is not None]
    if name is not None and own and name != own[-1]:
        listed = ", ".join(os.path.relpath(file) for file in files)
        raise BadInput(
            f"--config scale: got {name!r}, but the file that --configfile or a profile gives, "
            f"{listed}, is the scale {own[-1]!r}; for another scale, give --configfile=FILE alone"
        )
