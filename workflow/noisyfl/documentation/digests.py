"""The digests of their methods that tracked runs record.

Pages say of a run that its method was edited since if the digest is another one. After an edit that
changes no number, which the tests of the methods have to show, the runs get the present digests.
"""

from __future__ import annotations

from pathlib import Path

from noisyfl.core.artifacts import json_text, read_json
from noisyfl.core.provenance import read_provenance, with_checksum
from noisyfl.runs.archive import REPRODUCED
from noisyfl.specs.catalogue import method_source


def files() -> dict[Path, str]:
    """The provenance of every tracked run that records a digest, with the present one."""
    found = {}
    for path in sorted(REPRODUCED.root.glob("runs/*/provenance.json")):
        provenance = read_provenance(path, path.parent.name)
        spec = read_json(REPRODUCED.run(path.parent.name).spec)
        method = method_source(spec["method"])
        if method is not None and "method_digest" in provenance:
            changed = with_checksum({**provenance, "method_digest": method.digest})
            found[path] = json_text(changed)
    return found
