"""Recipes for stores that run inside the test."""

import pytest

from similia.retrieval import top_k
from tests.stores.page import run

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries' own making


def expected(names, form):
    found = top_k(names["model"], names["items"][:1], names["items"], 10)[0][0]
    return [form.format(i) if form else int(i) for i in found]


@pytest.mark.parametrize(
    ("package", "page", "form"),
    [
        ("chromadb", "chroma.md", "item-{}"),
        ("lancedb", "lancedb.md", "item-{}"),
        ("milvus_lite", "milvus.md", ""),
    ],
)
def test_the_recipe_finds_what_exact_search_finds(package, page, form, tmp_path, monkeypatch):
    pytest.importorskip(package, reason=f"needs {package}: make integrations")
    monkeypatch.chdir(tmp_path)
    names = run(page)
    assert names["after"] == expected(names, form)
    assert names["after"] != names["before"]
