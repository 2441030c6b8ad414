from descriptions import described
from noisyfl.analysis.local_epochs import epochs_by_round
from noisyfl.figures import style
from noisyfl.figures.local_epochs import local_epochs


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
