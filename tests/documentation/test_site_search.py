"""The site that was built, in a real browser, opened from a disk."""

import subprocess
import sys

import pytest

from browser import chromium
from noisyfl.core.places import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True)
    return folder


@pytest.fixture
def visit():
    """A page of a browser, and what it asked for."""
    with chromium() as browser:
        page = browser.new_context(viewport={"width": 1400, "height": 900}).new_page()
        requests = []
        page.on("request", lambda request: requests.append(request.url))
        yield page, requests


def test_the_search_finds_a_method_and_asks_nobody(site, visit):
    page, requests = visit
    for name in ("index.html", "papers/rofl.html"):
        page.goto((site / name).as_uri())
        page.locator("input[name=query]").click()
        page.keyboard.type("trimmed mean", delay=20)
        found = page.locator(".md-search-result__item a[href*='methods/trimmed_mean.html']")
        found.first.wait_for(timeout=60_000)
    found.first.click()
    page.wait_for_url("**/methods/trimmed_mean.html*")
    assert requests
    assert [url for url in requests if not url.startswith("file:")] == []


@pytest.mark.parametrize("name", ["index", "evidence/methods"])
def test_every_column_of_a_table_can_be_seen_at_once(site, visit, name):
    page, _ = visit
    page.goto((site / f"{name}.html").as_uri())
    tables = page.locator(".md-content table")
    right = "element => element.getBoundingClientRect().right"
    assert tables.count()
    for table in tables.all():
        box = table.locator("xpath=ancestor::*[contains(@class, 'md-typeset__scrollwrap')]")
        last = table.locator("th").last.evaluate(right)
        assert last <= min(box.evaluate(right) + 1, 1400)
