"""Queries or items: one matrix of vectors, or several named views."""

from collections.abc import Iterator
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils import check_array

from similia.safety.bounds import check_numeric

Array: TypeAlias = NDArray[Any]
#: a dense array or a CSR matrix
Matrix: TypeAlias = Array | sparse.csr_array | sparse.csr_matrix
#: the precisions in which everything is learnt and scored
FLOATS = [np.float64, np.float32]

#: name of the only view of plain vectors
VECTORS = "vectors"


class Views:
    """Named matrices with the same rows: embeddings, bags of words, fields.

    The first view is the similarity that users have today: the base. A view that queries and items
    both have compares them, by the inner product of its rows. A view that only items have is a
    field: each of its columns adds to the score by itself, whatever the query. Where queries are
    the items, views of one column are fields.

    Parameters
    ----------
    **views : arrays or sparse matrices of shape (n_rows, n_features)
        By name. An array of shape (n_rows,) is one column.

    Notes
    -----
    A field of query-item pairs (the distance from a user to a shop) is a comparing view: queries
    have a sparse row of values, one for each item, and items have the rows of an identity matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from similia import Views
    >>> items = Views(meaning=np.eye(3), price=np.array([10.0, 20.0, 15.0]))
    >>> items
    Views(meaning=3, price=1) of 3 rows
    """

    def __init__(self, /, **views: ArrayLike | Matrix) -> None:
        if not views:
            raise ValueError("Views: views must be at least one, got none.")
        self._views = {name: _matrix(name, given) for name, given in views.items()}
        lengths = {name: view.shape[0] for name, view in self._views.items()}
        if len(set(lengths.values())) > 1:
            found = ", ".join(f"{name} with {n}" for name, n in lengths.items())
            raise ValueError(f"Views: views must have the same number of rows, got {found}.")

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return self.shape[0]

    def __contains__(self, name: object) -> bool:
        return name in self._views

    @overload
    def __getitem__(self, key: str) -> Matrix: ...

    @overload
    def __getitem__(self, key: Array | slice) -> "Views": ...

    def __getitem__(self, key: Any) -> Any:
        """The view of that name; or some of the rows, of every view."""
        if isinstance(key, str):
            return self._views[key]
        rows = object.__new__(Views)
        rows._views = {name: view[key] for name, view in self._views.items()}
        return rows

    def __repr__(self) -> str:
        widths = ", ".join(f"{name}={view.shape[1]}" for name, view in self._views.items())
        return f"Views({widths}) of {len(self)} rows"

    def __array__(self, *_: Any, **__: Any) -> Array:
        raise ValueError(
            f"vectors must be one matrix, got {self!r}; only Blend learns from several views."
        )

    @property
    def n(self) -> int:
        """Number of views."""
        return len(self._views)

    @property
    def base(self) -> Matrix:
        """The first view."""
        return next(iter(self._views.values()))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, and features of all views together."""
        views = self._views.values()
        return self.base.shape[0], sum(view.shape[1] for view in views)

    @property
    def ndim(self) -> int:
        """Two, as of any matrix of vectors."""
        return 2


#: queries, or items
Side: TypeAlias = Matrix | Views


def as_views(X: ArrayLike | Matrix | Views) -> Views:
    """Views as they are; a plain matrix becomes the only view."""
    return X if isinstance(X, Views) else Views(**{VECTORS: X})


def checked_views(views: dict[str, Matrix]) -> Views:
    """Views of matrices of floats with the same rows, which need no check."""
    found = object.__new__(Views)
    found._views = views
    return found


def _matrix(name: str, given: ArrayLike | Matrix) -> Matrix:
    check_numeric("Views", name, given)
    if not sparse.issparse(given):
        given = np.asarray(given)
        if given.ndim == 1:
            given = given[:, None]
    return check_array(
        given, accept_sparse="csr", dtype=FLOATS, ensure_all_finite=False, input_name=name
    )
