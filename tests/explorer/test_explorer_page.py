"""What the explorer shows, in a real browser, opened from a disk."""

import csv
import io
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import small_explorer as small
from browser import Visit
from explorer_views import BESIDE, CELL, VIEWS
from noisyfl.analysis.cells import content_of
from noisyfl.analysis.runs import read_runs
from noisyfl.claims.findings import Case, Check, Finding
from noisyfl.claims.labels import Place
from noisyfl.explorer import page as page_module
from noisyfl.explorer.gather import ShownScale
from noisyfl.explorer.page import write_explorer
from noisyfl.pages.print_table import csv_text
from noisyfl.specs.catalogue import methods

pytestmark = pytest.mark.slow  # a browser


def test_no_view_asks_for_anything_or_complains(visit, made):
    for view in VIEWS:
        visit.show(view)
        visit.page.wait_for_timeout(100)
    assert set(visit.requests) <= {made[1].as_uri(), "data:,"}
    assert visit.complaints == []


def test_every_table_has_the_numbers_of_its_page(page, made):
    sources, _ = made
    for table, frame in zip(sources.tables, sources.frames, strict=True):
        content = content_of(table, pd.read_parquet(frame), read_runs(sources.runs))
        lines = list(csv.DictReader(csv_text(content).splitlines()))
        shown = page.locator(f"section[aria-labelledby='p/{table.name}'] tbody tr")
        assert shown.count() == len(lines)
        for n, line in enumerate(lines):
            cells = shown.nth(n).locator("td").all_inner_texts()
            for c, (column, text) in enumerate(zip((small.LOW, small.HIGH), cells, strict=True)):
                published = line[f"{column} published"]
                shape = f".{content.decimals}f"
                mean = content.number(content.rows[n].shown[c])
                assert ((mean or "±") in text) == bool(mean)
                theirs = f"({float(published):{shape}})" if published else "0)"
                assert (theirs in text) == bool(published)


def test_a_text_of_a_title_stays_text(page):
    assert small.EVIL in page.locator("section h2").first.inner_text()
    assert small.EVIL in page.locator(".intro").inner_text()
    assert page.locator("main script").count() == 0


def test_a_click_opens_the_right_runs(page, visit, made):
    page.get_by_role("link", name="Row of fedcorr, IID, low").first.click()
    page.wait_for_selector("main.view-cell")
    ids = made[0].tables[0].runs[1][0]
    shown = page.locator(".card h3 code").all_inner_texts()
    assert shown == list(ids)
    assert all(f"results/runs/{run}/" in page.inner_text("main") for run in ids)
    lines = page.locator("figure").first.locator("svg g[aria-label=line] path")
    assert lines.count() == len(ids)
    assert "published 90.50" in page.locator("figure").first.inner_text()
    page.go_back()
    page.wait_for_selector("main.view-tables")


def test_a_cell_says_what_the_method_thought_and_what_was_typed(visit):
    page = visit.show(CELL)
    text = page.inner_text("main")
    assert "label precision" in text
    assert "pseudo-labels that are right" in text
    assert "estimated noise level, and the truth" in text
    assert "labels are wrong" in text
    assert "snakemake --cores all p_t1 --configfile config/tiny.yaml" in text
    clients = page.locator("tr", has=page.locator("th", has_text=re.compile("^clients$")))
    assert clients.locator("mark").inner_text().split() == ["≠", "10"]
    assert "Fewer, for a test." in clients.inner_text()


def test_an_option_leads_to_its_line_among_the_methods(visit):
    page = visit.show(CELL)
    page.get_by_role("link", name="prox_form").click()
    page.wait_for_selector("main.view-method")
    line = page.locator("tr.chosen")
    assert "The two are different methods" in line.inner_text()
    assert line.is_visible()


def test_two_cells_stand_side_by_side(visit):
    page = visit.show(CELL)
    page.get_by_label("Compare with").select_option(label="Row of fedavg, IID, low (p/t1)")
    page.wait_for_selector("h1:has-text('Two cells')")
    assert "row2=Row+of+fedavg" in page.url
    assert page.locator("figure").first.locator("svg g[aria-label=line] path").count() == 5
    page.get_by_role("link", name="Choose in the tables").click()
    page.wait_for_selector("main.view-tables")
    page.get_by_role("link", name="Row of fedavg, IID, high").first.click()
    page.wait_for_selector("h1:has-text('Two cells')")
    assert "column2=IID%2C+high" in page.url


