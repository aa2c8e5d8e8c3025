import numpy as np
import pytest
from sklearn import metrics

from similia import retrieval
from similia.retrieval import relevant_ranks
from tests.retrieval import naive


def ranked_problem(rng, n=60):
    """Scores without ties, grades 0 to 3, and the ranks and gains of the relevant items."""
    scores = rng.permutation(n).astype(float)
    grades = np.maximum(0, rng.integers(-4, 4, n)).astype(float)
    items = np.flatnonzero(grades)
    ranks, order = relevant_ranks(scores, items, -1)
    return scores, grades, ranks, grades[items][order]


def values(ranks, gains, k):
    return [
        retrieval.precision_at_k(ranks, k),
        retrieval.recall_at_k(ranks, k),
        retrieval.ndcg_at_k(ranks, gains, k),
        retrieval.average_precision(ranks),
        retrieval.reciprocal_rank(ranks),
        retrieval.r_precision(ranks),
    ]


@pytest.mark.parametrize("k", [1, 5, 60, 100])
def test_measures_equal_their_definitions(rng, k):
    scores, grades, ranks, gains = ranked_problem(rng)
    assert values(ranks, gains, k) == pytest.approx(
        list(naive.measures(scores, grades, [k]).values())
    )


@pytest.mark.parametrize("k", [1, 5, 60])
def test_ndcg_agrees_with_scikit_learn(rng, k):
    scores, grades, ranks, gains = ranked_problem(rng)
    expected = metrics.ndcg_score(grades[None], scores[None], k=k)
    assert retrieval.ndcg_at_k(ranks, gains, k) == pytest.approx(expected)


def test_average_precision_agrees_with_scikit_learn(rng):
    scores, grades, ranks, _ = ranked_problem(rng)
    expected = metrics.average_precision_score(grades > 0, scores)
    assert retrieval.average_precision(ranks) == pytest.approx(expected)


def test_reciprocal_rank_of_one_relevant_item_agrees_with_scikit_learn(rng):
    scores = rng.permutation(30).astype(float)
    relevant = np.arange(30) == 11
    ranks, _ = relevant_ranks(scores, np.array([11]), -1)
    expected = metrics.label_ranking_average_precision_score(relevant[None], scores[None])
    assert retrieval.reciprocal_rank(ranks) == pytest.approx(expected)


def test_perfect_ranking_has_all_ones():
    ranks, gains = np.arange(1, 8), np.array([3.0, 3, 2, 1, 1, 1, 1])
    assert values(ranks, gains, 7) == [1.0] * 6


def test_precision_divides_by_k_even_if_fewer_items_are_relevant():
    assert retrieval.precision_at_k(np.array([1, 2]), 10) == pytest.approx(0.2)


def test_query_without_relevant_items_has_no_measure():
    assert np.isnan(values(np.empty(0, np.int64), np.empty(0), 5)).all()


def test_exponential_gain_is_two_to_the_grade_less_one():
    assert retrieval.exponential_gain(np.array([0.0, 1, 2, 3])) == pytest.approx([0, 1, 3, 7])
