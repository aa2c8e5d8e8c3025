"""Vectors of texts by a model on the disk, kept beside the items."""

import csv
import json

import numpy as np
import pytest

from similia import load
from similia.tabular import embedding
from similia.tabular.embedding import load_embedder

model2vec = pytest.importorskip("model2vec")
tokenizers = pytest.importorskip("tokenizers")

TITLES = [f"{a} {b}" for a in ("red", "blue", "green", "old") for b in ("lamp", "chair", "bowl")]


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A folder with a model of model2vec: a few words, each with a vector."""
    monkeypatch.chdir(tmp_path)
    load_embedder.cache_clear()
    model2vec.StaticModel(*words(16)).save_pretrained("model")
    items = [{"id": f"p{n}", "title": title} for n, title in enumerate(TITLES)]
    write("items.csv", items)
    log = [
        {"query": q, "item": f"p{n}", "click": int(q in t)}
        for q in ("lamp", "chair")
        for n, t in enumerate(TITLES)
    ]
    write("log.csv", log)
    return "model"


def words(width):
    """Vectors of the words in the titles, and what cuts texts into them."""
    found = sorted({word for title in TITLES for word in title.split()})
    vocabulary = {word: number for number, word in enumerate(["[UNK]", "[PAD]", *found])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    rng = np.random.default_rng(width)
    return rng.normal(size=(len(vocabulary), width)).astype(np.float32), tokenizer


def export(folder, width):
    """A folder as exports to ONNX are: the vectors of the words, and their mean."""
    onnx = pytest.importorskip("onnx", reason="needs onnx: make integrations")
    vectors, tokenizer = words(width)
    helper, shape = onnx.helper, ["batch", "length"]
    ids, mask = (
        helper.make_tensor_value_info(name, onnx.TensorProto.INT64, shape)
        for name in ("input_ids", "attention_mask")
    )
    states = helper.make_tensor_value_info(
        "last_hidden_state", onnx.TensorProto.FLOAT, [*shape, width]
    )
    node = helper.make_node("Gather", ["vectors", "input_ids"], ["last_hidden_state"])
    graph = helper.make_graph(
        [node], "words", [ids, mask], [states], [onnx.numpy_helper.from_array(vectors, "vectors")]
    )
    made = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_operatorsetid("", 17)])
    folder.mkdir()
    onnx.save(made, folder / "model.onnx")
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"hidden_size": width, "pad_token_id": 1}))
    marks = {"pad_token": "[PAD]", "unk_token": "[UNK]"}
    (folder / "special_tokens_map.json").write_text(json.dumps(marks))
    (folder / "tokenizer_config.json").write_text(json.dumps(marks | {"model_max_length": 64}))


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


def test_what_was_made_before_an_interruption_is_kept(model, monkeypatch, tmp_path):
    monkeypatch.setattr(embedding, "AT_ONCE", 4)
    made = []

    def stopping(texts):
        if len(made) == 8:
            raise KeyboardInterrupt
        made.extend(texts)
        return np.ones((len(texts), 3))

    monkeypatch.setattr(embedding, "load_embedder", lambda name: stopping)
    with pytest.raises(KeyboardInterrupt):
        embedding.embedded("any", TITLES, tmp_path / "items.csv")
    monkeypatch.setattr(embedding, "load_embedder", lambda name: lambda t: np.ones((len(t), 3)))
    before = len(made)
    found = embedding.embedded("any", TITLES, tmp_path / "items.csv")
    assert before == 8
    assert found.shape == (len(TITLES), 3)
    with np.load(tmp_path / "items.csv.vectors.npz") as kept:
        assert len(kept["vectors"]) == len(TITLES)


def test_another_model_takes_the_place_of_the_first(run, model):
    model2vec.StaticModel(*words(8)).save_pretrained("other")
    run("learn", "items.csv", "log.csv", "--embed", model, "-o", "m")
    run("learn", "items.csv", "log.csv", "--embed", "other", "-o", "n")
    run("search", "items.csv", "-q", "blue chair", "--model", "m", "-k", 1)
    with np.load("items.csv.vectors.npz") as kept:
        assert kept["vectors"].shape == (len(TITLES), 16)


@pytest.mark.parametrize("prefix", ["", "fastembed:"])
def test_an_exported_graph_is_read_by_fastembed(run, model, tmp_path, prefix):
    pytest.importorskip("fastembed", reason="needs fastembed: make integrations")
    export(tmp_path / "graph", 16)
    found = embedding.embedded(f"{prefix}graph", TITLES)
    by_model2vec = embedding.embedded(model, TITLES)
    np.testing.assert_allclose(found, by_model2vec, atol=1e-5)
    run("learn", "items.csv", "log.csv", "--embed", f"{prefix}graph", "-o", "m")
    assert load("m").names_[:2] == ["vectors", "words"]


def test_a_folder_without_a_graph_is_refused(model, tmp_path):
    pytest.importorskip("fastembed", reason="needs fastembed: make integrations")
    with pytest.raises(ValueError, match=r"must hold onnx/model\.onnx or model\.onnx"):
        load_embedder(f"fastembed:{tmp_path}")
