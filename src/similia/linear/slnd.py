"""SLND: one-vs-rest classifiers by stochastic low-rank Newton steps."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from similia.contract import Array
from similia.linalg.blocks import dense, squared
from similia.linear.framed import FramedOneVsRest, Run
from similia.linear.hessian import Eigenpairs, leading_eigenpairs, sampled_rows, with_rows
from similia.linear.ranks import best_rank
from similia.linear.stochastic import Task
from similia.losses import LOSSES
from similia.validation import between, boolean, non_negative, one_of, positive_integer

#: automatic steps of balanced sampling, of those for all examples: a class meets few of its others
BALANCED = 0.3

#: k where none is named
RANK = 500

#: share of non-zero entries below which rows are like bags of words: many features, each rare, and
#: eigenvalues that fall so slowly that k of them leave most of the energy out
SPARSE = 0.1

#: rows that a stream gathers before they enter the Hessian; fewer as long as it knows fewer
RECENT = 256


class SLNDClassifier(FramedOneVsRest):
    """Linear classifier for fixed features and many classes, by stochastic low-rank Newton steps.

    Each class against the rest minimises the mean of a calibrated loss F(y wᵀx). With the Hessian
    H = F''(0)·(1/m')Σ xxᵀ of m' examples and its k leading eigenpairs, H* = P D⁻¹Pᵀ,

        w -= η y F'(y wᵀx) H*x                                        [BelHajAli2013, Eq. 8 and 11]

    Parameters
    ----------
    loss : {"logistic", "hinge", "squared"}
        F: ln(1 + e⁻ˣ), max(0, -x) - ln(2 + |x|), or ¼(1 - x)².
    rank : "auto", int, number between 0 and 1, or "held-out"
        k. "auto" is 500. A number below 1 takes the eigenvalues that make up that share of their
        sum; "held-out" the best of 8, 16, 32, … on `validation_fraction` of the examples, which are
        then learnt from as well unless `early_stopping` keeps them (a stream takes 256). A larger
        rank can express more and costs more.
    damping : number of at least 0
        Added to each eigenvalue, in units of their mean over all features. It keeps directions with
        little variance, known badly from few examples, from taking the longest steps. The paper has
        0, and then a rank that is too large costs accuracy.
    hessian : {"auto", "low-rank", "diagonal"}
        The diagonal one scales each feature by itself, and knows no rank. "auto" takes it where no
        rank is named, there are more than 500 features and fewer than a tenth of the entries are
        not zero (in the Hessian's examples; in the first one of a stream): k directions leave too
        much of such rows out. Otherwise it is "low-rank".
    hessian_samples : int
        m', drawn at random in `fit`, the first ones of a stream.
    shared : bool
        One Hessian for all classes. False gives each its own, of examples balanced between the
        class and the rest, at the cost of one eigendecomposition and projection a class.
    refresh : bool
        Before every pass but the first take the Hessian anew, from other examples and with F'' at
        the present scores (averaged over the classes, if shared); in a stream, never stop adding
        examples to it.
    sampling : {"full", "balanced"}
        Learn from every example, or from all of a class and as many others, drawn anew for each
        pass, as the paper does. Balanced passes cost the same for any number of classes.
    eta : "auto" or positive number
        Step size at the start. "auto" is the one at which η F''(0)|u|² is 1 in the mean (0.3 with
        balanced sampling), for u = D^{-½}Pᵀx, and for no example is it larger than 1.
    schedule : {"auto", "constant", "linear", "sqrt", "inverse", "theorem"}
        How steps shrink: not at all; linearly to 0 at the last pass; with the (square root of the)
        number of examples, beyond about k. "auto" is linear in `fit`, "sqrt" in a stream.
        "theorem" takes the step of Theorem 2, which lets the risk fall at each visit and reads all
        examples for it: for small data.
    epsilon : number between 0 and 1
        ε of Theorem 2; ½ promises the largest decrease.
    fit_intercept : bool
    max_iter : int
        Most passes of `fit`.
    early_stopping : bool
        Hold examples out, stop when accuracy on them does not rise, and keep the best weights.
    validation_fraction : number between 0 and 1
        Share of the examples held out.
    n_iter_no_change : int
        Passes without a better accuracy after which to stop.
    warm_start : bool
        Let `fit` go on from the weights learnt before.
    average : bool
        Decide with the mean of the states over the stream instead of the last one.
    random_state : int, RandomState or None
        Seed of orders and samples.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    w_ : array of shape (1 or n_classes, n_features + fit_intercept)
        State after the last example, intercept last.
    coef_, intercept_ : arrays
        The weights in use: averaged or last.
    classes_ : array of shape (n_classes,)
        With several labels, the numbers of the columns of y.
    hessian_values_, hessian_vectors_ : arrays of shape (rank_,) and (d, rank_)
        Eigenpairs of the mean of xxᵀ (with ``shared=False``: of the last class); a diagonal Hessian
        has its d entries as values.
    energy_ : float
        Trace of the mean of xxᵀ.
    rank_, n_hessian_ : int
        k, and the examples behind the Hessian.
    multilabel_ : bool
    class_counts_ : array of shape (1 or n_classes, 2)
        Positive and negative examples of each weight vector.
    n_iter_, n_seen_, n_updates_ : int
        Passes made, examples learnt from, and steps taken (over all weight vectors).

    Notes
    -----
    w stays in the span of P, so the steps are taken in k dimensions, for u = D^{-½}Pᵀx and
    w = P D^{-½}z, with the same results: 4k operations for an example and class. Learning from
    all examples runs in matrix products over blocks. `fit` keeps the N × k projections beside X,
    or makes them block by block where they would take more than 2 GiB; X itself may be a
    memory-mapped array. Any source of batches, such as ``pyarrow.parquet.ParquetFile(path)
    .iter_batches()``, can be learnt from by `partial_fit`.

    The defaults differ from the paper: damping, all examples instead of balanced ones, steps that
    shrink, and a diagonal Hessian for rows that are nearly empty. ``SLNDClassifier(rank=...,
    damping=0, sampling="balanced", schedule="constant", eta=...)`` is the paper's. P is d × k there
    as here (it prints m × k).

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

    _rules: ClassVar = {
        **FramedOneVsRest._rules,
        "rank": one_of("auto", "held-out") | positive_integer | between(0, 1),
        "damping": non_negative,
        "hessian": one_of("auto", "low-rank", "diagonal"),
        "hessian_samples": positive_integer,
        "shared": boolean,
        "refresh": boolean,
    }
    _state: ClassVar = (
        *FramedOneVsRest._state,
        "rank_",
        "energy_",
        "n_hessian_",
        "hessian_values_",
        "hessian_vectors_",
        "recent_",
        "n_recent_",
    )

    def __init__(
        self,
        *,
        loss: str = "logistic",
        rank: Any = "auto",
        damping: float = 3.0,
        hessian: str = "auto",
        hessian_samples: int = 5000,
        shared: bool = True,
        refresh: bool = False,
        sampling: str = "full",
        eta: Any = "auto",
        schedule: str = "auto",
        epsilon: float = 0.5,
        fit_intercept: bool = True,
        max_iter: int = 5,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 2,
        warm_start: bool = False,
        average: bool = False,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.loss = loss
        self.rank = rank
        self.damping = damping
        self.hessian = hessian
        self.hessian_samples = hessian_samples
        self.shared = shared
        self.refresh = refresh
        self.sampling = sampling
        self.eta = eta
        self.schedule = schedule
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.average = average
        self.random_state = random_state
        self.verbose = verbose

    def _init_state(self) -> None:
        d, dtype = self.w_.shape[1], self.w_.dtype
        self._set_hessian(Eigenpairs(np.zeros(0, dtype), np.zeros((d, 0), dtype), 0.0), 0)
        self.recent_ = np.zeros((RECENT, d), dtype)

    def _set_hessian(self, pairs: Eigenpairs, n: int) -> None:
        self.hessian_values_, self.hessian_vectors_, self.energy_ = pairs
        self.rank_, self.n_hessian_, self.n_recent_ = len(pairs.values), n, 0

    @property
    def _pairs(self) -> Eigenpairs:
        return Eigenpairs(self.hessian_values_, self.hessian_vectors_, self.energy_)

    @property
    def _diagonal(self) -> bool:
        """Say whether the Hessian at hand is diagonal: it alone has more values than `RANK`."""
        if self.hessian == "auto":
            return self.rank == "auto" and self.rank_ > RANK
        return self.hessian == "diagonal"

    def _to_be_diagonal(self, rows: Any) -> bool:
        """Say whether the Hessian of these rows is to be diagonal."""
        if self.hessian != "auto":
            return self.hessian == "diagonal"
        filled = np.count_nonzero(rows.data if sparse.issparse(rows) else rows)
        few = filled < SPARSE * rows.shape[0] * rows.shape[1]
        return self.rank == "auto" and rows.shape[1] > RANK and few

    # -- the Hessian in `fit` --------------------------------------------------------------------

    def _needs_held_out(self) -> bool:
        return self.early_stopping or self._ranks_held_out()

    def _ranks_held_out(self) -> bool:
        return self.rank == "held-out" and self.hessian != "diagonal"

    def _start_passes(self, task: Task, rng: np.random.Generator) -> Run:
        if self._ranks_held_out():
            self.rank_ = task.X.shape[1] + 1
            rows = sampled_rows(task.X, self._hessian_rows(task, rng), self.fit_intercept)
            self.rank_ = best_rank(self, self._eigenpairs(rows, None, rng), task, rng)
            if not self.early_stopping:
                every = rng.permutation(np.concatenate([task.rows, task.held_out]))
                every = every if self.sampling == "balanced" else np.sort(every)
                task = replace(task, rows=every, held_out=every[:0])
        return super()._start_passes(task, rng)

    def _scales(
        self, task: Task, number: int, rng: np.random.Generator
    ) -> list[tuple[range, Array, float, float]] | None:
        if number and not self.refresh:
            return None
        n_rows, scales = task.labels.n_rows, []
        for some in [range(n_rows)] if self.shared else [range(j, j + 1) for j in range(n_rows)]:
            rows = self._hessian_rows(task, rng, None if self.shared else some.start)
            # At w = 0 the curvature is F''(0) everywhere, which the basis accounts for.
            weights = self._curvatures(task, some, rows) if number else None
            pairs = self._eigenpairs(sampled_rows(task.X, rows, self.fit_intercept), weights, rng)
            self._set_hessian(pairs, len(rows))
            scales.append((some, *self._scale_and_step()))
        return scales

    def _hessian_rows(self, task: Task, rng: np.random.Generator, j: int | None = None) -> Array:
        """Draw examples: of all, or balanced between class j and the rest."""
        rows = np.arange(len(task.rows))
        if j is not None:
            ours, others = task.labels.sides(j, task.rows)
            if 0 < len(ours) < len(others):
                others = rng.choice(others, size=len(ours), replace=False)
            rows = np.concatenate([ours, others])
        if len(rows) > self.hessian_samples:
            rows = rng.choice(rows, size=self.hessian_samples, replace=False)
        return np.sort(task.rows[rows])

    def _curvatures(self, task: Task, some: range, rows: Array) -> Array:
        """Give F'' at the scores of the rows, relative to F''(0), in the mean of the classes."""
        w = self.w_[some.start : some.stop]
        loss = LOSSES[self.loss]
        return loss.curvature(self._scores(task.X, rows, w)).mean(axis=0) / loss.steepest

    def _eigenpairs(self, rows: Any, weights: Array | None, rng: np.random.Generator) -> Eigenpairs:
        d = rows.shape[1]
        if self._to_be_diagonal(rows):
            squares = squared(rows)
            if weights is not None:
                squares = squares * weights[:, None].astype(rows.dtype)
            means = np.asarray(squares.mean(axis=0)).ravel().astype(rows.dtype)
            return Eigenpairs(means, np.zeros((d, 0), rows.dtype), float(means.sum()))
        most = self._most_pairs(d if isinstance(self.rank, float) else self.rank_)
        pairs = leading_eigenpairs(rows, weights, most, int(rng.integers(2**31)))
        if isinstance(self.rank, float) and self.rank < 1:
            pairs = pairs.first(pairs.rank_of_energy(self.rank))
        return pairs

    def _most_pairs(self, otherwise: int) -> int:
        if self.rank == "auto":
            return RANK
        return int(self.rank) if positive_integer.holds(self.rank) else otherwise

    def _scale_and_step(self) -> tuple[Array, float, float]:
        pairs, steepest = self._pairs, LOSSES[self.loss].steepest
        if self._diagonal:
            damped = pairs.damped(self.damping)
            inverse = np.where(damped > 0, 1.0 / np.where(damped > 0, damped, 1), 0.0)
            scale = np.sqrt(inverse / steepest).astype(self.w_.dtype)
            dimension = float(np.sum(pairs.values * inverse))
        else:
            scale = pairs.basis(steepest, self.damping)
            dimension = pairs.dimension(self.damping)
        horizon = max(dimension, 1.0)
        longest = BALANCED if self.sampling == "balanced" else 1.0
        eta = longest / horizon if isinstance(self.eta, str) else float(self.eta)
        return scale, eta, horizon

    # -- the Hessian of a stream -----------------------------------------------------------------

    def _check_stream(self) -> None:
        super()._check_stream()
        if not self.shared:
            raise ValueError(
                f"{self._owner}.partial_fit: shared must be True in a stream, got False; use fit."
            )

    def _grows(self) -> bool:
        return self.refresh or self.n_hessian_ < self.hessian_samples

    def _rows_until_change(self) -> int:
        """Take the Hessian anew when the examples behind it have doubled, or a buffer is full."""
        if not self._grows():
            return self._block
        return min(max(self.n_hessian_, 1), RECENT) - self.n_recent_

    def _stream_block(self, rows: Any, signs: Array, weights: Array) -> None:
        first = self.n_hessian_ == 0
        if first:  # a single row: without it there is no direction to learn along
            self._absorb(rows)
        self._stream_steps(rows, signs, weights, *self._scale_and_step())
        if not first and self._grows():
            self._absorb(rows)

    def _absorb(self, rows: Any) -> None:
        stop = self.n_recent_ + rows.shape[0]
        self.recent_[self.n_recent_ : stop] = dense(rows)
        self.n_recent_ = stop
        if stop < min(max(self.n_hessian_, 1), RECENT):
            return
        recent, n = self.recent_[:stop], self.n_hessian_
        if self._diagonal if n else self._to_be_diagonal(recent):
            known = self.hessian_values_ if n else 0.0
            values = (n * known + squared(recent).sum(axis=0)) / (n + stop)
            values = values.astype(self.w_.dtype)
            pairs = Eigenpairs(values, self.hessian_vectors_, float(values.sum()))
        else:
            # A share of the energy is taken of all that is kept, and not of what it left before.
            pairs = with_rows(self._pairs, n, recent, self._most_pairs(RECENT))
            if isinstance(self.rank, float) and self.rank < 1:
                pairs = pairs.first(pairs.rank_of_energy(self.rank))
        self._set_hessian(pairs, n + stop)

    # -- state -----------------------------------------------------------------------------------

    def _merged_state(self, parts: Sequence[Self]) -> dict[str, Any]:
        """Average the weights; take the Hessian of the part that has seen most."""
        known = max(parts, key=lambda part: part.n_hessian_ + part.n_recent_)
        names = ("rank_", "energy_", "n_hessian_", "hessian_values_", "hessian_vectors_")
        hessian = {name: getattr(known, name) for name in (*names, "recent_", "n_recent_")}
        counts = {"class_counts_": self._merged_counts(parts)}
        return {**super()._merged_state(parts), **hessian, **counts}

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        d = self.n_features_in_ + self.fit_intercept
        columns = 0 if self._diagonal else self.rank_
        return {
            **super()._shapes(),
            "hessian_values_": (self.rank_,),
            "hessian_vectors_": (d, columns),
        }
