"""How the explorer is used: keyboard, screens, printing, the way back, and thousands of runs."""

import json

import psutil
import pytest

import small_explorer as small
from browser import Visit
from explorer_views import CELL, VIEWS
from noisyfl.explorer.gather import gather
from noisyfl.explorer.page import explorer_page

pytestmark = pytest.mark.slow  # a browser

FAINT = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const part = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) =>
    0.2126 * part(r / 255) + 0.7152 * part(g / 255) + 0.0722 * part(b / 255);
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return parse(colour);
    }
    return [255, 255, 255];
  };
  const faint = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    if (element.closest("svg, script, .unseen, .off, option")) continue;
    const [a, b] = [light(parse(getComputedStyle(element).color)), light(behind(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) faint.push(`${walker.currentNode.data.trim()}: ${contrast.toFixed(2)}`);
  }
  return faint;
}"""

NAMELESS = """() => [...document.querySelectorAll("a, button, input, select, [role=img]")]
  .filter((one) => !(one.getAttribute("aria-label") || one.textContent.trim()
    || one.closest("label")?.textContent.trim()))
  .map((one) => one.outerHTML)"""


def test_runs_fit_a_wide_screen(browser, made, tmp_path):
    index, details = json.loads(json.dumps(gather(made[0])))
    for spec in index["specs"]:
        spec["dataset"] = "fashion_mnist"
        spec["methods"] = [{**spec["methods"][0], "name": "centralized+coteaching"}]
        spec["words"] = {
            "partition": "bernoulli_dirichlet(alpha=10.0, clients=20, p=0.7, samples=10000)",
            "noise": "class_noise(count=bernoulli) at bernoulli_uniform(rho=0.6, tau=0.5)",
        }
    for run in index["runs"]:
        run["made"]["training_seconds"] = 1870
        run["rounds"] = 30
    (tmp_path / "explorer.html").write_text(explorer_page(index, details, "tiny"))
    page = Visit(browser, tmp_path / "explorer.html", "#runs").page
    assert page.locator("main .scroll").evaluate("one => one.scrollWidth - one.clientWidth") == 0


def test_words_of_the_methods_stay_whole_on_a_narrow_screen(browser, made):
    visit = Visit(browser, made[1], "#methods", width=390)
    head = visit.page.locator("thead th", has_text="Source")
    assert head.bounding_box()["height"] < 60  # else it has a line for each letter
    visit.context.close()


def test_a_wide_table_is_printed_whole_and_dark_on_white(browser, made, tmp_path):
    index, details = json.loads(json.dumps(gather(made[0])))
    table = index["tables"][0]
    table["columns"] *= 6
    for row in table["rows"]:
        row["cells"] *= 6
    (tmp_path / "explorer.html").write_text(explorer_page(index, details, "tiny"))
    visit = Visit(browser, tmp_path / "explorer.html", width=1000, scheme="dark")
    for view in ("#tables", "#runs", CELL):
        visit.show(view)
        visit.page.emulate_media(media="print", color_scheme="dark")
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 1000, view
        ground = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == "rgb(255, 255, 255)"
        assert visit.page.evaluate(FAINT) == []
        visit.page.emulate_media(media="screen", color_scheme="dark")
    visit.context.close()


def test_the_keyboard_reaches_cells_and_opens_them(page):
    page.locator("table.numbers td a").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith(
        "Row of fedcorr, IID, high"
    )
    page.keyboard.press("Enter")
    page.wait_for_selector("main.view-cell")
    assert page.evaluate("document.activeElement.id") == "main"
    assert "Row of fedcorr on digits, IID, high" in page.title()


def test_home_and_end_go_to_the_ends_of_a_row(page):
    def focused():
        return page.evaluate("document.activeElement.getAttribute('aria-label')")

    page.locator("table.numbers td a").first.focus()
    page.keyboard.press("End")
    assert focused().startswith("Row of fedavg, IID, high")
    page.keyboard.press("Home")
    assert focused().startswith("Row of fedavg, IID, low")


def test_one_cell_of_a_table_is_a_stop_of_the_tabulator(page):
    stops = page.locator("table.numbers td a[tabindex='0']").count()
    assert stops == page.locator("table.numbers").count()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_no_view_is_wider_than_the_screen_or_hard_to_read(browser, made, width, scheme):
    visit = Visit(browser, made[1], width=width, scheme=scheme)
    for view in VIEWS:
        page = visit.show(view)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, view
        assert page.evaluate(FAINT) == [], view
    visit.context.close()


def test_every_control_has_a_name(visit):
    for view in VIEWS:
        page = visit.show(view)
        assert page.evaluate(NAMELESS) == [], view
        assert page.locator("h1").count() == 1


@pytest.fixture(scope="module")
def many(made, tmp_path_factory):
    path = tmp_path_factory.mktemp("many") / "explorer.html"
    index, details = small.many(*gather(made[0]), runs=4000)
    path.write_text(explorer_page(index, details, "many"), encoding="utf-8")
    return path


TOP = """() => {
  const parts = [...document.querySelectorAll("section")];
  const part = parts.findLast((one) => one.getBoundingClientRect().top <= 0);
  return [part.getAttribute("aria-labelledby"), part.getBoundingClientRect().top];
}"""


def test_back_leads_to_where_the_tables_were_left(browser, many):
    visit = Visit(browser, many)
    section = visit.page.locator("section[aria-labelledby='p/t70']")
    section.evaluate("one => one.scrollIntoView()")
    visit.wait()
    visit.page.evaluate("scrollBy(0, 100)")
    name, top = visit.wait().evaluate(TOP)
    section.locator("td a").last.click()
    visit.page.wait_for_selector("main.view-cell")
    visit.wait().go_back()
    visit.page.wait_for_selector("main.view-tables")
    for _ in range(5):
        visit.wait()
    assert visit.page.evaluate(TOP) == [name, pytest.approx(top, abs=2)]
    visit.context.close()


def test_four_thousand_runs_open_in_two_seconds(browser, many):
    assert many.stat().st_size < 10e6
    before = busy_seconds()
    visit = Visit(browser, many)
    # Of a processor, since other tests may have the rest of it.
    assert busy_seconds() - before < 2
    assert "2000 cells in 100 tables" in visit.page.inner_text(".tally")
    assert "4000 of 4000 runs" in visit.show("#runs").inner_text(".tally")
    cell = "#cell?table=p%2Ft99&row=Row+4&column=C3"
    assert "Row 4 on digits, C3" in visit.show(cell).inner_text("h1")
    assert visit.complaints == []
    visit.context.close()


def busy_seconds():
    """What the processes of pages have computed so far."""
    pages = [
        process
        for process in psutil.Process().children(recursive=True)
        if process.status() != psutil.STATUS_ZOMBIE and "--type=renderer" in process.cmdline()
    ]
    return sum(sum(process.cpu_times()[:2]) for process in pages)
