"""The figures' house style."""

from noisyfl.figures.style import fold_titles, house_style, new_figure, set_indices

LONG = "Fashion-MNIST, Dirichlet 0.5, pair 0.3 to 0.6"


def test_titles_are_folded_where_the_one_beside_begins():
    with house_style():
        figure = new_figure(3)
        left, right, wide = figure.subplot_mosaic([["left", "right"], ["wide", "wide"]]).values()
        left.set_title(f"{LONG}\nshort")
        right.set_title(f"{LONG}, with more than fits")
        wide.set_title(LONG)
        fold_titles(figure)
        assert left.get_title() == f"{LONG}\nshort"
        assert (
            right.get_title()
            == "Fashion-MNIST, Dirichlet 0.5, pair\n0.3 to 0.6, with more than fits"
        )
        assert wide.get_title() == LONG
        figure.draw_without_rendering()
        ends = [axes.title.get_window_extent() for axes in (left, right)]
        assert ends[0].x1 < ends[1].x0


def test_names_with_dollar_signs_are_drawn_as_they_are():
    with house_style():
        figure = new_figure(3)
        figure.subplots().set_title("Prox $x_$, 50% $x & y$")
        figure.draw_without_rendering()  # as a formula, this would be an error


def test_symbols_have_their_index_below():
    with house_style():
        figure = new_figure(3)
        figure.subplots().set_title("λ_e up to $2, from T_s1 on")
        figure.supxlabel("my_method")
        set_indices(figure)
        (panel,) = figure.axes
        words = r"$\mathregular{λ_{e}}$ up to \$2, from $\mathregular{T_{s1}}$ on"
        assert panel.get_title() == words
        assert panel.title.get_parse_math()
        assert figure.get_supxlabel() == "my_method"
        figure.draw_without_rendering()
