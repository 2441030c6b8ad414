from itertools import combinations
from pathlib import Path

import pytest
import yaml
from matplotlib.figure import Figure

from noisyfl.experiments.config import EXPERIMENTS
from noisyfl.figures import looks as module
from noisyfl.figures.looks import COLOURS, DASHES, Look, looks, row_names, setting_name
from noisyfl.specs.catalogue import canonical_method, methods
from noisyfl.specs.descriptions import Heading

ROOT = Path(__file__).parents[2]


def of(*given):
    return looks(given)


def test_a_method_looks_the_same_in_every_figure():
    alone = of("fedcorr")
    assert of("fedavg", "rofl", "fedcorr")[2:] == alone
    assert of({"name": "fedcorr"}) == alone
    assert of(canonical_method("fedcorr", "test")) == alone


def test_every_method_has_a_look_of_its_own():
    names = list(methods())
    assert set(names) == set(module.METHODS)
    assert len(set(of(*names))) == len(names)


def test_a_combination_has_the_colour_of_the_second_and_the_dashes_of_the_first():
    krum, apfl, fedcorr = of("krum+dividemix", "apfl+dividemix", "fedcorr+median")
    assert krum.colour == apfl.colour == of("dividemix")[0].colour
    assert krum.dashes != apfl.dashes
    assert fedcorr.colour == of("median")[0].colour
    assert fedcorr != of("median")[0]


def test_dashes_tell_methods_alone_from_the_same_behind_another():
    names = ["coteaching", "jointopt", "rofl"]
    found = of(*names, *(f"centralized+{name}" for name in names))
    assert [look.dashes for look in found] == ["solid"] * 3 + ["long-short"] * 3
    assert [look.colour for look in found] == 2 * [look.colour for look in of(*names)]
    # One method is there alone only: all are as in every figure.
    assert of("coteaching", "rofl", "centralized+rofl")[0] == of("coteaching")[0]


def test_every_row_of_the_tables_of_all_methods_looks_different():
    tables = yaml.safe_load((EXPERIMENTS / "methods.yaml").read_text())["tables"]
    for table in tables.values():
        found = looks([row["method"] for row in table["rows"]])
        assert len(set(found)) == len(found)


def test_variants_leave_the_methods_own_look_to_the_whole_method():
    without, plain, other = of('rofl(variant="without_mask")', "rofl", "rofl(confident_share=0.1)")
    assert [plain] == of("rofl")
    assert len({without, plain, other}) == 3
    assert "solid" not in {without.dashes, other.dashes}
    assert len({without.colour, plain.colour, other.colour}) == 3  # as long as there are colours


def test_methods_of_a_users_own_take_what_is_free():
    found = of("mine", "fedprox", "fedavg", "mine+fedprox")
    assert found[1:3] == of("fedprox", "fedavg")
    assert len(set(found)) == 4


def test_one_methods_number_is_told_by_colour_and_its_word_by_dashes():
    found = of(
        'fednoil(variant="cosine", least_from=10)',
        'fednoil(variant="cosine", least_from=80)',
        'fednoil(variant="constant", least_from=10)',
        'fednoil(variant="constant", least_from=80)',
    )
    assert found[0].colour == found[2].colour != found[1].colour == found[3].colour
    assert found[0].dashes == found[1].dashes != found[2].dashes == found[3].dashes


def test_one_methods_rows_differ_where_options_do_not_tell_them_apart():
    given = [
        'fednoil(epochs="cosine", least_from=10)',
        'fednoil(epochs="logarithm", least_from=20)',
    ]
    assert len(set(of(*given, *given))) == 4


def test_two_looks_that_share_one_of_three_differ_in_the_other_two():
    every = [Look(colour, dashes) for colour in COLOURS for dashes in DASHES]
    for one, other in combinations(every, 2):
        shared = (one.rgb == other.rgb, one.dashes == other.dashes, one.point() == other.point())
        assert sum(shared) <= 1
    assert len(set(COLOURS.values())) == len(COLOURS)


def luminance(rgb):
    """Of linear light, as WCAG 2 defines it."""
    parts = [int(rgb[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("colour", COLOURS)
def test_every_colour_can_be_seen_on_white(colour):
    assert 1.05 / (luminance(COLOURS[colour]) + 0.05) > 2


def test_of_many_points_few_are_marked_and_not_those_of_other_lines():
    marked = []
    for turn in (0, 1 / 3, 2 / 3):
        first, every = Look("blue", "solid").line(60, turn)["markevery"]
        marked.append(set(range(60)[first::every]))
    assert all(5 <= len(points) <= 9 for points in marked)
    assert all(not one & other for one, other in combinations(marked, 2))
    assert Look("blue", "solid").line(3)["markevery"] == (0, 1)


def test_dashes_of_lines_that_coincide_do_not():
    offset, lengths = Look("blue", "dashed").line(60)["linestyle"]
    shifted, same = Look("sky", "dashed").line(60, 1 / 2)["linestyle"]
    assert same == lengths
    assert shifted - offset == sum(lengths) / 2


def test_all_looks_can_be_drawn():
    figure = Figure()
    panel = figure.subplots()
    for colour in COLOURS:
        for dashes in DASHES:
            panel.plot([0, 1], [0, 1], **Look(colour, dashes).line(2))
    figure.draw_without_rendering()
    assert len(set(map(str, DASHES.values()))) == len(DASHES)


def test_names_of_rows_in_one_group_are_their_labels():
    rows = [Heading(name=f"CIFAR-10, {x}", label=x, group="CIFAR-10") for x in "ab"]
    assert row_names(rows) == ("CIFAR-10", ["a", "b"])
    assert row_names([*rows, Heading(name="c", label="c")])[1] == [
        "CIFAR-10, a",
        "CIFAR-10, b",
        "c",
    ]
    assert row_names([Heading(name="x")]) == ("", ["x"])


def test_a_column_of_another_metric_is_called_as_its_group():
    column = Heading(name="pair, label recall", group="pair", metric="label_recall")
    assert setting_name(column) == "pair"
    assert setting_name(Heading(name="a, b", group="a")) == "a, b"
    assert setting_name(Heading(name="a", metric="label_recall")) == "a"
