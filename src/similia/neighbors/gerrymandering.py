"""Neighborhood gerrymandering: maps for kNN, one for queries and one for the database."""

from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from similia.base import Learner, Revision
from similia.contract import FLOATS, Array, Indices, Matrix, State
from similia.neighbors.maps import STARTS, Given, Map, Maps, Start, squared_distances
from similia.neighbors.search import SEARCHES, NeighborSearch, vote_shares
from similia.neighbors.sides import (
    Sides,
    as_queries,
    as_rows,
    check_sizes,
    checked_cost,
    checked_items,
    class_numbers,
    joined,
    labelled_sides,
    split,
)
from similia.neighbors.state import misfit, packed, unpacked
from similia.neighbors.training import (
    REGULARIZERS,
    Descent,
    Objective,
    Schedule,
    train,
)
from similia.progress import progress
from similia.validation import (
    Rule,
    array,
    between,
    boolean,
    check_magnitude,
    check_parameters,
    none,
    one_of,
    positive,
    positive_integer,
)

Labels: TypeAlias = ArrayLike | None

two_arrays = Rule(
    "a pair of arrays",
    lambda v: isinstance(v, tuple) and len(v) == 2 and all(isinstance(M, np.ndarray) for M in v),
)


class NeighborhoodGerrymandering(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, Learner
):
    """kNN classifier that learns a map of queries, x ↦ Ux, and one of the database, z ↦ Vz.

    A set h of k items votes on the class of a query; S(x, h) = -Σ_{z∈h} |Ux - Vz|² is its nearness
    and Δ the cost of its verdict. The loss of a query compares the nearest correct set with the
    nearest set overall, where wrong sets have a head start:

        L(x, y) = max_h [S(x, h) + Δ(y, h)] - max_{h: Δ(y,h)=0} S(x, h) ≥ Δ(y, the k nearest)

    Both sets are found exactly, and Ω(U, V) + C Σ L is minimized by mini-batches [Trivedi2014,
    Trivedi]. It asks only for what kNN needs: that votes are won, not that all points of a class
    are near each other.

    Parameters
    ----------
    n_neighbors : int
        k, the number of items that vote, in training and prediction.
    asymmetric : bool
        Different maps for queries and items. False ties them, V = U: a Mahalanobis metric.
    cost : array of shape (n_classes, n_classes) or None
        Δ: rows are true classes, columns verdicts, in the order of `classes_`; at least 0, with a
        zero diagonal. None is 0/1.
    ties : bool
        Whether a tie counts as its cheapest class. False counts it as its most expensive one, so
        that the correct set must win outright.
    C : positive number
        Weight of the summed losses against Ω, measured in units of its value at the start. A
        smaller C keeps the maps smaller.
    regularizer : {"joint", "separate", "frobenius"}
        Ω: ‖W‖² of the distance as a form in (x, z), which is ‖UᵀU‖² + 2‖UᵀV‖² + ‖VᵀV‖²; the same
        without the middle term; or ‖U‖² + ‖V‖².
    n_components : int or None
        p, the dimension of the images; None is that of the data (for "classes", their number).
    init : {"auto", "identity", "pca", "lda", "classes"}, array or pair of arrays
        Where the maps start, up to `start_scale`: the data unchanged, principal directions,
        Fisher's directions in coordinates that whiten the classes, or a regression on the classes,
        for queries and items with different features. "auto" is "identity" (with `n_components`,
        "pca") or "lda", whichever has the smaller kNN error. A single array serves both maps.
    start_scale : positive number or None
        Mean squared distance of a point to its k-th neighbor at the start, against costs of 1. A
        larger one leaves fewer points to learn from. None leaves the maps of `init` unscaled.
    optimizer : {"adam", "sgd"}
        Adam, or the plain gradient of the notes.
    learning_rate : positive number
        In units of `scale_`, or of its square for plain gradients, hence independent of the units
        of the data.
    schedule : {"cosine", "constant"}
        Whether the rate falls to zero over the epochs of a call.
    batch_size : int or None
        Queries per step, for which the database is mapped once. None means 20 steps per epoch, of
        16 to 256 queries.
    max_iter : int
        Epochs of `fit`; `partial_fit` runs one.
    early_stopping : bool
        Hold out points, keep the maps with the least kNN error on them, the start included, and
        stop when it no longer falls. All points are in the database afterwards. With fewer than 20
        held-out points, nothing is held out.
    validation_fraction : number between 0 and 1
        Share of each class to hold out.
    n_iter_no_change : int
        Epochs without a smaller error before stopping.
    n_database : int or None
        Items drawn, by class, for each step, for large databases; None uses all. The price is
        locality: k neighbors among n sampled items stand for k N/n among all N.
    center : bool
        Subtract means. Asymmetric maps subtract separate means of queries and items.
    search : {"exact", "faiss"}
        How `predict` and `kneighbors` search: by all distances, or by a faiss graph index, which
        occasionally misses a neighbor. Training is always exact on its items.
    random_state : int, RandomState or None
        Seed of the order of queries, of the held-out points and of `n_database`.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    U_, V_ : arrays of shape (p, n_features) and (p, n_item_features)
    query_center_, item_center_ : arrays
    classes_ : array of shape (n_classes,)
    database_, database_labels_ : array or CSR matrix, and numbers of classes
        The items, in the order in which they arrived.
    item_vectors_ : array of shape (n_items, p)
        Images of the items.
    losses_, validation_errors_ : arrays of shape (n_iter_,) and (n_iter_ + 1,) or (0,)
        Mean loss of each epoch; held-out error at the start and after each epoch.
    best_iter_ : int
        Epochs after which the kept maps were reached.
    scale_, penalty_ : float
        Largest singular value of the map, and Ω, at the start: units of `learning_rate` and `C`.
    n_iter_, n_seen_, n_updates_ : int
        Epochs, queries learnt from, and steps.

    Notes
    -----
    A step on B queries against N items costs 2Ndp flops to map the items and 2BNp for distances, in
    matrix products; inference adds N comparisons per query and a sort of the k nearest items of
    each class. Points whose class is too small to win a vote are left out.

    Where we differ from the notes: the gradient of ‖W‖² is 4(UUᵀ + VVᵀ)U and 4(UUᵀ + VVᵀ)V, not
    (11) and (12); the losses carry C in the update as in the objective; data are centered.

    For nonlinear maps, put random features, Nyström features or kernel PCA first in a pipeline.

    References
    ----------
    .. [Trivedi2014] S. Trivedi, D. McAllester, G. Shakhnarovich, "Discriminative Metric Learning by
       Neighborhood Gerrymandering", NIPS 2014.
    .. [Trivedi] S. Trivedi, "Notes on Asymmetric Metric Learning for k-NN Classification".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from similia import NeighborhoodGerrymandering
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = NeighborhoodGerrymandering(random_state=0).fit(X, y)
    >>> bool(learner.score(X, y) > 0.95)
    True
    """

    learns_from = "labels"
    geometry = "l2"

    _rules: ClassVar = {
        **Learner._rules,
        "n_neighbors": positive_integer,
        "asymmetric": boolean,
        "cost": none | array,
        "ties": boolean,
        "C": positive,
        "regularizer": one_of(*REGULARIZERS),
        "n_components": none | positive_integer,
        "init": one_of("auto", *STARTS) | array | two_arrays,
        "start_scale": none | positive,
        "optimizer": one_of("adam", "sgd"),
        "learning_rate": positive,
        "schedule": one_of("cosine", "constant"),
        "batch_size": none | positive_integer,
        "max_iter": positive_integer,
        "early_stopping": boolean,
        "validation_fraction": between(0, 1),
        "n_iter_no_change": positive_integer,
        "n_database": none | positive_integer,
        "center": boolean,
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
        "n_iter_",
        "best_iter_",
        "scale_",
        "penalty_",
        "losses_",
        "validation_errors_",
        "adam_moments_",
    )

    classes_: Array
    U_: Array
    V_: Array
    query_center_: Array
    item_center_: Array
    database_: Matrix
    database_labels_: Indices
    queries_are_items_: bool
    adam_moments_: tuple[Array, ...]
    _search: tuple[str, NeighborSearch]

    def __init__(
        self,
        *,
        n_neighbors: int = 5,
        asymmetric: bool = True,
        cost: Array | None = None,
        ties: bool = False,
        C: float = 0.01,
        regularizer: str = "joint",
        n_components: int | None = None,
        init: str | Given = "auto",
        start_scale: float | None = 1.0,
        optimizer: str = "adam",
        learning_rate: float = 0.003,
        schedule: str = "cosine",
        batch_size: int | None = None,
        max_iter: int = 10,
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        n_database: int | None = None,
        center: bool = True,
        search: str = "exact",
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.asymmetric = asymmetric
        self.cost = cost
        self.ties = ties
        self.C = C
        self.regularizer = regularizer
        self.n_components = n_components
        self.init = init
        self.start_scale = start_scale
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.n_database = n_database
        self.center = center
        self.search = search
        self.random_state = random_state
        self.verbose = verbose

    # -- learning ------------------------------------------------------------------------------

    def fit(
        self, X: Matrix, y: ArrayLike, *, items: Matrix | None = None, item_labels: Labels = None
    ) -> Self:
        """Learn the maps from scratch; the points become the database, unless `items` are given.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
            Queries; also the items, unless `items` are given.
        y : array of shape (n_samples,)
        items : array or CSR matrix of shape (n_items, n_item_features), optional
            The database, if it is of another kind or origin.
        item_labels : array of shape (n_items,)

        Returns
        -------
        The learner itself. On an error nothing has changed.
        """
        self._check_parameters()
        with self._all_or_nothing():
            return self._fit(X, y, items, item_labels, None)

    def partial_fit(
        self,
        X: Matrix,
        y: ArrayLike,
        classes: Labels = None,
        *,
        items: Matrix | None = None,
        item_labels: Labels = None,
    ) -> Self:
        """Continue learning: new points join the database, and one epoch is run over X.

        The first call is `fit`, with `classes` all labels that will ever occur, by default those of
        that call. If the learner has a separate database, X are queries only, and `items`, if
        given, join the database. Everything else is as in `fit`.
        """
        self._check_parameters()
        with self._all_or_nothing():
            if not self.__sklearn_is_fitted__():
                return self._fit(X, y, items, item_labels, classes)
            return self._continue(X, y, items, item_labels, classes)

    def _fit(
        self, X: Matrix, y: ArrayLike, items: Matrix | None, item_labels: Labels, classes: Labels
    ) -> Self:
        where = f"{self._owner}.fit"
        rows, labels = self._checked_points(where, X, y, reset=True)
        self.classes_, sides = labelled_sides(where, rows, labels, items, item_labels, classes)
        check_sizes(self._owner, sides, self.classes_, self.n_neighbors, not self.asymmetric)
        checked_cost(self._owner, self.cost, len(self.classes_))
        self.queries_are_items_ = items is None
        self.n_item_features_ = sides.Z.shape[1]
        self.database_, self.database_labels_ = sides.Z, sides.labels
        self.n_seen_ = self.n_updates_ = self.n_iter_ = 0
        self._start(sides)
        self._train(sides, self.max_iter, stopping=self.early_stopping)
        self._remember_vectors()
        return self

    def _continue(
        self, X: Matrix, y: ArrayLike, items: Matrix | None, item_labels: Labels, classes: Labels
    ) -> Self:
        where = f"{self._owner}.partial_fit"
        if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"{where}: classes must be {self.classes_}, as before.")
        if items is not None and self.queries_are_items_:
            raise ValueError(f"{where}: items must be None, as in fit, got new ones.")
        if len(self.adam_moments_) != (4 if self.asymmetric else 2):
            raise ValueError(f"{where}: asymmetric must be as in fit, got {self.asymmetric}.")
        rows, given = self._checked_points(where, X, y, reset=False)
        codes, n_old = class_numbers(where, given, self.classes_), len(self.database_labels_)
        own = np.full(len(codes), -1)
        if self.queries_are_items_:
            own = n_old + np.arange(len(codes))
            self._add_items(rows, codes)
        elif items is not None:
            Z, labels = checked_items(where, items, item_labels, self.V_.dtype, self.classes_)
            self._check_width(where, Z)
            self._add_items(Z, class_numbers(where, labels, self.classes_))
        # Training works in place, and an error must leave the old arrays untouched.
        self.U_ = self.U_.copy()
        self.V_ = self.V_.copy() if self.asymmetric else self.U_
        self.adam_moments_ = tuple(moment.copy() for moment in self.adam_moments_)
        sides = Sides(rows, codes, self.database_, self.database_labels_, own)
        self._train(sides, 1, stopping=False)
        self._remember_vectors()
        return self

    def _add_items(self, Z: Matrix, labels: Indices) -> None:
        self.database_ = joined(self.database_, Z)
        self.database_labels_ = np.concatenate([self.database_labels_, labels])

    def _start(self, sides: Sides) -> None:
        maps = Start(
            self._owner,
            init=self.init,
            p=self.n_components,
            scale=self.start_scale,
            center=bool(self.center),
            tied=not self.asymmetric,
            n_classes=len(self.classes_),
            k=self.n_neighbors,
        ).maps(sides)
        (self.U_, self.query_center_), (self.V_, self.item_center_) = maps
        self.scale_ = float(np.linalg.norm(self.U_, 2))
        self.penalty_ = REGULARIZERS[self.regularizer](self.U_, self.V_)[0]
        moved = (self.U_,) if maps.tied else (self.U_, self.V_)
        self.adam_moments_ = tuple(np.zeros_like(M) for M in moved for _ in range(2))

    def _train(self, sides: Sides, n_epochs: int, *, stopping: bool) -> None:
        rng = self._rng()
        sides, held = split(sides, self.validation_fraction, rng) if stopping else (sides, None)
        sides, n = sides.by_class(), len(sides.y)
        objective = Objective(
            cost=checked_cost(self._owner, self.cost, len(self.classes_)),
            k=min(self.n_neighbors, len(sides.labels) - bool(self.queries_are_items_)),
            ties=bool(self.ties),
            regularizer=self.regularizer,
            penalty=1.0 / (float(self.C) * len(self.database_labels_) * self.penalty_),
        )
        schedule = Schedule(
            optimizer=self.optimizer,
            # A gradient is in units of 1/scale, so this makes the rate independent of units.
            rate=float(self.learning_rate) * self.scale_ ** (1 if self.optimizer == "adam" else 2),
            falling=self.schedule == "cosine",
            batch_size=self.batch_size,
            n_database=self.n_database,
            n_epochs=n_epochs,
            patience=self.n_iter_no_change,
        )
        descent = Descent(self._maps(), self.adam_moments_, self.n_updates_, objective, schedule)
        with progress(self._owner, n_epochs * n, enabled=self.verbose) as advance:
            try:
                trained = train(descent, sides, held, rng, advance)
            except FloatingPointError:
                raise ValueError(
                    f"{self._owner}: learning_rate must be small enough for the maps to stay "
                    f"finite, got {self.learning_rate}."
                ) from None
        if not self.n_seen_ and len(trained.losses) == 1 and descent.unsolvable == n:
            raise ValueError(
                f"{self._owner}: y must have a class with enough points to win a vote of "
                f"{objective.k}, but all are too small; use fewer n_neighbors, or hold out fewer "
                "points."
            )
        self.U_, self.V_ = trained.maps.query.M, trained.maps.item.M
        self.n_updates_ = descent.n_steps
        self.n_seen_ += n * len(trained.losses)
        self.n_iter_ += len(trained.losses)
        self.best_iter_ = self.n_iter_ if held is None else trained.best
        self.losses_, self.validation_errors_ = trained.losses, trained.errors

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
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=FLOATS)
        check_magnitude(self._owner, "X", X, dtype=self.U_.dtype)
        return self._maps().query(X.astype(self.U_.dtype, copy=False))

    def query_vectors(self, Q: Matrix) -> Array:
        """U(q - m) of each query, or of a single one: vectors to search an l2 index with."""
        rows, single = as_queries(Q)
        images = self._query_images(rows)
        return images[0] if single else images

    def item_vectors(self, Z: Matrix) -> Array:
        """V(z - n) of each item: vectors to put into an l2 index."""
        check_is_fitted(self)
        Z = check_array(Z, accept_sparse="csr", dtype=FLOATS)
        self._check_width(self._owner, Z)
        check_magnitude(self._owner, "items", Z, dtype=self.V_.dtype)
        return self._maps().item(Z.astype(self.V_.dtype, copy=False))

    def query_matrix(self) -> None:
        """None: no matrix alone makes query vectors, as the maps also subtract a mean."""

    def revision(self) -> Revision:
        """Token that changes whenever the learner changes."""
        check_is_fitted(self)
        return Revision((self.n_seen_, self.n_updates_, False), self.U_)

    def pairwise_distance(self, Q: Matrix, Z: Matrix | None = None) -> Array:
        """|U(q - m) - V(z - n)| of all queries and items; not symmetric if U and V differ.

        Parameters
        ----------
        Q : array or CSR matrix of shape (n_queries, n_features), or one query
        Z : array or CSR matrix of shape (n_items, n_item_features), optional
            The items; by default the queries themselves.

        Returns
        -------
        distances : array of shape (n_queries, n_items), or (n_items,) for one query
        """
        return np.sqrt(-self.pairwise_score(Q, Z))

    def pairwise_score(self, Q: Matrix, Z: Matrix | None = None) -> Array:
        """Negated squared distances: larger is closer. Parameters as in `pairwise_distance`."""
        rows, single = as_queries(Q)
        queries, items = self._query_images(rows), self.item_vectors(rows if Z is None else Z)
        squares = squared_distances(queries, items)
        if Z is None and np.array_equal(queries, items):
            np.fill_diagonal(squares, 0.0)
        return -(squares[0] if single else squares)

    # -- neighbors -----------------------------------------------------------------------------

    def kneighbors(
        self, X: Matrix | None = None, n_neighbors: int | None = None, return_distance: bool = True
    ) -> tuple[Array, NDArray[np.int64]] | NDArray[np.int64]:
        """The nearest items of each query in the database.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_queries, n_features), optional
            Queries; by default the points of the database, each without itself.
        n_neighbors : int, optional
            By default as many as vote.
        return_distance : bool

        Returns
        -------
        distances : array of shape (n_queries, n_neighbors)
            Nearest first; only if requested.
        rows : integer array of the same shape
            Rows of the database, in the order in which its points arrived.
        """
        check_is_fitted(self)
        where = f"{self._owner}.kneighbors"
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        rules = {name: self._rules[name] for name in ("n_neighbors", "search")}
        check_parameters(where, rules, {"n_neighbors": k, "search": self.search})
        n_items = len(self.item_vectors_) - (X is None)
        if k > n_items:
            raise ValueError(
                f"{where}: n_neighbors must be at most the {n_items} items of the database, "
                f"got {k}."
            )
        if X is None and not self.queries_are_items_:
            raise ValueError(f"{where}: X must be given, as queries and items differ.")
        queries = self._maps().query(self.database_) if X is None else self._query_images(X)
        squares, rows = self._searcher().nearest(queries, k, exclude_self=X is None)
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

    def _searcher(self) -> NeighborSearch:
        name, search = self._search
        return search if name == self.search else SEARCHES[self.search](self.item_vectors_)

    # -- checks --------------------------------------------------------------------------------

    def _checked_points(
        self, where: str, X: Matrix, y: ArrayLike, *, reset: bool
    ) -> tuple[Matrix, Array]:
        rows, labels = validate_data(self, X, y, reset=reset, accept_sparse="csr", dtype=FLOATS)
        check_classification_targets(labels)
        dtype = rows.dtype if reset else self.U_.dtype
        check_magnitude(where, "X", rows, dtype=dtype)
        return as_rows(rows, dtype), labels

    def _check_width(self, where: str, Z: Matrix) -> None:
        if Z.shape[1] != self.n_item_features_:
            raise ValueError(
                f"{where}: items must have {self.n_item_features_} features, got {Z.shape[1]}."
            )

    # -- state ---------------------------------------------------------------------------------

    def get_state(self) -> State:
        """Learnt attributes by name; a sparse database by its three arrays."""
        return {**super().get_state(), "database_": packed(self.database_)}

    def set_state(self, state: State) -> Self:
        """Replace the learnt attributes by those of a learner with the same parameters."""
        with self._all_or_nothing():
            super().set_state(state)
            learnt = super().get_state()
            learnt["database_"] = self.database_ = unpacked(learnt)
            problem = misfit(learnt, self.asymmetric)
            if problem:
                raise ValueError(f"{self._owner}.set_state: {problem}.")
            self._remember_vectors()
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
