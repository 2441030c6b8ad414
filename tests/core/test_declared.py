"""What the class of a component declares is checked when it is registered."""

import re
import warnings
from typing import ClassVar, Literal

import pytest

from noisyfl.core import plugins
from noisyfl.core.declared import check_declared
from noisyfl.core.options import BadInput, option
from noisyfl.data.datasets.dataset import DATASETS
from noisyfl.experiments.overlay import REGISTRIES
from noisyfl.methods import METHODS
from noisyfl.models.model import MODELS, Model
from noisyfl.simulation.client_side import Cost
from outside import PARTS, Sound

pytestmark = pytest.mark.usefixtures("forgotten")


def planted(name, value, /, **annotations):
    held = {"__doc__": "Wrong.", "__module__": __name__, "__annotations__": annotations}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pydantic's, of a field that shadows an attribute
        return type("Planted", (Sound,), {**held, name: value})


class OddDefault(Sound):
    how: Literal["mean", "sum"] = option("max", doc="of nothing")


class OddVariant(Sound):
    strength: float = option(1.0, doc="of nothing", at_least=0)
    variants: ClassVar = {"weak": {"strenght": 0.5}}


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (planted("cost", 3), "Planted.cost: got 3, expected an instance of Cost"),
        (planted("cost", Cost("3")), "Planted.cost.effort: got '3', expected a number"),
        (planted("networks", "2"), "Planted.networks: got '2', expected a whole number"),
        (planted("networks", 0), "Planted.networks: got 0, expected at least 1"),
        (planted("revision", "1"), "Planted.revision: got '1', expected a whole number"),
        (planted("by_sample", "seen"), "Planted.by_sample: got 'seen', expected a tuple"),
        (planted("needs_truth", 1), "Planted.needs_truth: got 1, expected true or false"),
        (
            planted("partner", "clients"),
            "Planted.partner: got 'clients', expected one of '', 'client'",
        ),
        (
            planted("refuses", {"kept": "no"}),
            "Planted.refuses: got 'kept', expected one of 'models_kept'",
        ),
        (planted("variants", {"weak": 3}), "Planted.variants.weak: got 3, expected keys and va"),
        (
            planted("losses", option(1.0, doc="of nothing"), losses=float),
            "Planted.losses: got an option, expected another name for it, as ClientSide has an at",
        ),
        (
            planted("name", option("x", doc="of nothing"), name=str),
            "Planted.name: got an option, expected another name for it",
        ),
        (
            planted("networks", 2, networks=int),
            "Planted.networks: got an option, expected another name for it",
        ),
        (
            planted("parts", option(2, doc="of nothing"), parts=int),
            "Planted.parts: got an option, expected another name for it, as 'parts' is a key",
        ),
        (OddDefault, "OddDefault.how: got 'max', expected one of 'mean', 'sum'"),
        (OddVariant, "OddVariant.variants.weak: unknown option 'strenght'; did you mean 'strength"),
    ],
)
def test_what_is_wrong_with_a_class_is_named(cls, expected):
    with pytest.raises(BadInput, match=re.escape(f"method 'planted': {expected}")):
        METHODS.register("planted")(cls)
    assert "planted" not in METHODS.classes


def test_a_model_says_how_small_images_may_be():
    class WithoutMinimum(Model):
        def build(self, shape, classes):
            return None

    with pytest.raises(BadInput, match="'planted': WithoutMinimum: attribute 'minimum' is missing"):
        MODELS.register("planted")(WithoutMinimum)


def test_a_property_that_depends_on_options_may_stand_for_an_attribute():
    class OfOptions(Sound):
        remembers: bool = option(True, doc="or not")

        @property
        def by_sample(self):
            return ("seen",) if self.remembers else ()

    METHODS.register("planted")(OfOptions)
    assert METHODS.build("planted").by_sample == ("seen",)


@pytest.mark.parametrize("registry", [METHODS, *REGISTRIES.values()], ids=lambda one: one.kind)
def test_our_own_declare_what_they_should(registry):
    for name, cls in registry.classes.items():
        check_declared(cls, registry.bases, f"{registry.kind} {name!r}: ")


@pytest.mark.parametrize(
    ("right", "wrong", "expected"),
    [
        ('classes=("dark", "light")', "classes=2", "classes: got 2, expected a tuple"),
        ("shape=(6, 6, 1)", "shape=(6, 6)", "shape: got (6, 6), expected more than 2 items"),
        ("mean=(0.4,)", "mean=0.4", "mean: got 0.4, expected a tuple"),
        ("load=load", "load=None", "load: got None, expected callable"),
        ("test_size=100", "test_size='100'", "test_size: got '100', expected a whole number"),
    ],
)
def test_what_is_wrong_with_a_dataset_is_named(tmp_path, right, wrong, expected):
    assert PARTS.count(right) == 1
    (tmp_path / "mine.py").write_text(PARTS.replace(right, wrong))
    with pytest.raises(BadInput, match=re.escape(f"dataset 'stripes'.{expected}")):
        plugins.load([str(tmp_path / "mine.py")])
    assert "stripes" not in DATASETS


def test_a_list_may_stand_for_a_tuple_of_a_dataset(tmp_path):
    text = PARTS.replace("shape=(6, 6, 1)", "shape=[6, 6, 1]")
    (tmp_path / "mine.py").write_text(text)
    plugins.load([str(tmp_path / "mine.py")])
    assert "stripes" in DATASETS
