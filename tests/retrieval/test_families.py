import numpy as np
import pytest

from similia.retrieval import Evaluation, compare, compare_all


def evaluation(columns):
    per_query = {f"m{j}": column for j, column in enumerate(np.asarray(columns, float).T)}
    n = len(next(iter(per_query.values())))
    return Evaluation(per_query, np.ones(n, np.int64), 10)


def test_one_test_is_the_test_itself(rng):
    a, b = (evaluation(rng.random((40, 1))) for _ in range(2))
    single = compare(a, b, "m0", n_resamples=5000)
    found = compare_all({"a": a}, b, n_resamples=5000)["a"]["m0"]
    assert found.p_value == pytest.approx(single.p_value, abs=0.03)
    assert found.interval == pytest.approx(single.interval, abs=0.03)
    assert (found.difference, found.wins, found.n_tests) == (single.difference, single.wins, 1)


def test_copies_of_one_measure_count_as_one_test(rng):
    values, base = rng.random((40, 1)), rng.random((40, 1))
    one = compare_all({"a": evaluation(values)}, evaluation(base))["a"]["m0"]
    many = compare_all(
        {"a": evaluation(np.tile(values, 9)), "b": evaluation(np.tile(values, 9))},
        evaluation(np.tile(base, 9)),
    )["b"]["m5"]
    assert (many.p_value, many.interval) == (one.p_value, pytest.approx(one.interval))
    assert many.n_tests == 18
    assert "of 18 tests" in str(many)


def test_of_many_tests_without_a_difference_hardly_any_family_has_one_beyond_chance(rng):
    wrong = uncorrected = covered = 0
    for _ in range(60):
        base, others = rng.random((40, 8)), [rng.random((40, 8)) for _ in range(3)]
        given = {str(i): evaluation(values) for i, values in enumerate(others)}
        found = compare_all(given, evaluation(base), n_resamples=400)
        tests = [one for row in found.values() for one in row.values()]
        wrong += any(one.better for one in tests)
        covered += all(one.interval[0] <= 0 <= one.interval[1] for one in tests)
        singles = (
            compare(e, evaluation(base), f"m{j}", n_resamples=60).better
            for e in given.values()
            for j in range(8)
        )
        uncorrected += any(singles)
    assert wrong <= 10  # about 3 expected
    assert covered >= 50  # about 57 expected
    assert uncorrected > 25


def test_a_clear_difference_is_found_among_many(rng):
    base = rng.random((60, 10)) * 0.5
    better = base.copy()
    better[:, 3] += 0.1 + 0.05 * rng.random(60)
    better[:, 4] = rng.random(60)
    found = compare_all({"a": evaluation(better)}, evaluation(base))["a"]
    assert found["m3"].better == "a"
    assert found["m3"].interval[0] > 0
    assert found["m0"].better is None
    assert found["m0"].interval == (0.0, 0.0)


def test_one_query_is_compared_and_found_within_chance():
    found = compare_all({"a": evaluation([[0.5]])}, evaluation([[0.1]]))["a"]["m0"]
    assert found.better is None


def test_chosen_measures_and_unknown_ones(rng):
    a, b = (evaluation(rng.random((20, 3))) for _ in range(2))
    twice = compare_all({"a": a}, b, ["m2", "m0", "m2"])["a"]
    assert list(twice) == ["m2", "m0"]
    assert twice["m0"].n_tests == 2
    with pytest.raises(ValueError, match="measure must be one of"):
        compare_all({"a": a}, b, ["m9"])
