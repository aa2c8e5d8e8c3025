import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from similia.linalg.blocks import RowStore, dense_rows, row_of

ACTIONS = st.lists(st.sampled_from(["append", "append", "remove_first"]), max_size=60)


@given(ACTIONS, st.integers(0, 2**32 - 1), st.sampled_from([np.asarray, sparse.csr_array]))
def test_a_store_holds_what_a_list_would(actions, seed, form):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4)) * (rng.random((60, 4)) < 0.5)
    rows, store, expected = form(X), RowStore(form(X)), []
    for i, action in enumerate(actions):
        if action == "append":
            store.append(row_of(rows, i))
            expected.append(X[i])
        elif expected:
            store.remove_first()
            expected.pop(0)
        held = store.rows
        assert len(store) == len(expected) == held.shape[0]
        held = held.toarray() if sparse.issparse(held) else held
        np.testing.assert_array_equal(held, np.reshape(expected, (-1, 4)))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("indices", [[], [3, 0, 3], [4] * 40], ids=len)
def test_named_rows_come_as_a_new_dense_array(form, indices, rng):
    X = rng.normal(size=(5, 4)) * (rng.random((5, 4)) < 0.5)
    rows = dense_rows(form(X), indices)
    np.testing.assert_array_equal(rows, X[indices] if indices else np.empty((0, 4)))
    rows[:] = 7.0
    assert not (X == 7.0).any()


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_store_with_a_budget_takes_no_more_room_as_rows_go_by(form, rng):
    rows = form(rng.normal(size=(1, 5)))
    store, sizes = RowStore(rows), []
    for _ in range(2000):
        store.append(row_of(rows, 0))
        if len(store) > 10:
            store.remove_first()
        sizes.append(len(store._values))
    assert max(sizes[1000:]) <= max(sizes[:100]) <= 2 * 11 * 5


def test_a_row_is_a_view_of_its_matrix(rng):
    X = rng.normal(size=(3, 4))
    assert np.shares_memory(row_of(X, 1).values, X)
    C = sparse.csr_array(X)
    assert np.shares_memory(row_of(C, 1).values, C.data)
    assert row_of(C, 2).places.tolist() == [0, 1, 2, 3]