def test_filters_leave_what_fits_and_stand_in_the_address(page):
    page.get_by_label("Verdict").select_option("not supported")
    assert page.locator(".tally").inner_text() == "1 cell in 1 table"
    assert "verdict=not+supported" in page.url
    page.reload()
    page.wait_for_selector("main[aria-busy=false]")
    assert page.locator(".tables tbody tr").count() == 1
    page.get_by_label("Verdict").select_option("")
    page.get_by_label("Search").fill("fedcorr low")
    page.wait_for_function("() => document.querySelectorAll('.tables tbody tr').length === 2")
    page.get_by_label("Search").fill("nothing like it")
    page.wait_for_selector("text=Nothing fits")


@pytest.fixture(scope="module")
def of_two(browser, two_papers, tmp_path_factory):
    path = tmp_path_factory.mktemp("of_two") / "results" / "tiny" / "explorer.html"
    write_explorer(two_papers, path)
    visit = Visit(browser, path)
    yield visit
    assert visit.complaints == []
    visit.context.close()


def filter_of(page, name):
    """The filter that begins with a name."""
    return page.locator(".choice", has_text=re.compile(f"^{name}")).locator("select")


def test_another_paper_keeps_the_filters_that_were_chosen_since(of_two):
    of_two.show("#runs")
    page = of_two.show("#tables")
    filter_of(page, "Method").select_option("fedavg")
    page.get_by_role("navigation", name="Papers").get_by_role("link", name="q").click()
    page.wait_for_function("() => location.hash.includes('paper=q')")
    of_two.wait()
    assert "method=fedavg" in page.url
    assert filter_of(page, "Method").input_value() == "fedavg"
    assert page.locator(".tables tbody tr").count() == 1
    assert page.locator(".chips [aria-current]").inner_text() == "q"


def test_a_cell_that_is_computed_is_not_called_not_run(of_two):
    for column in ("Mean", "Average+rank"):
        words = of_two.show(f"#cell?table=q%2Ft2&row=Row+of+fedavg&column={column}").inner_text(
            "main"
        )
        assert "Computed from other cells of its row" in words
        assert "Not run yet" not in words
    of_two.show("#runs")
    page = of_two.show("#tables?paper=q")
    filter_of(page, "Run").select_option("computed")
    assert page.locator(".tally").inner_text() == "6 cells in 1 table"
    filter_of(page, "Verdict").select_option("not run")
    assert page.locator(".tally").inner_text().startswith("Nothing fits")
    filter_of(page, "Run").select_option("no")
    assert page.locator(".tally").inner_text() == "2 cells in 1 table"
    assert of_two.wait().locator(".tables tbody th").all_inner_texts() == ["Row of fedprox"]


def test_reasons_are_a_link_where_there_is_a_file(of_two, browser, two_papers, tmp_path):
    def choices(visit):
        page = visit.show("#method?name=fedcorr")
        return page.locator(".facts div", has=page.locator("dt", has_text="Choices")).locator("dd")

    assert choices(of_two).inner_text() == "Fidelity, FedCorr"
    assert choices(of_two).locator("a").count() == 0
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "fidelity.md").touch()
    path = tmp_path / "results" / "tiny" / "explorer.html"
    write_explorer(two_papers, path)
    visit = Visit(browser, path)
    link = choices(visit).get_by_role("link", name="Fidelity, FedCorr")
    assert link.get_attribute("href") == "../../docs/fidelity.md"
    visit.context.close()


def test_the_download_has_what_is_shown(page, tmp_path):
    page.get_by_label("Verdict").select_option("supported")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download as CSV").click()
    waiting.value.save_as(tmp_path / "tables.csv")
    found = pd.read_csv(tmp_path / "tables.csv")
    assert set(found["verdict"]) == {"supported"}
    assert set(found["table"]) == {"p/t1"}
    assert found.loc[found["row"] == "Row of fedavg", "ours"].tolist() == [71.5]


@pytest.fixture(scope="module")
def of_two_scales(browser, made, tmp_path_factory):
    """The first table, which has published numbers, is of the paper's scale alone."""
    sources, _ = made
    files = {run: sources.runs[run] for run in sources.tables[0].run_ids() if run in sources.runs}
    shown = ShownScale("big", "As printed.", {}, "--configfile config/big.yaml")
    path = tmp_path_factory.mktemp("of_two_scales") / "explorer.html"
    given = {"tables": sources.tables[1:], "frames": sources.frames[1:], "judgements": ()}
    beside = {"paper_scale": shown, "paper_scale_tables": [(sources.tables[0], files)]}
    write_explorer(replace(sources, **given, **beside), path)
    return Visit(browser, path)


