"""Matrices that stay in their file: the same rows and bits, without a mapping that stays."""

import sys
from pathlib import Path

import numpy as np
import pytest

from similia import OASIS, POLA, Blend, FactoredAROMA
from similia.files import Ids, VectorFile, read_vectors
from similia.stored import UNITS, StoredRows, at_hand, mapped
from similia.trust import evaluate_file

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="reads at offsets are of POSIX")


@pytest.fixture
def stored(tmp_path, rng):
    X = rng.normal(size=(2 * UNITS + 77, 6)).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    return X, StoredRows.of(tmp_path / "x.npy")


def mapped_files():
    return Path("/proc/self/maps").read_text()


def test_rows_are_those_of_the_file(stored, rng):
    X, rows = stored
    assert rows.shape == X.shape
    for key in (slice(None), slice(5, 9), slice(-3, None), slice(9, 5), slice(0, 50, 7)):
        np.testing.assert_array_equal(rows[key], X[key])
    some = rng.integers(len(X), size=900)
    np.testing.assert_array_equal(rows[some], X[some])
    np.testing.assert_array_equal(np.concatenate(list(rows.blocks())), X)


def test_an_order_is_kept_without_reading(stored, rng):
    X, rows = stored
    order = rng.permutation(len(X))[:500]
    found = rows.at(order).at(np.arange(400))
    assert found.shape == (400, 6)
    np.testing.assert_array_equal(found[:], X[order][:400])
    np.testing.assert_array_equal(found[np.array([3, 1])], X[order][[3, 1]])


def test_rows_are_made_block_by_block(stored):
    X, rows = stored
    sizes = []

    def doubled(block):
        sizes.append(len(block))
        return np.hstack([block, block]) * 2

    made = rows.made(doubled)
    np.testing.assert_array_equal(made[:], np.hstack([X, X]) * 2)
    assert all(size % UNITS == 0 for size in sizes[:-1])


@pytest.mark.parametrize("kind", ["i8", "f2", "f8", ">f4"])
def test_other_numbers_become_floats_as_in_reading(tmp_path, rng, kind):
    X = rng.integers(100, size=(40, 3)).astype(kind)
    np.save(tmp_path / "x.npy", X)
    rows, expected = StoredRows.of(tmp_path / "x.npy"), read_vectors(tmp_path / "x.npy").X
    for key in (slice(None), np.array([4, 2])):
        assert rows[key].dtype == rows.dtype
        np.testing.assert_array_equal(rows[key], expected[key])


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_no_mapping_stays(stored):
    X, rows = stored
    rows[np.arange(len(X))]
    rows[:100]
    assert "x.npy" not in mapped_files()
    with mapped(rows._file.name) as whole:
        assert "x.npy" in mapped_files()
        np.testing.assert_array_equal(whole, X)
    del whole
    assert "x.npy" not in mapped_files()


def test_a_file_that_was_cut_short_is_an_error(tmp_path, stored):
    rows = stored[1]
    with open(tmp_path / "x.npy", "r+b") as file:
        file.truncate(1000)
    with pytest.raises(OSError, match="has become shorter"):
        rows[1000:2000]


def test_rows_at_hand_name_the_same(stored, rng):
    X, rows = stored
    tuples = rng.integers(len(X), size=(30, 3))
    near, _, own = at_hand(rows, None, tuples)
    np.testing.assert_array_equal(near[own], X[tuples])
    queries, items, own = at_hand(rows, rows, tuples)
    np.testing.assert_array_equal(queries[own[:, 0]], X[tuples[:, 0]])
    np.testing.assert_array_equal(items[own[:, 1:]], X[tuples[:, 1:]])


@pytest.mark.parametrize("kind", ["labels", "grades", "few", "triplets", "pairs"])
def test_an_evaluation_has_the_same_bits(tmp_path, rng, kind):
    """Items longer than a block, with ties; learners that move items, and that leave them."""
    n = 2 * UNITS + 501
    X = rng.normal(size=(n, 24)).astype(np.float32)
    X[n // 2 : n // 2 + 500] = X[:500]
    np.save(tmp_path / "x.npy", X)
    triplets = rng.integers(n, size=(200, 3))
    signs = rng.choice([-1, 1], size=200)
    scorers = {name: name for name in ("cosine", "euclidean", "inner_product")} | {
        "oasis": OASIS().learn(X, triplets),
        "aroma": FactoredAROMA().learn(X, triplets),
        "pola": POLA().learn(X, triplets[:, :2], signs),
        "blend": Blend().learn(X, triplets[:50]),
    }
    header, rows = {
        "labels": ("row,label", np.column_stack([np.arange(900), rng.integers(200, size=900)])),
        "grades": ("query,item,relevance", np.column_stack([
            np.repeat(np.arange(300), 3), rng.integers(n, size=900), rng.integers(3, size=900)])),
        "few": ("query,item,relevance", np.column_stack([
            np.repeat(np.arange(20), 3), rng.integers(n, size=60), rng.integers(3, size=60)])),
        "triplets": ("query,better,worse", rng.integers(n, size=(3000, 3))),
        "pairs": ("a,b,label", np.column_stack([
            rng.integers(100, size=(900, 2)), rng.choice([-1, 1], size=900)])),
    }[kind]  # fmt: skip
    np.savetxt(tmp_path / "j.csv", rows, "%d", ",", header=header, comments="")
    there = VectorFile(StoredRows.of(tmp_path / "x.npy"), Ids(None, n))
    expected = evaluate_file(scorers, read_vectors(tmp_path / "x.npy"), tmp_path / "j.csv")
    for name, found in evaluate_file(scorers, there, tmp_path / "j.csv").items():
        for measure, values in expected[name].per_query.items():
            np.testing.assert_array_equal(found.per_query[measure], values, err_msg=name)
