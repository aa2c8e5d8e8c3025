"""SGD-QN: stochastic gradient with a diagonal quasi-Newton scaling, as corrected [Bordes2010]."""

from functools import partial
from typing import ClassVar

import numpy as np

from experiments.contenders.loops import compiled
from similia.contract import Array, Indices, Matrix
from similia.linalg.blas import panels
from similia.linalg.blocks import dense, row_blocks, squared
from similia.linalg.threads import processors, side_by_side
from similia.linear.examples import TrainingSplit
from similia.linear.passes import PASS_BLOCK_ROWS, Passes, each_class
from similia.linear.sgd import mean_energy
from similia.linear.stochastic import StochasticOneVsRest
from similia.loss_functions import HINGE, LOGISTIC
from similia.losses import LOSSES
from similia.parameters import parameter
from similia.validation import moderate, one_of, positive_integer

#: how far above λ a measured curvature may be
LARGEST_RATIO = 100.0


class SGDQN(StochasticOneVsRest):
    """Linear classifier learnt by gradient steps with a gain for each feature, measured on the way.

        w -= y F'(y wᵀx) B x,   1/B_i += skip·r_i every `skip` examples              [Bordes2010]

    r_i is the change of the gradient's entry i over that of w_i, between λ and 100 λ, on an example
    after one of the steps; so steps shrink with the sum of the curvatures met.

    Attributes
    ----------
    w_ : array of shape (1 or n_classes, n_features + fit_intercept)
        State after the last example, intercept last.
    B_ : array of the same shape
        Gains.
    v_ : array of the same shape
        Weights that the next gains are measured against.
    clock_ : array of shape (1 or n_classes, 2)
        Examples until the next change, and whether gains are due.
    coef_, intercept_ : arrays
        The weights in use: averaged or last.
    classes_ : array of shape (n_classes,)
    multilabel_ : bool
    class_counts_ : array of shape (1 or n_classes, 2)
        Positive and negative examples of each weight vector.
    n_iter_, n_seen_, n_updates_ : int
        Passes made, examples learnt from, and steps taken (over all weight vectors).

    Notes
    -----
    An example costs four operations per feature and class; sparse rows are made dense, block by
    block. In a stream the first example sets the gain at the start.

    References
    ----------
    .. [Bordes2010] A. Bordes, L. Bottou, P. Gallinari, J. Chang, S. A. Smith, "Erratum: SGDQN is
       Less Careful than Expected", JMLR 11, 2010; of "SGD-QN: Careful Quasi-Newton Stochastic
       Gradient Descent", JMLR 10, 2009.
    """

    alpha: float = parameter(
        default=1e-4,
        rule=moderate,
        doc="λ, weight of ½|w|² beside the mean loss, and the least curvature. Larger lets steps "
        "shrink sooner.",
    )
    skip: int = parameter(
        default=16, rule=positive_integer, doc="Examples between two changes of the gains."
    )
    eta: str | float = parameter(
        default="auto",
        rule=one_of("auto") | moderate,
        doc="Gain at the start. \"auto\" makes η F''(0)|x|² equal 1 on average.",
    )
    schedule: str = parameter(
        default="auto", rule=one_of("auto"), doc="Steps shrink by the gains alone."
    )

    _state: ClassVar = (*StochasticOneVsRest._state, "B_", "v_", "clock_")

    def _init_state(self) -> None:
        super()._init_state()
        self.B_, self.v_ = np.zeros_like(self.w_), np.zeros_like(self.w_)
        self.clock_ = np.tile(np.array([self.skip, 0]), (len(self.w_), 1))

    def _start_gains(self, energy: float) -> None:
        gain = 1.0 / max(LOSSES[self.loss].steepest * energy, 1e-6)
        self.B_[:] = gain if isinstance(self.eta, str) else float(self.eta)

    def _passes(self, split: TrainingSplit, rng: np.random.Generator) -> Passes:
        for name in ("w_", "moment_", "B_", "v_", "clock_"):  # passes change them in place
            setattr(self, name, getattr(self, name).copy())
        if not self.B_.any():
            self._start_gains(mean_energy(split, rng))
        return GainPasses(self, split)

    def _scale(self, passes: Passes, rng: np.random.Generator) -> None:
        """Gains are the scaling."""

    def _learn_weighted(self, rows: Matrix, signs: Array, weights: Array) -> None:
        if not self.B_.any():
            self._start_gains(float(squared(rows[:1]).sum(dtype=np.float64)))
        times = self.n_seen_ + 1.0 + np.arange(rows.shape[0])
        for j in range(len(self.w_)):
            self.learn_rows(j, dense(rows), signs[j], weights[j], times)

    def learn_rows(self, j: int, X: Array, signs: Array, weights: Array, times: Array) -> None:
        """Teach weight vector j dense rows, in order."""
        dtype = self.w_.dtype
        moment = self.moment_[j] if self.average else np.zeros(0, dtype)
        state = (self.w_[j], self.B_[j], self.v_[j], moment, self.clock_[j])
        rows = (np.ascontiguousarray(X), signs.astype(dtype), np.ascontiguousarray(weights))
        rule = (float(self.alpha), int(self.skip), LOSSES[self.loss].code)
        sgd_qn_pass(*state, *rows, times.astype(dtype), *rule)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        shapes = super()._shapes()
        w = shapes["w_"]
        return {**shapes, "B_": w, "v_": w, "clock_": (w[0], 2)}


