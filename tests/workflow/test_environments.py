"""The recipes in envs/ fit the project and each other; if asked to, it builds the image."""

import itertools
import os
import re
import shlex
import shutil
import subprocess
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from noisyfl.core.places import ROOT
from noisyfl.experiments.config import EXPERIMENTS

ENVS = ROOT / "envs"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROGRAM = os.environ.get("NOISYFL_CONTAINER_PROGRAM")


def recipe(name):
    """A recipe without its comments, its continued lines joined."""
    lines = (ENVS / name).read_text().splitlines()
    kept = [line for line in lines if not line.lstrip().startswith("#")]
    return "\n".join(kept).replace("\\\n", " ")


def pins(name):
    """The pins of a lock: its requirements and what follows each of them."""
    found = re.findall(r"[^\n]+", recipe(name))
    return [(Requirement(line.split(" --", 1)[0]), line.split()) for line in found]


def installing(text):
    """The words of each installing command of a recipe, without where the locks lie."""
    commands = re.findall(r"(?:uv )?pip install [^&\n]+", text)
    return [[word.removeprefix("/opt/noisyfl/") for word in found.split()] for found in commands]


def commands():
    """What the README and the recipes' comments say to type, a list of words for each command."""
    readme = (ENVS / "README.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```$", readme, flags=re.MULTILINE | re.DOTALL)
    for name in ("Dockerfile", "apptainer.def", "environment.yaml"):
        blocks.append("\n".join(re.findall(r"^# {3}(\S.*)$", (ENVS / name).read_text(), re.M)))
    blocks += re.findall(r"\| `([^`]* [^`]*)` \|$", readme, flags=re.MULTILINE)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    # Twice, as sbatch is given a whole command in quotes.
    quoted = [shlex.split(line, comments=True) for line in lines if line]
    return [[word for words in line for word in words.split()] for line in quoted]


@pytest.mark.parametrize("name", ["requirements.txt", "uv.txt"])
def test_a_lock_pins_by_hash_and_names_no_registry(name):
    found = pins(name)
    names = [requirement.name for requirement, _ in found]
    assert len(names) == len(set(names)) > 0
    for requirement, words in found:
        assert re.fullmatch(r"==[^*,]+", str(requirement.specifier)), requirement
        hashes = [word for word in words if word.startswith("--")]
        assert hashes, requirement
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", word) for word in hashes)
    assert not re.search(r"://|\bindex\b|find-links", (ENVS / name).read_text())


def test_the_lock_has_what_the_project_asks_for():
    project = PROJECT["project"]
    asked = [
        *project["dependencies"],
        *project["optional-dependencies"]["snakemake"],
        *project["optional-dependencies"]["dev"],
        *project["optional-dependencies"]["docs"],
        *PROJECT["build-system"]["requires"],
    ]
    locked = {requirement.name: requirement for requirement, _ in pins("requirements.txt")}
    for requirement in map(Requirement, asked):
        pin = locked[requirement.name]
        assert pin.marker is None, pin
        (version,) = pin.specifier
        assert requirement.specifier.contains(version.version), f"{requirement}, locked: {pin}"


def test_all_recipes_have_one_python_which_the_project_allows():
    dependencies = yaml.safe_load(recipe("environment.yaml"))["dependencies"]
    versions = [
        re.search(r"^FROM python:([\d.]+)-", recipe("Dockerfile"), flags=re.MULTILINE)[1],
        re.search(r"^From: python:([\d.]+)-", recipe("apptainer.def"), flags=re.MULTILINE)[1],
        next(line for line in dependencies if str(line).startswith("python="))[len("python=") :],
        # The oldest Python that the lock was made for is the one that it is sure to fit.
        re.search(r"--python-version ([\d.]+)", (ROOT / "Makefile").read_text())[1],
    ]
    assert len(set(versions)) == 1, versions
    assert SpecifierSet(PROJECT["project"]["requires-python"]).contains(versions[0])


def test_what_the_images_copy_is_there_and_is_what_they_install():
    copied = re.search(r"^COPY (.+) /opt/noisyfl/$", recipe("Dockerfile"), flags=re.MULTILINE)
    (section,) = re.findall(r"^%files\n((?: .*\n)+)", recipe("apptainer.def"), flags=re.MULTILINE)
    pairs = [line.split() for line in section.splitlines()]
    assert [source for source, _ in pairs] == [f"envs/{name}" for name in copied[1].split()]
    assert [target for _, target in pairs] == [f"/opt/noisyfl/{name}" for name in copied[1].split()]
    assert all((ROOT / source).is_file() for source, _ in pairs)
    for name in ("Dockerfile", "apptainer.def"):
        installed = re.findall(r"--requirement (\S+)", recipe(name))
        assert installed == [target for _, target in pairs]


