"""PAUM: the Perceptron with uneven margins, for classes of very different size."""

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
from scipy import sparse

from experiments.contenders.loops import compiled
from similia.contract import Array, Matrix, State
from similia.linear.base import LinearOneVsRest
from similia.parameters import parameter
from similia.validation import moderate, non_negative, one_of


class PAUM(LinearOneVsRest):
    """Linear classifier learnt by Perceptron steps, with a margin of its own for each side.

    An example x with label y = ±1 is left alone if it is right by more than the margin of its side;
    otherwise, that is for y(wᵀx + b) <= τ_y, it takes a step of the Perceptron:

        w += η y x,   b += η y R²                                           [Li2002, Algorithm 1]

    Where positive examples are rare, a larger margin for the positive side keeps the many negative
    ones from pushing the boundary onto them. With both margins 0 and R = 1 this is the Perceptron.

    Attributes
    ----------
    w_ : array of shape (1 or n_classes, n_features + fit_intercept)
        State after the last example, b last.
    R_ : float
        The radius in use: the given one or the largest |x| so far; 0 without an intercept.
    coef_, intercept_ : arrays
        The weights in use: averaged or last.
    classes_ : array of shape (n_classes,)
    n_iter_, n_seen_, n_updates_ : int
        Passes made, examples learnt from, and steps taken (over all weight vectors).

    Notes
    -----
    Examples of both sides, none longer than R, that some (w*, b*) with |w*| = 1 separates by γ cost
    at most 4(R² + τ/η)/γ² steps, τ being the larger margin (Novikoff's argument for the vectors
    (x, R)). An example costs four operations per non-zero entry and weight vector. Two devices for
    batches are left out: a slack for each example (the λ-trick), which makes any finite set
    separable, and a choice of b after training.

    References
    ----------
    .. [Li2002] Y. Li, H. Zaragoza, R. Herbrich, J. Shawe-Taylor, J. Kandola, "The Perceptron
       Algorithm with Uneven Margins", ICML 2002.

    Examples
    --------
    One example in ten is positive, and hard to tell. With a wider margin fewer are missed:

    >>> import numpy as np
    >>> from experiments.contenders.paum import PAUM
    >>> rng = np.random.default_rng(0)
    >>> y = rng.random(3000) < 0.1
    >>> X = rng.normal(size=(3000, 20)) + 0.3 * y[:, None]
    >>> X /= np.linalg.norm(X, axis=1, keepdims=True)
    >>> for tau in (0, 1, 5):
    ...     learner = PAUM(tau_positive=tau, average=True, random_state=0).fit(X, y)
    ...     said = learner.predict(X)
    ...     print(f"margin {tau}: found {said[y].mean():.2f}, false alarms {said[~y].mean():.2f}")
    margin 0: found 0.12, false alarms 0.01
    margin 1: found 0.26, false alarms 0.02
    margin 5: found 0.43, false alarms 0.06
    """

    tau_positive: float = parameter(
        default=5.0,
        rule=non_negative,
        doc="Margin of the positive class (the second of two, or each of several against the "
        'rest). Larger takes more steps for its side, and says "positive" more often. Its scale '
        "is that of η|x|²; decisions depend on τ/η only. The defaults suit rows of unit length and "
        "rare positives.",
    )
    tau_negative: float = parameter(
        default=0.0, rule=non_negative, doc="Margin of the other examples."
    )
    eta: float = parameter(default=1.0, rule=moderate, doc="Length of a step; scales w and b.")
    radius: str | float = parameter(
        default="auto",
        rule=one_of("auto") | moderate,
        doc="R, which sets how fast b moves beside w. The paper takes the largest |x| of all "
        'examples, which a stream does not know; "auto" takes the largest so far, including the '
        "present one, so it equals the paper's from the second pass of `fit` on. Use 1 for rows of "
        "unit length.",
    )

    _state: ClassVar = (*LinearOneVsRest._state, "R_")

    def _init_state(self) -> None:
        fixed = self.fit_intercept and not isinstance(self.radius, str)
        self.R_ = float(self.radius) if fixed else 0.0

    def _learn_block(self, rows: Matrix, signs: Array, weights: Array) -> int:
        moves = rows
        if self.fit_intercept:
            R2 = self._squared_radii(rows)
            moves = with_squared_radius(rows, R2)
            self.R_ = float(np.sqrt(R2[-1]))
        rule = (float(self.eta), (float(self.tau_positive), float(self.tau_negative)))
        steps = 0
        for j, w in enumerate(self.w_):
            moment = self.moment_[j] if self.average else self.moment_
            steps += paum_pass(w, moment, self.n_seen_, rows, moves, signs[j], *rule)
        return steps

    def _squared_radii(self, X: Matrix) -> Array:
        if isinstance(self.radius, str):
            return largest_squares(X, self.R_**2)
        return np.full(X.shape[0], float(self.radius) ** 2)

    def _merged_state(self, parts: Sequence[Self]) -> State:
        return {**super()._merged_state(parts), "R_": max(part.R_ for part in parts)}


