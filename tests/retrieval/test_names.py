import numpy as np
import pytest

from similia import evaluate
from similia.retrieval.names import measure_named


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("nDCG@10", "ndcg@10"),
        ("ndcg@10", "ndcg@10"),
        ("P@5", "precision@5"),
        ("R@100", "recall@100"),
        ("Recall@3", "recall@3"),
        ("AP", "map"),
        ("AP@100", "map@100"),
        ("MAP", "map"),
        ("RR", "mrr"),
        ("RR@10", "mrr@10"),
        ("Rprec", "r_precision"),
        ("nDCG", "ndcg"),
    ],
)
def test_names_of_ir_measures_are_understood(given, name):
    assert measure_named("evaluate", given).name == name


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("ncdg@10", "did you mean ndcg@10"),
        ("precison@5", "did you mean precision@5"),
        ("nDGC", "did you mean ndcg"),
        ("Rprec@5", "has no cut-off"),
        ("ndcg@", "with a cut-off or without, got 'ndcg@'"),
        ("ndcg@0", "got 'ndcg@0'"),
        ("ndcg@-1", "got 'ndcg@-1'"),
        ("ndcg@ten", "got 'ndcg@ten'"),
        ("luck", r"got 'luck'\.$"),
        (10, "got 10"),
        (None, "got None"),
    ],
)
def test_near_misses_are_refused_and_guessed_at(given, words):
    with pytest.raises(ValueError, match=f"^evaluate: measures must be one of .*{words}"):
        measure_named("evaluate", given)


def test_a_measure_may_bring_its_own_cut_off(rng):
    X, y = rng.normal(size=(30, 4)), rng.integers(3, size=30)
    found = evaluate("cosine", X, labels=y, measures=["nDCG@7", "P", "RR@1", "AP"], k=[2, 3])
    assert list(found.per_query) == ["ndcg@7", "precision@2", "precision@3", "mrr@1", "map"]
    np.testing.assert_array_equal(
        found.per_query["mrr@1"], evaluate("cosine", X, labels=y, k=1).per_query["precision@1"]
    )
