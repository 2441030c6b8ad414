"""``noisyfl runs``: a run that cannot be read does not hide the others."""

import json
import shutil
from pathlib import Path
from platform import python_version

import pytest

from noisyfl.commands.runs import list_runs
from noisyfl.core import plugins
from noisyfl.core.artifacts import Results, write_json
from noisyfl.core.provenance import write_provenance
from noisyfl.core.tracked import REPRODUCED
from noisyfl.specs.identity import identity
from noisyfl.specs.sources import source_digest
from noisyfl.specs.spec import plugins_of
from outside import PARTS, as_before


def tracked_run():
    """The folder of a run."""
    members = (Path(member) for member in REPRODUCED.batches)
    return REPRODUCED.run(next(m.name for m in members if m.parent.name == "runs")).folder


@pytest.mark.parametrize("part", ["dataset", "method"])
@pytest.mark.parametrize("recorded", [{}, {"stripes.py": {"sha256": "0" * 64}}])
def test_a_run_of_a_component_that_is_not_loaded_does_not_hide_others(
    tmp_path, capsys, recorded, part
):
    tracked = tracked_run()
    spec = json.loads((tracked / "spec.json").read_text())
    provenance = json.loads((tracked / "provenance.json").read_text())
    shutil.copytree(tracked, tmp_path / "runs" / tracked.name)
    if part == "dataset":
        spec["noisy_partition"]["dataset"] = "stripes"
    else:
        spec["method"] = {**spec["method"], "name": "stripes"}
    other = Results(tmp_path).run(identity(spec))
    write_json(other.spec, spec)
    made = {"run": identity(spec), "plugins": recorded, "source_digest": source_digest()}
    write_provenance(other.provenance, {**provenance, **made})
    if recorded:
        list_runs(tmp_path)
    else:
        with pytest.raises(SystemExit, match=rf"^{identity(spec)} cannot be read: .*'stripes'"):
            list_runs(tmp_path)
    listed = capsys.readouterr().out
    assert tracked.name in listed
    assert ("needs --plugin stripes.py" in listed) == bool(recorded)


def test_a_run_of_a_plugin_that_was_edited_since_is_of_another_source(tmp_path, capsys):
    tracked = tracked_run()
    spec = json.loads((tracked / "spec.json").read_text())
    provenance = json.loads((tracked / "provenance.json").read_text())
    spec["noisy_partition"]["label_noise"] = {"name": "zeroed", "revision": 1}
    (tmp_path / "mine.py").write_text(PARTS)
    with as_before():
        plugins.load([str(tmp_path / "mine.py")])
        provenance |= {
            "run": identity(spec),
            "python": python_version(),
            "source_digest": source_digest(),
        }
        made = Results(tmp_path).run(identity(spec))
        write_json(made.spec, spec)
        listed = []
        for used in (plugins_of(spec), {"mine.py": {"sha256": "0" * 64}}):
            write_provenance(made.provenance, {**provenance, "plugins": used})
            list_runs(tmp_path)
            listed.append(capsys.readouterr().out)
    assert "  this source  " in listed[0]
    assert "  other source of mine.py  " in listed[1]
