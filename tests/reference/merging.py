"""Merging, written out: the mean of parts, each an estimate of one learner of everything."""

import numpy as np


def merged_mean(states, counts):
    """Mean of matrices, weighted by the judgements that each part learnt."""
    total = np.zeros_like(states[0])
    for state, count in zip(states, counts, strict=True):
        total += count * state
    return total / sum(counts)


def merged_covariance(covariances):
    """Inverse of the mean of the inverses."""
    total = np.zeros_like(covariances[0])
    for covariance in covariances:
        total += np.linalg.inv(covariance)
    return np.linalg.inv(total / len(covariances))


def merged_average(lasts, averages, counts):
    """State to score with: the last states, and a k-th of the way to the means over the streams."""
    k = len(lasts)
    last, average = merged_mean(lasts, counts), merged_mean(averages, counts)
    return (1 - 1 / k) * last + average / k
