"""Whether the posterior's standard deviations mean what they say."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_ndtr, ndtr

from similia.validation import check_parameters, positive, positive_integer

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Calibration:
    """Confidence in the preferred order against how often that order is right.

    Attributes
    ----------
    confidence, accuracy : arrays of shape (n_bins,)
        Mean confidence of the judgements in a bin, and the share of them in which the order that
        the model prefers is right; NaN in a bin without judgements.
    count : array of shape (n_bins,)
        Judgements in a bin.
    edges : array of shape (n_bins + 1,)
        From 0.5 to 1.
    error : float
        Expected calibration error: Σ count·|accuracy - confidence| / Σ count.
    log_loss : float
        Mean of -log P(better above worse): lower is better, and confident mistakes cost much.
    scale : float
        Factor of the standard deviations that was applied.
    """

    confidence: Floats
    accuracy: Floats
    count: NDArray[np.int64]
    edges: Floats
    error: float
    log_loss: float
    scale: float

    @property
    def n(self) -> int:
        """Number of judgements."""
        return int(self.count.sum())

    @property
    def overconfidence(self) -> float:
        """Mean confidence minus share of right orders: positive if the model is too sure."""
        weights = self.count / self.count.sum()
        gaps = np.where(self.count > 0, self.confidence - self.accuracy, 0.0)
        return float(weights @ gaps)

    def __str__(self) -> str:
        verdict = "too sure" if self.overconfidence > 0 else "not sure enough"
        return (
            f"Expected calibration error {self.error:.4f} over {self.n} judgements "
            f"({verdict} by {abs(self.overconfidence):.4f}); log loss {self.log_loss:.4f}; "
            f"std scaled by {self.scale:.3g}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Give everything as plain values, ready for JSON; None stands for an empty bin."""
        bins = {
            name: [None if np.isnan(v) else float(v) for v in getattr(self, name)]
            for name in ("confidence", "accuracy")
        }
        return {
            "error": self.error,
            "overconfidence": self.overconfidence,
            "log_loss": self.log_loss,
            "scale": self.scale,
            "n": self.n,
            "edges": self.edges.tolist(),
            **bins,
            "count": self.count.tolist(),
        }


def calibration(margins: Any, std: Any, *, scale: float = 1.0, n_bins: int = 10) -> Calibration:
    """Compare P(better above worse) = Φ(margin / (scale·std)) with how often it is so.

    A triplet has no label of its own: its better item is always named first. So what is compared is
    the confidence Φ(|margin| / (scale·std)) in the order that the model prefers, with the share of
    triplets in which that order is right; a margin of 0 is right by half.

    Parameters
    ----------
    margins, std : arrays of shape (n_triplets,)
        Scores of triplets and their posterior standard deviations, as ``triplet_scores(...,
        return_std=True)`` gives them, of triplets that were not learnt from.
    scale : positive number
        Factor of the standard deviations; `chosen_scale` finds one. Larger is less sure.
    n_bins : int
        Bins of equal width between 0.5 and 1.

    Returns
    -------
    Calibration

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> mean, std = rng.normal(size=10_000), np.full(10_000, 0.5)
    >>> truth = rng.normal(mean, std)
    >>> honest = calibration(np.where(truth > 0, mean, -mean), std)
    >>> honest.error < 0.02
    True
    """
    margins, std = _checked("calibration", margins, std)
    rules = {"scale": positive, "n_bins": positive_integer}
    check_parameters("calibration", rules, {"scale": scale, "n_bins": n_bins})
    z = _standardized(margins, std * scale)
    confidence = ndtr(np.abs(z))
    right = np.where(margins == 0, 0.5, margins > 0)
    edges = np.linspace(0.5, 1.0, n_bins + 1)
    place = np.clip(np.searchsorted(edges, confidence, side="right") - 1, 0, n_bins - 1)
    count = np.bincount(place, minlength=n_bins)
    with np.errstate(invalid="ignore"):
        mean_confidence = np.bincount(place, confidence, n_bins) / count
        accuracy = np.bincount(place, right, n_bins) / count
    filled = count > 0
    gaps = np.abs(accuracy[filled] - mean_confidence[filled])
    return Calibration(
        confidence=mean_confidence,
        accuracy=accuracy,
        count=count,
        edges=edges,
        error=float(count[filled] @ gaps / count.sum()),
        log_loss=_log_loss(z),
        scale=float(scale),
    )


def chosen_scale(margins: Any, std: Any) -> float:
    """Give the factor of the standard deviations that makes held-out orders most likely.

    It solves min over s > 0 of Σ -log Φ(margin / (s·std)), a proper score: with enough judgements
    it rewards honest confidence and nothing else. Choose it on some queries and use it on others.

    Parameters
    ----------
    margins, std : arrays of shape (n_triplets,)
        As in `calibration`.

    Returns
    -------
    scale : float
        Between 1e-4 and 1e4; above 1 where the model was too sure.
    """
    margins, std = _checked("chosen_scale", margins, std)
    z = _standardized(margins, std)
    found = minimize_scalar(
        lambda log_scale: _log_loss(z * np.exp(-log_scale)),
        bounds=(np.log(1e-4), np.log(1e4)),
        method="bounded",
        options={"xatol": 1e-6},
    )
    return float(np.exp(found.x))


def calibration_of(
    learner: Any,
    X: Any,
    triplets: Any,
    *,
    items: Any = None,
    scale: float = 1.0,
    n_bins: int = 10,
) -> Calibration:
    """Check the uncertainty of a fitted learner on triplets that it has not learnt from.

    Parameters
    ----------
    learner : fitted learner
        One whose ``triplet_scores`` takes ``return_std=True``.
    X : array or CSR matrix of shape (n_queries, n_features)
    triplets : integer array of shape (n_triplets, 3)
    items : array or CSR matrix of shape (n_items, n_item_features), optional
    scale : positive number
        As in `calibration`.
    n_bins : int

    Returns
    -------
    Calibration
    """
    if not hasattr(learner, "sample_posterior"):
        raise ValueError(
            "calibration_of: learner must know how sure it is (a posterior), "
            f"got {type(learner).__name__}; use FactoredAROMA or DiagonalAROMA."
        )
    margins, std = learner.triplet_scores(X, triplets, items=items, return_std=True)
    return calibration(margins, std, scale=scale, n_bins=n_bins)


def _checked(owner: str, margins: Any, std: Any) -> tuple[Floats, Floats]:
    margins, std = np.asarray(margins, dtype=float), np.asarray(std, dtype=float)
    if margins.ndim != 1 or margins.shape != std.shape or len(margins) == 0:
        raise ValueError(
            f"{owner}: margins and std must be two arrays of the same length, at least one, "
            f"got shapes {margins.shape} and {std.shape}."
        )
    if not (np.isfinite(margins).all() and np.isfinite(std).all() and (std >= 0).all()):
        raise ValueError(f"{owner}: margins must be finite, and std finite and at least 0.")
    return margins, std


def _standardized(margins: Floats, std: Floats) -> Floats:
    """Give margin / std; no margin is sure of nothing, even without deviation."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        z = np.where(margins == 0, 0.0, margins / std)
    return np.clip(z, -1e150, 1e150)  # beyond any probability, and its square still a number


def _log_loss(z: Floats) -> float:
    return float(-log_ndtr(z).mean())
