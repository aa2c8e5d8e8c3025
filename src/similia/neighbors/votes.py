"""A kNN classifier by two maps: vectors, distances, neighbors and votes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from similia import validation as rules
from similia.base import accepts_one_query, validated
from similia.contract import Array, Indices, Matrix
from similia.neighbors.maps import Map, Maps, squared_distances
from similia.neighbors.search import SEARCHES, NeighborSearch, vote_shares
from similia.neighbors.sides import LEARNER_NAME, item_rows
from similia.safety.turns import Shared


class VotesByMaps(
    Shared, ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, BaseEstimator
):
    """Predictions, distances and neighbors by two learnt maps and a database.

    A subclass learns the attributes declared here and calls `_remember_vectors` when they change.
    """

    #: maps learn from vectors alone, and from labels as they are
    layout_ = None
    assumed_ = ""

    n_neighbors: int
    search: str
    U_: Array
    V_: Array
    query_center_: Array
    item_center_: Array
    classes_: Array
    database_: Matrix
    database_labels_: Indices
    queries_are_items_: bool
    n_item_features_: int
    _search: tuple[str, NeighborSearch]

    # -- vectors and distances -----------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return len(self.U_)

    def _maps(self) -> Maps:
        return Maps(Map(self.U_, self.query_center_), Map(self.V_, self.item_center_))

    def transform(self, X: Matrix) -> Array:
        """U(x - m) of each query."""
        return self._query_images(X)

    def _query_images(self, X: Matrix) -> Array:
        check_is_fitted(self)
        X = validated(self, X, reset=False)
        rules.check_magnitude(LEARNER_NAME, "X", X, dtype=self.U_.dtype)
        return self._maps().query(X.astype(self.U_.dtype, copy=False))

    @accepts_one_query
    def query_vectors(self, Q: Matrix) -> Array:
        """U(q - m) of each query, or of a single one: vectors to search an l2 index with.

        A table after `set_output`.
        """
        return self.transform(Q)

    def item_vectors(self, Z: Matrix) -> Array:
        """V(z - n) of each item: vectors to put into an l2 index."""
        check_is_fitted(self)
        Z = item_rows(LEARNER_NAME, Z, self.V_.dtype, self.n_item_features_)
        return self._maps().item(Z.astype(self.V_.dtype, copy=False))

    def query_matrix(self) -> None:
        """None: no matrix alone makes query vectors, as the maps also subtract a mean."""

    def pairwise_distance(self, Q: Matrix, Z: Matrix | None = None) -> Array:
        """|U(q - m) - V(z - n)| of all queries and items; not symmetric if U and V differ.

        Parameters
        ----------
        Q : array or CSR matrix of shape (n_queries, n_features), or one query
        Z : array or CSR matrix of shape (n_items, n_item_features), optional; by default Q

        Returns
        -------
        distances : array of shape (n_queries, n_items), or (n_items,) for one query
        """
        return np.sqrt(-self.pairwise_score(Q, Z))

    @accepts_one_query
    def pairwise_score(self, Q: Matrix, Z: Matrix | None = None) -> Array:
        """Negated squared distances: larger is closer. Parameters as in `pairwise_distance`."""
        queries, items = self._query_images(Q), self.item_vectors(Q if Z is None else Z)
        squares = squared_distances(queries, items)
        if Z is None and np.array_equal(queries, items):
            np.fill_diagonal(squares, 0.0)
        return -squares

    # -- neighbors -----------------------------------------------------------------------------

    def kneighbors(
        self, X: Matrix | None = None, n_neighbors: int | None = None, return_distance: bool = True
    ) -> tuple[Array, NDArray[np.int64]] | NDArray[np.int64]:
        """The nearest items of each query in the database.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_queries, n_features), optional
            Queries; by default the points of the database, each without itself.
        n_neighbors : int, optional; by default as many as vote
        return_distance : bool

        Returns
        -------
        distances, rows : arrays of shape (n_queries, n_neighbors)
            Nearest first, rows as in `database_`; only the rows unless distances are requested.
        """
        check_is_fitted(self)
        where = f"{LEARNER_NAME}.kneighbors"
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        asked = {"n_neighbors": rules.positive_integer, "search": rules.one_of(*SEARCHES)}
        rules.check_parameters(where, asked, {"n_neighbors": k, "search": self.search})
        n_items = len(self.item_vectors_) - (X is None)
        if k > n_items:
            most = f"the {n_items} items of the database"
            raise ValueError(f"{where}: n_neighbors must be at most {most}, got {k}.")
        if X is None and not self.queries_are_items_:
            raise ValueError(f"{where}: X must be given, as queries and items differ.")
        queries = self._maps().query(self.database_) if X is None else self._query_images(X)
        name, search = self._search
        search = search if name == self.search else SEARCHES[self.search](self.item_vectors_)
        squares, rows = search.nearest(queries, k, exclude_self=X is None)
        return (np.sqrt(np.maximum(squares, 0.0)), rows) if return_distance else rows

    def predict_proba(self, X: Matrix) -> Array:
        """Each class's share of the votes of the nearest items."""
        check_is_fitted(self)
        voters = min(self.n_neighbors, len(self.database_labels_))
        rows = self.kneighbors(X, voters, return_distance=False)
        return vote_shares(self.database_labels_[rows], len(self.classes_))

    def predict(self, X: Matrix) -> Array:
        """The class with most votes; of several, the first in `classes_`."""
        shares = self.predict_proba(X)
        return self.classes_[shares.argmax(axis=1)]

    def _remember_vectors(self) -> None:
        """Map the database once; called whenever maps or items change."""
        self.item_vectors_ = self._maps().item(self.database_)
        self._search = (self.search, SEARCHES[self.search](self.item_vectors_))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