def test_filters_signs_and_the_head_are_of_the_scale_that_is_shown(of_two_scales):
    page = of_two_scales.show("#tables")
    assert page.locator(".scale").inner_text() == "Scale tiny"
    assert "supported" not in filter_of(page, "Verdict").inner_text()
    assert "brackets" not in page.locator(".intro").inner_text()
    page = of_two_scales.show("#tables?scale=big")
    assert page.locator(".scale").inner_text() == "Paper scale (big)"
    assert "✗ not supported" in page.locator(".intro").inner_text()
    filter_of(page, "Verdict").select_option("not supported")
    assert page.locator(".tally").inner_text() == "1 cell in 1 table"
    page.get_by_role("navigation", name="Scales").get_by_role("link").first.click()
    page.wait_for_selector("text=Nothing fits")
    assert filter_of(page, "Verdict").input_value() == "not supported"
    page = of_two_scales.show(CELL.replace("p%2Ft1", "big%2Fp%2Ft1"))
    assert page.locator(".scale").inner_text() == "Paper scale (big)"


def test_fewer_trials_than_others_in_the_column_are_said(page):
    cells = page.locator("section").first.locator("tbody tr").nth(1).locator("td")
    assert [text.split("\n")[-1] for text in cells.all_inner_texts()] == ["2 trials", "1 trial"]
    others = page.locator("section").first.locator("tbody tr").nth(0).locator("td")
    assert "trial" not in "".join(others.all_inner_texts())


def test_a_cell_over_fewer_seeds_than_it_has_names_them(visit):
    text = visit.show(CELL.replace("fedcorr", "fedavg")).inner_text(".head")
    assert "1, 2: those that all ranked rows of its kind have in its column" in text
    assert "1 of 2" in visit.show("#method?name=fedcorr").inner_text("main")


def test_a_mean_of_columns_says_what_its_spread_is_over(of_two):
    page = of_two.show("#tables?paper=q")
    assert "± over columns, not seeds" in page.locator("thead th", has_text="Mean").inner_text()
    cell = "#cell?table=q%2Ft2&row=Row+of+fedavg&column=Mean"
    assert "not over seeds" in of_two.show(cell).inner_text(".head")


def test_the_command_of_a_stored_run_says_that_it_retrains_it(browser, made, tmp_path):
    sources, _ = made
    results, elsewhere = sources.layouts
    write_explorer(replace(sources, layouts=[elsewhere, results]), tmp_path / "explorer.html")
    words = Visit(browser, tmp_path / "explorer.html", CELL).page.inner_text("main")
    assert "and the table uses it. To retrain it" in words
    assert "if it is missing" not in words


def test_a_downloaded_curve_names_its_cell(visit, tmp_path):
    page = visit.show(CELL)
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download as CSV").click()
    waiting.value.save_as(tmp_path / "curves.csv")
    found = pd.read_csv(tmp_path / "curves.csv")
    assert set(found["cell"]) == {"Row of fedcorr, IID, low (p/t1)"}
    assert found["seed"].tolist() == [1, 1, 1, 2, 2, 2]


def test_the_key_of_a_chart_has_other_dashes_for_each_line(visit):
    figure = visit.show(BESIDE).locator("figure").first
    figure.locator("svg g[aria-label=line] path").first.wait_for()
    assert figure.locator("p.key > span").all_inner_texts() == [
        *("A, seed 1", "A, seed 2", "B, seed 1", "B, seed 2", "B, seed 3"),
        *("A published 90.50", "B published 72.00"),
    ]
    looks = [
        (line.get_attribute("stroke"), line.get_attribute("stroke-dasharray"))
        for line in figure.locator("p.key line").all()
    ]
    assert len(set(looks)) == len(looks)


def test_the_labels_of_estimates_lie_apart_and_name_what_is_estimated(visit):
    page = visit.show(CELL)
    chart = page.locator("figure", has_text="estimated noise level, and the truth")
    ticks = chart.locator("[aria-label='x-axis tick label']").bounding_box()
    label = chart.locator("[aria-label='x-axis label']").bounding_box()
    assert label["y"] >= ticks["y"] + ticks["height"]
    assert "estimated noise level (%)" in chart.inner_text()


def test_a_claim_leads_to_the_cells_that_decided_it(visit):
    page = visit.show("#claims")
    assert small.EVIL in page.inner_text(".claim")
    assert page.locator(".claim .badge").all_inner_texts() == ["✓ supported", "✗ not supported"]
    page.get_by_label("With ours").select_option("supported")
    assert page.locator(".claim").count() == 0
    page.get_by_label("With ours").select_option("not supported")
    page.locator(".decided").last.get_by_role("link").click()
    page.wait_for_selector("main.view-cell")
    assert page.inner_text("h1") == "Row of fedavg on digits, IID, high"


def test_claims_are_counted_by_the_verdicts_that_occur(visit):
    page = visit.show("#claims")
    lines = page.locator(".counts tbody tr").all_inner_texts()
    assert [line.split("\t") for line in lines] == [
        ["✓ supported", *["1", "–"] * 2],
        ["✗ not supported", *["–", "1"] * 2],
    ]


