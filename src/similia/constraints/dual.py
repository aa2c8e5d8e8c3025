"""The dual of the projection problem: its points, where it starts, and its ascent in all variables.

    max over 0 ≤ α ≤ cap of  h(α) = -log tr exp(G),   G = log W₀ - Σ α_j C_j        [Tsuda2005, 4.2]

    ∂h/∂α_j = r_j = tr(W C_j),   ∂r_j/∂α_k = -tr(D_k C_j),   W = exp(G)/tr exp(G),

where D_k is the derivative of W in the direction C_k of its logarithm. With more constraints than
features, a screening costs more than a step along one constraint, so each screening is used in
full, as the gradient of h: by L-BFGS, and then by Newton steps. L-BFGS compares values of h, which
is flat near its maximum: where r is of the order of √eps, rounding hides the rise, and it stalls.
Newton steps are judged by r alone.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import Bounds, minimize

from similia.constraints.base import Constraints, check_numbers
from similia.contract import Array
from similia.linalg.gibbs import GibbsState
from similia.linalg.spectral import hermitian_log
from similia.safety.bounds import check_room
from similia.validation import check_hermitian

#: departure of a start from symmetry and from trace one that counts as rounding
START_ROUNDING = 1e-8
#: pairs of steps and gradient changes that L-BFGS remembers
LBFGS_PAIRS = 10
#: points tried on one line by L-BFGS, and on one Newton direction, each half as far
MAX_LINE_POINTS, MAX_NEWTON_HALVINGS = 40, 6
#: products with the Hessian in one Newton step, and the residual at which they end
MAX_CG_PRODUCTS, CG_RESIDUAL = 200, 1e-3
#: a Newton step counts if it reduces the error to at most this share
MIN_REDUCTION = 0.9
#: gain of the dual above which L-BFGS is restarted once more
RESTART_GAIN = 1e-10


class DualPoint(NamedTuple):
    """α with its W and the values r of all constraints there."""

    alpha: Array
    state: GibbsState
    values: Array

    @property
    def dual(self) -> float:
        """h(α)."""
        return -self.state.log_trace

    def error(self, cap: float) -> float:
        """Largest |r_j| that a feasible change of α_j could use."""
        usable = np.where(self.values < 0.0, self.alpha > 0.0, self.alpha < cap)
        return float(np.abs(self.values[usable]).max(initial=0.0))


Visit: TypeAlias = Callable[[Array], DualPoint]
Enough: TypeAlias = Callable[[DualPoint], bool]


class _Enough(Exception):
    pass


def dual_point(constraints: Constraints, log_start: Array, alpha: Array) -> DualPoint:
    """W and all values at α: one eigendecomposition and one screening."""
    state = GibbsState(log_start - constraints.combination(alpha))
    return DualPoint(alpha, state, constraints.state_values(state))


def ascend(
    constraints: Constraints, log_start: Array, alpha: Array, enough: Enough, cap: float = np.inf
) -> DualPoint:
    """Maximize h over 0 ≤ α ≤ cap until enough, or as far as rounding allows; return the best."""
    low, high = constraints.bounds()
    # In these units a step of length one changes log W by the order of one.
    unit = 1.0 / max(float(np.max(np.maximum(np.abs(low), np.abs(high)))), np.finfo(float).tiny)
    longest = cap / unit
    best: list[DualPoint] = []

    def visit(alpha: Array) -> DualPoint:
        point = dual_point(constraints, log_start, alpha)
        if enough(point):
            best[:] = [point]
            raise _Enough
        return point

    def negative_dual(x: Array) -> tuple[float, Array]:
        # Exactly the cap where x reaches it, so that equality can be tested.
        point = visit(np.where(x >= longest, cap, np.maximum(x, 0.0) * unit))
        if not best or point.dual >= best[0].dual:
            best[:] = [point]
        return -point.dual, -unit * point.values

    most = dict.fromkeys(["maxfun", "maxiter"], np.iinfo(np.int32).max)  # `enough` decides
    options = {"maxcor": LBFGS_PAIRS, "maxls": MAX_LINE_POINTS, "ftol": 0.0, "gtol": 0.0, **most}
    how = {"jac": True, "method": "L-BFGS-B", "bounds": Bounds(0.0, longest), "options": options}
    with suppress(_Enough):
        minimize(negative_dual, alpha / unit, **how)
        gained = np.inf
        while gained > RESTART_GAIN:  # what it remembers may mislead it to a step of length zero
            before = best[0]
            minimize(negative_dual, before.alpha / unit, **how)
            gained = best[0].dual - before.dual
        better: DualPoint | None = best[0]
        while better is not None:
            best[:] = [better]
            better = _newton_step(constraints, best[0], visit, unit * unit, cap)
    return best[0]


def _newton_step(
    constraints: Constraints, point: DualPoint, visit: Visit, unit: float, cap: float
) -> DualPoint | None:
    """Semismooth Newton step on α = clip(α + unit·r, 0, cap); None unless the error decreases.

    Variables that clipping would hold at an end move there; the others solve H δ = r.
    """
    alpha, r, error = point.alpha, point.values, point.error(cap)
    if error == 0.0:
        return None
    wish = alpha + unit * r
    free = (wish > 0.0) & (wish < cap)
    curvature = _curvature(constraints, point.state)
    step = np.where(free, 0.0, np.clip(wish, 0.0, cap) - alpha)
    right = r - curvature(step) if step.any() else r
    step = step + _solution(lambda v: np.where(free, curvature(v), 0.0), np.where(free, right, 0.0))
    for halvings in range(MAX_NEWTON_HALVINGS):
        there = visit(np.clip(alpha + 0.5**halvings * step, 0.0, cap))
        if there.error(cap) <= MIN_REDUCTION * error:
            return there
    return None


def _curvature(constraints: Constraints, state: GibbsState) -> Callable[[Array], Array]:
    """The map v -> Hv, with H_jk = tr(D_k C_j), positive semidefinite.

    In the eigenvectors of W, D is Φ∘C less a multiple of W that makes its trace zero; Φ are the
    divided differences of the exponential function.
    """
    Q, W, w = state.rows, state.matrix(), state.weights()
    gaps = np.abs(state.values[:, None] - state.values)
    ratio = np.divide(-np.expm1(-gaps), gaps, out=np.ones_like(gaps), where=gaps > 0.0)
    Phi = np.maximum(w[:, None], w) * ratio

    def product(v: Array) -> Array:
        C = Q.conj() @ constraints.combination(v) @ Q.T
        D = Q.T @ (Phi * C) @ Q.conj()
        D -= np.trace(D).real * W
        # `values` subtracts the shifts, which a matrix of trace zero does not see.
        return constraints.values(D) + constraints.shifts

    return product


def _solution(H: Callable[[Array], Array], b: Array) -> Array:
    """Solution of Hx ≈ b, by conjugate gradients; H may be singular if b is in its range."""
    x, rest = np.zeros_like(b), b.copy()
    direction, square = rest.copy(), float(b @ b)
    goal = CG_RESIDUAL**2 * square
    for _ in range(MAX_CG_PRODUCTS):
        if square <= goal:
            break
        image = H(direction)
        bend = float(direction @ image)
        if bend <= 0.0:
            break
        x += (square / bend) * direction
        rest -= (square / bend) * image
        before, square = square, float(rest @ rest)
        direction = rest + (square / before) * direction
    return x


def log_of_start(owner: str, start: ArrayLike | None, constraints: Constraints) -> Array:
    """Logarithm of W₀, positive definite with trace one; of I/d for None."""
    d = constraints.n_features
    check_room(owner, d, constraints.dtype, (d, d))
    if start is None:
        return np.asarray(-np.log(d) * np.eye(d, dtype=constraints.dtype))
    W = np.asarray(start)
    check_hermitian(owner, W, d, "fiuc", START_ROUNDING)
    if abs(np.trace(W) - 1.0) > START_ROUNDING:
        raise ValueError(
            f"{owner}: start must have trace one, got {np.trace(W).real:.6g}; divide by its trace."
        )
    try:
        L = hermitian_log(W)
    except ValueError:
        raise ValueError(f"{owner}: start must be positive definite.") from None
    return np.asarray(L, dtype=np.result_type(constraints.dtype, L.dtype))


def checked_alpha(owner: str, alpha: ArrayLike | None, n: int, cap: float) -> Array:
    """Dual variables of n constraints, between 0 and the cap; missing ones are zero."""
    given = np.zeros(0) if alpha is None else np.asarray(alpha)
    words = f"an array of at most {n} numbers, one for each constraint"
    check_numbers(f"{owner}: alpha", given, words, given.ndim == 1 and len(given) <= n)
    if (given < 0.0).any():
        raise ValueError(f"{owner}: alpha must be at least 0, got {given.min():.6g}.")
    if (given > cap).any():
        got = f"got {given.max():.6g}; pass np.minimum(alpha, C)"
        raise ValueError(f"{owner}: alpha must be at most C = {cap:.6g}, {got}.")
    return np.append(given.astype(np.float64), np.zeros(n - len(given)))
