"""Every published number has its place in a table, and every place its number."""

from collections import Counter, defaultdict

import pytest

from noisyfl.core.places import ROOT
from noisyfl.experiments.config import load_config

from .plans import cells_of, number_of, numbers, plan_of

PAPERS = {"rofl": 147, "fedcni": 265, "fednoil": 522, "fedcorr": 178, "fedrn": 266}
"""How many numbers of each paper are in config/published.csv."""

OTHER_READINGS = {
    "fedcni": {"FedCNI with write-back", "FedCNI, one mean"},
    "fedcorr": {
        "FedProx, squared",
        "FedCorr w/o frac. scheduling, every client once",
        "ρ=0.6 τ=0.5, ten classes",
    },
}
"""By paper, rows and columns of another reading than what the paper printed, as their page says."""

OTHER_TABLES = {"fednoil/pair_maps"}
"""Tables that show numbers of another table once more, beside another reading."""


def reached(paper):
    """By table, row and column, the published number of each cell of the paper's tables."""
    found = {}
    for name, table in plan_of(paper).tables.items():
        if table.published is not None and name not in OTHER_TABLES:
            for row, column, _ in cells_of(table):
                found[table.name, row.name, column.name] = number_of(table, row, column)
    return found


@pytest.mark.parametrize("paper", PAPERS)
def test_every_published_number_is_reached_by_exactly_one_cell(paper):
    cells = defaultdict(list)
    for at, number in reached(paper).items():
        if number is not None:
            cells[number.line].append(at)
            assert number.fields["table"] == at[0]
    several = {line: places for line, places in cells.items() if len(places) > 1}
    assert not several
    assert set(cells) == {number.line for number in numbers() if number.fields["paper"] == paper}


@pytest.mark.parametrize("paper", PAPERS)
def test_every_cell_of_a_papers_table_has_a_published_number(paper):
    ours_alone = [at for at, number in reached(paper).items() if number is None]
    readings = OTHER_READINGS.get(paper, set())
    assert [at for at in ours_alone if not readings.intersection(at)] == []
    assert {name for at in ours_alone for name in at if name in readings} == readings


@pytest.mark.parametrize("paper", OTHER_READINGS)
def test_another_reading_has_no_published_number(paper):
    for at, number in reached(paper).items():
        assert number is None or not OTHER_READINGS[paper].intersection(at), at


@pytest.mark.parametrize("name", OTHER_TABLES)
def test_a_table_of_other_readings_has_the_papers_numbers_beside_each(name):
    table = plan_of(name.partition("/")[0]).tables[name]
    found = [number_of(table, row, column) for row, column, _ in cells_of(table)]
    assert None not in found
    assert len(found) == 2 * len({number.line for number in found})


# ---------------------------------------------------------------- noises

REAL = ("clothing1m", "mini_webvision")
"""Datasets whose labels are wrong as they come."""

GROUPS = {
    **dict.fromkeys([(kind, (0.3, 0.5, 0.6, 0.8)) for kind in ("pair", "client_pair")], "high"),
    **dict.fromkeys([(kind, (0.3, 0.4, 0.5, 0.6)) for kind in ("pair", "client_pair")], "low"),
    ("symmetric", (0.5, 0.6, 0.7, 0.8)): "high",
    ("symmetric", (0.3, 0.4, 0.5, 0.6)): "low",
}
"""FedNoiL's two levels of each noise."""

WORDS = {
    ("fedcni", "asymmetric"): "pair",
    ("fednoil", "client_pair"): "pair",
    ("fedrn", "pair"): "asymmetric",
}
"""What a paper calls a label noise, where that is another word than ours."""


def noise_label(paper, part):
    """What the published numbers call the noise of a noisy partition."""
    kind, level = part["label_noise"]["name"], part["noise_level"]
    word, name = WORDS.get((paper, kind), kind), level["name"]
    if kind == "none":
        return "real" if part["dataset"] in REAL else "none"
    if name == "constant":
        return f"{word}(eps={level['level']:g})"
    if name == "client_variance":
        return f"client_variance(eta={level['eta']:g})"
    if name == "bernoulli_uniform":
        return f"bernoulli_uniform(rho={level['rho']:.1f},tau={level['tau']:.1f})"
    if name == "truncnorm":
        return f"truncnorm({word},mu={level['mu']:g},sigma={level['sigma']:g})"
    if name == "groups":
        return f"groups({word},{GROUPS[kind, tuple(level['levels'])]})"
    assert name == "client_linear"
    return f"client_linear({word},{level['low']:.1f}-{level['high']:.1f})"


@pytest.mark.parametrize("paper", PAPERS)
def test_the_noise_of_a_cell_is_that_of_its_published_number(paper):
    plan, compared = plan_of(paper), 0
    for table in plan.tables.values():
        for row, column, runs in cells_of(table):
            number = number_of(table, row, column) if runs else None
            if number is None or number.fields["noise"] == "unstated":
                continue
            printed = number.fields["noise"]
            if printed == "client_variance(eta=0)":  # all clients have the same level then
                printed = "symmetric(eps=0.4)"
            found = {noise_label(paper, plan.runs[run]["noisy_partition"]) for run in runs}
            assert found == {printed}, (table.name, row.name, column.name)
            compared += 1
    assert compared > 100


def test_the_five_papers_are_all_there_is():
    assert Counter(number.fields["paper"] for number in numbers()) == PAPERS


@pytest.mark.parametrize("paper", PAPERS)
def test_a_published_table_is_a_table_of_its_name(paper):
    plan = plan_of(paper)
    printed = {number.fields["table"] for number in numbers() if number.fields["paper"] == paper}
    named = {name for name, t in plan.tables.items() if t.published is not None}
    assert named - OTHER_TABLES == {f"{paper}/{name}" for name in printed}


def test_the_paper_scale_has_every_experiment_of_a_paper():
    config = load_config([ROOT / "config" / "paper.yaml"])
    assert set(PAPERS) <= set(config.experiments)


def test_a_starred_number_is_known_as_that():
    # FedNoiL stars the maxima of runs that did not converge; no other paper prints stars.
    starred = [number for number in numbers() if number.number.starred]
    assert {number.fields["paper"] for number in starred} == {"fednoil"}
    assert len(starred) == sum("starred" in number.fields["note"] for number in numbers())
