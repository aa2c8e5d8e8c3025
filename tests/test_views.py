"""Views: named matrices with the same rows."""

import numpy as np
import pytest
from scipy import sparse

from similia import Views
from similia.views import VECTORS, as_views


def test_the_first_view_is_the_base_and_the_order_is_kept():
    views = Views(b=np.eye(3), a=np.ones((3, 2)))
    assert list(views) == ["b", "a"]
    np.testing.assert_array_equal(views.base, np.eye(3))
    assert (len(views), views.shape, views.ndim) == (3, (3, 5), 2)
    assert "a" in views
    assert "c" not in views


def test_a_vector_is_one_column():
    assert Views(a=np.eye(3), price=[1, 2, 3])["price"].shape == (3, 1)


@pytest.mark.parametrize(
    "rows", [slice(1, 3), np.array([2, 0, 2]), np.array([True, False, True]), np.array([], int)]
)
def test_rows_are_taken_from_every_view(rows):
    dense, words = np.arange(6.0).reshape(3, 2), sparse.csr_array(np.eye(3))
    some = Views(a=dense, words=words)[rows]
    np.testing.assert_array_equal(some["a"], dense[rows])
    np.testing.assert_array_equal(some["words"].toarray(), np.eye(3)[rows])


def test_precision_and_sparse_forms_are_kept():
    views = Views(
        a=np.eye(2, dtype=np.float32),
        b=sparse.csc_array(np.eye(2)),
        c=np.eye(2, dtype=int),
        d=sparse.csr_matrix(np.eye(2, dtype=np.float32)),
    )
    assert [views[name].dtype.name for name in views] == [
        "float32",
        "float64",
        "float64",
        "float32",
    ]
    assert [sparse.issparse(views[name]) for name in views] == [False, True, False, True]
    assert views["b"].format == "csr"


def test_a_matrix_is_the_only_view_and_views_stay():
    X = np.eye(3)
    views = as_views(X)
    assert list(views) == [VECTORS]
    assert as_views(views) is views


@pytest.mark.parametrize(
    ("views", "words"),
    [
        ({}, "^Views: views must be at least one, got none"),
        ({"a": np.eye(3), "b": np.eye(2)}, "same number of rows, got a with 3, b with 2"),
        ({"a": np.zeros((2, 2, 2))}, "dim 3"),
        ({"a": [["x"]]}, "^Views: a must be numbers, got text: 'x'"),
        ({"a": np.empty((0, 3))}, "0 sample"),
    ],
)
def test_what_is_no_set_of_views_is_refused(views, words):
    with pytest.raises(ValueError, match=words):
        Views(**views)


def test_an_unknown_view_is_named():
    with pytest.raises(KeyError, match="b"):
        Views(a=np.eye(2))["b"]


def test_views_say_what_they_are():
    assert repr(Views(a=np.eye(3), price=np.ones(3))) == "Views(a=3, price=1) of 3 rows"
