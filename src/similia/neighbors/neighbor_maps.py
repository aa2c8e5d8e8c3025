"""Distances |U(x - m) - V(z - n)|² between queries and items, and a vote of the nearest items."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from similia.base import Learner, Revision
from similia.contract import FLOATS, Array
from similia.neighbors.maps import Map
from similia.neighbors.neighbor_search import SEARCHES, vote_shares
from similia.validation import check_magnitude, check_parameters, one_of, positive_integer


class NeighborMaps(ClassifierMixin, Learner):
    """What a learner of two maps shares: vectors, distances, neighbors, votes.

    Queries and items may be different things, with different numbers of features.
    """

    learns_from = "labels"
    geometry = "l2"

    _rules: ClassVar = {
        **Learner._rules,
        "n_neighbors": positive_integer,
        "search": one_of(*SEARCHES),
    }
    _state: ClassVar = (
        *Learner._state,
        "n_item_features_",
        "classes_",
        "U_",
        "V_",
        "query_center_",
        "item_center_",
        "database_",
        "database_labels_",
        "queries_are_items_",
    )

    n_neighbors: int
    search: str
    classes_: Array
    U_: Array
    V_: Array
    query_center_: Array
    item_center_: Array
    database_: Any
    database_labels_: Array
    queries_are_items_: bool

    # -- vectors -------------------------------------------------------------------------------

    def transform_query(self, X: Any) -> Array:
        """Give U(x - m) for each query."""
        return Map(self.U_, self.query_center_)(self._checked_queries(X))

    def transform_item(self, Z: Any) -> Array:
        """Give V(z - n) for each item."""
        return Map(self.V_, self.item_center_)(self._checked_items(Z))

    def query_vectors(self, Q: Any) -> Array:
        """Give the vectors to search an l2 index of the items with."""
        return self.transform_query(Q)

    def item_vectors(self, Z: Any) -> Array:
        """Give the vectors to put into an l2 index."""
        return self.transform_item(Z)

    def query_matrix(self) -> None:
        """Say that no matrix alone makes query vectors: these maps also subtract a mean."""

    def revision(self) -> Revision:
        """Give something that is another after every call that changes what is learnt."""
        check_is_fitted(self)
        return Revision((self.n_seen_, self.n_updates_, False), self.U_)

    def pairwise_distance(self, Q: Any, Z: Any = None) -> Array:
        """Give |U(q - m) - V(z - n)|² for all queries and items: not symmetric if U and V differ.

        Parameters
        ----------
        Q : array or CSR matrix of shape (n_queries, n_features)
        Z : array or CSR matrix of shape (n_items, n_item_features), optional
            The items; the queries themselves if not given.

        Returns
        -------
        distances : array of shape (n_queries, n_items)
            Squared distances.
        """
        queries = self.transform_query(Q)
        items = self.transform_item(Q if Z is None else Z)
        squares = np.vecdot(queries, queries)[:, None] + np.vecdot(items, items)
        squares -= 2.0 * (queries @ items.T)
        return np.maximum(squares, 0.0, out=squares)

    def pairwise_score(self, Q: Any, Z: Any = None) -> Array:
        """Give the negated squared distances: larger is closer."""
        return -self.pairwise_distance(Q, Z)

    # -- neighbors -----------------------------------------------------------------------------

    def kneighbors(
        self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True
    ) -> tuple[Array, NDArray[np.int64]] | NDArray[np.int64]:
        """Give the nearest items of each query in the database.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_queries, n_features), optional
            Queries; the points of the database themselves, each without itself, if not given.
        n_neighbors : int, optional
            As many as vote, if not given.
        return_distance : bool

        Returns
        -------
        distances : array of shape (n_queries, n_neighbors)
            Distances, not squared, nearest first; only if asked for.
        rows : integer array of the same shape
            Rows of the database in the order in which its points came.
        """
        check_is_fitted(self)
        given = self.n_neighbors if n_neighbors is None else n_neighbors
        rules = {name: NeighborMaps._rules[name] for name in ("n_neighbors", "search")}
        chosen = {"n_neighbors": given, "search": self.search}
        check_parameters(f"{self._owner}.kneighbors", rules, chosen)
        n_items = self.item_vectors_.shape[0] - (X is None)
        if given > n_items:
            raise ValueError(
                f"{self._owner}.kneighbors: n_neighbors must be at most the {n_items} items of the "
                f"database, got {given}."
            )
        if X is None:
            if not self.queries_are_items_:
                raise ValueError(
                    f"{self._owner}.kneighbors: X must be given, as queries and items differ."
                )
            queries = Map(self.U_, self.query_center_)(self.database_)
        else:
            queries = self.transform_query(X)
        squares, rows = self._searcher().nearest(queries, given, exclude_self=X is None)
        return (np.sqrt(np.maximum(squares, 0.0)), rows) if return_distance else rows

    def predict_proba(self, X: Any) -> Array:
        """Give each class's share of the votes of the nearest items."""
        rows = self.kneighbors(X, self._voters(), return_distance=False)
        return vote_shares(self.database_labels_[rows], len(self.classes_))

    def predict(self, X: Any) -> Array:
        """Give the class with most votes; of several the first in `classes_`."""
        shares = self.predict_proba(X)
        return self.classes_[shares.argmax(axis=1)]

    def _voters(self) -> int:
        check_is_fitted(self)
        return min(self.n_neighbors, len(self.database_labels_))

    def _remember_vectors(self) -> None:
        """Map the database, so that searching does not; to be called when maps or items change."""
        self.item_vectors_ = Map(self.V_, self.item_center_)(self.database_)
        self._search = (self.search, SEARCHES[self.search](self.item_vectors_))

    def _searcher(self) -> Any:
        name, search = self._search
        return search if name == self.search else SEARCHES[self.search](self.item_vectors_)

    # -- checks --------------------------------------------------------------------------------

    def _checked_queries(self, X: Any) -> Any:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=FLOATS)
        check_magnitude(self._owner, "X", X, dtype=self.U_.dtype)
        return X.astype(self.U_.dtype, copy=False)

    def _checked_items(self, Z: Any) -> Any:
        check_is_fitted(self)
        Z = check_array(Z, accept_sparse="csr", dtype=FLOATS)
        if Z.shape[1] != self.n_item_features_:
            raise ValueError(
                f"{self._owner}: items must have {self.n_item_features_} features, "
                f"got {Z.shape[1]}."
            )
        check_magnitude(self._owner, "items", Z, dtype=self.V_.dtype)
        return Z.astype(self.V_.dtype, copy=False)

    # -- state ---------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """Give the learnt attributes by name; a sparse database by its three arrays."""
        state = super().get_state()
        if sparse.issparse(self.database_):
            names = ("data", "indices", "indptr")
            state["database_"] = {name: getattr(self.database_, name) for name in names}
        return state

    def set_state(self, state: dict[str, Any]) -> Any:
        """Replace the learnt attributes by those of a learner with the same parameters."""
        with self._all_or_nothing():
            super().set_state(state)
            if isinstance(self.database_, dict):
                parts = tuple(self.database_[name] for name in ("data", "indices", "indptr"))
                shape = (len(self.database_labels_), self.n_item_features_)
                self.database_ = sparse.csr_array(parts, shape=shape)
                self.database_.check_format()
            self._check_state()
            self._remember_vectors()
        return self

    def _check_state(self) -> None:
        """Raise ValueError if the parts of the state do not fit together."""
        for name in self._state:
            value = getattr(self, name)
            if name.startswith("n_") and (type(value) is not int or value < 0):
                raise self._misfit(f"{name} must be a count, got {value!r}")
        if self.U_.ndim != 2 or self.database_labels_.ndim != 1 or self.classes_.ndim != 1:
            raise self._misfit("U_ must be a matrix, database_labels_ and classes_ vectors")
        p, n = len(self.U_), len(self.database_labels_)
        shapes = {
            "U_": (p, self.n_features_in_),
            "V_": (p, self.n_item_features_),
            "query_center_": (self.n_features_in_,),
            "item_center_": (self.n_item_features_,),
            "database_": (n, self.n_item_features_),
        }
        for name, shape in shapes.items():
            found = getattr(self, name)
            if found.shape != shape or found.dtype != self.U_.dtype:
                raise self._misfit(
                    f"{name} must be of shape {shape} and dtype {self.U_.dtype}, "
                    f"got {found.shape} and {found.dtype}"
                )
        codes = self.database_labels_
        if codes.dtype != np.intp or n == 0 or codes.min() < 0 or codes.max() >= len(self.classes_):
            raise self._misfit("database_labels_ must be numbers of classes")
        names = getattr(self, "feature_names_in_", None)
        if names is not None and np.shape(names) != (self.n_features_in_,):
            raise self._misfit("feature_names_in_ must be as many as features")

    def _misfit(self, words: str) -> ValueError:
        return ValueError(f"{self._owner}.set_state: {words}.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