def test_a_claim_says_how_many_cases_are_not_shown(browser, made, tmp_path):
    sources, _ = made
    cases = [Case(str(n), f"{n} > 0", n, True, (Place("p/figure1", "a", "b"),)) for n in range(9)]
    told = replace(small.claim(), ours=Finding((Check("it is better", tuple(cases)),)))
    write_explorer(replace(sources, judgements=[told]), tmp_path / "explorer.html")
    visit = Visit(browser, tmp_path / "explorer.html", "#claims")
    assert "Decided by p/figure1, which no table" in visit.page.locator(".side").last.inner_text()
    visit.page.locator("summary").last.click()
    items = visit.page.locator(".check").last.locator("li").all_inner_texts()
    assert len(items) == 4
    assert items[-1] == "… and 6 more, with larger margins"


def test_runs_are_sorted_by_their_headers(visit):
    page = visit.show("#runs")
    page.get_by_role("button", name="Best %").click()
    page.get_by_role("button", name="Best %").click()
    head = page.locator("th[aria-sort=descending]")
    assert head.inner_text().startswith("Best %")
    best = [float(t) for t in page.locator(".runs tbody td:nth-child(8)").all_inner_texts()]
    assert best == sorted(best, reverse=True)
    assert page.locator(".runs tr.ill").count() == 1
    page.locator(".runs tbody a").first.click()
    page.wait_for_selector("main.view-run")
    assert "Row of fedcorr, IID, low" in page.inner_text("main")


# Every text that is seen: the contrast with what is behind it, by WCAG 2's formula.


def test_a_scale_without_runs_says_what_to_type(browser, tmp_path, runs_in):
    sources = small.small_scale(tmp_path, runs_in(tmp_path / "results"), trained=False)
    write_explorer(sources, tmp_path / "explorer.html")
    visit = Visit(browser, tmp_path / "explorer.html")
    assert "This scale has no runs yet" in visit.page.inner_text("main")
    assert "This scale has no runs yet" in visit.show("#runs").inner_text("main")
    page = visit.show("#cell?table=p%2Ft1&row=Row+of+fedprox&column=IID%2C+high")
    assert "failed: CUDA: out of memory" in page.inner_text("main")
    assert "which is missing" in page.inner_text("main")
    assert "no claim is judged" in visit.show("#claims").inner_text("main")
    assert f"{len(methods())} methods" in visit.show("#methods").inner_text("main")
    assert visit.complaints == []
    visit.context.close()


def test_a_run_that_diverged_at_once_has_no_curve(visit):
    page = visit.show("#cell?table=p%2Ft1&row=Row+of+fedcorr&column=IID%2C+high")
    assert "1, of which 1 diverged" in page.inner_text(".head")


def test_what_there_is_not_is_said(visit):
    for view, words in (
        ("#cell?table=p%2Ft9&row=a&column=b", "No such cell"),
        ("#run?id=0", "No such run"),
        ("#method?name=nobody", "No such method"),
    ):
        assert words in visit.show(view).inner_text("h1")
    assert visit.show("#somewhere").inner_text("h1") == "Tables"


def test_a_downloaded_csv_has_the_cells_as_they_are(visit):
    cells = ["=1+1", "-2.5", "plain, 'text'", 'a "quoted" one', "two\nlines", "- "]
    script = (Path(page_module.__file__).parent / "assets" / "csv.js").read_text()
    script = re.sub(r"^import.*$", "", script, flags=re.MULTILINE).replace("export ", "")
    text = visit.page.evaluate(
        f"rows => {{ {script}; return csv(rows); }}", [[cell] for cell in cells]
    )
    assert [line for (line,) in csv.reader(io.StringIO(text))] == cells


def test_a_curve_has_marks_at_whole_rounds_only(visit):
    visit.show(CELL)
    curve = visit.page.locator("figure").first
    marks = curve.locator("svg [aria-label='x-axis tick label'] text")
    marks.first.wait_for()
    assert set(marks.all_text_contents()) == {"1", "2", "3"}


def test_without_published_numbers_no_word_is_said_of_them(browser, made, tmp_path):
    sources, _ = made
    alone = replace(sources, tables=sources.tables[1:], frames=sources.frames[1:], judgements=())
    write_explorer(alone, tmp_path / "explorer.html")
    visit = Visit(browser, tmp_path / "explorer.html", "#tables")
    assert "Choose a cell" in visit.page.locator(".intro").inner_text()
    assert "brackets" not in visit.page.locator("main").inner_text()
    visit.show(CELL.replace("t1", "t2"))
    words = visit.page.locator("main").inner_text()
    assert "seed 1" in words
    assert "published" not in visit.page.locator("figure").first.inner_text()
    visit.context.close()
