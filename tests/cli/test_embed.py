"""Vectors of texts by a model on the disk, kept beside the items."""

import csv

import numpy as np
import pytest

from similia import load
from similia.tabular import embedding

model2vec = pytest.importorskip("model2vec")
tokenizers = pytest.importorskip("tokenizers")

TITLES = [f"{a} {b}" for a in ("red", "blue", "green", "old") for b in ("lamp", "chair", "bowl")]


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A folder with a model of model2vec: a few words, each with a vector."""
    monkeypatch.chdir(tmp_path)
    words = sorted({word for title in TITLES for word in title.split()})
    vocabulary = {word: number for number, word in enumerate(["[UNK]", *words])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    vectors = np.random.default_rng(0).normal(size=(len(vocabulary), 16)).astype(np.float32)
    model2vec.StaticModel(vectors, tokenizer).save_pretrained("model")
    items = [{"id": f"p{n}", "title": title} for n, title in enumerate(TITLES)]
    write("items.csv", items)
    log = [
        {"query": q, "item": f"p{n}", "click": int(q in t)}
        for q in ("lamp", "chair")
        for n, t in enumerate(TITLES)
    ]
    write("log.csv", log)
    return "model"


def write(path, rows):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_vectors_are_made_of_what_has_changed_and_kept(run, model, monkeypatch, tmp_path):
    made = []
    loaded = embedding.load_embedder

    def counting(name):
        embed = loaded(name)

        def counted(texts):
            made.extend(texts)
            return embed(texts)

        return counted

    monkeypatch.setattr(embedding, "load_embedder", counting)
    run("learn", "items.csv", "log.csv", "--embed", model, "-o", "m")
    assert set(made) == {*TITLES, "lamp", "chair"}
    assert load("m").names_[:2] == ["vectors", "words"]
    made.clear()
    items = [{"id": f"p{n}", "title": t} for n, t in enumerate([*TITLES, "old clock"])]
    write("items.csv", items)
    found = run("search", "items.csv", "-q", "blue chair", "--model", "m", "-k", 1).stdout
    assert ",p4," in found
    assert set(made) == {"old clock", "blue chair"}
    (tmp_path / "items.csv.vectors.npz").write_bytes(b"PK")
    assert "delete it" in run("search", "items.csv", "-q", "x", "--model", "m", code=1).stderr
