"""The site in a browser, after `make docs`: navigation on every page, nothing beyond the edge.

With SIMILIA_SCREENSHOTS set to a folder, a picture of every page in every width goes there.
"""

import json
from pathlib import Path

import pytest

from similia import __version__

FRONT = Path(__file__).parents[2] / "build" / "site"
SITE = FRONT / __version__
PAGES = sorted(
    str(page.relative_to(SITE).with_suffix(""))
    for page in SITE.rglob("*.html")
    if page.stem not in ("search", "genindex", "sg_execution_times", "py-modindex")
    and not page.relative_to(SITE).parts[0].startswith("_")
)
pytestmark = pytest.mark.skipif(not PAGES, reason="needs the site: make docs")
MEASURES = """() => ({
    header: document.querySelector('.bd-header').getBoundingClientRect().height,
    beside: document.querySelectorAll('.bd-sidebar-primary .bd-links a').length,
    width: document.documentElement.scrollWidth,
    versions: document.querySelector('.bd-header a[href$="versions.html"]').href,
})"""


@pytest.mark.parametrize("width", [1280, 400])
def test_every_page_has_its_navigation_and_fits(width, visit, picture):
    page = visit((SITE / "index.html").as_uri(), viewport={"width": width, "height": 800})
    for name in PAGES:
        page.goto((SITE / f"{name}.html").as_uri())
        picture(page, f"{name.replace('/', '-')}-{width}")
        found = page.evaluate(MEASURES)
        assert found["header"] < 100, name
        assert found["width"] <= width, name
        assert found["beside"] or name == "index", name
        assert found["versions"] == (FRONT / "versions.html").as_uri(), name


def test_the_address_without_a_version_leads_to_the_newest(visit):
    page = visit((FRONT / "versions.html").as_uri())
    assert f"similia {__version__}" in page.inner_text("body")
    listed = json.loads((FRONT / "versions.json").read_text())
    newest = next(each["version"] for each in listed if each["preferred"])
    page.goto((FRONT / "index.html").as_uri(), wait_until="commit")
    page.wait_for_url((FRONT / newest / "index.html").as_uri())
    assert newest in page.inner_text(".bd-header")
