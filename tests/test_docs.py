"""Documents that quote the code are equal to it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
INCLUDE = re.compile(r"<!-- include: (\S+) -->\n```python\n(.*?)```\n", re.DOTALL)
DOCUMENTS = ["docs/add_a_learner.md"]
#: pages whose examples are parts of one program
GUIDES = sorted(
    str(page.relative_to(ROOT))
    for page in (ROOT / "docs").rglob("*.md")
    if not {"_build", "generated", "gallery"} & set(page.parts)
    and "```python" in page.read_text()
    and str(page.relative_to(ROOT)) not in DOCUMENTS
)


def filled(text: str) -> str:
    def code(match):
        return f"<!-- include: {match[1]} -->\n```python\n{(ROOT / match[1]).read_text()}```\n"

    return INCLUDE.sub(code, text)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_quoted_files_are_the_real_ones(document):
    text = (ROOT / document).read_text()
    assert INCLUDE.search(text)
    assert text == filled(text), "run: python -m tests.test_docs"


@pytest.mark.parametrize("document", ["README.md", *DOCUMENTS, *GUIDES, "CONTRIBUTING.md"])
def test_links_between_documents_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / document).read_text()):
        assert ((ROOT / document).parent / target).exists(), target


def test_the_example_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert examples
    for example in examples:
        exec(compile(example, "README.md", "exec"), {})


@pytest.mark.parametrize("document", GUIDES)
def test_the_examples_of_a_guide_run_in_their_order(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
    assert examples
    names = {}
    for example in examples:
        exec(compile(example, document, "exec"), names)


if __name__ == "__main__":
    for name in DOCUMENTS:
        (ROOT / name).write_text(filled((ROOT / name).read_text()))
