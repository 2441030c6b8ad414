"""Plugins: found, imported once, and refused in a line that names them."""

import hashlib
import os

import pytest
from pydantic import ValidationError

from noisyfl.core import plugins
from noisyfl.core.code import code_digest
from noisyfl.core.options import BadInput
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.data.noise.label_noise import LABEL_NOISES
from noisyfl.data.partitioning.partition import PARTITIONS
from noisyfl.specs.spec import canonical_run
from outside import as_before

pytestmark = pytest.mark.usefixtures("forgotten")

NOISE = '''
from noisyfl.data.noise.label_noise import LABEL_NOISES, Clean


@LABEL_NOISES.register("{name}")
class Own(Clean):
    """Nothing is flipped."""

    revision = {revision}
'''
OWN = NOISE.format(name="own", revision=1)
METHOD = """import noisyfl.method as fl
@fl.METHODS.register("misspelled")
class Misspelled(fl.ServerSide, fl.ClientSide):
"""
PARTITION = """from noisyfl.data.partitioning.partition import PARTITIONS, Partition
@PARTITIONS.register("undrawn")
class Undrawn(Partition):
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Writes a package as pip installs it, without a network and without pip."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(source=OWN, entries="[noisyfl.label_noises]\nown = noise_of_ours.parts\n"):
        folder = tmp_path / "noise_of_ours"
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").write_text("")
        (folder / "parts.py").write_text(source)
        about = tmp_path / "noise_of_ours-2.1.dist-info"
        about.mkdir(exist_ok=True)
        (about / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: noise-of-ours\nVersion: 2.1\n"
        )
        (about / "entry_points.txt").write_text(entries)
        return folder

    return write


def file_of(folder, text=OWN, name="mine.py"):
    (folder / name).write_text(text)
    return str(folder / name)


def test_a_file_is_loaded_once_and_named_in_specs(tmp_path):
    file = file_of(tmp_path)
    for _ in range(2):
        plugins.load([file, file])
    assert LABEL_NOISES.build("own").canonical() == {"name": "own", "revision": 1}
    (found,) = plugins.facts_of([LABEL_NOISES.get("own").__module__]).items()
    assert found[0] == "mine.py"
    assert set(found[1]) == {"sha256"}


def test_an_edit_of_the_same_size_and_time_is_loaded(tmp_path):
    for revision in (1, 2):
        file = file_of(tmp_path, OWN.replace("revision = 1", f"revision = {revision}"))
        os.utime(file, (0, 0))
        with as_before():
            plugins.load([file])
            found = LABEL_NOISES.build("own").canonical()
            assert found == {"name": "own", "revision": revision}


def test_components_of_this_package_have_no_revision_of_their_own(tmp_path):
    plugins.load([file_of(tmp_path)])
    assert LABEL_NOISES.build("none").canonical() == {"name": "none"}
    assert plugins.facts_of([LABEL_NOISES.get("none").__module__]) == {}


def test_a_spec_of_another_revision_is_refused(tmp_path):
    plugins.load([file_of(tmp_path)])
    assert LABEL_NOISES.build({"name": "own", "revision": 1}).name == "own"
    with pytest.raises(BadInput, match=r"own\.revision: got 2, expected 1, that of the plugin"):
        LABEL_NOISES.build({"name": "own", "revision": 2})


EVERY_KIND = """
import noisyfl.method as fl
from noisyfl.data.noise.label_noise import LABEL_NOISES, Symmetric
from noisyfl.data.noise.noise_level import NOISE_LEVELS, Constant
from noisyfl.data.partitioning.partition import IID, PARTITIONS
from noisyfl.models.cnn import Cnn
from noisyfl.models.model import MODELS


@fl.METHODS.register("own_method")
class OwnMethod(fl.ClientSide):
    "Cross-entropy."


@MODELS.register("own_model")
class OwnModel(Cnn):
    "A network."


@LABEL_NOISES.register("own_noise")
class OwnNoise(Symmetric):
    "Flips."


@NOISE_LEVELS.register("own_level")
class OwnLevel(Constant):
    "A level."


@PARTITIONS.register("own_partition")
class OwnPartition(IID):
    "Shares."
