"""A table's pages: what stands under it, and that each can be read."""

import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import jinja2
import pytest
import yaml
from docutils.core import publish_parts
from docutils.writers import get_writer_class

from noisyfl.analysis.cells import Cell, Content
from noisyfl.core.artifacts import DamagedArtifact, RunFiles, write_json
from noisyfl.data.partitioning.partition import PARTITIONS
from noisyfl.pages.latex import latex_table
from noisyfl.pages.settings import LEGEND, duration, making, settings
from noisyfl.pages.table import html_page, markdown_page
from noisyfl.specs.words import component
from small_tables import (
    HIGH,
    LOW,
    Text,
    content,
    markdown_cells,
    printed,
    table_in,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture
def table(runs, tmp_path):
    return table_in(tmp_path, runs)


def settings_in_words(table):
    """By name the values of each setting by place."""
    return {
        setting.name: {place: str(words) for place, words in setting.values.items()}
        for setting in settings(content(table))
    }


def test_settings_are_told_once_where_they_are_common(table):
    found = settings_in_words(table)
    assert found["dataset"] == {"": "digits"}
    assert found["rounds"] == {"": "30"}
    assert "wrong labels" not in found  # which the runs of this table do not note
    assert found["noise level"] == {
        LOW: "bernoulli_uniform(rho=0.5, tau=0.0)",
        HIGH: "bernoulli_uniform(rho=0.5, tau=0.5)",
    }
    text = printed(table)["md"]
    assert f"| noise level | {LOW} | `bernoulli_uniform(rho=0.5, tau=0.0)` |" in text
    assert "- FedAvg: `fedavg`, revision " in text
    assert "**`mixup=False`**" in text


def test_settings_that_follow_the_rows_or_single_cells(table):
    run = table.runs.add([0.5], seed=41, schedule={**table.runs.setting["schedule"], "rounds": 60})
    table.description["runs"][1] = [[run], [run]]
    found = settings_in_words(table)
    assert found["rounds"] == {"FedAvg": "30", "w/o mixup": "60"}
    table.description["runs"][1] = [[run], table.description["runs"][0][1]]
    found = settings_in_words(table)
    assert found["rounds"] == {
        f"FedAvg, {LOW}; FedAvg, {HIGH}; w/o mixup, {HIGH}": "30",
        f"w/o mixup, {LOW}": "60",
    }


def test_a_shared_run_is_counted_once_and_sources_are_told_apart(table):
    made = making(content(table))
    assert made["runs"] == ["12 runs, 3 trials a cell"]
    assert made["training time"] == ["20 min 0 s"]
    assert made["device"] == ["a small CPU"]
    assert made["source digest"] == ["d" * 16]
    other = table.runs.add([0.5], seed=51, provenance={"source_digest": "e" * 64})
    table.description["runs"][0][1] = [*table.description["runs"][0][0], other]
    made = making(content(table))
    assert made["runs"] == ["10 runs, 3 or 4 trials a cell"]
    assert made["source digest"] == [
        "2 different ones",
        f"{'d' * 16} (9 runs)",
        f"{'e' * 16} (1 run)",
    ]


def test_every_run_of_a_cell_is_named(table):
    files = printed(table)
    for row in table.description["runs"]:
        for cell in row:
            assert ", ".join(f"`{run}`" for run in cell) in files["md"]
            assert all(f"<code>{run}</code>" in files["html"] for run in cell)


def test_a_run_that_was_reproduced_before_is_marked(table):
    run = table.description["runs"][0][0][1]
    moved = table.folder / "reproduced" / "runs" / run
    table.runs.files[run].folder.rename((moved.parent.mkdir(parents=True), moved)[1])
    table.runs.files[run] = RunFiles(moved)
    files = printed(table)
    assert f"`{run}` (reproduced)," in files["md"]
    assert files["md"].count("(reproduced)") == files["html"].count("(reproduced)") == 1


def test_html_is_whole_and_needs_nothing_else(table):
    table.description["title"] = "Table <1> & more"
    page = printed(table)["html"]
    parsed = Text(page)
    tags = {tag for tag, _ in parsed.tags}
    assert not tags & {"script", "link", "img", "iframe"}
    assert not re.search(r"https?://|@import|url\(", page)
    assert "Table <1> & more" in parsed.text
    assert "80.00 ± 10.00" in parsed.text
    assert "(93.11 ± 0.12)" in parsed.text
    assert '<span class="best">90.00 ± 5.00</span>' in page
    assert "digits replaces cifar10." in parsed.text
    assert parsed.text.count("not run") == 3


def test_the_same_runs_print_the_same_bytes(table):
    assert printed(table) == printed(table)


def test_a_run_in_another_runs_folder_is_refused(table):
    run = table.description["runs"][0][0][0]
    files = table.runs.files[run]
    spec = files.spec.read_text()
    write_json(files.spec, {"seed": 7})
    with pytest.raises(DamagedArtifact, match=f"expected the run {run}, found "):
        printed(table)
    files.spec.write_text(spec)
    other = table.description["runs"][0][0][1]
    files.rounds.write_bytes(table.runs.files[other].rounds.read_bytes())
    with pytest.raises(DamagedArtifact, match=f"expected the run {run}, found {other}"):
        printed(table)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(9.6, "10 s"), (59.9, "1 min 0 s"), (7260, "2 h 1 min"), (90000, "1 d 1 h")],
)
def test_durations(seconds, words):
    assert duration(seconds) == words


