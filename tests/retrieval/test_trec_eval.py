"""Measures agree with trec_eval, ties included."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from similia import evaluate
from similia.retrieval.names import measure_named

pytrec_eval = pytest.importorskip("pytrec_eval")

NAMES = {
    "P@5": "P_5",
    "R@10": "recall_10",
    "nDCG@10": "ndcg_cut_10",
    "AP": "map",
    "AP@10": "map_cut_10",
    "RR": "recip_rank",
    "Rprec": "Rprec",
}


@settings(max_examples=60, deadline=None)
@given(
    n_items=st.integers(1, 40),
    levels=st.integers(1, 12),
    highest=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_measures_are_those_of_trec_eval(n_items, levels, highest, seed):
    rng = np.random.default_rng(seed)
    scores = rng.integers(levels, size=(5, n_items)) / 4.0  # few values, so many ties
    grades = rng.integers(highest + 1, size=(5, n_items)) * (rng.random((5, n_items)) < 0.4)
    grades[0, 0] = 1
    # trec_eval puts the later name first where scores are equal; we, the earlier row.
    names = [f"d{n_items - i:03}" for i in range(n_items)]
    judged = {f"q{q}": dict(zip(names, map(int, row), strict=True)) for q, row in enumerate(grades)}
    run = {f"q{q}": dict(zip(names, map(float, row), strict=True)) for q, row in enumerate(scores)}
    evaluator = pytrec_eval.RelevanceEvaluator(judged, set(NAMES.values()))
    expected = evaluator.evaluate(run)
    found = evaluate(
        lambda Q, Z: scores[Q[:, 0].astype(int)],
        np.arange(5.0)[:, None],
        np.zeros((n_items, 1)),
        relevance=grades,
        measures=list(NAMES),
    )
    for ours, theirs in NAMES.items():
        values = found.per_query[measure_named("test", ours).name]
        for q in np.flatnonzero(grades.any(axis=1)):
            assert values[q] == pytest.approx(expected[f"q{q}"][theirs], abs=1e-6), ours
