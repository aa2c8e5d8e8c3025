"""How neighborhood gerrymandering is taught: what comes in, where it starts, when it stops."""

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from similia.contract import FLOATS, Array
from similia.neighbors.gerrymander_training import (
    Descent,
    Objective,
    held_out_error,
    largest_entry,
)
from similia.neighbors.maps import column_means, scaled_starts
from similia.neighbors.neighbor_maps import NeighborMaps
from similia.neighbors.regularizers import REGULARIZERS
from similia.neighbors.sides import Sides, as_rows, checked_items, held_out, joined
from similia.progress import progress
from similia.validation import check_magnitude

#: held-out points below which their error says too little to stop by
FEWEST = 20


class GerrymanderFit(NeighborMaps):
    """`fit` and `partial_fit` of `NeighborhoodGerrymandering`, which documents the parameters."""

    _state: ClassVar = (
        *NeighborMaps._state,
        "n_iter_",
        "best_iter_",
        "scale_",
        "penalty_",
        "losses_",
        "validation_errors_",
        "adam_moments_",
    )

    asymmetric: bool
    cost: Array | None
    ties: bool
    C: float
    regularizer: str
    n_components: int | None
    init: Any
    start_scale: float | None
    optimizer: str
    learning_rate: float
    schedule: str
    batch_size: int | None
    max_iter: int
    early_stopping: bool
    validation_fraction: float
    n_iter_no_change: int
    n_database: int | None
    center: bool
    verbose: bool
    adam_moments_: tuple[Array, ...]

    # -- learning ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, *, items: Any = None, item_labels: Any = None) -> Self:
        """Forget, then learn the maps; the points are the database, or the items if given.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
            Queries; also the items, unless `items` is given.
        y : array of shape (n_samples,)
        items : array or CSR matrix of shape (n_items, n_item_features), optional
            The database, where it is of another kind or comes from elsewhere.
        item_labels : array of shape (n_items,)

        Returns
        -------
        The learner itself. On an error nothing has changed.
        """
        self._check_parameters()
        with self._all_or_nothing():
            return self._fit(X, y, items, item_labels, None)

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, *, items: Any = None, item_labels: Any = None
    ) -> Self:
        """Go on without forgetting: new points join the database, and one epoch is made over X.

        As `fit` when nothing was learnt yet. Of a learner with a database of its own, X are queries
        only, and `items`, if given, join the database.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        classes : array of shape (n_classes,), optional
            All labels that will ever come, in the first call; those of the first call if not given.
        items : array or CSR matrix of shape (n_items, n_item_features), optional
        item_labels : array of shape (n_items,)

        Returns
        -------
        The learner itself. On an error nothing has changed.
        """
        self._check_parameters()
        with self._all_or_nothing():
            if not self.__sklearn_is_fitted__():
                return self._fit(X, y, items, item_labels, classes)
            return self._go_on(X, y, items, item_labels, classes)

    def _fit(self, X: Any, y: Any, items: Any, item_labels: Any, classes: Any) -> Self:
        where = f"{self._owner}.fit"
        X, y = self._checked_points(where, X, y, reset=True)
        Z, labels = (X, y)
        if items is not None:
            Z, labels = checked_items(where, items, item_labels, X.dtype)
            self._check_kinds(where, y, labels)
        elif item_labels is not None:
            raise ValueError(f"{where}: items must be given with item_labels, got None.")
        self.classes_ = np.unique(np.concatenate([y, labels]) if classes is None else classes)
        self.queries_are_items_ = items is None
        own = np.arange(len(y)) if items is None else np.full(len(y), -1)
        sides = Sides(X, self._codes(where, y), Z, self._codes(where, labels), own)
        self._check_sizes(sides)
        self.n_item_features_ = Z.shape[1]
        self.database_, self.database_labels_ = sides.Z, sides.labels
        self.n_seen_ = self.n_updates_ = self.n_iter_ = 0
        self._start(sides)
        self._train(sides, self.max_iter, stopping=self.early_stopping)
        self._remember_vectors()
        return self

    def _go_on(self, X: Any, y: Any, items: Any, item_labels: Any, classes: Any) -> Self:
        where = f"{self._owner}.partial_fit"
        if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"{where}: classes must be {self.classes_}, as before.")
        if items is not None and self.queries_are_items_:
            raise ValueError(f"{where}: items must be None, as in fit, got new ones.")
        if len(self.adam_moments_) != (4 if self.asymmetric else 2):
            raise ValueError(f"{where}: asymmetric must be as in fit, got {self.asymmetric}.")
        X, y = self._checked_points(where, X, y, reset=False)
        codes, n_old = self._codes(where, y), len(self.database_labels_)
        own = np.full(len(y), -1)
        if self.queries_are_items_:
            own = n_old + np.arange(len(y))
            self.database_ = joined(self.database_, X)
            self.database_labels_ = np.concatenate([self.database_labels_, codes])
        elif items is not None:
            Z, labels = checked_items(where, items, item_labels, self.V_.dtype)
            self._check_width(where, Z)
            self.database_ = joined(self.database_, Z)
            self.database_labels_ = np.concatenate(
                [self.database_labels_, self._codes(where, labels)]
            )
        # Training is in place; what was there before must survive an error.
        self.U_ = self.U_.copy()
        self.V_ = self.V_.copy() if self.asymmetric else self.U_
        self.adam_moments_ = tuple(moment.copy() for moment in self.adam_moments_)
        sides = Sides(X, codes, self.database_, self.database_labels_, own)
        self._train(sides, 1, stopping=False)
        self._remember_vectors()
        return self

    def _start(self, sides: Sides) -> None:
        """Set centers and maps to where they start."""
        means: tuple[Array, ...] = (column_means(sides.X), column_means(sides.Z))
        if not self.center:
            means = tuple(np.zeros_like(mean) for mean in means)
        elif not self.asymmetric and not self.queries_are_items_:
            n, m = len(sides.y), len(sides.labels)
            means = 2 * ((n * means[0] + m * means[1]) / (n + m),)
        self.query_center_, self.item_center_ = (mean.astype(sides.X.dtype) for mean in means)
        self.U_, self.V_ = scaled_starts(
            self._owner,
            sides,
            (self.query_center_, self.item_center_),
            init=self.init,
            p=self.n_components,
            n_classes=len(self.classes_),
            tied=not self.asymmetric,
            scale=self.start_scale,
            k=self.n_neighbors,
        )
        if not max(np.abs(M).max() for M in (self.U_, self.V_)) < largest_entry(self.U_.dtype):
            raise ValueError(
                f"{self._owner}: X must have points far enough apart for maps to be finite in "
                f"{self.U_.dtype}; scale it up."
            )
        self.scale_ = float(np.linalg.norm(self.U_, 2))
        self.penalty_ = REGULARIZERS[self.regularizer](self.U_, self.V_)[0]
        maps = (self.U_, self.V_) if self.asymmetric else (self.U_,)
        self.adam_moments_ = tuple(np.zeros_like(M) for M in maps for _ in range(2))

    def _train(self, sides: Sides, n_epochs: int, *, stopping: bool) -> None:
        rng = self._rng()
        out = held_out(sides.y, self.validation_fraction, rng) if stopping else np.arange(0)
        stopping = len(out) >= FEWEST
        held = sides.X[out], sides.y[out]
        sides = (sides.without(out) if stopping else sides).by_class()
        centers = self.query_center_, self.item_center_
        n = len(sides.y)
        descent = Descent(
            self.U_, self.V_, self.adam_moments_, self.n_updates_, self._objective(sides)
        )
        rates = self._rates(n_epochs * -(-n // self._batch(n)))
        losses: list[float] = []
        errors: list[float] = []
        best, kept = 0, (self.U_, self.V_)

        def judge(epoch: int) -> bool:
            """Keep the maps if they are the best; say whether to go on."""
            nonlocal best, kept
            errors.append(held_out_error(self.U_, self.V_, centers, held, sides, self.n_neighbors))
            if errors[-1] <= min(errors):
                best, kept = epoch, (self.U_.copy(), self.V_.copy())
            return epoch - int(np.argmin(errors)) < self.n_iter_no_change

        going = judge(0) if stopping else True
        with progress(self._owner, n_epochs * n, enabled=self.verbose) as advance:
            for epoch in range(1, n_epochs + 1):
                if not going:
                    break
                losses.append(self._epoch(descent, sides, rates, rng, advance))
                self.n_seen_ += n
                going = judge(epoch) if stopping else True
        self.n_updates_ = descent.n_steps
        self.n_iter_ += len(losses)
        if stopping:
            self.U_, self.V_ = kept[0], kept[1] if self.asymmetric else kept[0]
        self.best_iter_ = best if stopping else self.n_iter_
        self.losses_ = np.array(losses)
        self.validation_errors_ = np.array(errors)

    def _epoch(self, descent: Descent, sides: Sides, *how: Any) -> float:
        try:
            loss = descent.epoch(sides, (self.query_center_, self.item_center_), *how)
        except FloatingPointError:
            raise ValueError(
                f"{self._owner}: learning_rate must be small enough for the maps to stay finite, "
                f"got {self.learning_rate}."
            ) from None
        if descent.unsolvable == len(sides.y) and not self.n_seen_:
            raise ValueError(
                f"{self._owner}: y must have a class with enough points to win a vote of "
                f"{descent.objective.k}, but all are too small; take fewer n_neighbors, or "
                "hold out fewer points."
            )
        return loss

    def _objective(self, sides: Sides) -> Objective:
        return Objective(
            cost=self._costs(),
            k=min(self.n_neighbors, len(sides.labels) - bool(self.queries_are_items_)),
            ties=bool(self.ties),
            regularizer=self.regularizer,
            asymmetric=bool(self.asymmetric),
            optimizer=self.optimizer,
            batch_size=self._batch(len(sides.y)),
            n_database=self.n_database,
            penalty=1.0 / (float(self.C) * len(self.database_labels_) * self.penalty_),
        )

    def _batch(self, n: int) -> int:
        """Give the queries of a step: by default 20 steps an epoch, of 16 to 256 queries."""
        return self.batch_size or min(256, max(16, n // 20))

    def _rates(self, n_steps: int) -> Callable[[int], float]:
        # A gradient is in units of 1/scale, so these make either rate free of units.
        unit = self.scale_ if self.optimizer == "adam" else self.scale_**2
        first, top = self.n_updates_, float(self.learning_rate) * unit

        def rate(step: int) -> float:
            if self.schedule == "constant":
                return top
            return top * 0.5 * (1.0 + float(np.cos(np.pi * (step - first) / n_steps)))

        return rate

    # -- checks --------------------------------------------------------------------------------

    def _checked_points(self, where: str, X: Any, y: Any, *, reset: bool) -> tuple[Any, Array]:
        X, y = validate_data(self, X, y, reset=reset, accept_sparse="csr", dtype=FLOATS)
        check_classification_targets(y)
        dtype = X.dtype if reset else self.U_.dtype
        check_magnitude(where, "X", X, dtype=dtype)
        return as_rows(X, dtype), y

    def _codes(self, where: str, labels: Array) -> Array:
        """Give labels as numbers of classes."""
        unknown = np.setdiff1d(labels, self.classes_)
        if len(unknown):
            raise ValueError(
                f"{where}: labels must be among the classes {self.classes_}, got {unknown[0]!r}."
            )
        return np.searchsorted(self.classes_, labels)

    def _check_kinds(self, where: str, y: Array, labels: Array) -> None:
        """Refuse words beside numbers, which NumPy would take for words as well."""
        kinds = {part.dtype.kind in "biuf" for part in (y, labels) if part.dtype.kind != "O"}
        if len(kinds) > 1:
            raise ValueError(
                f"{where}: item_labels must be of the kind of y, {y.dtype}, got {labels.dtype}."
            )

    def _check_sizes(self, sides: Sides) -> None:
        if len(self.classes_) < 2:
            raise ValueError(
                f"{self._owner}: y must have at least two classes, but it has only one class: "
                f"{self.classes_[0]!r}."
            )
        n_items = len(sides.labels) - bool(self.queries_are_items_)
        if self.n_neighbors > n_items:
            raise ValueError(
                f"{self._owner}: n_neighbors must be at most the {n_items} items that a query has, "
                f"got {self.n_neighbors}."
            )
        if not self.asymmetric and sides.X.shape[1] != sides.Z.shape[1]:
            raise ValueError(
                f"{self._owner}: items must have the {sides.X.shape[1]} features of X unless "
                f"asymmetric is True, got {sides.Z.shape[1]}."
            )
        self._costs()

    def _check_width(self, where: str, Z: Any) -> None:
        if Z.shape[1] != self.n_item_features_:
            raise ValueError(
                f"{where}: items must have {self.n_item_features_} features, got {Z.shape[1]}."
            )

    def _costs(self) -> Array:
        """Give Δ as an array of shape (n_classes, n_classes)."""
        n = len(self.classes_)
        if self.cost is None:
            return 1.0 - np.eye(n)
        cost = np.asarray(self.cost)
        words = f"an array of shape ({n}, {n}), finite, at least 0, with a zero diagonal"
        if cost.shape != (n, n) or cost.dtype.kind not in "fiu":
            found = f"shape {cost.shape} and dtype {cost.dtype}"
        elif not (np.isfinite(cost).all() and (cost >= 0).all() and not np.diagonal(cost).any()):
            found = "other values"
        else:
            return cost.astype(np.float64)
        raise ValueError(f"{self._owner}: cost must be {words}, got {found}.")

    def _check_state(self) -> None:
        super()._check_state()
        maps = (self.U_, self.V_) if self.asymmetric else (self.U_,)
        kinds = [(M.shape, M.dtype) for M in maps for _ in range(2)]
        if [(moment.shape, moment.dtype) for moment in self.adam_moments_] != kinds:
            raise self._misfit(f"adam_moments_ must be of shapes and dtypes {kinds}")
        if self.losses_.ndim != 1 or self.validation_errors_.ndim != 1:
            raise self._misfit("losses_ and validation_errors_ must be vectors")
        if not (self.scale_ > 0.0 and self.penalty_ > 0.0):
            raise self._misfit("scale_ and penalty_ must be positive")
