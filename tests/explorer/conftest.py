"""What the explorer's tests share."""

from dataclasses import replace

import pytest

import small_explorer as small
from browser import Visit, chromium
from noisyfl.analysis.frame import tidy, write_frame
from noisyfl.analysis.runs import read_runs
from noisyfl.explorer.page import write_explorer
from noisyfl.specs.descriptions import CellDescription, Heading


@pytest.fixture(scope="module")
def two_papers(tmp_path_factory, runs_in):
    """The small scale, whose second table is of a paper of its own and has two computed columns."""
    folder = tmp_path_factory.mktemp("two_papers")
    sources = small.small_scale(folder, runs_in(folder / "results"))
    first, second = sources.tables
    computed = (
        Heading(name="Mean", mean_of=(small.LOW, small.HIGH)),
        Heading(name="Average rank", average_rank=True),
    )
    second = replace(
        second,
        experiment="q",
        columns=(*second.columns, *computed),
        cells=tuple((*line, CellDescription(), CellDescription()) for line in second.cells),
    )
    frame = folder / "q.parquet"
    write_frame(frame, tidy(second, read_runs(sources.runs)))
    return replace(sources, tables=[first, second], frames=[sources.frames[0], frame])


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def made(tmp_path_factory, runs_in):
    folder = tmp_path_factory.mktemp("explorer")
    sources = small.small_scale(folder, runs_in(folder / "results"))
    write_explorer(sources, folder / "explorer.html")
    return sources, folder / "explorer.html"


@pytest.fixture(scope="module")
def visit(browser, made):
    return Visit(browser, made[1])


@pytest.fixture
def page(visit):
    visit.show("#runs")
    return visit.show("#tables")
