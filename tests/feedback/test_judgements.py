import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from similia.feedback import FeedbackFile, Judgements, joined, triplets_of_grades
from similia.feedback.clicks.rates import shrunk_rates
from similia.files import BadRows, Ids


def judgements(rows):
    rows = np.array(rows, dtype=float).reshape(-1, 3)
    return Judgements(rows[:, :2].astype(int), rows[:, 2], np.arange(1, len(rows) + 1))


rows = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 4), st.sampled_from([0, 0.5, 1, 2])), max_size=25
)


@given(rows, st.sampled_from(["ignore", "worse"]), st.integers(2, 30))
def test_better_items_have_higher_mean_grades_in_their_window(rows, unjudged, window):
    found = list(
        triplets_of_grades(
            iter([judgements(rows)] if rows else []), (4, 5), unjudged=unjudged, window=window
        )
    )
    starts = {part.numbers[0]: part for part in found}
    for begin in range(0, len(rows), window):
        grades = {}
        for query, item, grade in rows[begin : begin + window]:
            grades.setdefault((query, item), []).append(grade)
        means = {key: np.mean(values) for key, values in sorted(grades.items())}
        counts = np.array([len(grades[key]) for key in means], float)
        if counts.min() < counts.max():
            rates, *_ = shrunk_rates(counts * list(means.values()), counts)
            means = {key: rate if means[key] else 0 for key, rate in zip(means, rates, strict=True)}
        allowed = {
            (q, a, b)
            for (q, a), high in means.items()
            for b in range(5)
            if (q, b) in means or unjudged == "worse"
            if high > means.get((q, b), 0)
        }
        drawn = (
            {tuple(t) for t in starts[begin + 1].tuples.tolist()} if begin + 1 in starts else set()
        )
        assert drawn <= allowed
        assert bool(drawn) == bool(allowed)


def test_nine_clicks_of_ten_beat_one_of_one():
    seen = [[0, 1, 1]] + [[0, 2, 1]] * 9 + [[0, 2, 0]] + [[0, 3, 0]] * 10
    drawn = joined(list(triplets_of_grades(iter([judgements(seen)]), (1, 4)))).tuples
    assert set(map(tuple, drawn.tolist())) == {(0, 2, 1), (0, 2, 3), (0, 1, 3)}


def test_each_judgement_gives_four_triplets_and_the_same_each_time():
    batch = judgements([[0, 0, 1], [0, 1, 0], [1, 2, 3], [1, 3, 1]])
    first, again = (joined(list(triplets_of_grades(iter([batch]), (2, 4)))) for _ in range(2))
    assert len(first) == 16
    np.testing.assert_array_equal(first.tuples, again.tuples)
    other = joined(list(triplets_of_grades(iter([batch]), (2, 4), random_state=1)))
    assert not np.array_equal(first.tuples, other.tuples)


@pytest.mark.parametrize(("unjudged", "n"), [("ignore", 4), ("worse", 12)])
def test_files_of_grades_give_triplets(unjudged, n, tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("query,item,relevance\n0,1,1\n0,2,0\n1,3,1\n")
    file = FeedbackFile(
        path, "triplets", Ids(None, 2), Ids(None, 5), unjudged=unjudged, bad_rows=BadRows()
    )
    found = joined(list(file))
    assert len(found) == 12
    if unjudged == "ignore":
        assert set(map(tuple, found.tuples.tolist())) == {(0, 1, 2)}
    else:
        assert set(found.tuples[:, 0]) == {0, 1}
    assert n <= len(found)
