"""A real browser: the system's Chromium, driven by playwright."""

import os
import shutil
from pathlib import Path

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install it")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
#: milliseconds, for everything that must happen sooner or later
PATIENCE = 60_000
#: folder for the pictures of the docs; `make screenshots` sets it
PICTURES = os.environ.get("SIMILIA_SCREENSHOTS")


@pytest.fixture(scope="module")
def browser():
    # Not for the session: while playwright is open, this thread has an event loop that runs.
    if CHROMIUM is None:
        pytest.skip("needs Chromium on the PATH, e.g. Debian's package chromium")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def visit(browser):
    """Open pages as one person each: visit(url); errors and breaches of the policy fail."""
    contexts, wrong = [], []

    def opened(url, **options):
        options.setdefault("viewport", {"width": 1100, "height": 800})
        context = browser.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        context.add_init_script(
            "addEventListener('securitypolicyviolation',"
            " (event) => console.error('policy: ' + event.violatedDirective))"
        )
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda m: wrong.append(m.text) if "policy: " in m.text else None)
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not wrong


@pytest.fixture
def picture():
    """Keep a picture for the docs, if asked to."""

    def keep(page, name, **options):
        if PICTURES:
            page.screenshot(path=str(Path(PICTURES) / f"{name}.png"), **options)

    return keep
