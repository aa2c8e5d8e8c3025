"""Neighborhood gerrymandering: maps for kNN, one for queries and one for the database."""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from similia import validation as rules
from similia.base import generator, validated
from similia.contract import Array, Indices, Matrix, Revision, State
from similia.linalg.threads import single_blas_thread
from similia.neighbors import sides as data
from similia.neighbors.maps import STARTS, GivenMaps, MapStart
from similia.neighbors.search import SEARCHES
from similia.neighbors.sides import LEARNER_NAME, LabelledSides, Labels, class_numbers, split
from similia.neighbors.state import packed, unpacked
from similia.neighbors.training import (
    REGULARIZERS,
    MapDescent,
    Objective,
    Schedule,
    simplest,
    train,
)
from similia.neighbors.votes import VotesByMaps
from similia.parameters import check_declared, parameter, parameterized
from similia.progress import progress
from similia.safety.whole import all_or_nothing

#: points of a trial, and the share of them that it holds out
TRIAL_POINTS, TRIAL_HELD_OUT = 3000, 0.25

two_arrays = rules.Rule(
    "a pair of arrays",
    lambda v: isinstance(v, tuple) and len(v) == 2 and all(isinstance(M, np.ndarray) for M in v),
)


@parameterized
class NeighborhoodGerrymandering(VotesByMaps):
    """kNN classifier that learns a map of queries, x ↦ Ux, and one of the database, z ↦ Vz.

    A set h of k items votes on the class of a query; S(x, h) = -Σ_{z∈h} |Ux - Vz|² is its nearness
    and Δ the cost of its verdict. The loss of a query compares the nearest correct set with the
    nearest set overall, where wrong sets have a head start:

        L(x, y) = max_h [S(x, h) + Δ(y, h)] - max_{h: Δ(y,h)=0} S(x, h) ≥ Δ(y, the k nearest)

    Both sets are found exactly; mini-batches minimize Ω(U, V) + C Σ L [Trivedi2014, Trivedi].

    Attributes
    ----------
    U_, V_ : arrays of shape (p, n_features) and (p, n_item_features)
    query_center_, item_center_ : arrays of shape (n_features,) and (n_item_features,)
    classes_ : array of shape (n_classes,)
    database_, database_labels_, item_vectors_ : array or CSR matrix, and arrays
        The items in order of arrival, the numbers of their classes, and their images.
    losses_, validation_errors_ : arrays of shape (n_iter_,) and (n_iter_ + 1,) or (0,)
        Mean loss of each epoch; held-out error at the start and after each epoch.
    scale_, penalty_ : float
        Largest singular value of the map, and Ω, at the start: units of `learning_rate` and `C`.
    n_iter_, best_iter_, n_seen_, n_updates_ : int
        Epochs, those after which the kept maps were reached, queries learnt from, and steps.

    Notes
    -----
    A step on B queries against N items costs 2Ndp flops to map the items and 2BNp for distances, in
    matrix products; inference adds N comparisons per query and a sort of the k nearest items of
    each class. Points whose class is too small to win a vote are left out.

    Where we differ from the notes: the gradient of ‖W‖² is 4(UUᵀ + VVᵀ)U and 4(UUᵀ + VVᵀ)V, not
    (11) and (12); the losses carry C in the update as in the objective; data are centered.

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

    n_neighbors: int = parameter(
        default=5, rule=rules.positive_integer, doc="k, the number of items that vote."
    )
    asymmetric: bool | str = parameter(
        default="auto",
        rule=rules.one_of("auto") | rules.boolean,
        doc='Whether items have a map of their own; else V = U. "auto" is True for `items` of '
        "their own and for few points. Else both forms are tried on at most 3,000 points, of which "
        "a quarter is held out, and V = U unless its error is larger by a standard error.",
    )
    cost: Array | None = parameter(
        default=None,
        rule=rules.none | rules.array,
        doc="Δ ≥ 0, of shape (n_classes, n_classes) with a zero diagonal: rows are true classes, "
        "columns verdicts, in the order of `classes_`. None is 0/1.",
    )
    ties: bool = parameter(
        default=False, rule=rules.boolean, doc="Whether a tie counts as its cheapest class."
    )
    C: float = parameter(
        default=0.01,
        rule=rules.positive,
        doc="Weight of the losses against Ω, in units of `penalty_`; a small C keeps maps small.",
    )
    regularizer: str = parameter(
        default="joint",
        rule=rules.one_of(*REGULARIZERS),
        doc="Ω: ‖W‖² of the distance as a form in (x, z), which is ‖UᵀU‖² + 2‖UᵀV‖² + ‖VᵀV‖²; the "
        "same without the middle term; or ‖U‖² + ‖V‖².",
    )
    n_components: int | None = parameter(
        default=None,
        rule=rules.none | rules.positive_integer,
        doc="Dimension p of the images; None is that of the data, but at most 200 if `init` is "
        '"auto" (for "classes", their number).',
    )
    init: str | GivenMaps = parameter(
        default="auto",
        rule=rules.one_of("auto", *STARTS) | rules.array | two_arrays,
        doc="Where the maps start, up to `start_scale`: the data unchanged, principal directions, "
        "Fisher's directions in coordinates that whiten the classes, or (if queries and items have "
        'different features) a regression on the classes. "auto" is "identity" '
        '(if images are shorter, "pca") or "lda", whichever errs less. One array serves both maps.',
    )
    start_scale: float | None = parameter(
        default=1.0,
        rule=rules.none | rules.positive,
        doc="Mean squared distance of a point to its k-th neighbor at the start, against costs of "
        "1. The larger, the fewer points to learn from. None leaves `init` unscaled.",
    )
    optimizer: str = parameter(
        default="adam", rule=rules.one_of("adam", "sgd"), doc="Adam, or the notes' plain gradient."
    )
    learning_rate: float = parameter(
        default=0.003, rule=rules.positive, doc='In units of `scale_`, or its square for "sgd".'
    )
    schedule: str = parameter(
        default="cosine",
        rule=rules.one_of("cosine", "constant"),
        doc="Whether the rate falls to zero over the epochs of a call.",
    )
    batch_size: int | None = parameter(
        default=None,
        rule=rules.none | rules.positive_integer,
        doc="Queries per step; None means 20 steps per epoch, of 16 to 256 queries.",
    )
    max_iter: int = parameter(
        default=10, rule=rules.repetitions, doc="Epochs of `fit`; `partial_fit` runs one."
    )
    early_stopping: bool | str = parameter(
        default="auto",
        rule=rules.one_of("auto") | rules.boolean,
        doc="Hold out points (at least 20, or none), keep the maps with the least kNN error on "
        "them, the start included, and stop when it no longer falls. Then they become items, too. "
        '"auto" holds none out unless the trial of that form (as for `asymmetric`) ends with an '
        "error that is a standard error above its least one.",
    )
    validation_fraction: float = parameter(
        default=0.1, rule=rules.between(0, 1), doc="Share of each class to hold out."
    )
    n_iter_no_change: int = parameter(
        default=5, rule=rules.positive_integer, doc="Epochs without a smaller error before the end."
    )
    n_database: int | None = parameter(
        default=None,
        rule=rules.none | rules.positive_integer,
        doc="Items drawn, by class, for each step, for large databases; None uses all.",
    )
    center: bool = parameter(
        default=True, rule=rules.boolean, doc="Subtract means, of each side if asymmetric."
    )
    search: str = parameter(
        default="exact",
        rule=rules.one_of(*SEARCHES),
        doc="How `predict` and `kneighbors` search: by all distances, or by a faiss graph index.",
    )
    random_state: int | np.random.RandomState | None = parameter(
        default=None, rule=rules.seed, doc="Seed of orders, held-out points and drawn items."
    )
    verbose: bool = parameter(default=False, rule=rules.boolean, doc="Show a progress bar.")

    def fit(
        self, X: Matrix, y: ArrayLike, *, items: Matrix | None = None, item_labels: Labels = None
    ) -> Self:
        """Learn the maps from scratch; on an error nothing has changed.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
            Queries; also the items, unless `items` are given.
        y : array of shape (n_samples,)
        items : array or CSR matrix of shape (n_items, n_item_features), optional
            The database, if it is of another kind or origin.
        item_labels : array of shape (n_items,)
        """
        check_declared(self)
        with all_or_nothing(self), single_blas_thread():
            return self._begin(X, y, items, item_labels, None)

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
        check_declared(self)
        with all_or_nothing(self), single_blas_thread():
            learn = self._continue if "U_" in vars(self) else self._begin
            return learn(X, y, items, item_labels, classes)

    def _begin(
        self, X: Matrix, y: ArrayLike, items: Matrix | None, item_labels: Labels, classes: Labels
    ) -> Self:
        where = f"{LEARNER_NAME}.fit"
        rows, labels = self._points(where, X, y, reset=True)
        self.classes_, sides = data.labelled_sides(where, rows, labels, items, item_labels, classes)
        asymmetric, stopping = self._form(sides)
        data.check_sizes(sides, self.classes_, self.n_neighbors, not asymmetric)
        self.queries_are_items_ = items is None
        self.n_item_features_ = sides.Z.shape[1]
        self.database_, self.database_labels_ = sides.Z, sides.labels
        self.n_seen_ = self.n_updates_ = self.n_iter_ = 0
        maps = MapStart(
            self.init, self.n_components, self.start_scale, bool(self.center),
            not asymmetric, len(self.classes_), self.n_neighbors,
        ).maps(sides)  # fmt: skip
        self.U_, self.V_ = maps.query.M, maps.item.M
        self.query_center_, self.item_center_ = maps.query.center, maps.item.center
        self.scale_ = float(np.linalg.norm(self.U_, 2))
        self.penalty_ = REGULARIZERS[self.regularizer](self.U_, self.V_)[0]
        moved = (self.U_,) if maps.tied else (self.U_, self.V_)
        self.adam_moments_ = tuple(np.zeros_like(M) for M in moved for _ in range(2))
        return self._train(sides, self.max_iter, stopping=stopping)

    def _form(self, sides: LabelledSides) -> tuple[bool, bool]:
        """Whether there are two maps, and whether points are held out: as set, or by trials."""
        told = (self.asymmetric, self.early_stopping)
        if "auto" not in told:
            return bool(told[0]), bool(told[1])
        forms = (False, True) if told[0] == "auto" else (bool(told[0]),)
        trials = [errors for form in forms if len(errors := self._trial_errors(sides, form))]
        if len(trials) < len(forms):
            return bool(told[0]), bool(told[1])  # bool("auto") is True
        chosen, stopping = simplest(trials, TRIAL_HELD_OUT * min(len(sides.y), TRIAL_POINTS))
        return forms[chosen], stopping if told[1] == "auto" else bool(told[1])

    def _trial_errors(self, sides: LabelledSides, asymmetric: bool) -> Array:
        """Held-out error of a trial on some points, at the start and after every epoch.

        Nothing where queries are no items, or classes are too small to hold out points.
        """
        some = np.random.default_rng(0).permutation(len(sides.y))[:TRIAL_POINTS]
        points, every = sides.with_queries(np.sort(some)), np.arange(len(self.classes_))
        trial = clone(self).set_params(
            asymmetric=asymmetric, early_stopping=True, validation_fraction=TRIAL_HELD_OUT,
            n_iter_no_change=self.max_iter, search="exact", verbose=False,
        )  # fmt: skip
        if not sides.shared:
            return np.zeros(0)
        try:
            return trial._begin(points.X, points.y, None, None, every).validation_errors_
        except ValueError:  # what `fit` meets as well, it will say itself
            return np.zeros(0)

    def _continue(
        self, X: Matrix, y: ArrayLike, items: Matrix | None, item_labels: Labels, classes: Labels
    ) -> Self:
        where = f"{LEARNER_NAME}.partial_fit"
        if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"{where}: classes must be {self.classes_}, as before.")
        if items is not None and self.queries_are_items_:
            raise ValueError(f"{where}: items must be None, as in fit.")
        asymmetric = len(self.adam_moments_) == 4
        if self.asymmetric not in ("auto", asymmetric):
            raise ValueError(f"{where}: asymmetric must be as in fit, got {self.asymmetric}.")
        rows, labels = self._points(where, X, y, reset=False)
        codes = class_numbers(where, labels, self.classes_)
        own = np.full(len(codes), -1)
        if self.queries_are_items_:
            own = len(self.database_labels_) + np.arange(len(codes))
            self._add_items(rows, codes)
        elif items is not None:
            kind = self.classes_, self.V_.dtype, self.n_item_features_
            Z, labels = data.labelled_items(where, items, item_labels, *kind)
            self._add_items(Z, class_numbers(where, labels, self.classes_))
        # Training works in place, and an error must leave the old arrays untouched.
        U = self.U_.copy()
        self.U_, self.V_ = U, self.V_.copy() if asymmetric else U
        self.adam_moments_ = tuple(moment.copy() for moment in self.adam_moments_)
        sides = LabelledSides(rows, codes, self.database_, self.database_labels_, own)
        return self._train(sides, 1, stopping=False)

    def _points(self, where: str, X: Matrix, y: ArrayLike, reset: bool) -> tuple[Matrix, Array]:
        rows, labels = validated(self, X, y, reset=reset)
        check_classification_targets(labels)
        dtype = rows.dtype if reset else self.U_.dtype
        rules.check_magnitude(where, "X", rows, dtype=dtype)
        return data.as_rows(rows, dtype), labels

    def _add_items(self, Z: Matrix, labels: Indices) -> None:
        self.database_ = data.joined(self.database_, Z)
        self.database_labels_ = np.concatenate([self.database_labels_, labels])

    def _train(self, sides: LabelledSides, n_epochs: int, *, stopping: bool) -> Self:
        rng = generator(self.random_state, self.n_seen_)
        sides, held = split(sides, self.validation_fraction, rng) if stopping else (sides, None)
        sides, n = sides.by_class(), len(sides.y)
        cost = data.checked_cost(self.cost, len(self.classes_))
        k = min(self.n_neighbors, len(sides.labels) - bool(self.queries_are_items_))
        penalty = 1.0 / (float(self.C) * len(self.database_labels_) * self.penalty_)
        objective = Objective(cost, k, bool(self.ties), self.regularizer, penalty)
        # A gradient is in units of 1/scale, so this makes the rate independent of units.
        rate = float(self.learning_rate) * self.scale_ ** (1 if self.optimizer == "adam" else 2)
        schedule = Schedule(
            self.optimizer, rate, self.schedule == "cosine", self.batch_size, self.n_database,
            n_epochs, self.n_iter_no_change,
        )  # fmt: skip
        descent = MapDescent(self._maps(), self.adam_moments_, self.n_updates_, objective, schedule)
        with progress(LEARNER_NAME, n_epochs * n, enabled=self.verbose) as advance:
            try:
                maps, best, self.losses_, errors = train(descent, sides, held, rng, advance)
            except FloatingPointError:
                rule = "learning_rate must be small enough for the maps to stay finite"
                raise ValueError(f"{LEARNER_NAME}: {rule}, got {self.learning_rate}.") from None
        n_iter = len(self.losses_)
        if not self.n_seen_ and n_iter == 1 and descent.unsolvable == n:
            rule = f"y must have a class with enough points to win a vote of {k}"
            advice = "use fewer n_neighbors, or hold out fewer points"
            raise ValueError(f"{LEARNER_NAME}: {rule}, but all are too small; {advice}.")
        self.U_, self.V_ = maps.query.M, maps.item.M
        self.n_updates_ = descent.n_steps
        self.n_seen_ += n * n_iter
        self.n_iter_ += n_iter
        self.best_iter_ = self.n_iter_ if held is None else best
        self.validation_errors_ = errors
        self._remember_vectors()
        return self

    # -- state ---------------------------------------------------------------------------------

    def get_state(self) -> State:
        """Learnt attributes by name; a sparse database by its three arrays."""
        check_is_fitted(self)
        return packed(self.__dict__)

    def set_state(self, state: State) -> Self:
        """Replace the learnt attributes by those of a learner with the same parameters."""
        check_declared(self)
        with all_or_nothing(self):
            self.__dict__.update(unpacked(f"{LEARNER_NAME}.set_state", state, self.asymmetric))
            self._remember_vectors()
        return self

    def revision(self) -> Revision:
        """Token that changes whenever the learner changes."""
        check_is_fitted(self)
        return Revision((self.n_seen_, self.n_updates_, False), self.U_)
