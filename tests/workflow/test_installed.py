"""Outside of a clone: a wheel in an empty folder, and the workflow as a module of another one."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from installed import Outside, own_scale, tagged_clone
from noisyfl.core.places import ROOT

pytestmark = pytest.mark.slow

EXTRA = ("snakemake", "matplotlib", "pygments", "yte")
"""What a bare installation lacks: packages of the extra ``snakemake``, by the name of a module."""

BARE = f"""
import sys
sys.modules.update(dict.fromkeys({EXTRA!r}))
from noisyfl.__main__ import main
main()
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """An environment without the package."""
    return Outside(tmp_path_factory.mktemp("bare"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """An environment with a wheel of the package."""
    outside = Outside(tmp_path_factory.mktemp("installed"))
    outside.wheel = outside.install()
    return outside


def committed(*folders):
    """The files of folders that git tracks, or would."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return {name for name in done.stdout.splitlines() if (ROOT / name).exists()}


def test_the_wheel_has_what_the_package_reads_and_nothing_else(installed):
    with zipfile.ZipFile(installed.wheel) as wheel:
        names = set(wheel.namelist())
    packages = ("workflow/noisyfl", "workflow/snakemake_logger_plugin_noisyfl")
    own = {name.removeprefix("workflow/") for name in committed(*packages)}
    folders = ("rules", "config", "profiles", "slurm", "reproduced")
    within = ("Snakefile", "scripts", "report", "reasons", "template")
    folders += tuple(f"workflow/{name}" for name in within)
    read = {f"noisyfl/repository/{name}" for name in committed("Snakefile", *folders)}
    assert {name for name in names if ".dist-info/" not in name} == own | read


@pytest.fixture(scope="module")
def trained(installed, tmp_path_factory):
    """A folder with a scale of one's own, and one of its runs, trained without Snakemake."""
    folder = tmp_path_factory.mktemp("empty")
    own_scale(folder)
    installed.run(folder, "noisyfl", "specs", "mine_two", "specs", "--config", "mine.yaml")
    (spec,) = (folder / "specs").iterdir()
    said = installed.run(folder, "python", "-c", BARE, "train", spec, "--keep-models")
    assert f"finished: results/store/{spec.stem}" in said
    return folder


def test_commands_in_an_empty_folder(installed, trained):
    assert installed.run(trained, "noisyfl", "where").startswith(str(installed.folder))
    version = installed.run(trained, "python", "-m", "noisyfl", "--version")
    assert version.split()[1] == installed.wheel.name.split("-")[1]
    plan = installed.run(trained, "noisyfl", "plan", "--config", "mine.yaml")
    assert re.search(r"^mine_two +1 +1 +1 +0 ", plan, re.MULTILINE)
    (run,) = (path.stem for path in (trained / "specs").iterdir())
    found = re.findall(
        r"(\S+), recorded: (\S+)", installed.run(trained, "noisyfl", "evaluate", run)
    )
    assert len(found) == 4
    assert all(tested == recorded for tested, recorded in found)
    said = installed.run(trained, "noisyfl", "archive", "--config", "mine.yaml", fails=True)
    assert re.fullmatch(r"error: archive: .* is an installed copy, expected a clone\n", said)


def test_a_command_that_needs_more_says_what(installed, trained):
    said = installed.run(trained, "python", "-c", BARE, "preview-data", "digits", fails=True)
    lack = (
        r"error: preview-data: Python cannot import matplotlib\S*, expected noisyfl\[snakemake\]\n"
    )
    assert re.fullmatch(lack, said)


def test_a_table_of_ones_own_scale_in_an_empty_folder(installed, trained):
    where = installed.run(trained, "noisyfl", "where").strip()
    own = ["--snakefile", f"{where}/Snakefile", "--configfile", "mine.yaml"]
    installed.snakemake(trained, "results/mine/tables/mine/one.md", *own)
    table = (trained / "results/mine/tables/mine/one.md").read_text()
    assert re.search(r"^\| FedAvg \| \S*\d\d\.\d\S* \|$", table, re.MULTILINE)
    assert not (trained / "mine").exists()
    # What is tracked comes with the wheel: the tables of real images need no training.
    reduced = ["--snakefile", f"{where}/Snakefile", "--configfile", f"{where}/config/reduced.yaml"]
    reduced += ["--config", "targets=[fedcorr/table6]"]
    planned = installed.snakemake(trained, "--dry-run", "--directory", "elsewhere", *reduced)
    assert re.search(r"^table +1$", planned, re.MULTILINE)
    assert not re.search(r"^train +\d", planned, re.MULTILINE)


SNAKEFILE = """
configfile: "mine.yaml"

rule my_plot:
    input: "results/mine/tables/mine/one.csv"
    output: "plot.txt"
    shell: "wc -l < {input} > {output}; cat {input} >> {output}"

module noisyfl:
    snakefile: "WHERE/workflow/Snakefile"
    config: config

use rule * from noisyfl as noisyfl_*

use rule figure from noisyfl as noisyfl_figure with:
    retries: 2

onstart:
    noisyfl.onstart()
"""


@pytest.fixture
def importing(installed, tmp_path):
    """A folder with a workflow that imports ours."""
    own_scale(tmp_path)
    where = installed.run(tmp_path, "noisyfl", "where").strip()
    (tmp_path / "workflow").mkdir()
    (tmp_path / "workflow" / "Snakefile").write_text(SNAKEFILE.replace("WHERE", where))
    return tmp_path


def test_another_workflow_imports_ours_and_renames_its_rules(installed, importing):
    said = installed.snakemake(importing)
    assert "Training the run " in said
    lines = (importing / "plot.txt").read_text().splitlines()
    # Its own first rule is what it makes by default.
    assert not (importing / "results/mine/figures").exists()
    assert int(lines[0]) == 3
    assert [line.split(",")[0] for line in lines[2:]] == ["FedAvg", "FedProx"]
    # The run that this table shares is there; it is trained anew only since that is asked for.
    runs = (importing / "results/runs").iterdir()
    (run,) = (one / "rounds.parquet" for one in runs if "fedavg" in (one / "spec.json").read_text())
    before = run.stat().st_mtime_ns
    table = "results/mine/tables/mine/two.md"
    installed.snakemake(importing, table, "--forcerun", "noisyfl_train")
    assert run.stat().st_mtime_ns != before


@pytest.mark.storm
def test_another_working_folder_and_a_configuration_without_a_file(installed, importing):
    path = importing / "workflow" / "Snakefile"
    given = yaml.safe_load((importing / "mine.yaml").read_text())
    given["experiment_folders"] = [str(importing / "experiments")]
    text = path.read_text().replace('configfile: "mine.yaml"\n', "")
    path.write_text(text.replace("config: config", f"config: {given!r}"))
    # What the command line configures is the importing workflow's.
    words = ["noisyfl_mine_two", "--directory", "elsewhere", "--config", "anything=1"]
    installed.snakemake(importing, *words)
    assert (importing / "elsewhere/results/mine/tables/mine/two.md").exists()
    assert not (importing / "results").exists()


def test_a_module_with_a_prefix_is_refused(installed, importing):
    path = importing / "workflow" / "Snakefile"
    path.write_text(
        path.read_text().replace("config: config", 'config: config\n    prefix: "pre/"')
    )
    said = installed.snakemake(importing, "--dry-run", fails=True)
    assert "module: got a prefix, expected none: `results` of the configuration says" in said
    assert "Traceback" not in said


@pytest.mark.storm
def test_snakedeploy_makes_a_folder_that_prints_a_table(installed, bare, tmp_path):
    hub = tagged_clone(tmp_path / "hub", "v0.0.1")
    deploy = [Path(sys.executable).parent / "snakedeploy", "deploy-workflow"]
    deploy += ["https://github.com/lab/noisyfl", "mine", "--tag", "v0.0.1"]
    bare.run(tmp_path, *deploy, **hub)
    folder = tmp_path / "mine"
    # Its default profile is read before anybody could install the package, whose lack is one line.
    said = bare.snakemake(folder, "--dry-run", fails=True, **hub)
    assert re.search(r"noisyfl.*: expected Snakemake to be started from", said)
    assert "Traceback" not in said
    planned = installed.snakemake(folder, "--dry-run", **hub)
    assert re.search(r"^table +3$", planned, re.MULTILINE)
    assert "expected a module and a package of the same version" not in planned
    own_scale(folder)
    path = folder / "workflow" / "Snakefile"
    path.write_text(path.read_text().replace("config/config.yaml", "mine.yaml"))
    installed.snakemake(folder, "mine_two", **hub)
    assert (folder / "results/mine/tables/mine/two.md").exists()


def test_a_module_of_another_version_than_the_package_is_said(installed, importing, tmp_path):
    where = installed.run(tmp_path, "noisyfl", "where").strip()
    other = tmp_path / "other"
    for name in ("workflow/Snakefile", "Snakefile", *committed("rules", "workflow/scripts")):
        (other / name).parent.mkdir(parents=True, exist_ok=True)
        (other / name).write_text((ROOT / name).read_text())
    (other / "rules/common.smk").write_text((ROOT / "rules/common.smk").read_text() + "# x\n")
    path = importing / "workflow" / "Snakefile"
    path.write_text(path.read_text().replace(where, str(other)))
    said = installed.snakemake(importing, "--dry-run")
    found = re.findall(r"^(\S+) differs from that of the package", said, re.MULTILINE)
    assert set(found) == {"rules/common.smk"}
