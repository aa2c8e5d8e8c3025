"""The page on which people judge: from a key to the next question, by the browser's own clock."""

import shutil
import tempfile
import threading
import time
from itertools import cycle, islice

import numpy as np

from benchmarks.timing import table
from similia.service.http.app import Service
from similia.service.http.server import Server, listen
from similia.service.log.records import Item, Query
from similia.service.settings import Settings
from similia.service.tenants.files import KnownQueries

QUESTIONS, WIDTH = 200, 384
WORDS = "some words " * 40
#: milliseconds that a person takes at least to read
READING = 100
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
MEASURES = "performance.getEntriesByName('answer to next question').map(each => each.duration)"


def key_to_question():
    """Key to next question on the page, 200 answers by keyboard while the service learns."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        browser = None
    if browser is None:
        print("\nkey_to_question: needs playwright and Chromium on the PATH.")
        return
    rows = []
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser, args=FLAGS)
        for n in (100, 1000, 10_000):
            found = _judged(opened, n)
            p50, p95 = np.percentile(found, [50, 95])
            rows.append([f"{n:,}", str(len(found)), *(f"{x:.1f}" for x in (p50, p95, max(found)))])
        opened.close()
    table("key to next question, ms", ["items", "questions", "p50", "p95", "max"], rows)


def _judged(browser, n):
    """Milliseconds of each question, about so many items."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Settings(store=folder, port=0, rate=0.0))
        listener = listen("127.0.0.1", 0)
        server = Server(service, listener)
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            while not service.ready:
                time.sleep(0.05)
            tenant = service.tenants.get("default")
            for start in range(0, n, 500):
                vectors = rng.normal(size=(min(500, n - start), WIDTH)).astype(np.float32)
                rows = enumerate(vectors.tolist(), start)
                tenant.put_items(
                    [Item(id=f"i{i}", vectors={"vectors": row}, text=WORDS) for i, row in rows]
                )
            asked = rng.normal(size=(300, WIDTH)).astype(np.float32)
            service.queries["default"] = KnownQueries(
                Query(id=f"q{i}", text=f"query {i}", vectors={"vectors": row.tolist()})
                for i, row in enumerate(asked)
            )
            page = browser.new_page()
            page.set_default_timeout(120_000)
            page.goto(f"http://127.0.0.1:{listener.getsockname()[1]}")
            for done, key in enumerate(islice(cycle("12"), QUESTIONS)):
                page.wait_for_selector("article")
                page.wait_for_timeout(READING)
                page.keyboard.press(key)
                while len(page.evaluate(MEASURES)) <= done:
                    page.wait_for_timeout(10)
            found = page.evaluate(MEASURES)
            page.close()
            return found
        finally:
            server.handle_exit(15, None)
            thread.join()


ALL = [key_to_question]
