from typing import Annotated, ClassVar, Literal

import pytest
from pydantic import Field

from noisyfl.core.artifacts import DamagedArtifact
from noisyfl.core.options import BadInput, did_you_mean, kind_of, option
from noisyfl.core.registry import Component, Registry, parse_component
from noisyfl.core.typed import is_list, limits_of
from noisyfl.method import METHODS

FRUITS = Registry[Component]("fruit", Component)


@FRUITS.register("apple")
class Apple(Component):
    variants: ClassVar = {"sour": {"sugar": 0.1}}

    sugar: float = option(doc="grams", above=0, at_most=10)
    seeds: int = option(5, doc="how many", at_least=0)
    colour: Literal["red", "green"] = option("red", doc="of the skin")
    sizes: list[Annotated[float, Field(ge=0, lt=5)]] = Field([1.0, 2.0], min_length=1)
    owner: str | None = option(None, doc="whose")
    ripe: bool = option(True, doc="or not")


@FRUITS.register("pear")
class Pear(Component):
    pass


def test_text_and_mapping_say_the_same():
    text = FRUITS.build('apple(sugar=2, sizes=[0.5], colour="green")', "here")
    mapping = {"name": "apple", "sugar": 2.0, "sizes": [0.5], "colour": "green"}
    assert text == FRUITS.build(mapping, "here")
    assert text.sizes == [0.5]
    assert isinstance(text.sugar, float)


def test_canonical_fills_in_every_default_and_rebuilds():
    canonical = FRUITS.build("apple(sugar=1)", "here").canonical()
    assert canonical == {
        "name": "apple",
        "sugar": 1.0,
        "seeds": 5,
        "colour": "red",
        "sizes": [1.0, 2.0],
        "owner": None,
        "ripe": True,
    }
    assert FRUITS.build(canonical, "here").canonical() == canonical


def test_variants_are_options_by_name_and_explicit_options_win():
    assert FRUITS.build('apple(variant="sour")', "here").sugar == 0.1
    assert FRUITS.build('apple(variant="sour", sugar=3)', "here").sugar == 3.0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("aple(sugar=1)", "here: no fruit is called 'aple'; did you mean 'apple'?"),
        ("apple(sugar=1, seed=2)", "here.apple: unknown option 'seed'; did you mean 'seeds'?"),
        ("apple", "here.apple.sugar: Field required (grams)"),
        ("apple(sugar=0)", "here.apple.sugar: Input should be greater than 0 (got 0)"),
        (
            {"name": "apple", "sugar": float("nan")},
            "here.apple.sugar: Input should be a finite number (got nan)",
        ),
        (
            "apple(sugar=1, colour='rde')",
            "here.apple.colour: Input should be 'red' or 'green' (got 'rde'); did you mean 'red'?",
        ),
        (
            "apple(sugar=1, sizes=[1, 5])",
            "here.apple.sizes[1]: Input should be less than 5 (got 5)",
        ),
        ("apple(sugar=1, variant='swet')", "here.apple.variant: got 'swet'"),
        ("apple(1)", "here: cannot read 'apple(1)'"),
        ("apple(sugar=x)", "here: cannot read"),
        ("apple(", "here: cannot read"),
        ({"sugar": 1}, "expected the name of a fruit"),
        (3, "here: got 3, expected the name of a fruit"),
    ],
)
def test_bad_input_names_place_value_and_what_was_expected(given, words):
    with pytest.raises(BadInput) as caught:
        FRUITS.build(given, "here")
    assert words in str(caught.value)


def test_a_name_is_taken_once():
    with pytest.raises(ValueError, match="two fruits are called 'pear'"):
        FRUITS.register("pear")(type("Other", (Component,), {"__doc__": "Another."}))


def test_declaration_holds_limits():
    sizes = Apple.model_fields["sizes"]
    assert is_list(sizes)
    assert limits_of(sizes) == {"at least": 0, "below": 5}


@pytest.mark.parametrize("seeds", [10**30, 1e30, "1" + "0" * 30])
def test_a_number_that_no_computer_counts_to_is_refused_however_it_is_written(seeds):
    with pytest.raises(BadInput, match=r"seeds: got 1000\d+, expected a whole number below 2\^63"):
        FRUITS.build({"name": "apple", "sugar": 1, "seeds": seeds})