"""
SETTING = {
    "dataset": "digits",
    "partition": "own_partition(clients=5)",
    "label_noise": "own_noise",
    "noise_level": "own_level(level=0.2)",
    "model": "own_model",
    "augmentation": "none",
    "normalization": "dataset",
    "schedule": {
        "rounds": 1,
        "participation": 1.0,
        "local_epochs": 1,
        "batch_size": 10,
        "learning_rate": 0.1,
        "momentum": 0.0,
    },
    "method": "own_method",
    "seed": 1,
}


def test_an_edit_of_any_component_without_a_revision_makes_other_runs(tmp_path):
    texts = (
        *(EVERY_KIND, EVERY_KIND, "# Words.\n" + EVERY_KIND),
        EVERY_KIND.replace("Cross-entropy.", "In other words."),
        EVERY_KIND + "\nslope = 2",
    )
    found = []
    for number, text in enumerate(texts):
        (tmp_path / str(number)).mkdir()
        with as_before():
            plugins.load([file_of(tmp_path / str(number), text)])
            spec = canonical_run(SETTING, "test")
        parts = {**spec, **spec["noisy_partition"]}
        kinds = ("method", "model", "label_noise", "noise_level", "partition")
        found.append({kind: parts[kind]["revision"] for kind in kinds})
    before, *same, edited = found
    assert same == [before] * 3
    for kind, revision in before.items():
        assert revision.startswith("0-")
        assert edited[kind] != revision


def test_an_edit_of_a_file_beside_a_plugin_that_imports_it_makes_other_runs(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    for slope in (1, 1, 2):
        (tmp_path / "beside.py").write_text(f"import torch\n\nSLOPE = {slope}\n")
        with as_before():
            plugins.load([file_of(tmp_path, "import beside\n" + EVERY_KIND)])
            found.append(canonical_run(SETTING, "test")["method"]["revision"])
        code_digest.cache_clear()
    assert found[0] == found[1] != found[2]


def test_a_revision_stands_for_the_code(tmp_path):
    found = []
    for text in (OWN, OWN + "slope = 2\n"):
        with as_before():
            plugins.load([file_of(tmp_path, text)])
            found.append(LABEL_NOISES.build("own").canonical())
    assert found == [{"name": "own", "revision": 1}] * 2


def test_an_installed_package_is_loaded_and_named_with_its_version(package):
    folder = package()
    (found,) = plugins.find_plugins([])
    assert (found.name, found.version, found.modules) == (
        "noise-of-ours",
        "2.1",
        ("noise_of_ours",),
    )
    plugins.load([])
    module = LABEL_NOISES.get("own").__module__
    assert plugins.facts_of([module])["noise-of-ours"] == {"version": "2.1", "sha256": found.sha256}
    (folder / "other.py").write_text("x = 1\n")
    assert plugins.find_plugins([])[0].sha256 != found.sha256


@pytest.mark.parametrize(
    ("source", "entries", "expected"),
    [
        (
            "import nothing_there\n",
            "[noisyfl.label_noises]\nown = noise_of_ours.parts\n",
            r"plugin noise-of-ours 2\.1: .*parts\.py, line 1: ModuleNotFoundError: No module named",
        ),
        (
            OWN,
            "[noisyfl.label_noises]\nother = noise_of_ours.parts\n",
            r"plugin noise-of-ours 2\.1: the entry point 'other' of noisyfl\.label_noises leads to "
            r"noise_of_ours\.parts, which registers no label noise of that name",
        ),
        (
            OWN,
            "[noisyfl.label_noise]\nown = noise_of_ours.parts\n",
            r"plugin noise-of-ours 2\.1: got entry points of the group 'noisyfl\.label_noise', "
            r"expected one of noisyfl\.methods, ",
        ),
        (
            OWN,
            "[noisyfl.label_noises]\nown = gone_away.parts\n",
            r"plugin noise-of-ours 2\.1: ModuleNotFoundError: No module named 'gone_away'",
        ),
        (
            OWN.replace("class Own(Clean)", "class Own"),
            "[noisyfl.label_noises]\nown = noise_of_ours.parts\n",
            r"parts\.py, line 5: label noise 'own': Own is not a LabelNoise",
        ),
        (
            OWN.replace("Clean", "LabelNoise"),
            "[noisyfl.label_noises]\nown = noise_of_ours.parts\n",
            r"parts\.py, line 5: label noise 'own': Own has no ",
        ),
    ],
)
def test_what_is_wrong_with_a_package_is_one_line(package, source, entries, expected):
    package(source, entries)
    with pytest.raises(BadInput, match=expected) as refused:
        plugins.load([])
    assert "\n" not in str(refused.value)
    assert "own" not in LABEL_NOISES.classes


def test_a_component_that_keeps_something_in_itself_is_told_where_to_keep_it():
    with pytest.raises(ValidationError) as error:
        LABEL_NOISES.build("none").seen = 1
    said = plugins.with_line(error.value, lambda file: False)
    assert said == "got self.seen = ..., expected what changes in federation.state or client.state"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1\ny = nothing\n", "mine.py, line 2: NameError: name 'nothing' is not defined"),
        ("class Broken(:\n", "mine.py, line 1: SyntaxError: invalid syntax"),
        ("import sys\nsys.exit(0)\n", "mine.py, line 2: SystemExit: 0"),
        (
            METHOD + "    revison = 3\n",
            "line 3: got revison = 3, expected an option, as in `strength: float = option(1.0)`; "
            "did you mean 'revision'?",
        ),
        (
            METHOD + "    mu = fl.option(0.01, doc='a weight')\n",
            "line 3: got mu without a type, expected one, as in `mu: float = option(1.0)`",
        ),
        (
            METHOD + "    mu: float = fl.option('0.01', doc='a weight')\n",
            "line 2: method 'misspelled': default: mu: Input should be a valid number (got '0.01')",
        ),
        (
            METHOD + "    mu: float = fl.option(-1.0, doc='a weight', at_least=0)\n",
            "default: mu: Input should be greater than or equal to 0 (got -1.0)",
        ),
        (
            METHOD + "    mu: int | None = fl.option('none', doc='a number')\n",
            "default: mu: Input should be a valid integer (got 'none')",
        ),
        (
            METHOD + "    mu: dict = fl.option({}, doc='weights')\n",
            "line 2: method 'misspelled': mu: got the type dict, expected int, float, bool, str, a",
        ),
        (
            METHOD + "    mu: list | None = fl.option(None, doc='weights')\n",
            "line 2: method 'misspelled': mu: got the type list | None, expected int, float, bool",
        ),
        (
            METHOD + "    name: str = fl.option('a', doc='a name')\n",
            "got an option 'name', which is the name of an attribute; expected another name",
        ),
        (
            PARTITION + "    def draw(self, labels, classes, rng):\n        return []\n",
            "mine.py, line 2: partition 'undrawn': Undrawn has no _draw",
        ),
        (
            METHOD + "    def losess(self, logits, target):\n        return 0\n",
            "there is no hook 'losess'; did you mean 'losses'? The name of a function",
        ),
        ("x = 1\n", "plugin mine.py: it registers nothing, expected a method or a model or a data"),
        (
            OWN + "\n1 / 0\n",
            "line 11: ZeroDivisionError: division by zero",
        ),
        (
            NOISE.format(name="symmetric", revision=1),
            "mine.py, line 5: two label noises are called 'symmetric': that of "
            "noisyfl.data.noise.label_noise and that of mine.py",
        ),
        (
            NOISE.format(name="My-Noise", revision=1),
            "mine.py, line 5: got the label noise 'My-Noise', expected small letters, digits and",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line_and_it_can_be_mended(tmp_path, text, expected):
    file = file_of(tmp_path, text)
    with pytest.raises(BadInput) as refused:
        plugins.load([file])
    assert expected in str(refused.value)
    assert str(refused.value).startswith("plugin mine.py: ")
    assert "\n" not in str(refused.value)
    assert "own" not in LABEL_NOISES.classes
    plugins.load([file_of(tmp_path)])
    assert "own" in LABEL_NOISES.classes


def test_a_partition_draws_or_assigns_and_options_have_the_types_of_the_guide(tmp_path):
    text = f"""from typing import Annotated, Literal
