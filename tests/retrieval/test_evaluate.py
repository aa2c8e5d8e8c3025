import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

from similia.retrieval import MEASURES, evaluate
from tests.retrieval import naive


def same_values(a, b):
    assert list(a.per_query) == list(b.per_query)
    for name, values in a.per_query.items():
        assert_allclose(values, b.per_query[name], err_msg=name)


def integers(rng, n, dtype=np.float64):
    """Vectors whose scores are exact in any precision and often tied."""
    return rng.integers(-2, 3, size=(n, 4)).astype(dtype)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_items=st.integers(1, 40),
    own=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
    gain=st.sampled_from(["linear", "exponential"]),
    block_bytes=st.sampled_from([1, 500, 2**20]),
)
def test_evaluation_equals_the_definitions(seed, n_items, own, dtype, gain, block_bytes):
    rng = np.random.default_rng(seed)
    n_queries = rng.integers(1, n_items + 1)
    Q, Z = integers(rng, n_queries, dtype), integers(rng, n_items, dtype)
    grades = np.maximum(0, rng.integers(-3, 4, (n_queries, n_items)))
    grades[0, -1] = 1 if n_items > 1 else grades[0, -1]
    function = (lambda g: g) if gain == "linear" else (lambda g: 2.0**g - 1)
    expected = [
        naive.measures(Q[i] @ Z.T, grades[i], (1, 3, 50), i if own else -1, function)
        for i in range(n_queries)
    ]
    options = {"k": (1, 3, 50), "gain": gain, "exclude_self": own, "block_bytes": block_bytes}
    if np.isnan([values["map"] for values in expected]).all():
        return
    result = evaluate("inner_product", Q, Z, relevance=grades, **options)
    for name, values in result.per_query.items():
        assert_allclose(values, [query[name] for query in expected], err_msg=name)


def test_labels_equal_the_relevance_they_mean(rng):
    Q, Z = integers(rng, 20), integers(rng, 50)
    y_queries, y_items = rng.integers(0, 6, 20), rng.integers(1, 5, 50)
    relevance = y_queries[:, None] == y_items
    by_labels = evaluate("cosine", Q, Z, labels=(y_queries, y_items))
    same_values(by_labels, evaluate("cosine", Q, Z, relevance=relevance))
    assert by_labels.n_left_out == np.isin(y_queries, [0, 5]).sum()


def test_without_items_queries_are_ranked_against_each_other_but_not_themselves(rng):
    X, y = integers(rng, 30), rng.integers(0, 3, 30)
    itself = evaluate("cosine", X, labels=y)
    same_values(itself, evaluate("cosine", X, X, labels=(y, y), exclude_self=True))
    kept = evaluate("cosine", X, labels=y, exclude_self=False)
    assert np.array_equal(kept.n_relevant, itself.n_relevant + 1)


def test_text_labels_work(rng):
    X, y = integers(rng, 30), rng.integers(0, 3, 30)
    same_values(evaluate("cosine", X, labels=y), evaluate("cosine", X, labels=y.astype(str)))


@pytest.mark.parametrize("block_bytes", [1, 1000])
def test_result_does_not_depend_on_the_block(rng, block_bytes):
    X, y = rng.normal(size=(40, 4)), rng.integers(0, 3, 40)
    whole = evaluate("euclidean", X, labels=y)
    same_values(whole, evaluate("euclidean", X, labels=y, block_bytes=block_bytes))


def test_monotone_map_of_the_scores_changes_nothing(rng):
    X, y = integers(rng, 40), rng.integers(0, 3, 40)
    plain = evaluate(lambda Q, Z: Q @ Z.T, X, labels=y)
    same_values(plain, evaluate(lambda Q, Z: np.exp((Q @ Z.T) / 4) - 9, X, labels=y))


def test_order_of_items_changes_nothing_without_ties(rng):
    Q, Z, grades = rng.normal(size=(5, 3)), rng.normal(size=(30, 3)), rng.integers(0, 3, (5, 30))
    p = rng.permutation(30)
    moved = evaluate("euclidean", Q, Z[p], relevance=grades[:, p])
    same_values(evaluate("euclidean", Q, Z, relevance=grades), moved)


def test_perfect_scorer_has_all_ones(rng):
    y = rng.integers(0, 3, 40)
    result = evaluate(lambda q, z: q == z.T, y[:, None], labels=y, k=2)
    assert result.means.pop("recall@2") < 1
    assert all(value == 1 for name, value in result.means.items() if name != "recall@2")


def test_sparse_grades_equal_dense_grades(rng):
    X, grades = integers(rng, 30), np.maximum(0, rng.integers(-3, 3, (30, 30)))
    dense = evaluate("cosine", X, relevance=grades)
    same_values(dense, evaluate("cosine", X, relevance=sparse.coo_array(grades)))


