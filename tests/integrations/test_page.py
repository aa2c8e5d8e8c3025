"""The examples of docs/integrations.md that need packages of `make integrations`."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"
SECTIONS = {"LlamaIndex": "llama_index.core", "Haystack": "haystack", "ONNX": "onnxruntime"}


def examples():
    """Examples that are marked as py, by their section."""
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    for section in sections:
        for code in re.findall(r"```py\n(.*?)```", section, re.DOTALL):
            yield section.partition("\n")[0], code


def test_every_example_has_its_package():
    assert [name for name, _ in examples()] == list(SECTIONS)


@pytest.mark.filterwarnings("ignore")  # of the libraries' own making
@pytest.mark.parametrize(("name", "code"), list(examples()), ids=list(SECTIONS))
def test_an_example_of_the_page_runs(name, code, tmp_path, monkeypatch):
    package = SECTIONS[name]
    pytest.importorskip(package, reason=f"needs {package}: make integrations")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, PAGE.name, "exec"), {})
