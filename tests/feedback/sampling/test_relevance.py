from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from similia.feedback.grades import RelevanceTriplets

from .strategies import chi_square_p, seeds


def probabilities(judged, n_queries, n_documents, unjudged):
    """Enumerate the allowed triplets of a dictionary from (query, document) to grade."""
    per_query = {}
    for q in range(n_queries):
        if unjudged == "worse":
            grade = {d: judged.get((q, d), 0) for d in range(n_documents)}
        else:
            grade = {d: judged[q, d] for d in range(n_documents) if (q, d) in judged}
        lower = {b: [w for w in grade if grade[w] < grade[b]] for b in grade}
        lower = {b: worse for b, worse in lower.items() if worse}
        if lower:
            per_query[q] = lower
    return {
        (q, b, w): float(Fraction(1, len(per_query) * len(lower) * len(worse)))
        for q, lower in per_query.items()
        for b, worse in lower.items()
        for w in worse
    }


def matrix_of(judged, shape, kind):
    keys = list(judged)
    rows, columns = [q for q, _ in keys], [d for _, d in keys]
    coo = sp.coo_array((np.array(list(judged.values()), float), (rows, columns)), shape=shape)
    return {"csr": sp.csr_array, "csr_matrix": sp.csr_matrix, "csc": sp.csc_array}[kind](coo)


@st.composite
def judgements(draw):
    shape = (draw(st.integers(1, 4)), draw(st.integers(2, 6)))
    cell = st.tuples(st.integers(0, shape[0] - 1), st.integers(0, shape[1] - 1))
    return shape, draw(st.dictionaries(cell, st.integers(0, 3), min_size=1))


@settings(max_examples=80, deadline=None)
@given(
    given_=judgements(),
    unjudged=st.sampled_from(["worse", "ignore"]),
    kind=st.sampled_from(["csr", "csr_matrix", "csc"]),
    seed=seeds,
)
def test_support_is_every_allowed_triplet(given_, unjudged, kind, seed):
    shape, judged = given_
    expected = probabilities(judged, *shape, unjudged)
    matrix = matrix_of(judged, shape, kind)
    if not expected:
        with pytest.raises(ValueError, match="some document above another"):
            RelevanceTriplets(matrix, unjudged)
        return
    n = int(25 / min(expected.values()))  # a miss has probability below e^-25 per triplet
    drawn = RelevanceTriplets(matrix, unjudged).draw(n, np.random.default_rng(seed))
    assert drawn.dtype == np.intp
    assert set(map(tuple, drawn.tolist())) == expected.keys()


JUDGED = {(0, 1): 2, (0, 4): 1, (0, 0): 0, (0, 6): 2, (2, 3): 1, (2, 2): 3, (2, 5): 0, (3, 3): 0}


@pytest.mark.parametrize("unjudged", ["worse", "ignore"])
def test_triplets_have_the_documented_distribution(unjudged, rng):
    expected = probabilities(JUDGED, 4, 7, unjudged)
    assert sum(expected.values()) == pytest.approx(1.0)
    drawn = RelevanceTriplets(matrix_of(JUDGED, (4, 7), "csr"), unjudged).draw(60_000, rng)
    assert chi_square_p(drawn, expected) > 0.001


@pytest.mark.parametrize("unjudged", ["worse", "ignore"])
@pytest.mark.parametrize("dtype", [int, np.float32, bool, np.uint8])
def test_every_entry_of_a_dense_array_is_judged(unjudged, dtype, rng):
    grades = rng.integers(3, size=(4, 5)).astype(dtype)
    judged = {(q, d): int(grades[q, d]) for q in range(4) for d in range(5)}
    drawn = RelevanceTriplets(grades, unjudged).draw(5000, rng)
    expected = probabilities(judged, 4, 5, unjudged)
    assert set(map(tuple, drawn.tolist())) == expected.keys()


def test_a_stored_zero_is_a_judgement(rng):
    stored = matrix_of({(0, 0): 1, (0, 2): 0}, (1, 4), "csr")
    assert set(RelevanceTriplets(stored, "ignore").draw(50, rng)[:, 2]) == {2}
    assert set(RelevanceTriplets(stored, "worse").draw(200, rng)[:, 2]) == {1, 2, 3}


def test_many_unjudged_documents_are_never_listed(rng):
    n_queries, n_documents = 100, 10**9
    query = np.repeat(np.arange(n_queries), 20)
    document = rng.integers(n_documents, size=len(query))
    document[::20], document[1::20] = 0, n_documents - 1
    matrix = sp.csr_array((np.ones(len(query)), (query, document)), shape=(n_queries, n_documents))
    drawn = RelevanceTriplets(matrix).draw(20_000, rng)
    judged = set(zip(query.tolist(), document.tolist(), strict=True))
    assert all((q, b) in judged and (q, w) not in judged for q, b, w in drawn.tolist())
    assert abs(drawn[:, 2].mean() / n_documents - 0.5) < 4 * np.sqrt(1 / 12 / 20_000)


def test_unsorted_and_duplicate_entries_are_understood_and_left_alone(rng):
    data, columns = np.array([1.0, 1.0, 1.0]), np.array([2, 0, 2])
    matrix = sp.csr_array((data, columns, [0, 3]), shape=(1, 3))
    drawn = RelevanceTriplets(matrix).draw(500, rng)
    assert set(map(tuple, drawn.tolist())) == {(0, 2, 0), (0, 2, 1), (0, 0, 1)}
    assert matrix.indices.tolist() == [2, 0, 2]
    assert matrix.nnz == 3


def test_the_seed_decides_the_triplets_and_the_stream_goes_on():
    sampler, rng = RelevanceTriplets(matrix_of(JUDGED, (4, 7), "csr")), np.random.default_rng(3)
    first = sampler.draw(50, rng)
    assert np.array_equal(first, sampler.draw(50, np.random.default_rng(3)))
    assert not np.array_equal(first, sampler.draw(50, rng))
    assert sampler.draw(0, rng).shape == (0, 3)


@pytest.mark.parametrize(
    ("relevance", "unjudged", "words"),
    [
        ([1, 0], "worse", r"relevance must be a matrix .* got shape \(2,\)"),
        ([["a", "b"]], "worse", "relevance must be real numbers, got dtype"),
        ([[1.0, -2.0]], "worse", "of at least 0, got -2.0 for query 0 and document 1"),
        ([[1.0, np.nan]], "worse", "finite grades .* got nan .* sparse matrix"),
        ([[1.0, np.inf]], "ignore", "finite grades"),
        (sp.csr_array([[0.0, -1.0]]), "worse", "got -1.0 for query 0 and document 1"),
        (np.zeros((0, 3)), "worse", "got none in 0 queries"),
        (np.zeros((2, 0)), "worse", "got none in 2 queries"),
        ([[0, 0], [1, 1]], "worse", "got none in 2 queries; add a positive grade"),
        (sp.csr_array([[0, 1]]), "ignore", 'or use unjudged="worse"'),
        ([[0, 1]], "best", "unjudged must be one of 'worse', 'ignore', got 'best'"),
    ],
)
def test_grades_without_triplets_are_refused(relevance, unjudged, words):
    with pytest.raises(ValueError, match=rf"^RelevanceTriplets: .*{words}"):
        RelevanceTriplets(relevance, unjudged)