def test_memory_is_bounded_by_the_block(rng):
    X, y = rng.normal(size=(4000, 2)), rng.integers(0, 400, 4000)
    evaluate("cosine", X[:50], labels=y[:50] % 2)
    full, block = 8 * 4000**2, 2**20
    tracemalloc.start()
    evaluate("cosine", X, labels=y, block_bytes=block)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * block < full / 25


def test_result_is_readable_by_people_and_by_machines(rng):
    X, y = integers(rng, 30), np.r_[rng.integers(0, 2, 29), 7]
    result = evaluate("cosine", X, labels=y, k=3)
    assert list(result.means) == ["precision@3", "recall@3", "ndcg@3", "map", "mrr", "r_precision"]
    assert (result.n_judged, result.n_left_out) == (29, 1)
    data = json.loads(json.dumps(result.to_dict()))
    assert data["means"]["map"] == pytest.approx(np.nanmean(result.per_query["map"]))
    lines = str(result).splitlines()
    assert len({len(line) for line in lines[:-1]}) <= 2
    assert lines[-1] == "29 queries, 30 items; 1 more queries without relevant items left out"


def test_measures_can_be_chosen(rng):
    X, y = integers(rng, 20), rng.integers(0, 2, 20)
    result = evaluate("cosine", X, labels=y, k=[2, 4], measures=("mrr", "precision"))
    assert list(result.per_query) == ["mrr", "precision@2", "precision@4"]
    assert list(evaluate("cosine", X, labels=y, measures="map").per_query) == ["map"]


X = np.eye(4)
y = np.array([0, 0, 1, 1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 0}, "evaluate: k must be a positive integer, got 0."),
        ({"k": ()}, "evaluate: k must not be empty."),
        ({"measures": ("mrr", "auc")}, "measures must be one of 'precision', 'recall', 'ndcg'"),
        ({"relevance": X}, "one of labels and relevance must be given, got both"),
        ({"labels": None}, "one of labels and relevance must be given, got neither"),
        ({"labels": y[:3]}, r"labels must be of shape \(4,\), got shape \(3,\)"),
        ({"labels": y * np.nan}, "labels must be without NaN, got one in row 0"),
        ({"labels": [0, 1, 2, 3]}, "at least one of the 4 queries must have a relevant item"),
        ({"Z": X}, "labels must be a pair"),
        ({"Z": X, "labels": (y, y[:3])}, r"labels\[1\] must be of shape \(4,\)"),
        ({"Z": X, "labels": (y, y.astype(str))}, "labels must be of one kind"),
        ({"Z": X[:3], "labels": (y, y[:3]), "exclude_self": True}, "exclude_self must be False"),
        ({"Z": X[:, :2], "labels": (y, y)}, "Q and Z must be matrices with the same number of col"),
        ({"Z": X[:0]}, "Z must be an array with rows"),
        ({"Q": X[:0]}, "Q must be an array with rows"),
        ({"labels": None, "relevance": -X}, "relevance must be finite grades of at least 0, got -"),
        ({"labels": None, "relevance": X[:3]}, r"relevance must be of shape \(4, 4\)"),
        ({"labels": None, "relevance": X.astype(str)}, "relevance must be numbers"),
        ({"labels": None, "relevance": 1e3 * X, "gain": "exponential"}, "at most 512"),
        ({"gain": "cubic"}, "gain must be one of 'linear', 'exponential', got 'cubic'"),
        ({"scorer": "dot"}, "scorer must be one of 'cosine', 'inner_product', 'euclidean'"),
        ({"scorer": 3}, "scorer must be a learner"),
        ({"scorer": lambda q, z: q[:, :2]}, r"scores must be numbers of shape \(4, 4\)"),
        ({"scorer": lambda q, z: np.diag([0, 0, np.nan, 0])}, "finite, got nan for query 2"),
        ({"Q": np.diag([1, np.inf, 1, 1])}, "Q must be finite, but it contains NaN"),
        ({"Q": X.astype(str)}, "Q must be numbers, got dtype <U32"),
        ({"scorer": "euclidean", "Q": 1e200 * X}, "scores must be finite, got nan for query 0"),
        ({"block_bytes": 0}, "block_bytes must be a positive integer"),
    ],
)
def test_bad_input_is_refused_in_words(change, message):
    arguments = {"scorer": "cosine", "Q": X, "labels": y, **change}
    with pytest.raises(ValueError, match=message):
        evaluate(**arguments)


def test_every_measure_has_a_place_in_the_result():
    names = {name.split("@")[0] for name in evaluate("cosine", X, labels=y).per_query}
    assert names == set(MEASURES)
