"""Links inside the repository lead to files that exist, and to headings that these have."""

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MADE = {"generated", "gallery"}
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *(
            page
            for folder in ("docs", "experiments", "benchmarks", "notebooks")
            for page in (ROOT / folder).rglob("*.md")
            if not MADE & set(page.relative_to(ROOT).parts)
        ),
    ]
)
#: code between fences or backquotes contains no links
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def anchors(text):
    """Names of the headings, as GitHub and the site make them; repeated ones are numbered."""
    found = set()
    for heading in HEADING.findall(FENCED.sub("", text)):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        numbered = (name, *(f"{name}-{i}" for i in range(1, 99)))
        found.add(next(each for each in numbered if each not in found))
    return found


def broken(document):
    """Links of a document that lead nowhere."""
    for link in LINK.findall(CODE.sub("", document.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = document.parent / path if path else document
        named = anchor and target.suffix == ".md"
        if not target.exists() or (named and anchor not in anchors(target.read_text())):
            yield link


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(document):
    assert list(broken(document)) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    page = tmp_path / "page.md"
    (tmp_path / "other.md").write_text("# What `W` is, *and* why\n## Twice\n## Twice\n")
    page.write_text(
        "# Here\n[a](other.md#what-w-is-and-why) [b](#here) [c](other.md#twice-1) "
        "[d](https://example.org/#x) `[e](none)`\n```\n[f](none)\n```\n"
        "[g](none.md) [h](other.md#none) [i](#none)\n"
    )
    assert list(broken(page)) == ["none.md", "other.md#none", "#none"]


NAMED = re.compile(
    r"`(similia(?:\.\w+)+|(?:tests/)?(?:\w+/)*test_\w+\.py|python -m [\w.]+)[^`\n]*`"
)


def is_there(name):
    """Whether a module, or a name in one, exists."""
    module, _, last = name.rpartition(".")
    try:
        return hasattr(import_module(module), last) or find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def missing(text):
    """Modules, names and tests between backquotes that are not there."""
    for name in NAMED.findall(text):
        if name.endswith(".py"):
            there = any(ROOT.glob(name if "/" in name else f"tests/**/{name}"))
        else:
            there = is_there(name.removeprefix("python -m "))
        if not there:
            yield name


def test_what_security_names_is_there():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert len(NAMED.findall(text)) > 15
    assert list(missing(text)) == []


def test_a_name_of_nothing_is_found():
    told = "`similia.files.unpacked`, `test_nowhere.py` and `similia.safety.bounds.check_entries`"
    assert list(missing(told)) == ["similia.files.unpacked", "test_nowhere.py"]
