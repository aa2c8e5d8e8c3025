"""Arguments of a wrong kind are refused in words, where compiled or foreign code would not."""

import numpy as np
import pytest

from similia import (
    BM25,
    OASIS,
    POLA,
    Impressions,
    JudgedTransformer,
    JudgementEstimator,
    Promotion,
    click_preferences,
    click_rates,
    estimate_propensities,
    read_run,
    scaled_like,
)
from similia.files import Ids

X = np.eye(6)
TRIPLETS = np.array([[0, 1, 2], [3, 4, 5]])
LEARNER = OASIS(average=False).learn(X, TRIPLETS)
CALLS = {
    "click_preferences: impressions must be Impressions, got list": lambda _: click_preferences([]),
    "clicks: impressions must be Impressions, got NoneType": lambda _: click_rates([None]),
    "clicks: impressions must be Impressions, got str": lambda _: estimate_propensities("abc"),
    "BM25: texts must be strings, got 3 in row 1": lambda _: BM25().fit(["red", 3]),
    "BM25: texts must be several, such as a list, got NoneType": lambda _: BM25().fit(None),
    "BM25: texts must be several, such as a list, got str": lambda _: (
        BM25().fit(["red hat"]).queries("red")
    ),
    "Impressions: triplets must be an integer array": lambda _: Impressions.from_triplets([1, 2]),
    "Impressions: items must be a one-dimensional array": lambda _: Impressions(
        np.zeros(1, int), np.array([0, 1]), [3], np.ones(1), {}, np.ones(1), np.ones(1, bool)
    ),
    "feedback must be a path, or a table with named columns": lambda _: read_run(
        {"query": np.ones(3, complex)}, Ids(None, 3)
    ),
    "Promotion: triplets must be an integer array": lambda folder: Promotion(folder).challenge(
        LEARNER, X, [[0.5, 1, 2]]
    ),
    "Expected 2D array, got scalar": lambda folder: Promotion(folder).challenge(
        LEARNER, 3, TRIPLETS
    ),
    r"Promotion: relevance must be of shape \(6, 6\)": lambda folder: Promotion(
        folder
    ).challenge_by_relevance(LEARNER, X, X, np.ones(6)),
    "Expected 2D array, got 1D": lambda _: scaled_like(LEARNER, "cosine", [1.0, 2.0]),
    "JudgementEstimator.fit: judgements must be rows": lambda _: JudgementEstimator(OASIS(), X).fit(
        [1, 2, 3]
    ),
    "JudgedTransformer.fit: judgements must be rows": lambda _: JudgedTransformer(POLA()).fit(
        X, judgements=[[0, 1], [2, 3]], feedback=[1], rows=np.arange(6)
    ),
}


@pytest.mark.parametrize("words", CALLS)
def test_it_is_refused_in_words(words, tmp_path):
    with pytest.raises(ValueError, match=words):
        CALLS[words](tmp_path)


def test_weights_of_judgements_must_fit_into_memory(monkeypatch):
    monkeypatch.setattr("similia.model_selection.memory", lambda: 10**6)
    with pytest.raises(ValueError, match="sample_weight must be small enough for"):
        JudgementEstimator(OASIS(), X).fit(TRIPLETS, sample_weight=[1, 10**12])