class GainPasses:
    """Passes that change weights and gains of the learner itself, one class at a time."""

    def __init__(self, learner: SGDQN, split: TrainingSplit) -> None:
        self.learner, self.split = learner, split

    def make(self, rng: np.random.Generator) -> int:
        if self.learner.sampling == "full":
            return self._make_full(rng.permutation(len(self.split.rows)))
        learner, split, n = self.learner, self.split, len(self.split.rows)
        examples, dtype = split.examples, learner.w_.dtype

        def learn(j: int, places: Indices, positive: Array) -> None:
            signs = np.where(positive, 1, -1)
            times = learner.n_seen_ + np.arange(1, len(places) + 1) * (n / max(len(places), 1))
            for block in row_blocks(len(places), PASS_BLOCK_ROWS):
                rows = split.rows[places[block]]
                some = (dense(examples.at(rows, dtype)), signs[block], examples.weights[rows])
                learner.learn_rows(j, *some, times[block])

        every = slice(0, len(learner.w_))
        return each_class(split, True, every, rng, learn, learner.w_.shape[1])

    def _make_full(self, order: Indices) -> int:
        """Teach every class all rows in one order, so that a block is fetched once for all."""
        learner, split, w = self.learner, self.split, self.learner.w_
        examples = split.examples
        for block in row_blocks(len(order), PASS_BLOCK_ROWS):
            rows = split.rows[order[block]]
            X, weights = dense(examples.at(rows, w.dtype)), examples.weights[rows]
            signs = examples.signs(rows, w.dtype)
            times = learner.n_seen_ + 1.0 + np.arange(block.start, block.stop)

            def learn(some: tuple[int, int], X=X, signs=signs, weights=weights, times=times):
                for j in range(*some):
                    learner.learn_rows(j, X, signs[j], weights, times)

            ranges = panels(len(w), min(processors(), len(w)))
            side_by_side([partial(learn, some) for some in ranges], w.size * len(rows))
        return len(w) * len(order)

    def state(self) -> tuple[Array, Array]:
        return self.learner.w_.copy(), self.learner.moment_.copy()


@compiled
def loss_slope(code, x):
    """F'(x) of `similia.losses`."""
    if code == LOGISTIC:
        return -1.0 / (1.0 + np.exp(x))
    if code == HINGE:
        return np.copysign(0.5 - 1.0 / (2.0 + abs(x)), x) - 0.5
    return 0.5 * (x - 1.0)


@compiled
def sgd_qn_pass(w, B, v, moment, clock, X, signs, weights, times, alpha, skip, code):
    """Learn rows X in order; change w, the gains B, v and `clock`, and gather `moment`.

    With g(w) = λw + y F'(y wᵀx)x the regularised gradient, every example moves w -= y F'(y wᵀx) Bx,
    and every `skip` of them

        v = w,   w -= skip λ B w;   on the next example   1/B_i += skip r_i,
        r_i = (g(w) - g(v))_i / (w - v)_i, clipped to between λ and 100 λ

    Both points of the erratum are here: gains are updated as reciprocals, so that 1/B_i is a sum of
    curvatures and shrinks steps by itself, and the ratio comes from an example that w has not been
    fitted to yet. clock = [examples until the next regularisation, whether B is due].
    """
    real = w.dtype.type
    for i in range(len(signs)):
        if weights[i] == 0.0:
            continue
        x, y = X[i], signs[i]
        h = real(0.0)
        for k in range(len(w)):
            h += w[k] * x[k]
        if clock[1]:
            before = real(0.0)
            for k in range(len(w)):
                before += v[k] * x[k]
            change = y * (loss_slope(code, y * h) - loss_slope(code, y * before))
            for k in range(len(w)):
                gap = w[k] - v[k]
                ratio = alpha
                if gap != 0.0:
                    ratio = alpha + change * x[k] / gap
                ratio = min(max(ratio, alpha), LARGEST_RATIO * alpha)
                B[k] = real(B[k] / (1.0 + skip * B[k] * ratio))
            clock[1] = 0
        step = real(-weights[i] * y * loss_slope(code, y * h))
        clock[0] -= 1
        time = real(times[i])
        if clock[0] <= 0:
            clock[0], clock[1] = skip, 1
            for k in range(len(w)):
                v[k] = w[k]
                move = real(-skip * alpha) * B[k] * w[k]
                w[k] += move
                if moment.size:
                    moment[k] += time * move
        for k in range(len(w)):
            w[k] += step * B[k] * x[k]
        if moment.size:
            for k in range(len(w)):
                moment[k] += time * (step * B[k] * x[k])
