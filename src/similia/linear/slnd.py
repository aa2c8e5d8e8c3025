"""SLND: one-vs-rest classifiers by stochastic low-rank Newton steps."""

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np

from similia.contract import Array, Indices, Matrix
from similia.linalg.blocks import dense, row_blocks
from similia.linear.examples import TrainingSplit
from similia.linear.frames import SCHEDULES, Scaling
from similia.linear.hessian import RECENT_ROWS, Hessian, HessianForm, leading_eigenpairs
from similia.linear.passes import Passes, Trial, clearly_best, trial_split
from similia.linear.stochastic import StochasticOneVsRest
from similia.losses import LOSSES
from similia.parameters import parameter
from similia.safety.bounds import check_room
from similia.updates.balanced import LINEAR
from similia.validation import (
    between,
    boolean,
    check_magnitude,
    non_negative,
    one_of,
    positive_integer,
)

#: factor of automatic steps with balanced sampling, where a class meets few of the others
BALANCED_ETA = 0.3
#: automatic damping of passes over all examples with steps that fall linearly to zero: the one
#: that decides best on rows held out, the first unless another is clearly better
DAMPINGS = (60.0, 3.0, 0.0)
#: limit of a large damping: all directions alike, so plain gradient steps. Tried before the others
PLAIN_STEPS = math.inf
#: automatic damping otherwise, where a larger one learns too slowly (`experiments.damping`)
SMALL_DAMPING = 3.0