def test_parse_component_knows_yamls_words_and_pythons():
    yaml = parse_component("a(b=true, c=false, d=null)", "here")
    assert yaml == parse_component("a(b=True, c=False, d=None)", "here")
    assert yaml == {"name": "a", "b": True, "c": False, "d": None}


def test_a_name_with_hyphens_is_looked_up_like_others():
    assert parse_component("co-teaching", "here") == {"name": "co-teaching"}
    with pytest.raises(BadInput, match="no method is called 'co-teaching'; did you mean 'coteach"):
        METHODS.build("co-teaching")


def test_an_object_is_named_by_its_class_and_not_shown():
    assert [kind_of(one) for one in (1, "a", None, [1, 2], Registry("x"))] == [
        *("1", "'a'", "None", "list of 2", "Registry"),
    ]


def test_parse_component_reads_literals_only():
    assert parse_component("a(b=[1, -2], c={'d': None})", "here") == {
        "name": "a",
        "b": [1, -2],
        "c": {"d": None},
    }
    with pytest.raises(BadInput):
        parse_component("a(b=__import__('os'))", "here")


@FRUITS.register("plum")
class Plum(Component):
    rest: int = option(100, doc="rounds", at_least=0, share_of=("rounds", 500))


def test_a_default_that_is_a_share_goes_by_the_measure_and_a_given_number_does_not():
    assert Plum.read({}).rest == 100
    assert Plum.read({}, measures={"rounds": 40}).rest == 8
    assert Plum.read({}, measures={"rounds": 12}).rest == 2
    assert Plum.read({}, measures={"rounds": 1}).rest == 1
    assert Plum.read({}, measures={"visits": 7}).rest == 100
    assert Plum.read({"rest": 30}, measures={"rounds": 40}).rest == 30
    assert Plum.defaults({"rounds": 40}) == {"rest": 8}


@FRUITS.register("grape")
class Grape(Component):
    eaten: int | None = option(None, doc="how many", at_most_of="grown")
    grown: int = option(8, doc="how many", at_most_of="visits")


def test_a_value_is_bounded_by_another_option_or_by_a_measure_of_the_run():
    assert Grape.read({"eaten": 8}, measures={"visits": 8}).eaten == 8
    assert Grape.read({}, measures={"visits": 8}).eaten is None
    assert Grape.read({"grown": 9}).grown == 9  # of a run nothing is known
    with pytest.raises(BadInput, match=r"here\.eaten: got 9, expected at most 8 \(grown\)"):
        Grape.read({"eaten": 9}, "here")
    with pytest.raises(BadInput, match=r"here\.grown: got 8, expected at most 7 \(visits\)"):
        Grape.read({}, "here", measures={"visits": 7})


def test_a_key_that_stands_twice_in_a_text_is_refused():
    with pytest.raises(
        BadInput, match=r"here: cannot read .*: 'seeds' is given twice, expected it"
    ):
        parse_component("apple(seeds=1, seeds=2)", "here")


@pytest.mark.parametrize(
    ("word", "known", "close"),
    [
        ("MNIST", ["fashion_mnist", "mnist"], "mnist"),
        ("fedprox", ["FedProx", "SCAFFOLD"], "FedProx"),
    ],
)
def test_a_name_in_another_case_is_close(word, known, close):
    assert did_you_mean(word, known) == f"; did you mean {close!r}?"
    assert did_you_mean("xyz", known) == ""


HOSTILE = "a\x1b[2J\x07\x9b\u202e\u2066\r\udcff"
SPELLED = r"a\x1b[2J\x07\x9b\u202e\u2066\r\udcff"


@pytest.mark.parametrize("kind", [BadInput, DamagedArtifact])
def test_no_message_moves_the_cursor_or_turns_what_follows_around(kind):
    assert str(kind(f"{HOSTILE}: expected é\nand more")) == f"{SPELLED}: expected é\nand more"
    assert str(BadInput("got 1", HOSTILE, where=f"{HOSTILE}: ")).count("\x1b") == 0
