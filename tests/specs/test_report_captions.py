"""Titles and captions of the report show what an experiment's file has, and do nothing else."""

import re
from types import SimpleNamespace

import jinja2
import pytest
from docutils.core import publish_parts

from descriptions import described, described_table
from noisyfl.core.places import ROOT
from noisyfl.specs.descriptions import (
    description_text,
    in_restructured_text,
    read_description,
    script_safe,
)

CAPTIONS = ROOT / "workflow" / "report"


def shown(name, config, **params):
    """A caption's page as Snakemake makes it, and the text on it."""
    template = jinja2.Environment().from_string((CAPTIONS / name).read_text())
    snakemake = SimpleNamespace(
        params=SimpleNamespace(**params), config={"scale": "tiny", "experiments": ["a"], **config}
    )
    page = publish_parts(template.render(snakemake=snakemake), writer="html")["html_body"]
    assert "system-message" not in page
    return page, " ".join(jinja2.filters.do_striptags(page).split())


@pytest.fixture
def file(tmp_path):
    """A file of this machine."""
    path = tmp_path / "private"
    path.write_text("a private line")
    return path


MARKUP = [
    ".. include:: {file}",
    "text\n\n.. include:: {file}\n\nmore",
    ".. raw:: html\n   :file: {file}",
    "text\n\n.. raw:: html\n\n   <script>alert(1)</script>\n",
    "<script>alert(1)</script> & <b>bold</b>",
    "`a link <javascript:alert(1)>`_ and https://example.org and a@example.org",
    ".. image:: {file}",
    "|substituted| and [1]_ and name_ and :math:`x` and *starred* and **both** and ``code``",
    "- one\n- two",
    "=====\ntitle\n=====",
    "an example::\n\n  indented",
    "a \\ backslash at the end \\",
    "FedCorr, \u03c1=0.6 \u03c4=0.5: 50 % (non-IID); #1!",
]


@pytest.mark.parametrize("text", MARKUP)
def test_markup_is_shown_as_it_stands(file, text):
    text = text.replace("{file}", str(file))
    line = in_restructured_text(text)
    assert "\n" not in line
    page, words = shown("figure.rst", {}, title=line, caption=line)
    assert words.count(" ".join(text.split())) == 2
    assert "a private line" not in words
    assert not re.search("<(script|a|img|em|ul|ol|pre|table|b) ?", page)
    page, words = shown("table.rst", {}, title=line, compared=True)
    assert " ".join(text.split()) in words
    assert "a private line" not in words


def test_values_of_the_configuration_are_shown_as_they_stand(file):
    planted = f"x``\n\n.. include:: {file}\n\n.. raw:: html\n\n   <script>alert(1)</script>\n"
    overlay = {
        "setting": {"label_noise": planted, "schedule": {"rounds": planted}},
        "methods": {"fedprox": {"prox_form": planted}},
        "datasets": {"cifar10": {"partition": planted}},
    }
    page, words = shown("front.rst", {"overlay": overlay, "experiments": [planted], "trials": 2})
    assert words.count(f"x'' .. include:: {file} .. raw:: html <script>alert(1)</script>") == 5
    assert "a private line" not in words
    assert "<script" not in page


@pytest.mark.parametrize("name", ["figure.rst", "table.rst"])
def test_a_caption_shows_what_replaces_a_dataset_as_it_stands(name, file):
    planted = (
        f"images(path='x``\n\n.. include:: {file}\n\n.. raw:: html\n\n   <script>a()</script>')"
    )
    overlay = {"datasets": {"cifar10": {"dataset": planted}}}
    page, words = shown(name, {"overlay": overlay}, title="t", caption="c")
    assert f"images(path='x'' .. include:: {file} .. raw:: html <script>a()</script>')" in words
    assert "a private line" not in words
    assert "<script" not in page


PRECISION = {"setting": {"schedule": {"precision": "tf32"}}}
"""What the scales `paper` and `own_size` lay over every setting."""


@pytest.mark.parametrize(
    ("as_published", "runs", "told"),
    [
        ([True, True], [["a"], ["b"]], "none"),
        ([True, False], [["a"], ["b"]], "some"),
        ([False, False], [["a"], ["b"]], "all"),
        # A column that is computed has no runs, and no setting of its own.
        ([True, False], [["a"], []], "none"),
        ([False, True], [["a"], []], "all"),
        ([False, False], [[], []], "none"),
    ],
)
def test_a_tables_own_cells_decide_whether_its_settings_are_the_papers(as_published, runs, told):
    table = described_table(
        {
            "columns": [{"name": "a"}, {"name": "b"}],
            "rows": [{"name": "x"}],
            "runs": [runs],
            "as_published": [as_published],
        }
    )
    assert table.not_as_published == told
    # The overlay of a scale says nothing: one may have only a precision, or only single tables.
    for overlay in ({}, PRECISION):
        given = {"title": "t", "compared": True, "not_as_published": told}
        _, words = shown("table.rst", {"overlay": overlay}, **given)
        assert ("The settings are not the paper's" in words) == (told == "all")
        assert ("marked † were not made in the paper's setting" in words) == (told == "some")
        _, words = shown("table.rst", {"overlay": overlay}, **{**given, "compared": False})
        assert "the paper" not in words


def test_a_description_cannot_end_the_script_that_it_stands_in():
    figure = described({"kind": "x", "title": "</script><script>alert(1)</script><!--"})
    text = description_text(figure)
    assert "<" not in text
    assert "<" not in script_safe({"note": ["</script>", {"<!--": "<script>"}]})
    assert read_description(text) == figure