class SLNDClassifier(StochasticOneVsRest):
    """Linear classifier for fixed features and many classes, by stochastic low-rank Newton steps.

    Each class against the rest minimises the mean of a calibrated loss F(y wᵀx). With the Hessian
    H = F''(0)·(1/m')Σ xxᵀ of m' examples and its k leading eigenpairs, H* = P D⁻¹Pᵀ,

        w -= η y F'(y wᵀx) H*x                                        [BelHajAli2013, Eq. 8 and 11]

    Attributes
    ----------
    w_ : array of shape (1 or n_classes, n_features + fit_intercept)
        State after the last example, intercept last.
    coef_, intercept_ : arrays
        The weights in use: averaged or last.
    classes_ : array of shape (n_classes,)
        With several labels, the column numbers of y.
    hessian_values_, hessian_vectors_ : arrays of shape (rank_,) and (d, rank_)
        Eigenpairs of the mean of xxᵀ (with ``shared=False``: of the last class); a diagonal Hessian
        has its d entries as values, and no vectors.
    energy_ : float
        Trace of the mean of xxᵀ.
    rank_, n_hessian_ : int
        k, and the number of examples behind the Hessian.
    damping_ : float
        The damping of the last `fit`, infinite for plain steps; files do not keep it.
    multilabel_ : bool
    class_counts_ : array of shape (1 or n_classes, 2)
        Positive and negative examples of each weight vector.
    n_iter_, n_seen_, n_updates_ : int
        Passes made, examples learnt from, and steps taken (over all weight vectors).

    Notes
    -----
    w stays in the span of P, so steps are taken in k dimensions, for u = D^{-½}Pᵀx and
    w = P D^{-½}z, with the same results: 4k operations per example and class. Passes over all
    examples run in matrix products over blocks. `fit` keeps the N × k projections beside X, or
    computes them block by block where they would take more than 2 GiB; X itself may be a
    memory-mapped array. `partial_fit` learns from any source of batches, such as
    ``pyarrow.parquet.ParquetFile(path).iter_batches()``.

    The defaults differ from the paper: damping, all examples instead of balanced ones, steps that
    shrink, and a diagonal Hessian or none where that decides better. The paper's algorithm is
    ``SLNDClassifier(rank=..., damping=0, sampling="balanced", schedule="constant", eta=...)``. P is
    d × k there as here (it prints m × k).

    References
    ----------
    .. [BelHajAli2013] W. Bel Haj Ali, R. Nock, M. Barlaud, "Minimizing Calibrated Loss using
       Stochastic Low-Rank Newton Descent for large scale image classification", hal-00825414, 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from similia import SLNDClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> learner = SLNDClassifier(random_state=0).fit(X[:1200] / 16, y[:1200])
    >>> bool(learner.score(X[1200:] / 16, y[1200:]) > 0.9)
    True
    >>> learner.predict_top_k(X[:1] / 16, 2).shape
    (1, 2)
    """

    rank: str | int | float = parameter(
        default="auto",
        rule=one_of("auto", "held-out") | positive_integer | between(0, 1),
        doc='k. "auto" is 500. A number below 1 keeps the eigenvalues that make up that share of '
        'their sum; "held-out" keeps the best of 8, 16, 32, … on `validation_fraction` of the '
        "examples, which are then learnt from as well unless `early_stopping` needs them (a stream "
        "keeps 256). A larger rank expresses more and costs more.",
    )
    damping: str | float = parameter(
        default="auto",
        rule=one_of("auto") | non_negative,
        doc="Added to each eigenvalue, in units of the mean variance of a feature (without an "
        "intercept, and for a diagonal Hessian, of its mean square). It shortens steps along "
        "directions of little variance, which few examples determine badly. The paper has 0, and "
        'then too large a rank costs accuracy. "auto" is infinite, 60, 3 or 0 in `fit` over '
        "all examples with steps that fall linearly: what decides best on rows that short trials "
        "hold out, the first unless another gains more than a standard error. Infinite means plain "
        "gradient steps and is left out if `rank` or `hessian` is named; without trials (for fewer "
        "than 80 rows, and with ``shared=False``) it is 60. It is 3 in a stream, for balanced "
        "examples, for other schedules and for a diagonal Hessian.",
    )
    hessian: str = parameter(
        default="auto",
        rule=one_of("auto", "low-rank", "diagonal"),
        doc='A diagonal Hessian scales each feature by itself and has no rank. "auto" is diagonal '
        "if no rank is named and the Hessian's examples (in a stream, the first one) have more "
        "than 500 features of which fewer than a tenth are non-zero, since k directions miss too "
        "much of such rows. Other rows get a low rank unless the diagonal form decides best in the "
        'trials for `damping="auto"`.',
    )
    hessian_samples: int = parameter(
        default=5000,
        rule=positive_integer,
        doc="m', drawn at random in `fit`, the first ones of a stream.",
    )
    shared: bool = parameter(
        default=True,
        rule=boolean,
        doc="One Hessian for all classes. False computes one per class, from examples balanced "
        "between the class and the rest, at the cost of one eigendecomposition and projection per "
        "class.",
    )
    refresh: bool = parameter(
        default=False,
        rule=boolean,
        doc="Recompute the Hessian before every pass but the first, from new examples and with F'' "
        "at their present scores (averaged over the classes if shared); in a stream, never stop "
        "adding examples to it.",
    )

    _state: ClassVar = (
        *StochasticOneVsRest._state,
        "rank_",
        "energy_",
        "n_hessian_",
        "hessian_values_",
        "hessian_vectors_",
        "recent_",
        "n_recent_",
    )
    _fit_only: ClassVar = {**StochasticOneVsRest._fit_only, "shared": False}

    def _init_state(self) -> None:
        super()._init_state()
        d, dtype = self.w_.shape[1], self.w_.dtype
        check_room(self._owner, d, dtype, (RECENT_ROWS, d))
        self._set_hessian(Hessian(np.zeros(0, dtype), np.zeros((d, 0), dtype), 0.0), 0)
        self.recent_ = np.zeros((RECENT_ROWS, d), dtype)

    def _set_hessian(self, hessian: Hessian, n: int) -> None:
        self.hessian_values_, self.hessian_vectors_, self.energy_ = hessian
        self.rank_, self.n_hessian_, self.n_recent_ = len(hessian.values), n, 0

    @property
    def _hessian(self) -> Hessian:
        return Hessian(self.hessian_values_, self.hessian_vectors_, self.energy_)

    def _scaling(self, hessian: Hessian, damping: float) -> Scaling:
        """Coordinates and step size for this Hessian."""
        if damping == PLAIN_STEPS:
            hessian, damping = hessian.level(), 0.0
        damped = (damping, bool(self.fit_intercept))
        horizon = max(hessian.dimension(*damped), 1.0)
        automatic = (BALANCED_ETA if self.sampling == "balanced" else 1.0) / horizon
        eta = automatic if isinstance(self.eta, str) else float(self.eta)
        return Scaling(hessian.scale(LOSSES[self.loss].steepest, *damped), eta, horizon)

    def _dampings(self, diagonal: bool) -> tuple[float, ...]:
        """Dampings of `fit` to choose from; without trials, the first."""
        if not isinstance(self.damping, str):
            return (float(self.damping),)
        linear = SCHEDULES[self.schedule][0] == LINEAR
        large = linear and self.sampling == "full" and not diagonal
        return DAMPINGS if large else (SMALL_DAMPING,)

    # -- the Hessian in `fit` ------------------------------------------------------------------

    def _needs_held_out(self) -> bool:
        return self.early_stopping or self._ranks_held_out()

    def _ranks_held_out(self) -> bool:
        return self.rank == "held-out" and self.hessian != "diagonal"

    def _passes(self, split: TrainingSplit, rng: np.random.Generator) -> Passes:
        if self._ranks_held_out():
            self.rank_ = self._best_rank(split, rng)
            if not self.early_stopping:
                every = rng.permutation(np.concatenate([split.rows, split.held_out]))
                every = every if self.sampling == "balanced" else np.sort(every)
                split = replace(split, rows=every, held_out=every[:0])
        return super()._passes(split, rng)

    def _best_rank(self, split: TrainingSplit, rng: np.random.Generator) -> int:
        """Rank among 8, 16, 32, … up to all that decides best on the rows held out, after one pass.

        Ties go to the smaller rank.
        """
        rows = split.examples.at(self._hessian_rows(split, rng))
        every = leading_eigenpairs(rows, None, rows.shape[1], int(rng.integers(2**31)))
        seed, most = int(rng.integers(2**31)), len(every.values)

        def accuracy(k: int) -> float:
            start = (np.zeros_like(self.w_), self.moment_[:0], 0)
            trial = Passes(split, self._descent(len(split.rows)), *start)
            trial.rescale(self._scaling(every.first(k), self._dampings(diagonal=False)[0]))
            trial.make(np.random.default_rng(seed))
            return split.accuracy(trial.state()[0])

        return max([*(2**i for i in range(3, 20) if 2**i < most), most], key=accuracy)

    def _scale(self, passes: Passes, rng: np.random.Generator) -> None:
        if passes.number and not self.refresh:
            return
        split, (w, _), loss = passes.split, passes.state(), LOSSES[self.loss]
        diagonal = self.shared and passes.number > 0 and self._hessian.diagonal
        rank = self.rank_ if self.rank == "held-out" else self.rank
        form = HessianForm("diagonal" if diagonal else self.hessian, rank)
        scalings = []
        for some in row_blocks(len(w), len(w) if self.shared else 1):
            rows = self._hessian_rows(split, rng, None if self.shared else some.start)
            sample, weights, seed = split.examples.at(rows), None, int(rng.integers(2**31))
            # The first pass takes the curvature F''(0) everywhere, which the scale accounts for.
            if passes.number:
                curvatures = loss.curvature(np.asarray(sample @ w[some].T))
                weights = curvatures.mean(axis=1) / loss.steepest
            hessian = form.of(sample, weights, seed)
            if not passes.number:
                hessian, self.damping_ = self._chosen(hessian, sample, split)
            self._set_hessian(hessian, len(rows))
            scalings.append(self._scaling(hessian, self.damping_))
        passes.rescale(*scalings)

    def _chosen(
        self, hessian: Hessian, sample: Matrix, split: TrainingSplit
    ) -> tuple[Hessian, float]:
        """The Hessian or the diagonal one, and the damping, that decide best on rows held out."""
        dampings = self._dampings(hessian.diagonal)
        if len(dampings) == 1:
            return hessian, dampings[0]
        part = trial_split(split, np.random.default_rng(self.seed_)) if self.shared else None
        if part is None:
            return hessian, dampings[0]
        candidates = [(hessian, damping) for damping in dampings]
        if self.hessian == self.rank == "auto":
            diagonal = HessianForm("diagonal", "auto").of(sample, None, 0)
            candidates = [(hessian, PLAIN_STEPS), *candidates, (diagonal, SMALL_DAMPING)]
        trial = Trial(part, self.max_iter, self._descent, self.w_, self.seed_)
        rights = [trial.right(self._scaling(*candidate)) for candidate in candidates]
        return candidates[clearly_best(rights)]

    def _hessian_rows(
        self, split: TrainingSplit, rng: np.random.Generator, j: int | None = None
    ) -> Indices:
        """Draw rows: from all, or balanced between class j and the rest."""
        places = np.arange(len(split.rows))
        if j is not None:
            ours, codes, code = split.sides(j)
            others = np.flatnonzero(codes != code)
            if 0 < len(ours) < len(others):
                others = rng.choice(others, size=len(ours), replace=False)
            places = np.concatenate([ours, others])
        if len(places) > self.hessian_samples:
            places = rng.choice(places, size=self.hessian_samples, replace=False)
        return np.sort(split.rows[places])

    # -- the Hessian of a stream ---------------------------------------------------------------

    def _grows(self) -> bool:
        return self.refresh or self.n_hessian_ < self.hessian_samples

    def _due(self) -> int:
        """Recent rows at which the Hessian is recomputed: when its examples double, at most."""
        return min(max(self.n_hessian_, 1), RECENT_ROWS)

    def _rows_at_once(self) -> int:
        return min(self._block, self._due() - self.n_recent_) if self._grows() else self._block

    def _learn_weighted(self, rows: Matrix, signs: Array, weights: Array) -> None:
        first = self.n_hessian_ == 0
        if first:  # a single row: without it there is no direction to learn along
            self._absorb(rows)
        damping = SMALL_DAMPING if isinstance(self.damping, str) else float(self.damping)
        self._take_steps(rows, signs, weights, self._scaling(self._hessian, damping))
        if not first and self._grows():
            self._absorb(rows)

    def _absorb(self, rows: Matrix) -> None:
        """Add rows to the recent ones, and those to the Hessian when they are due."""
        stop = self.n_recent_ + rows.shape[0]
        self.recent_[self.n_recent_ : stop] = dense(rows)
        self.n_recent_ = stop
        if stop >= self._due():
            n, form = self.n_hessian_, HessianForm(self.hessian, self.rank)
            self._set_hessian(form.grown(self._hessian, n, self.recent_[:stop]), n + stop)

    # -- state ---------------------------------------------------------------------------------

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        d = self.n_features_in_ + self.fit_intercept
        columns = 0 if self._hessian.diagonal and self.rank_ == d else self.rank_
        own = {"hessian_values_": (self.rank_,), "hessian_vectors_": (d, columns)}
        return {**super()._shapes(), **own}

    def _check_values(self) -> None:
        values, vectors, _ = self._hessian
        check_magnitude(self._owner, "recent_", self.recent_)
        lengths = np.linalg.norm(vectors.astype(np.float64), axis=0)
        if values.min(initial=0.0) < 0.0 or lengths.max(initial=0.0) > 2.0:  # rounded, if small
            raise ValueError("the Hessian has no eigenvalues of 0 or more with unit eigenvectors")
        if self.n_hessian_ * values.sum(dtype=np.float64) > np.finfo(values.dtype).max ** 0.75:
            raise ValueError("the Hessian is too large to grow")
