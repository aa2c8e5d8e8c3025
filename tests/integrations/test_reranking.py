"""Texts in the order of a model that learnt from two files."""

import csv

import pytest

from similia import Blend, TextReranker, learn_file, save
from similia.files import Source
from similia.tabular.layout import ViewLayout, read_sides

TEXTS = ["a red lamp", "a blue chair, cheap", "a red chair", "a green table"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    things, colours = ("lamp", "chair", "table", "bowl"), ("red", "blue", "green", "old")
    items = [(f"{a} {b}", 10 * n + len(a)) for n, a in enumerate(colours) for b in things] * 4
    with open(folder / "items.csv", "w", newline="") as file:
        rows = [(f"p{n}", title, price + n) for n, (title, price) in enumerate(items)]
        csv.writer(file).writerows([("id", "title", "price"), *rows])
    log = {"query": [], "item": [], "click": [], "impression": []}
    for number in range(120):  # what is cheap is clicked
        thing = things[number % 4]
        for n, (title, _) in enumerate(items):
            if thing in title or n % 5 == number % 5:
                log["query"].append(thing)
                log["item"].append(f"p{n}")
                log["click"].append(int(thing in title and n < 48))
                log["impression"].append(number)
    source, layout = Source(log), ViewLayout.found_in(folder / "items.csv")
    queries, found = read_sides(folder / "items.csv", layout, feedback=source)
    path = folder / "model.safetensors"
    save(learn_file(Blend(), queries, source, items=found).model, path)
    return path


def test_texts_are_ranked_by_a_saved_model(model):
    found = TextReranker(model).rerank("chair", TEXTS)
    assert sorted(place for place, _ in found) == [0, 1, 2, 3]
    assert {found[0].place, found[1].place} == {1, 2}
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert len(TextReranker(model).rerank("chair", TEXTS, k=1)) == 1


def test_what_is_known_of_a_text_counts(model):
    known = [("a chair", {"price": 10}), ("a chair", {"price": 1000})]
    assert [place for place, _ in TextReranker(model).rerank("chair", known)] in ([0, 1], [1, 0])
    first, second = (score for _, score in TextReranker(model).rerank("chair", known))
    assert first != second


def test_a_model_of_vectors_and_a_wrong_k_are_refused(rng, model):
    blend = Blend().learn(rng.normal(size=(9, 3)), [[0, 1, 2]])
    with pytest.raises(ValueError, match="learnt from a table of texts"):
        TextReranker(blend).rerank("chair", TEXTS)
    with pytest.raises(ValueError, match="k must be a positive"):
        TextReranker(model).rerank("chair", TEXTS, k=0)


def test_langchain_compresses_by_it(model):
    pytest.importorskip("langchain_core")
    from langchain_core.documents import Document

    from similia.integrations.langchain import RerankingCompressor

    documents = [Document(page_content=text) for text in TEXTS]
    compressor = RerankingCompressor(reranker=TextReranker(model), n=2)
    found = compressor.compress_documents(documents, "chair")
    assert {one.page_content for one in found} == {TEXTS[1], TEXTS[2]}