def paum_pass(w, moment, t, X, moves, signs, eta, taus):
    """Learn a block of rows X with labels `signs` in {+1, -1}; count the steps.

    An example x with taus = (tau_positive, tau_negative) and

        y xᵀw <= tau_y   moves   w += eta y x̃                                [Li2002, Algorithm 1]

    where x̃, its row of `moves`, is x itself except for the intercept: the last entry of x is 1,
    and that of x̃ is R² (see `with_squared_radius`). `moment` gathers Σ_t t Δw_t if it has a size.
    """
    if sparse.issparse(X):
        rows = (X.indptr, X.indices, X.data, moves.data)
        return _paum_sparse(w, moment, t, rows, signs, eta, taus)
    return _paum_dense(w, moment, t, X, moves, signs, eta, taus)


@compiled
def _paum_dense(w, moment, t, X, moves, signs, eta, taus):
    real = w.dtype.type
    steps = 0
    for i in range(len(signs)):
        score = real(0)
        for k in range(len(w)):
            score += w[k] * X[i, k]
        if signs[i] * score > (taus[0] if signs[i] > 0 else taus[1]):
            continue
        steps += 1
        step, time = real(eta * signs[i]), real(t + i + 1)
        for k in range(len(w)):
            w[k] += step * moves[i, k]
        if moment.size:
            for k in range(len(w)):
                moment[k] += time * (step * moves[i, k])
    return steps


@compiled
def _paum_sparse(w, moment, t, rows, signs, eta, taus):
    real = w.dtype.type
    ptr, index, value, move = rows
    steps = 0
    for i in range(len(signs)):
        score = real(0)
        for a in range(ptr[i], ptr[i + 1]):
            score += w[index[a]] * value[a]
        if signs[i] * score > (taus[0] if signs[i] > 0 else taus[1]):
            continue
        steps += 1
        step, time = real(eta * signs[i]), real(t + i + 1)
        for a in range(ptr[i], ptr[i + 1]):
            w[index[a]] += step * move[a]
            if moment.size:
                moment[index[a]] += time * (step * move[a])
    return steps


def largest_squares(X, before):
    """max(before, |x_1|², …, |x_i|²) for each row x_i, without its last entry, 1."""
    values = (X.data if sparse.issparse(X) else X).astype(np.float64) ** 2
    if sparse.issparse(X):
        values[_last_entries(X)] = 0.0
        squares = np.add.reduceat(values, X.indptr[:-1])
    else:
        squares = values[:, :-1].sum(axis=1)
    return np.maximum.accumulate(np.maximum(squares, before))


def with_squared_radius(X, R2):
    """X with R2, one number per row, in place of its last column of ones."""
    moves = X.copy()
    if sparse.issparse(X):
        moves.data[_last_entries(X)] = R2
    else:
        moves[:, -1] = R2
    return moves


def _last_entries(X):
    """Places of the last column, whose entry is the last one of every row."""
    return X.indptr[1:] - 1
