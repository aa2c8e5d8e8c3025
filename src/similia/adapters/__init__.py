"""Many small adapters over one similarity: a matrix of low rank for each user or tenant."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from similia.adapters.adapter import Adapter, User, packed, unpacked
from similia.contract import Array, Geometry, Matrix, State
from similia.linalg.blas import bilinear_forms, row_products
from similia.linalg.blocks import dense, triplet_rows
from similia.linalg.threads import single_blas_thread
from similia.persistence import reading, saving
from similia.persistence.saving import PathLike
from similia.safety.turns import Shared
from similia.safety.whole import held_signals
from similia.similarity.base import check_prior, measured_start
from similia.validation import (
    Rule,
    array,
    boolean,
    check_magnitude,
    check_parameters,
    check_tuples,
    checked_matrix,
    one_of,
    positive,
    positive_integer,
)

__all__ = ["Adapters", "UserSimilarity", "load_adapters"]

#: triplets whose rows are held at once
TRIPLET_BLOCK = 256


class Adapters(Shared):
    """Similarities qᵀ(W₀ + ΔW)p with a shared W₀ and a ΔW of low rank per user.

    A triplet that scores below the margin 1 moves the user's ΔW by the step of `OASIS`, which is of
    rank one. Up to `rank` such terms are kept as they are, so the adapter is exactly the `OASIS`
    learnt from the same triplets; then the terms are merged and the weakest directions dropped.
    OASIS needs nothing but those terms: a second-order step (AROMA) would also keep covariances for
    each user, each the size of W₀, or as many terms again.

    Parameters
    ----------
    rank : int
        Maximum number of terms. Memory is at most rank·(n_features + n_item_features + 2·rank)
        numbers per user, less for users who have taught little.
    C : positive number
        Larger C follows each triplet more closely.
    prior : "identity" or array of shape (n_features, n_item_features)
        W₀, up to `prior_scale`. To start from a learner, pass its ``query_matrix()`` and
        ``prior_scale=1.0``.
    prior_scale : "auto" or positive number
        Factor of the prior against the margin 1. "auto" makes the typical gap between two items
        equal to the margin, estimated from the vectors of the first call of `learn`.
    average : bool
        Score with the mean of the states over the user's stream instead of the last one.

    Attributes
    ----------
    prior_scale_ : float
        Available once something was learnt.

    Examples
    --------
    >>> import numpy as np
    >>> from similia.adapters import Adapters
    >>> X = np.eye(3)
    >>> adapters = Adapters(rank=4).learn("ann", X, [[0, 1, 2]] * 3)
    >>> score = lambda user: adapters.pairwise_score(user, X[:1], X)[0]
    >>> bool(score("ann")[1] > score("ann")[2]), bool(score("bob")[1] > score("bob")[2])
    (True, False)
    """

    _rules = {
        "rank": Rule("an integer of at least 2", lambda v: positive_integer.holds(v) and v >= 2),
        "C": positive,
        "prior": one_of("identity") | array,
        "prior_scale": one_of("auto") | positive,
        "average": boolean,
    }

    def __init__(
        self,
        *,
        rank: int = 16,
        C: float = 0.1,
        prior: str | Array = "identity",
        prior_scale: float | Literal["auto"] = "auto",
        average: bool = True,
    ) -> None:
        self.rank, self.C, self.average = rank, C, average
        self.prior, self.prior_scale = prior, prior_scale
        check_parameters("Adapters", self._rules, self.get_params())
        self._adapters: dict[User, Adapter] = {}
        self._W0: Array | None = None
        self.shape_: tuple[int, int] | None = None

    def get_params(self) -> dict[str, Any]:
        """Parameters by name."""
        return {name: getattr(self, name) for name in self._rules}

    # -- learning ------------------------------------------------------------------------------

    def learn(
        self,
        user: User,
        X: ArrayLike | Matrix,
        triplets: ArrayLike,
        *,
        items: ArrayLike | Matrix | None = None,
    ) -> Self:
        """Learn the feedback of one user in order; pieces equal the whole.

        Parameters
        ----------
        user : int or str
            A new user starts from the shared similarity. All names are of one type.
        X : array or CSR matrix of shape (n_queries, n_features)
            Query vectors; also the items, unless `items` is given.
        triplets : integer array of shape (n_triplets, 3)
            Rows (query, better, worse).
        items : array or CSR matrix of shape (n_items, n_item_features), optional

        Returns
        -------
        The adapters. An error leaves them unchanged.
        """
        where = "Adapters.learn"
        self._check_user(where, user)
        X = self._rows(where, X, 0, finite=False)
        Z = self._rows(where, X if items is None else items, 1, finite=False)
        triplets = check_tuples(where, "triplets", triplets, (X.shape[0], Z.shape[0], Z.shape[0]))
        kind = None if self.shape_ is None else self.dtype_
        named = triplets.ravel() if items is None else triplets[:, 0]
        check_magnitude(where, "X", X, named, kind)
        if items is not None:
            check_magnitude(where, "items", Z, triplets[:, 1:].ravel(), kind)
        if self.shape_ is None:
            check_prior("Adapters", self.prior, X.shape[1], Z.shape[1])
            automatic = isinstance(self.prior_scale, str)
            scale = measured_start(self.prior, X, Z)[0] if automatic else float(self.prior_scale)
            self._set_start((X.shape[1], Z.shape[1]), X.dtype, scale)
        adapter = self._adapters.setdefault(user, Adapter(*self._started(where), self.dtype_))
        with held_signals() as let_signals_in, single_blas_thread():
            for _, rows, differences in triplet_rows(X, Z, triplets, self.dtype_, TRIPLET_BLOCK):
                Q, P = dense(rows), dense(differences)
                base = (
                    row_products(Q, P) * self.dtype_.type(self.prior_scale_)
                    if self._W0 is None
                    else bilinear_forms(self._W0, Q, P)
                )
                adapter.learn(base, Q, P, float(self.C), self.rank, self.average)
                let_signals_in()
        return self

    def _set_start(self, shape: tuple[int, int], dtype: DTypeLike, scale: float) -> None:
        self.shape_, self.prior_scale_ = shape, scale
        self.dtype_: np.dtype[Any] = np.dtype(dtype)
        if not isinstance(self.prior, str):
            self._W0 = np.array(self.prior * scale, dtype=dtype, order="C")

    # -- scoring -------------------------------------------------------------------------------

    def query_vectors(self, user: User, Q: ArrayLike | Matrix) -> Array:
        """(W₀ + ΔW)ᵀq for each query, to search an inner-product index of the items.

        A single query may be a vector. A user who has taught nothing gets the shared similarity.
        """
        if np.ndim(Q) == 1:
            return self.query_vectors(user, np.asanyarray(Q)[None])[0]
        owner = "Adapters.query_vectors"
        self._check_user(owner, user)
        self._started(owner)
        rows = self._rows(owner, Q, 0)
        shared = (
            dense(rows) * rows.dtype.type(self.prior_scale_)
            if self._W0 is None
            else rows @ self._W0
        )
        adapter = self._adapters.get(user)
        return np.asarray(shared if adapter is None else shared + adapter.moved(rows, self.average))

    def pairwise_score(
        self, user: User, Q: ArrayLike | Matrix, Z: ArrayLike | Matrix | None = None
    ) -> Array:
        """Scores of all pairs of rows for the user; of Q with itself without Z.

        A single query may be a vector.
        """
        if np.ndim(Q) == 1:
            return self.pairwise_score(user, np.asanyarray(Q)[None], Z)[0]
        vectors = self.query_vectors(user, Q)
        items = self._rows("Adapters.pairwise_score", Q if Z is None else Z, 1)
        return np.asarray((items @ vectors.T).T)

    def of(self, user: User) -> "UserSimilarity":
        """The user's similarity, as `evaluate`, an index or `trust` takes it."""
        self._check_user("Adapters.of", user)
        return UserSimilarity(self, user)

    def matrix(self, user: User) -> Array:
        """The user's W₀ + ΔW in full, of shape (n_features, n_item_features)."""
        n_features, _ = self._started("Adapters.matrix")
        return self.query_vectors(user, np.eye(n_features, dtype=self.dtype_))

    # -- the users -----------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._adapters)

    def __iter__(self) -> Iterator[User]:
        return iter(self._adapters)

    def __contains__(self, user: object) -> bool:
        return user in self._adapters

    def __getitem__(self, user: User) -> Adapter:
        if user not in self._adapters:
            raise KeyError(f"Adapters: user must be one who has taught something, got {user!r}.")
        return self._adapters[user]

    def forget(self, user: User) -> None:
        """Drop everything that a user has taught."""
        self._adapters.pop(user, None)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays of all adapters."""
        return sum(adapter.nbytes for adapter in self._adapters.values())

    def save(self, path: PathLike) -> None:
        """Write all adapters to one file, whole or not at all; `load_adapters` reads it."""
        attributes: State = {"shape": None}
        if self.shape_ is not None:
            attributes = packed(self._adapters, *self.shape_, self.dtype_)
            attributes |= {"shape": list(self.shape_), "prior_scale": self.prior_scale_}
            attributes["dtype"] = self.dtype_.name
        saving.write(path, "Adapters", self.get_params(), attributes)

    # -- checks --------------------------------------------------------------------------------

    def _check_user(self, owner: str, user: object) -> None:
        if isinstance(user, bool) or not isinstance(user, int | str):
            raise ValueError(f"{owner}: user must be an integer or a string, got {user!r:.80}.")
        other = next(iter(self._adapters), user)
        if type(other) is not type(user):
            raise ValueError(
                f"{owner}: user must be named as the others are, by {type(other).__name__}, "
                f"got {user!r:.80}."
            )

    def _started(self, owner: str) -> tuple[int, int]:
        """Numbers of query and item features, known once something was learnt."""
        if self.shape_ is None:
            raise ValueError(f"{owner}: something must be learnt first.")
        return self.shape_

    def _rows(
        self, owner: str, X: ArrayLike | Matrix, side: Literal[0, 1], finite: bool = True
    ) -> Matrix:
        """Queries (side 0) or items (1), checked against the features learnt from."""
        name = ("X", "items")[side]
        rows = checked_matrix(owner, name, X, ensure_all_finite=finite)
        size = rows.shape[1] if self.shape_ is None else self.shape_[side]
        if rows.shape[1] != size:
            raise ValueError(f"{owner}: {name} must have {size} features, got {rows.shape[1]}.")
        return rows


@dataclass(frozen=True, eq=False)
class UserSimilarity:
    """One user's similarity as a `similia.contract.Ranker`."""

    adapters: Adapters
    user: User
    geometry: Geometry = "inner_product"

    def query_vectors(self, Q: Matrix) -> Array:
        """The user's query vectors."""
        return self.adapters.query_vectors(self.user, Q)

    def item_vectors(self, Z: Matrix) -> Matrix:
        """The items, unchanged."""
        return Z

    def pairwise_score(self, Q: Matrix, Z: Matrix | None = None) -> Array:
        """The user's scores of all pairs of rows."""
        return self.adapters.pairwise_score(self.user, Q, Z)


def load_adapters(path: PathLike) -> Adapters:
    """Load saved adapters, which continue as if they had never been saved.

    Parameters
    ----------
    path : path
        A file written by `Adapters.save`; ModelFileError if it is damaged, foreign, or of a newer
        format. Everything is checked and nothing is executed.
    """
    return reading.rebuilt(path, reading.read_document_of(path, "Adapters", "adapters"), _adapters)


def _adapters(parameters: dict[str, Any], attributes: State) -> Adapters:
    adapters = Adapters(**parameters)
    if attributes["shape"] is None:
        return adapters
    m, n = attributes["shape"]
    check_prior("Adapters", adapters.prior, m, n)
    if attributes["dtype"] not in ("float32", "float64"):
        raise ValueError("the precision is unknown")
    adapters._set_start((m, n), attributes["dtype"], float(attributes["prior_scale"]))
    adapters._adapters = unpacked(attributes, m, n, adapters.dtype_, adapters.rank)
    return adapters
