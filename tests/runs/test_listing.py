"""``noisyfl runs``: a run that cannot be read does not hide the others."""

import json
import shutil

import pytest

from noisyfl.commands.runs import list_runs
from noisyfl.core.artifacts import Results, write_json
from noisyfl.core.places import ROOT
from noisyfl.core.provenance import write_provenance
from noisyfl.specs.identity import identity


def test_a_run_of_an_unknown_plugin_is_named_behind_the_others(tmp_path, capsys):
    tracked = next((ROOT / "reproduced" / "runs").iterdir())
    spec = json.loads((tracked / "spec.json").read_text())
    provenance = json.loads((tracked / "provenance.json").read_text())
    shutil.copytree(tracked, tmp_path / "runs" / tracked.name)
    spec["noisy_partition"]["dataset"] = "stripes"
    other = Results(tmp_path).run(identity(spec))
    write_json(other.spec, spec)
    write_provenance(other.provenance, {**provenance, "run": identity(spec)})
    with pytest.raises(SystemExit, match=rf"^{identity(spec)} cannot be read: .*'stripes'"):
        list_runs(tmp_path)
    assert tracked.name in capsys.readouterr().out
