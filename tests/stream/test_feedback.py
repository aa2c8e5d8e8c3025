from collections import Counter
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from similia.feedback import Judgements
from similia.stream import feedback_report
from similia.stream.feedback import Witness


def triplet_arrays():
    shape = st.tuples(st.integers(0, 60), st.just(3))
    return hnp.arrays(np.int64, shape, elements=st.integers(0, 3))


def naive_triplet_report(triplets):
    counts = Counter(map(tuple, triplets.tolist()))
    return {
        "n": len(triplets),
        "n_distinct": len(counts),
        "n_duplicates": sum(c - 1 for c in counts.values()),
        "n_contradictions": sum(a < b and (q, b, a) in counts for q, a, b in counts),
        "n_degenerate": sum(c for (_, a, b), c in counts.items() if a == b),
        "n_queries": len({q for q, _, _ in counts}),
    }


def naive_pair_report(pairs, signs):
    rows = [(min(p), max(p), s) for p, s in zip(pairs.tolist(), signs.tolist(), strict=True)]
    counts = Counter(rows)
    return {
        "n": len(rows),
        "n_distinct": len(counts),
        "n_duplicates": sum(c - 1 for c in counts.values()),
        "n_contradictions": sum(a != b and s == 1 and (a, b, -1) in counts for a, b, s in counts),
        "n_degenerate": sum(c for (a, b, _), c in counts.items() if a == b),
        "n_queries": len({point for pair in pairs.tolist() for point in pair}),
    }


@settings(max_examples=200, deadline=None)
@given(triplets=triplet_arrays())
def test_triplet_report_equals_the_naive_count(triplets):
    assert feedback_report(triplets).to_dict() == naive_triplet_report(triplets)


@settings(max_examples=200, deadline=None)
@given(rows=triplet_arrays())
def test_pair_report_equals_the_naive_count(rows):
    pairs, signs = rows[:, :2], np.where(rows[:, 2] > 1, 1, -1)
    assert feedback_report(pairs, signs).to_dict() == naive_pair_report(pairs, signs)


def test_indices_may_be_huge():
    top = np.iinfo(np.int64).max - 1
    triplets = [[top, top, 0], [top, 0, top], [top, top, 0]]
    assert feedback_report(triplets).n_contradictions == 1


def test_unsigned_indices_are_compared_as_numbers():
    triplets = np.array([[0, 200, 1], [0, 1, 200], [0, 200, 1]], dtype=np.uint8)
    assert feedback_report(triplets).to_dict() == naive_triplet_report(triplets.astype(int))


def test_report_reads_as_a_sentence_and_is_frozen():
    report = feedback_report([[0, 1, 2], [0, 1, 2], [0, 2, 1], [3, 4, 4]])
    assert str(report) == (
        "4 judgements of 2 queries: 3 distinct, 1 duplicates, 1 contradictions, 1 degenerate."
    )
    with pytest.raises(FrozenInstanceError):
        report.n = 3


@pytest.mark.parametrize(
    ("tuples", "signs", "words"),
    [
        ([[0, 1]], None, r"triplets must be an integer array of shape \(n_triplets, 3\)"),
        ([[0, 1, 2]], [1], r"pairs must be an integer array of shape \(n_pairs, 2\)"),
        ([[0.0, 1.0, 2.0]], None, "dtype float64"),
        ([[0, -1, 2]], None, "column 1 of triplets must be row indices .* got -1 in row 0"),
        ([[0, 1]], [1, -1], r"signs must be \+1 or -1 for each pair, got shape \(2,\) for 1"),
        ([[0, 1]], [0], "got other values"),
        ([[0, 1]], ["+"], "got other values"),
    ],
)
def test_other_feedback_is_refused(tuples, signs, words):
    with pytest.raises(ValueError, match=rf"^feedback_report: .*{words}"):
        feedback_report(tuples, signs)


def test_a_witness_reports_the_first_judgements_and_counts_all(rng):
    rows = np.array([[0, 1, 2], [0, 1, 2], [0, 2, 1], [3, 4, 4], [0, 1, 2]])
    batch = Judgements(rows, None, np.arange(5))
    witness = Witness(limit=4)
    for part in (slice(0, 2), slice(2, 5)):
        witness.add(batch.part(part))
    report = witness.report()
    assert report["n"] == 5
    assert report["n_examined"] == 4
    assert (report["n_duplicates"], report["n_contradictions"], report["n_degenerate"]) == (1, 1, 1)
