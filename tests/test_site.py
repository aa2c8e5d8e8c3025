"""The site has a page for everything that is public, and its examples run."""

import json
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


def listed_below(page):
    """Pages that the navigation reaches from a page, by the names they have in its lists."""
    text = (ROOT / "docs" / f"{page}.md").read_text()
    for tree in re.findall(r"```{toctree}\n(.*?)```", text, re.DOTALL):
        for name in re.findall(r"^([\w/]+)$", tree, re.MULTILINE):
            yield name
            if name != "gallery/index":
                yield from listed_below(name)


def test_the_navigation_reaches_every_page_once():
    listed = sorted(set(listed_below("index")) - {"gallery/index"})
    pages = [
        str(page.relative_to(ROOT / "docs").with_suffix(""))
        for page in (ROOT / "docs").rglob("*.md")
        if not {"generated", "gallery"} & set(page.parts)
    ]
    assert listed == sorted(set(pages) - {"index"})
    assert len(listed) + 1 == len(list(listed_below("index")))


def test_the_header_has_room_for_every_section():
    sections = re.search(r"```{toctree}\n(.*?)```", (ROOT / "docs/index.md").read_text(), re.DOTALL)
    assert len(re.findall(r"^(\w+)$", sections[1], re.MULTILINE)) <= 5


def test_the_front_leads_to_the_newest_release_and_lists_all_versions(tmp_path):
    front = runpy.run_path(str(ROOT / "docs/versions.py"))
    with pytest.raises(SystemExit, match="make docs"):
        front["write_front"](tmp_path)
    for name in ("0.9.0", "0.10.0", "0.11.0rc1", "images"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").touch()
    front["write_front"](tmp_path)
    listed = json.loads((tmp_path / "versions.json").read_text())
    assert [each["version"] for each in listed] == ["0.11.0rc1", "0.10.0", "0.9.0"]
    assert [each["version"] for each in listed if each["preferred"]] == ["0.10.0"]
    assert "url=0.10.0/index.html" in (tmp_path / "index.html").read_text()
    links = re.findall(r'href="([^"]+)"', (tmp_path / "versions.html").read_text())
    assert [str(Path(link).parent) for link in links] == ["0.11.0rc1", "0.10.0", "0.9.0"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_of_the_gallery_runs(example, monkeypatch):
    import matplotlib.pyplot

    monkeypatch.setattr(matplotlib.pyplot, "show", lambda: None)
    with matplotlib.rc_context({"backend": "agg"}):
        runpy.run_path(str(example))
        assert matplotlib.pyplot.get_fignums()
        matplotlib.pyplot.close("all")
