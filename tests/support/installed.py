"""The package as a wheel in an environment of its own, and commands outside of the clone."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import yaml

from noisyfl.core.places import ROOT
from small_repository import SETTING, TABLES

OTHERS = ("PYTHONPATH", "SNAKEMAKE_OUTPUT_CACHE", "SNAKEMAKE_PROFILE")
"""Variables that would lead back to the clone, or to what the tests' user has."""


class Outside:
    """An environment that has the packages of the tests' own one, but not the clone's package.

    A wheel that is installed in it is found before them.
    """

    def __init__(self, folder):
        self.folder = folder
        venv.EnvBuilder(symlinks=True).create(folder / "venv")
        self.bin = folder / "venv" / "bin"
        # A path in a .pth file is searched, but the .pth files there, such as the clone's, are not.
        site = sysconfig.get_path("purelib", vars={"base": str(folder / "venv")})
        (Path(site) / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")

    def install(self):
        """Build a wheel of the clone, and install it; its path is returned."""
        built = self.folder / "built"
        build = ["-m", "hatchling", "build", "--target", "wheel", "--directory", built]
        subprocess.run([sys.executable, *build], cwd=ROOT, check=True, capture_output=True)
        (wheel,) = built.iterdir()
        pip = ["-m", "pip", "--python", self.bin / "python", "install", "--quiet", "--no-deps"]
        subprocess.run([sys.executable, *pip, "--no-index", "--no-compile", wheel], check=True)
        return wheel

    def run(self, folder, *words, fails=False, **variables):
        """Run a command in a folder; what it printed."""
        environment = {key: value for key, value in os.environ.items() if key not in OTHERS}
        environment |= {"PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}"}
        # A cache of modules from hosts belongs to the user.
        environment |= {"XDG_CACHE_HOME": str(self.folder / "cache"), **variables}
        command = list(map(str, words))
        if command[0] in ("python", "noisyfl"):
            command[0] = str(self.bin / command[0])
        done = subprocess.run(
            command, cwd=folder, env=environment, stdout=-1, stderr=-2, text=True, check=False
        )
        assert bool(done.returncode) == fails, done.stdout
        return done.stdout

    def snakemake(self, folder, *words, **more):
        return self.run(folder, "python", "-m", "snakemake", "--cores", "2", *words, **more)


def own_scale(folder):
    """Write a scale, and an experiment of one's own with two tables that share runs of seconds."""
    (folder / "experiments").mkdir(parents=True)
    (folder / "experiments" / "mine.yaml").write_text(SETTING + TABLES)
    given = {"scale": "mine", "experiments": ["mine"], "experiment_folders": ["experiments"]}
    (folder / "mine.yaml").write_text(yaml.safe_dump(given))


def tagged_clone(folder, tag):
    """A bare clone of the repository, with what is not committed yet, and a tag; how git finds it.

    Returns:
        variables: of the environment, with which git takes ``https://github.com/lab/noisyfl`` from
            this folder.
    """

    def git(*words, **more):
        subprocess.run(["git", *words], check=True, capture_output=True, **more)

    tree = folder / "tree"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tree / name)
    author = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    git("init", "--quiet", cwd=tree)
    git("add", "--all", cwd=tree)
    git(*author, "commit", "--quiet", "--message", "all", cwd=tree)
    git("tag", tag, cwd=tree)
    git("clone", "--quiet", "--bare", tree, folder / "lab" / "noisyfl")
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{folder}/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/",
    }