from pydantic import Field
{PARTITION}    share: float | None = 0.5
    shares: list[Annotated[float, Field(ge=0)]] | None = None
    table: list[list[int]] = [[1]]
    order: Literal["up", "down"] = "up"

    def assign(self, labels, classes, rng, own=None):
        return []
"""
    plugins.load([file_of(tmp_path, text)])
    assert "undrawn" in PARTITIONS.classes


def test_two_plugins_of_one_name_are_refused_naming_both(tmp_path):
    file = file_of(tmp_path)
    other = file_of(tmp_path, NOISE.format(name="own", revision=1), "other.py")
    with pytest.raises(BadInput, match=r"'own': that of mine\.py and that of other\.py"):
        plugins.load([file, other])
    (tmp_path / "folder").mkdir()
    twin = file_of(tmp_path / "folder")
    with pytest.raises(BadInput, match=r"got .*/mine\.py and .*/folder/mine\.py, expected plugins"):
        plugins.find_plugins([file, twin])


def test_a_file_that_has_changed_since_it_was_loaded_is_refused(tmp_path):
    file = file_of(tmp_path)
    plugins.load([file])
    file_of(tmp_path, OWN + "# Another line.\n")
    with pytest.raises(BadInput, match=r"plugin mine\.py: it has changed since this process"):
        plugins.load([file])


@pytest.mark.parametrize("given", ["nowhere.py", "folder", "text.txt"])
def test_what_is_no_python_file_is_refused(tmp_path, given, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.txt").write_text(OWN)
    with pytest.raises(BadInput, match=f"plugins: got '{given}', expected a Python file"):
        plugins.find_plugins([given])


def test_paths_start_in_the_working_folder_and_may_have_variables(tmp_path, monkeypatch):
    file_of(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OWN_FOLDER", str(tmp_path))
    (one,) = plugins.find_plugins(["mine.py", "./mine.py", "$OWN_FOLDER/mine.py"])
    content = OWN.encode()
    framed = f"mine.py {len(content)}\n".encode() + content
    assert one.sha256 == hashlib.sha256(framed).hexdigest()


def test_a_dataset_of_a_plugin_is_known_by_the_module_of_its_loader(tmp_path):
    from outside import PARTS

    plugins.load([file_of(tmp_path, PARTS)])
    module = plugins.module_of(DATASETS["stripes"])
    assert str(plugins.plugin_of(module)) == "mine.py"
    assert plugins.plugin_of(plugins.module_of(DATASETS["mnist"])) is None
