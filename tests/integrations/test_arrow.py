import numpy as np
import pytest
from numpy.testing import assert_array_equal

import similia

pytest.importorskip("pyarrow", reason="needs pyarrow")

import pyarrow as pa

from similia.integrations.arrow import column_of, vectors_of


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_matrix_and_its_column_are_the_same_memory(dtype, rng):
    X = rng.normal(size=(7, 3)).astype(dtype)
    again = vectors_of(column_of(X))
    assert np.shares_memory(again, X)
    assert_array_equal(again, X)


def test_a_slice_is_that_of_the_matrix(rng):
    X = rng.normal(size=(7, 3))
    assert_array_equal(vectors_of(column_of(X)[2:5]), X[2:5])
    table = pa.table({"vector": column_of(X)})
    assert np.shares_memory(vectors_of(table["vector"]), X)


def test_learners_take_and_return_columns_without_copies(rng):
    X = rng.normal(size=(30, 4))
    triplets = rng.integers(30, size=(50, 3))
    learner = similia.OASIS().learn(vectors_of(column_of(X)), triplets)
    plain = similia.OASIS().learn(X, triplets)
    found = learner.query_vectors(vectors_of(column_of(X)))
    assert_array_equal(found, plain.query_vectors(X))
    assert np.shares_memory(vectors_of(column_of(found)), found)
    assert np.shares_memory(np.from_dlpack(found), found)


def test_what_is_no_matrix_is_refused(rng):
    X = rng.normal(size=(4, 2))
    with pytest.raises(ValueError, match="must have no nulls"):
        vectors_of(pa.array([[1.0, 2.0], None], pa.list_(pa.float64(), 2)))
    with pytest.raises(ValueError, match="must have no nulls"):
        vectors_of(pa.array([[1.0, None]], pa.list_(pa.float64(), 2)))
    with pytest.raises(ValueError, match="floats or doubles"):
        vectors_of(pa.array([[1, 2]], pa.list_(pa.int64(), 2)))
    with pytest.raises(ValueError, match="fixed-size lists"):
        vectors_of(pa.array([[1.0]]))
    with pytest.raises(ValueError, match="combine_chunks"):
        vectors_of(pa.chunked_array([column_of(X), column_of(X)]))
    with pytest.raises(ValueError, match="C order"):
        column_of(X.T)
    with pytest.raises(ValueError, match="matrix"):
        column_of(X[0])


def test_tensors_are_read_and_returned_in_place(rng):
    torch = pytest.importorskip("torch", reason="needs torch: make integrations")
    X = rng.normal(size=(30, 4))
    tensor, triplets = torch.from_numpy(X), rng.integers(30, size=(50, 3))
    assert np.shares_memory(np.asarray(tensor), X)
    learner = similia.OASIS().learn(tensor, triplets)
    found = learner.query_vectors(tensor)
    assert_array_equal(found, similia.OASIS().learn(X, triplets).query_vectors(X))
    assert np.shares_memory(torch.from_dlpack(found).numpy(), found)