def test_everybody_installs_with_hashes_and_the_images_alike():
    docker, apptainer = (installing(recipe(name)) for name in ("Dockerfile", "apptainer.def"))
    assert docker == apptainer
    assert len(docker) == 2
    assert all("--require-hashes" in command for command in docker)
    # pip asks for hashes of everything as soon as a file has one, so nothing may stand beside it.
    (pip,) = [
        line["pip"]
        for line in yaml.safe_load(recipe("environment.yaml"))["dependencies"]
        if isinstance(line, dict)
    ]
    assert pip == ["--requirement requirements.txt"]


def test_the_commands_to_type_name_what_there_is():
    makefile = (ROOT / "Makefile").read_text()
    found = commands()
    assert {"make", "docker", "apptainer", "conda"} <= {words[0] for words in found}
    for words in found:
        for word in words:
            if re.match(r"(envs|config|tests)(/|$)", word):
                assert (ROOT / word).exists(), words
        if words[0] == "make":
            assert f"\n{words[-1]}:" in makefile, words
        if words[:2] == ["docker", "build"]:
            assert (ROOT / words[-1] / "Dockerfile").is_file(), words
        for before, target in itertools.pairwise(words):
            if before == "snakemake" and not target.startswith("-"):
                assert target_is_there(target), words


def target_is_there(target):
    """Whether a target such as fedcorr_table2 is in the experiment's file."""
    experiment, _, name = target.partition("_")
    parts = yaml.safe_load((EXPERIMENTS / f"{experiment}.yaml").read_text())
    return name in {**parts["tables"], **parts["figures"]}


def test_the_readme_has_each_recipe_and_the_cuda_of_the_lock():
    readme = (ENVS / "README.md").read_text()
    for path in ENVS.iterdir():
        assert path.name == "README.md" or f"`{path.name}`" in readme, path
    locked = {requirement.name: requirement for requirement, _ in pins("requirements.txt")}
    (toolkit,) = locked["cuda-toolkit"].specifier
    # Another CUDA needs another driver and other GPUs, so what the page says of them is due too.
    assert f"CUDA {'.'.join(toolkit.version.split('.')[:2])}," in readme
    for package in ("torch", "torchvision"):
        (other,) = re.findall(rf'"{package}(==[\d.*]+)"', readme)
        asked = next(
            Requirement(line)
            for line in PROJECT["project"]["dependencies"]
            if Requirement(line).name == package
        )
        assert asked.specifier.contains(other.strip("=").replace("*", "0"))


def test_jobs_in_an_image_find_the_one_that_the_recipe_makes():
    (image,) = re.findall(r'^container: "(.+)"$', (ROOT / "Snakefile").read_text(), re.MULTILINE)
    assert ["apptainer", "build", image, "envs/apptainer.def"] in commands()
    assert "*.sif" in (ROOT / ".gitignore").read_text().splitlines()


@pytest.mark.skipif(
    not PROGRAM, reason="NOISYFL_CONTAINER_PROGRAM does not name docker or podman: no image built"
)
def test_the_image_trains_and_what_it_made_is_the_users(tmp_path):
    """Downloads gigabytes: only for whoever asks for it."""
    folder = tmp_path / "noisyfl"
    folder.mkdir()
    for name in ("Snakefile", "rules", "workflow", "config", "profiles"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    # Not root even if root runs the tests: an image that needs root would pass.
    user = os.getuid() or 4242
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, -1)
    build = [PROGRAM, "build", "--tag", "noisyfl-test", str(ENVS)]
    subprocess.run(build, check=True)
    start = [PROGRAM, "run", "--rm", "--user", f"{user}:{user}"]
    start += ["--volume", f"{folder}:/noisyfl", "noisyfl-test"]
    smoke = ["snakemake", "fedcorr_table6", "--cores", "1", "--configfile", "config/smoke.yaml"]
    subprocess.run([*start, *smoke], check=True)
    table = folder / "results" / "smoke" / "tables" / "fedcorr" / "table6.md"
    assert table.stat().st_size
    assert {path.stat().st_uid for path in folder.rglob("*")} == {user}
    # Nobody may write to the image, so that all that is made lies in the folder.
    written = subprocess.run([*start, "touch", "/opt/noisyfl/made"], capture_output=True)
    assert written.returncode != 0
