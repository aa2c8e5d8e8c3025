"""The site in a browser, after `make docs`: navigation on every page, nothing beyond the edge."""

from pathlib import Path

import pytest

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
PAGES = sorted(
    str(page.relative_to(SITE).with_suffix(""))
    for page in [*SITE.glob("*.html"), *SITE.glob("stores/*.html")]
    if page.stem not in ("search", "genindex", "sg_execution_times", "py-modindex")
)
pytestmark = pytest.mark.skipif(not PAGES, reason="needs the site: make docs")
MEASURES = """() => ({
    header: document.querySelector('.bd-header').getBoundingClientRect().height,
    beside: document.querySelectorAll('.bd-sidebar-primary .bd-links a').length,
    width: document.documentElement.scrollWidth,
})"""


@pytest.mark.parametrize("width", [1280, 400])
def test_every_page_has_its_navigation_and_fits(width, visit):
    page = visit((SITE / "index.html").as_uri(), viewport={"width": width, "height": 800})
    for name in PAGES:
        page.goto((SITE / f"{name}.html").as_uri())
        found = page.evaluate(MEASURES)
        assert found["header"] < 100, name
        assert found["width"] <= width, name
        assert found["beside"] or name == "index", name
