"""Whether the posterior's standard deviations mean what they say."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.special import log_ndtr, ndtr

from similia.contract import Array, Posterior, Side
from similia.feedback import FeedbackFile, joined
from similia.files import BadRows, FeedbackLike, VectorFile
from similia.validation import check_parameters, positive, positive_integer

#: calibration error above which a warning is given, if it is beyond chance
_LARGE = 0.1
#: maximum number of triplets to measure calibration on; their vectors are in memory
MAX_TRIPLETS = 200_000


@dataclass(frozen=True)
class Calibration:
    """Confidence in the preferred order, and how often it is right."""

    #: mean confidence of the judgements in each bin, and the share of them whose preferred order is
    #: right; NaN in an empty bin, of shape (n_bins,)
    confidence: Array
    accuracy: Array
    #: judgements in each bin, of shape (n_bins,)
    count: Array
    #: bin edges, from 0.5 to 1, of shape (n_bins + 1,)
    edges: Array
    #: expected calibration error: Σ count·|accuracy - confidence| / Σ count
    error: float
    #: mean of -log P(better above worse): lower is better, and confident mistakes cost most
    log_loss: float
    #: factor applied to the standard deviations
    scale: float

    @property
    def n(self) -> int:
        """Number of judgements."""
        return int(self.count.sum())

    @property
    def overconfidence(self) -> float:
        """Mean confidence minus share of right orders: positive if the model is too sure."""
        return float(np.nansum(self.count * (self.confidence - self.accuracy)) / self.n)

    @property
    def warnings(self) -> list[str]:
        """Reasons not to rely on the confidence, as sentences; empty if there are none.

        Chance is allowed for, as if judgements were independent.
        """
        found = []
        known = self.count > 0
        n, right = self.count[known], self.accuracy[known]
        fall, place = 0.0, 0
        for j in range(1, len(n)):  # the judgements above a confidence, against those below it
            below, above = (np.average(right[part], weights=n[part]) for part in np.s_[:j, j:])
            mean = np.average(right, weights=n)
            error = np.sqrt(mean * (1 - mean) * (1 / n[:j].sum() + 1 / n[j:].sum()))
            if below - above > 3 * error and below - above > fall:
                fall, place = below - above, int(np.flatnonzero(known)[j])
        if fall:
            found.append(
                f"The curve falls: above a confidence of {self.edges[place]:.2f} the model is "
                f"right less often than below it, by {fall:.2f}; on these data it means nothing."
            )
        sure = np.where(known, self.confidence, 0.0)
        chance = np.sqrt(2 / np.pi * sure * (1 - sure) / np.maximum(self.count, 1))
        expected = float(np.sum(self.count * chance) / self.n)
        if self.error > max(_LARGE, 3 * expected):
            found.append(
                f"The error of {self.error:.2f} is far beyond chance ({expected:.2f}): these data "
                "differ from those learnt from, or the scale is off; choose it on data like these "
                "(chosen_scale)."
            )
        return found

    def __str__(self) -> str:
        verdict = "too sure" if self.overconfidence > 0 else "not sure enough"
        told = (
            f"Expected calibration error {self.error:.4f} over {self.n} judgements "
            f"({verdict} by {abs(self.overconfidence):.4f}); log loss {self.log_loss:.4f}; "
            f"std scaled by {self.scale:.3g}."
        )
        return " ".join([told, *self.warnings])

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, ready for JSON; None stands for an empty bin."""
        plain = {name: np.asarray(value).tolist() for name, value in vars(self).items()}
        for name in ("confidence", "accuracy"):
            plain[name] = [None if np.isnan(value) else value for value in plain[name]]
        figures = {"n": self.n, "overconfidence": self.overconfidence}
        return {**plain, **figures, "warnings": self.warnings}


def calibration(
    margins: ArrayLike, std: ArrayLike, *, scale: float = 1.0, n_bins: int = 10
) -> Calibration:
    """Compare P(better above worse) = Φ(margin / (scale·std)) with how often it holds.

    A triplet always names its better item first, so it has no label to predict. What is compared is
    the confidence Φ(|margin| / (scale·std)) in the order that the model prefers with the share of
    triplets for which that order is right; a margin of 0 counts half.

    Parameters
    ----------
    margins, std : arrays of shape (n_triplets,)
        Scores and posterior standard deviations of triplets that were not learnt from, as returned
        by ``triplet_scores(..., return_std=True)``.
    scale : positive number
        Factor for the standard deviations, such as that of `chosen_scale`; larger is less sure.
    n_bins : int
        Bins of equal width between 0.5 and 1.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> mean, std = rng.normal(size=10_000), np.full(10_000, 0.5)
    >>> truth = rng.normal(mean, std)
    >>> honest = calibration(np.where(truth > 0, mean, -mean), std)
    >>> honest.error < 0.02
    True
    """
    m, deviations = _checked("calibration", margins, std)
    rules = {"scale": positive, "n_bins": positive_integer}
    check_parameters("calibration", rules, {"scale": scale, "n_bins": n_bins})
    z = _standardized(m, deviations * scale)
    sure, right = ndtr(np.abs(z)), np.where(m == 0, 0.5, m > 0)
    edges = np.linspace(0.5, 1.0, n_bins + 1)
    place = np.clip(np.searchsorted(edges, sure, side="right") - 1, 0, n_bins - 1)
    count = np.bincount(place, minlength=n_bins)
    with np.errstate(invalid="ignore"):
        confidence = np.bincount(place, sure, n_bins) / count
        accuracy = np.bincount(place, right, n_bins) / count
    error = float(np.nansum(count * np.abs(accuracy - confidence)) / len(m))
    return Calibration(confidence, accuracy, count, edges, error, _log_loss(z), float(scale))


