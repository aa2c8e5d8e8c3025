"""Means of Gaussian posteriors over vectors and matrices.

Learners that share a start each multiplied it by a likelihood of their own. Where a part counts
each of its judgements k times, k parts are k estimates of the posterior of everything, so their
precisions are averaged: 1/Σ₀ + Σᵢ δᵢ = meanᵢ(1/Σ₀ + k δᵢ). Adding natural parameters of parts that
count once is the same for exact posteriors, but not for diagonal or factored ones. They hardly
shrink along a correction that spans many entries, so one that all parts make is added k times.
"""

import numpy as np
from scipy import linalg


def mean_precision(covariances):
    """Inverse of the mean inverse of some covariance matrices."""
    dtype = covariances[0].dtype
    return _inverse(sum(map(_inverse, covariances)) / len(covariances)).astype(dtype)


def mean_variances(variances):
    """Harmonic mean of some variances, entry by entry."""
    # A variance that was rounded to zero becomes the smallest that can be inverted.
    tiny = np.finfo(variances[0].dtype).tiny ** 0.5
    return len(variances) / sum(1.0 / np.maximum(v, tiny) for v in variances)


def mean_posterior(parts):
    """Mean vector and covariance of the mean natural parameters of some (mean, covariance).

    The posterior of all data, if the parts are exact ones of linear regression that count each of
    their observations as often as there are parts.
    """
    precisions = [_inverse(A) for _, A in parts]
    covariance = _inverse(sum(precisions) / len(parts))
    naturals = (B @ mean for B, (mean, _) in zip(precisions, parts, strict=True))
    mean = covariance @ (sum(naturals) / len(parts))
    return mean.astype(parts[0][0].dtype), covariance.astype(parts[0][0].dtype)


def _inverse(A):
    inverse = linalg.inv(np.asarray(A, dtype=np.float64))
    return (inverse + inverse.T) / 2
