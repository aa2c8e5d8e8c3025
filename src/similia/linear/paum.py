"""PAUM: the Perceptron with uneven margins, for classes of very different size."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from similia.contract import Array
from similia.linear.blockwise import BlockwiseOneVsRest
from similia.updates.paum import largest_squares, paum_pass, with_squared_radius
from similia.validation import moderate, non_negative, one_of


class PAUM(BlockwiseOneVsRest):
    """Linear classifier learnt by Perceptron steps, with a margin of its own for each side.

    An example x with label y = ±1 is left alone if it is right by more than the margin of its side;
    otherwise, that is for y(wᵀx + b) <= τ_y, it takes a step of the Perceptron:

        w += η y x,   b += η y R²                                           [Li2002, Algorithm 1]

    A larger margin for the positive side, where positive examples are rare, keeps the many negative
    ones from pushing the boundary onto them. With both margins 0 and R = 1 this is the Perceptron.

    Parameters
    ----------
    tau_positive, tau_negative : numbers of at least 0
        Margins of the positive class (the second of two, or each of several against the rest) and
        of the other examples. A larger one takes more steps for its side; a positive margin above
        the negative one says "positive" more often. Their scale is that of η|x|², and for decisions
        only τ/η matters. The defaults suit rows of unit length and rare positives.
    eta : positive number
        Length of a step; scales w and b.
    radius : "auto" or positive number
        R, which sets how fast b moves beside w. The paper takes the largest |x| of all examples,
        which a stream does not know; "auto" takes the largest so far, the present one included, so
        from the second pass of `fit` on it is the paper's. A number is kept: 1 for rows of unit
        length.
    fit_intercept : bool
        Without it b is 0.
    max_iter : int
        Passes over the data in `fit`; `partial_fit` makes one. The paper goes on until a pass
        takes no step, which on inseparable data never happens.
    average : bool
        Decide with the mean of the states over the stream instead of the last one.
    random_state : int, RandomState or None
        Seed of the order of each pass in `fit`.
    verbose : bool
        Show a progress bar.

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
    (x, R)). An example costs four operations for each non-zero entry and weight vector. Two devices
    for batches are left out: a slack for each example (the λ-trick), which makes any finite set
    separable, and a choice of b after training.

    References
    ----------
    .. [Li2002] Y. Li, H. Zaragoza, R. Herbrich, J. Shawe-Taylor, J. Kandola, "The Perceptron
       Algorithm with Uneven Margins", ICML 2002.

    Examples
    --------
    One example in ten is positive, and hard to tell. With a wider margin fewer are missed:

    >>> import numpy as np
    >>> from similia import PAUM
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

    _rules: ClassVar = {
        **BlockwiseOneVsRest._rules,
        "tau_positive": non_negative,
        "tau_negative": non_negative,
        "eta": moderate,
        "radius": one_of("auto") | moderate,
    }
    _state: ClassVar = (*BlockwiseOneVsRest._state, "R_")

    def __init__(
        self,
        *,
        tau_positive: float = 5.0,
        tau_negative: float = 0.0,
        eta: float = 1.0,
        radius: Any = "auto",
        fit_intercept: bool = True,
        max_iter: int = 5,
        average: bool = False,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.tau_positive = tau_positive
        self.tau_negative = tau_negative
        self.eta = eta
        self.radius = radius
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.average = average
        self.random_state = random_state
        self.verbose = verbose

    def _init_state(self) -> None:
        fixed = self.fit_intercept and not isinstance(self.radius, str)
        self.R_ = float(self.radius) if fixed else 0.0

    def _learn_block(self, j: int, X: Any, signs: Array) -> int:
        moment = self.moment_[j] if self.average else self.moment_
        moves = X
        if self.fit_intercept:
            R2 = self._squared_radii(X)
            moves = with_squared_radius(X, R2)
            if j == len(self.w_) - 1:  # every weight vector learns the block from the same R on
                self.R_ = float(np.sqrt(R2[-1]))
        taus = (float(self.tau_positive), float(self.tau_negative))
        return paum_pass(self.w_[j], moment, self.n_seen_, X, moves, signs, float(self.eta), taus)

    def _squared_radii(self, X: Any) -> Array:
        if isinstance(self.radius, str):
            return largest_squares(X, self.R_**2)
        return np.full(X.shape[0], float(self.radius) ** 2)

    def _merged_state(self, parts: Sequence[Self]) -> dict[str, Any]:
        return {**super()._merged_state(parts), "R_": max(part.R_ for part in parts)}