def test_a_component_is_written_as_in_a_configuration():
    given = PARTITIONS.build("dirichlet(alpha=0.5, clients=4, cap=True)", "here").canonical()
    words = component({**given, "revision": 3}, ["cap"])
    assert str(words) == (
        "dirichlet(clients=4, samples=None, alpha=0.5, min_size=10, per_client=None, cap=True)"
    )
    assert [text for text, marked in words.pieces if marked] == ["cap=True"]
    assert str(component({"name": "none"})) == "none"


@pytest.mark.parametrize("scale", ["config", "smoke", "paper"])
@pytest.mark.parametrize("page", ["front", "table", "figure"])
def test_report_texts_render_at_every_scale(scale, page):
    config = yaml.safe_load((ROOT / "config" / f"{scale}.yaml").read_text())
    params = SimpleNamespace(title="Table 2: ρ=0.0", caption="What is seen.", compared=False)
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)  # as Snakemake's
    template = environment.from_string((ROOT / "workflow" / "report" / f"{page}.rst").read_text())
    text = template.render(snakemake=SimpleNamespace(config=config, params=params))
    strict = {"halt_level": 2, "report_level": 2}
    writer = get_writer_class("html")()
    html = publish_parts(text, writer=writer, settings_overrides=strict)["html_body"]
    assert config["scale"] in html
    assert ("digits" in html) == (scale != "paper")
    assert ("Table 2: ρ=0.0" in html) == (page != "front")


def test_a_scale_says_what_its_numbers_are_worth(table):
    table.description["scale_note"] = "Worth *nothing*."
    assert "> - Worth \\*nothing\\*." in printed(table)["md"]
    assert "<li>Worth *nothing*.</li>" in printed(table)["html"]


def test_a_starred_best_number_stays_bold_in_markdown(table):
    table.description["statistic"] = "final_or_max"
    assert markdown_cells(printed(table)["md"], "w/o")[1].startswith("**90.00\\* ± 5.00**")


def test_a_table_of_which_some_runs_are_there_says_what_the_others_cost(table):
    table.description["runs"][0][1] = []
    table.description |= {"missing": 3, "missing_hours": 1.5}
    text = printed(table)["md"]
    assert markdown_cells(text, "FedAvg")[2].startswith("not run (72.00)")
    assert "9 of 12 runs are there; a cell without one is not run." in text
    assert "about 1.5 hours of one CPU core" in text
    assert f"- FedAvg, {HIGH}:" not in text
    assert "9 of 12 runs" in printed(table)["html"]
    table.description["runs"] = [[[], []], [[], []]]
    assert "- runs: none" in printed(table)["md"]


