import math

import pytest

from descriptions import described
from noisyfl.core.options import BadInput
from noisyfl.figures import style
from noisyfl.figures.local_epochs import epochs_by_round, local_epochs
from noisyfl.specs.catalogue import canonical_method


def test_epochs_are_those_of_equation_11():
    found = epochs_by_round('fednoil(variant="logarithm", least_from=10)', 12, "f")
    exact = [20 + 80 * (1 - math.log(r) / math.log(10)) for r in range(1, 11)]
    assert found == [math.floor(value + 0.5) for value in exact] + [20, 20]


def test_epochs_are_those_of_equation_10():
    method = canonical_method('fednoil(variant="cosine", least_from=41)', "f")
    found = epochs_by_round(method, 41, "f")
    assert (found[0], found[20], found[40]) == (100, round(20 + 80 * math.cos(math.pi / 4)), 20)


@pytest.mark.parametrize("method", ["fedavg", 'fednoil(variant="constant")'])
def test_a_method_without_a_schedule_of_its_own_is_refused(method):
    with pytest.raises(BadInput, match=r"f: fed.* has the run's local epochs, and none"):
        epochs_by_round(method, 3, "f")


def test_a_line_a_method():
    lines = [
        {"name": f"{kind}({least})", "method": f'fednoil(variant="{kind}", least_from={least})'}
        for kind in ("cosine", "logarithm")
        for least in (10, 20)
    ]
    with style.house_style():
        figure = local_epochs(described({"rounds": 30, "panels": lines}))
        figure.draw_without_rendering()
    drawn = figure.axes[0].lines
    for line, given in zip(drawn, lines, strict=True):
        assert line.get_xdata().tolist() == list(range(1, 31))
        assert line.get_ydata().tolist() == epochs_by_round(given["method"], 30, "f")
    assert drawn[0].get_color() == drawn[2].get_color() != drawn[1].get_color()
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == [line["name"] for line in lines]
