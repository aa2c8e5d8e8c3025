"""The site has a page for everything that is public, and its examples run."""

import re
import runpy
from pathlib import Path

import pytest

import similia

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))


def test_every_public_name_is_in_the_reference():
    reference, _, _ = (ROOT / "docs/api.md").read_text().partition("## A service, from Python")
    listed = re.findall(r"^   (\w+)$", reference, re.MULTILINE)  # what follows is not `similia.`
    assert sorted(listed) == sorted(set(similia.__all__) - {"__version__"})


def test_every_page_is_in_the_index():
    index = (ROOT / "docs/index.md").read_text()
    listed = set(re.findall(r"^([\w/]+)$", index, re.MULTILINE)) - {"gallery/index"}
    pages = {
        str(page.relative_to(ROOT / "docs").with_suffix(""))
        for page in (ROOT / "docs").rglob("*.md")
        if not {"_build", "generated", "gallery"} & set(page.parts)
    }
    assert listed == pages - {"index"}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_of_the_gallery_runs(example, monkeypatch):
    import matplotlib.pyplot

    monkeypatch.setattr(matplotlib.pyplot, "show", lambda: None)
    with matplotlib.rc_context({"backend": "agg"}):
        runpy.run_path(str(example))
        assert matplotlib.pyplot.get_fignums()
        matplotlib.pyplot.close("all")