def test_what_is_not_the_default_is_marked_and_the_legend_says_so(table):
    run = table.runs.add([0.5], seed=41, method="fedrn(warm_up_rounds=6, neighbours=3)")
    table.description["runs"][1] = [[run], [run]]
    files = printed(table)
    # A fifth of 30 rounds is what FedRN's warm-up comes to by itself.
    assert "**`neighbours=3`**" in files["md"]
    assert "**`warm_up_rounds" not in files["md"]
    assert "<b>neighbours=3</b>" in files["html"]
    assert LEGEND in files["md"]
    assert LEGEND in files["html"]


def test_human_labels_are_told_by_the_share_that_is_wrong(runs, tmp_path):
    table = table_in(tmp_path, runs)
    noise = {"name": "human", "key": "worse_label", "sha256": "a" * 64}
    human = {"dataset": "cifar10", "label_noise": noise, "noise_level": "none"}
    worst = runs.add([0.5], provenance={"realised_noise": 0.4021}, **human)
    table.description["runs"][0][0] = [worst]
    found = settings_in_words(table)
    assert found["noise level"][f"FedAvg, {LOW}"] == "as people labelled"
    assert found["wrong labels"][f"FedAvg, {LOW}"] == "40.2 %"
    assert "a" * 64 not in markdown_page(content(table))


def test_what_a_provenance_says_is_no_markup(table):
    told = "<script>alert(1)</script> ![x](javascript:1)\n\n# `a|b` &lt;"
    run = table.runs.add([0.5], seed=51, provenance={"device": told})
    table.description["runs"][0][1] = [run]
    (line,) = [line for line in printed(table)["md"].splitlines() if line.startswith("- device")]
    assert r"\<script\>alert(1)\</script\> !\[x\](javascript:1) # \`a\|b\` \&lt;" in line
    assert "<script>alert" not in printed(table)["html"]


def test_a_line_that_is_not_run_is_called_as_its_row(table):
    table.description["left_out"] = [
        {"name": "RoFL, its text", "method": "rofl", "published": {}},
        {"name": "Everybody", "method": "fedavg", "published": {"setting_scope": "centralized"}},
    ]
    names = [row.name for row in content(table).rows if not row.trained]
    assert "RoFL, its text" in names
    table.description["left_out"] = []
    names = [row.name for row in content(table).rows if not row.trained]
    assert "RoFL" in names


def test_pages_of_four_times_the_rows_take_four_times_the_work(table, monkeypatch):
    """A cell is looked at a few times, not once for every other cell."""
    looks = Counter()

    def count(owner, name):
        got = getattr(owner, name).fget

        def look(one):
            looks[name] += 1
            return got(one)

        monkeypatch.setattr(owner, name, property(look))

    of_tables, of_cells = ("cells", "trained_rows"), ("summary", "measure")
    for names, owner in ((of_tables, Content), (of_cells, Cell)):
        for name in names:
            count(owner, name)
    row, runs = table.description["rows"][0], table.description["runs"][0]
    found = []
    for rows in (20, 80):
        table.description["rows"] = [{**row, "name": f"row {n}"} for n in range(rows)]
        table.description["runs"] = [runs] * rows
        table.description["as_published"] = [[False, True]] * rows
        shown = content(table)
        looks.clear()
        for page in (markdown_page, html_page, latex_table):
            page(shown)
        found.append(looks.copy())
    few, many = found
    assert few["summary"] > 100
    assert all(many[name] == few[name] > 0 for name in of_tables)
    assert all(many[name] < 5 * few[name] for name in of_cells)
