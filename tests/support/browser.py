"""A real browser that opens files, and notes what it must not do."""

import shutil
from contextlib import contextmanager

import pytest


@contextmanager
def chromium():
    """Debian's Chromium without a window; skips where there is none."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("no chromium is installed (Debian: apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


SHOW = """fragment => new Promise(shown => {
    if (decodeURIComponent(location.hash) === decodeURIComponent(fragment)) return shown();
    // The page's own listener is called first, and makes it busy.
    addEventListener("hashchange", () => shown(), { once: true });
    location.hash = fragment;
})"""
"""Goes to an address within the page, and ends when the page knows of it."""

RENDERED = "() => new Promise(end => requestAnimationFrame(() => requestAnimationFrame(end)))"
"""Ends when a frame was rendered: before, tables with `content-visibility: auto` have no text."""


class Visit:
    """A page that is open, what it asked for, and what it complained of."""

    def __init__(self, browser, path, fragment="", width=1400, scheme="light"):
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, accept_downloads=True
        )
        self.page = self.context.new_page()
        self.requests, self.complaints = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.page.goto(f"{path.as_uri()}{fragment}")
        self.wait()

    def wait(self):
        """Until the view is drawn."""
        self.page.wait_for_selector("main[aria-busy=false]", timeout=30_000)
        self.page.evaluate(RENDERED)
        return self.page

    def show(self, fragment):
        """Another view."""
        self.page.evaluate(SHOW, fragment)
        return self.wait()
