"""Indexes in shards: trained once, searched together, with the recall of all."""

import json

import numpy as np
import pytest

from similia import LEGO, OASIS
from similia.distributed import index_shards, search_shards
from similia.index import build_index, index_like, open_index
from similia.persistence import save
from similia.retrieval import top_k


@pytest.fixture
def stored(tmp_path, rng):
    Z = rng.normal(size=(900, 6)).astype(np.float32)
    np.save(tmp_path / "items.npy", Z)
    np.save(tmp_path / "queries.npy", Z[:40] + 0.1)
    return tmp_path, Z, Z[:40] + np.float32(0.1)


def models(folder, Z, rng):
    bilinear = OASIS().learn(Z, rng.integers(900, size=(200, 3)))
    metric = LEGO().learn(Z, rng.integers(900, size=(200, 2)), rng.choice([-1, 1], size=200))
    for name, model in {"bilinear": bilinear, "metric": metric}.items():
        save(model, folder / f"{name}.safetensors")
    return {"none": None, "bilinear": bilinear, "metric": metric}


@pytest.mark.parametrize("kind", ["none", "bilinear", "metric"])
def test_shards_together_find_what_one_exact_index_finds(stored, inline, rng, kind):
    folder, Z, Q = stored
    model = models(folder, Z, rng)[kind]
    path = None if model is None else folder / f"{kind}.safetensors"
    given = {"backend": "exact", "executor": inline, "shard_size": 250}
    report = index_shards(folder / "items.npy", folder / "shards", path, **given)
    assert (report.n_items, report.recall) == (900, 1.0)
    rows, scores = search_shards(
        folder / "shards", folder / "queries.npy", 12, work=folder / "work", model=path,
        executor=inline,
    )  # fmt: skip
    expected = top_k("inner_product" if model is None else model, Q, Z, 12)
    np.testing.assert_array_equal(rows, expected[0])
    np.testing.assert_allclose(scores, expected[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("factory", ["IVF16,Flat", "HNSW8", "Flat"])
def test_recall_of_approximate_shards_is_that_of_their_merged_lists(stored, inline, factory):
    pytest.importorskip("faiss")
    folder, Z, _ = stored
    options = {"factory": factory, "n_probe": 1, "ef_search": 4, "shard_size": 300}
    report = index_shards(folder / "items.npy", folder / "shards", executor=inline, **options)
    own = np.unique(np.linspace(0, 899, 200).astype(int))
    np.save(folder / "sample.npy", Z[own])
    found, _ = search_shards(
        folder / "shards", folder / "sample.npy", 11, work=folder / "work", executor=inline
    )
    best = top_k("inner_product", Z[own], Z, 11)[0]
    shares = [
        np.isin(right[right != row][:10], got[got != row][:10]).mean()
        for row, right, got in zip(own, best, found, strict=True)
    ]
    assert report.recall == pytest.approx(np.mean(shares))
    assert (report.recall == 1.0) == (factory == "Flat")
    assert report.n_queries == 200


def test_lists_are_trained_once_and_are_those_of_all_shards(stored, inline):
    pytest.importorskip("faiss")
    folder, *_ = stored
    given = {"factory": "IVF16,Flat", "executor": inline, "shard_size": 300}
    index_shards(folder / "items.npy", folder / "shards", **given)
    opened = [
        open_index(folder / "shards" / f"{name}.safetensors")
        for name in ("trained", "shard-00000", "shard-00001", "shard-00002")
    ]
    first, *others = (index.backend.tensors()["centers"] for index in opened)
    for centers in others:
        np.testing.assert_array_equal(centers, first)
    assert [index.ids[0] for index in opened[1:]] == [0, 300, 600]


def test_the_same_call_goes_on_from_what_is_finished(stored, inline):
    folder, *_ = stored
    given = {"backend": "exact", "executor": inline, "shard_size": 300}
    index_shards(folder / "items.npy", folder / "shards", **given)
    shards = [folder / "shards" / f"shard-{i:05}.safetensors" for i in range(3)]
    before = [(path.read_bytes(), path.stat().st_mtime_ns) for path in shards]
    shards[1].write_bytes(b"damaged")
    index_shards(folder / "items.npy", folder / "shards", **given)
    after = [(path.read_bytes(), path.stat().st_mtime_ns) for path in shards]
    assert (after[0], after[2]) == (before[0], before[2])
    assert after[1][1] != before[1][1]
    np.testing.assert_array_equal(open_index(shards[1]).ids, np.arange(300, 600))


@pytest.mark.parametrize(
    "listed",
    [
        {},
        {"shards": [], "report": {"n_items": 3}},
        {"shards": ["../shards/shard-00000"], "report": {"n_items": 900}},
        {"shards": ["shard-00000", 3], "report": {"n_items": 900}},
        {"shards": ["shard-00000"], "report": {"n_items": "many"}},
        {"shards": ["shard-00000"], "report": None},
        [[]],
        None,
    ],
)
def test_a_forged_list_of_shards_is_refused(stored, inline, listed):
    folder, _, _ = stored
    index_shards(folder / "items.npy", folder / "shards", backend="exact", executor=inline)
    (folder / "shards" / "shards.json").write_text(json.dumps(listed))
    with pytest.raises(ValueError, match="must hold a finished index of index_shards"):
        search_shards(
            folder / "shards", folder / "queries.npy", 3, work=folder / "work", executor=inline
        )


def test_what_cannot_be_searched_is_refused_in_words(stored, inline, rng):
    folder, Z, _ = stored
    sides = folder / "shards", folder / "queries.npy"
    with pytest.raises(ValueError, match="must hold a finished index of index_shards"):
        search_shards(*sides, 3, work=folder / "work", executor=inline)
    given = {"backend": "exact", "executor": inline}
    index_shards(folder / "items.npy", folder / "shards", **given)
    with pytest.raises(ValueError, match="k must be at most the 900 items, got 901"):
        search_shards(*sides, 901, work=folder / "work", executor=inline)
    with pytest.raises(ValueError, match="holds the work of another task"):
        index_shards(folder / "items.npy", folder / "shards", **given, shard_size=9)
    assert json.loads((folder / "shards" / "shards.json").read_text())["report"]["recall"] == 1.0
    index = build_index(Z)
    for bad, message in [(Z[:0], "not be empty"), (Z[:, :2], r"be .*shape \(n, 6\)")]:
        with pytest.raises(ValueError, match=f"index_like: items must {message}"):
            index_like(index, bad)
