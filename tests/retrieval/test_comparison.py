import numpy as np
import pytest

from similia.retrieval import Evaluation, compare


def evaluation(values, n_items=10):
    values = np.asarray(values, dtype=float)
    return Evaluation({"map": values}, (~np.isnan(values)).astype(np.int64), n_items)


def test_interval_covers_the_true_mean_about_as_often_as_it_says(rng):
    covered = 0
    for _ in range(200):
        low, high = evaluation(rng.beta(2, 5, size=80)).interval("map", 0.9, 400)
        covered += low <= 2 / 7 <= high
    assert 0.8 < covered / 200 < 0.97


def test_interval_is_seeded_and_leaves_out_unjudged_queries(rng):
    values = rng.random(50)
    result = evaluation(np.r_[values, np.nan])
    assert result.interval("map") == result.interval("map", random_state=0)
    assert result.interval("map") == evaluation(values).interval("map")
    assert result.interval("map") != result.interval("map", random_state=1)
    state = np.random.RandomState(0)
    assert result.interval("map", random_state=state) != result.interval("map", random_state=state)


def test_wider_level_gives_wider_interval(rng):
    result = evaluation(rng.random(50))
    (a, b), (c, d) = result.interval("map", 0.8), result.interval("map", 0.99)
    assert c < a < result.means["map"] < b < d


def test_p_value_is_about_uniform_if_nothing_differs(rng):
    p = [
        compare(evaluation(rng.random(40)), evaluation(rng.random(40)), "map", n_resamples=200)
        for _ in range(200)
    ]
    below = np.mean([c.p_value < 0.1 for c in p])
    assert 0.03 < below < 0.2


def test_clear_difference_is_found_and_said(rng):
    base = 0.8 * rng.random(100)
    result = compare(evaluation(base + 0.1), evaluation(base), "map")
    assert result.p_value == pytest.approx(1 / 2001)
    assert result.better == "a"
    assert (result.wins, result.ties, result.losses) == (100, 0, 0)
    assert result.interval == pytest.approx((0.1, 0.1))
    assert str(result).startswith("map: a is better by 0.1000 (a ")


def test_comparison_turned_round_has_the_opposite_sign(rng):
    a, b = evaluation(rng.random(30)), evaluation(rng.random(30))
    there, back = compare(a, b, "map"), compare(b, a, "map")
    assert there.difference == -back.difference
    assert there.p_value == back.p_value
    assert (there.wins, there.losses) == (back.losses, back.wins)


def test_evaluation_equals_itself(rng):
    result = evaluation(rng.random(30))
    same = compare(result, result, "map")
    assert (same.p_value, same.difference, same.ties, same.better) == (1.0, 0.0, 30, None)
    assert "the difference of +0.0000 is within chance" in str(same)


def test_p_value_agrees_with_all_sign_flips():
    differences = np.array([0.3, 0.1, -0.2, 0.4, 0.25])
    signs = 1 - 2 * ((np.arange(32)[:, None] >> np.arange(5)) & 1)
    exact = np.mean(np.abs(signs @ differences) >= abs(differences.sum()) - 1e-9)
    result = compare(evaluation(differences), evaluation(np.zeros(5)), "map", n_resamples=20_000)
    assert result.p_value == pytest.approx(exact, abs=0.015)


@pytest.mark.parametrize(
    ("other", "measure", "message"),
    [
        (evaluation([0.1, 0.2]), "map", "must be evaluations of the same queries, got 3 and 2"),
        (evaluation([0.1, np.nan, 1]), "map", "must be evaluations of the same queries"),
        (evaluation([0.1, 1, 1], n_items=9), "map", "10 and 9 items"),
        (evaluation([0.1, 1, 1]), "mrr", "compare: measure must be 'map', got 'mrr'"),
        ("b", "map", "compare: b must be an Evaluation, got 'b'"),
    ],
)
def test_what_cannot_be_compared_is_refused(other, measure, message):
    with pytest.raises(ValueError, match=message):
        compare(evaluation([0.1, 0.2, 0.3]), other, measure)


def test_unknown_measure_is_refused():
    with pytest.raises(ValueError, match="name must be 'map', got 'auc'"):
        evaluation([0.1]).interval("auc")
