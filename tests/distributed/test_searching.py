"""Search in ranges: the list of a single search, ties included."""

import numpy as np
import pytest

from similia import OASIS
from similia.distributed import search_ranges
from similia.persistence import save
from similia.retrieval import top_k


@pytest.fixture
def stored(tmp_path, rng):
    """Small integers, whose scores are exact, with every item there twice."""
    Z = rng.integers(-3, 4, size=(200, 4)).astype(float)
    Z = np.concatenate([Z, Z])
    np.save(tmp_path / "items.npy", Z)
    np.save(tmp_path / "queries.npy", Z[:30] + 1)
    model = OASIS(prior_scale=2.0).learn(Z, np.zeros((0, 3), int))
    save(model, tmp_path / "m.safetensors")
    return tmp_path, Z[:30] + 1, Z, model


@pytest.mark.parametrize("scorer", ["inner_product", "euclidean", "model"])
@pytest.mark.parametrize("range_size", [7, 150, 1000])
def test_ranges_find_what_one_search_finds(stored, inline, scorer, range_size):
    folder, Q, Z, model = stored
    named = folder / "m.safetensors" if scorer == "model" else scorer
    rows, scores = search_ranges(
        named, folder / "queries.npy", folder / "items.npy", 12,
        work=folder / "work", executor=inline, range_size=range_size,
    )  # fmt: skip
    expected = top_k(model if scorer == "model" else scorer, Q, Z, 12)
    np.testing.assert_array_equal(rows, expected[0])
    np.testing.assert_array_equal(scores, expected[1])


def test_more_items_than_there_are_are_refused(stored, inline):
    folder, *_ = stored
    with pytest.raises(ValueError, match="k must be at most the 400 items, got 401"):
        search_ranges(
            "cosine", folder / "queries.npy", folder / "items.npy", 401,
            work=folder / "work", executor=inline,
        )  # fmt: skip


def test_a_folder_of_another_task_is_refused(stored, inline):
    folder, *_ = stored
    sides = folder / "queries.npy", folder / "items.npy"
    search_ranges("cosine", *sides, 3, work=folder / "work", executor=inline)
    with pytest.raises(ValueError, match="holds the work of another task"):
        search_ranges("cosine", *sides, 4, work=folder / "work", executor=inline)
    np.save(sides[1], np.load(sides[1])[::-1])
    with pytest.raises(ValueError, match="holds the work of another task"):
        search_ranges("cosine", *sides, 3, work=folder / "work", executor=inline)