def chosen_scale(margins: ArrayLike, std: ArrayLike) -> float:
    """Factor for the standard deviations that makes held-out orders most likely.

    Minimizes Σ -log Φ(margin / (s·std)) over s > 0, a proper score: with enough judgements it
    rewards honest confidence and nothing else. Choose it on some queries and use it on others.

    The result lies between 1e-4 and 1e4: above 1 if the model was too sure.

    Parameters
    ----------
    margins, std : arrays of shape (n_triplets,)
        As in `calibration`.
    """
    z = _standardized(*_checked("chosen_scale", margins, std))
    found = minimize_scalar(
        lambda log_scale: _log_loss(z * np.exp(-log_scale)),
        bounds=(np.log(1e-4), np.log(1e4)),
        method="bounded",
        options={"xatol": 1e-6},
    )
    return float(np.exp(found.x))


def calibration_of(
    learner: Posterior,
    X: Side,
    triplets: ArrayLike,
    *,
    items: Side | None = None,
    scale: float = 1.0,
    n_bins: int = 10,
) -> Calibration:
    """Calibration of a fitted learner on triplets that it has not learnt from.

    Parameters
    ----------
    learner : fitted learner
        With a posterior: Blend, FactoredAROMA or DiagonalAROMA.
    X, triplets, items : arrays
        As in ``learner.triplet_scores``.
    scale, n_bins : float, int
        As in `calibration`.
    """
    if not isinstance(learner, Posterior):
        raise ValueError(
            "calibration_of: learner must know how sure it is (a posterior), "
            f"got {type(learner).__name__}; use Blend, FactoredAROMA or DiagonalAROMA."
        )
    margins, std = learner.triplet_scores(X, triplets, items=items, return_std=True)
    return calibration(margins, std, scale=scale, n_bins=n_bins)


def calibration_on(
    model: Any,
    vectors: VectorFile,
    path: FeedbackLike,
    *,
    items: VectorFile | None = None,
    unjudged: str = "ignore",
    bad_rows: BadRows | None = None,
) -> Calibration:
    """Calibration of a model with a posterior, on the first `MAX_TRIPLETS` of a file.

    Parameters are those of `learn_file`; the model must not have learnt from these triplets.
    """
    file = FeedbackFile(
        path, "lists", vectors.ids, items and items.ids, bad_rows=bad_rows, unjudged=unjudged
    )
    parts, n = [], 0
    for part in file.drawn(file.raw()):
        parts.append(part)
        n += len(part)
        if n >= MAX_TRIPLETS:
            break
    if not n:
        raise ValueError(f"{file.source}: feedback must be at least one judgement, got none.")
    return calibration_of(
        model, vectors.X, joined(parts).tuples[:MAX_TRIPLETS], items=items and items.X
    )


def _checked(owner: str, margins: ArrayLike, std: ArrayLike) -> tuple[Array, Array]:
    m, deviations = np.asarray(margins, dtype=float), np.asarray(std, dtype=float)
    if m.ndim != 1 or m.shape != deviations.shape or len(m) == 0:
        raise ValueError(
            f"{owner}: margins and std must be two arrays of the same length, at least one, "
            f"got shapes {m.shape} and {deviations.shape}."
        )
    if not (np.isfinite([m, deviations]).all() and (deviations >= 0).all()):
        raise ValueError(f"{owner}: margins must be finite, and std finite and at least 0.")
    return m, deviations


def _standardized(margins: Array, std: Array) -> Array:
    """Quotient margin / std, 0 for a margin of 0 even where std is 0."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        z = np.where(margins == 0, 0.0, margins / std)
    return np.clip(z, -1e150, 1e150)  # far beyond any probability, yet its square is finite


def _log_loss(z: Array) -> float:
    return float(-log_ndtr(z).mean())
