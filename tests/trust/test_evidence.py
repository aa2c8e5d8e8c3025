"""Evidence is worth what it says, however often one looks."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from similia.trust.evidence import (
    FIRST_SHARE,
    STAKE_SHARES,
    STAKES,
    Evidence,
    Power,
    anytime_interval,
    counted,
    log_e_value,
    log_wealth,
    power,
)

differences = st.lists(st.floats(-1, 1), min_size=1, max_size=30).map(np.array)


def watched(d, every=5):
    """Evidence after each look at more queries, with one challenger."""
    evidence, seen = Evidence(), []
    for number, end in enumerate(range(every, len(d) + 1, every), start=1):
        evidence = evidence.after(number, [f"q{i}" for i in range(end)], d[:end])
        seen.append(evidence.value)
    return np.array(seen)


def test_the_wealth_is_that_of_all_stakes_together():
    d = np.array([0.5, -0.25])
    expected = (STAKE_SHARES * (1 + STAKES * 0.5) * (1 - STAKES * 0.25)).sum()
    assert np.exp(log_e_value(log_wealth(d))) == pytest.approx(expected)
    assert STAKE_SHARES.sum() == pytest.approx(1)


NULLS = {
    "signs": lambda rng, size: rng.choice([-1.0, 1.0], size),
    "small": lambda rng, size: rng.normal(0, 0.1, size).clip(-1, 1),
    "many small gains, few great losses": lambda rng, size: np.where(
        rng.random(size) < 0.1, -0.9, 0.1
    ),
    "mostly ties": lambda rng, size: np.where(
        rng.random(size) < 0.9, 0.0, rng.uniform(-1, 1, size)
    ),
}


@pytest.mark.parametrize("name", NULLS)
def test_what_is_no_better_is_seldom_promoted_under_continuous_looking(name, rng):
    streams = NULLS[name](rng, (300, 120))
    promoted = sum(watched(d).max() >= 20 for d in streams)
    assert promoted <= 28  # at most 15 expected; more than 28 has a probability below 0.001


def test_a_new_challenger_at_every_look_keeps_the_level(rng):
    """Each of 20 challengers is as good as the champion; they share the queries."""
    promoted = 0
    names = [f"q{i}" for i in range(60)]
    for _ in range(300):
        evidence, found = Evidence(), 1.0
        for number in range(1, 21):
            evidence = evidence.after(number, names, rng.uniform(-0.5, 0.5, 60))
            found = max(found, evidence.value)
        promoted += found >= 20
    assert promoted <= 28


@given(differences, st.integers(1, 5))
def test_looking_in_pieces_keeps_what_the_first_attempt_makes(d, every):
    pieces, evidence = range(every, len(d) + every, every), Evidence()
    for number, end in enumerate(pieces, start=1):
        names = [f"q{i}" for i in range(len(d[:end]))]
        evidence = evidence.after(number, names, d[:end])
    np.testing.assert_allclose(evidence.attempts[1], log_wealth(d), atol=1e-9)
    assert evidence.value >= FIRST_SHARE * np.exp(log_e_value(log_wealth(d))) * (1 - 1e-9)


@given(differences)
def test_a_query_is_bet_on_once(d):
    names = [f"q{i}" for i in range(len(d))]
    once = Evidence().after(1, names, d)
    again = once.after(2, names, -d)
    np.testing.assert_array_equal(again.attempts[1], once.attempts[1])
    np.testing.assert_allclose(again.attempts[2], log_wealth(-d))


@given(differences)
def test_evidence_survives_a_file(d):
    evidence = Evidence().after(1, [f"q{i}" for i in range(len(d))], d)
    plain = json.loads(json.dumps(evidence.to_dict(), allow_nan=False))
    assert Evidence.from_dict(plain) == evidence


def test_all_attempts_together_begin_with_the_whole_wealth():
    """Attempts on nothing but ties have what they began with."""
    evidence = Evidence()
    for number in range(1, 30):
        evidence = evidence.after(number, ["q"], np.zeros(1))
        assert evidence.value == pytest.approx(1.0)


def test_without_challenges_there_is_no_evidence():
    assert Evidence().value == 1.0


def test_much_evidence_stays_a_number():
    value = Evidence().after(1, [str(i) for i in range(5000)], np.ones(5000)).value
    assert np.isfinite(value)


@given(differences)
def test_the_interval_holds_the_mean_of_the_sample(d):
    low, high = anytime_interval(d, 0.95)
    assert -1 <= low <= d.mean() + 1e-9
    assert d.mean() - 1e-9 <= high <= 1


def test_the_interval_covers_at_every_look(rng):
    missed = 0
    for _ in range(50):
        d = rng.beta(2, 3, 80) - 0.3  # of mean 0.1
        intervals = [anytime_interval(d[:n], 0.9) for n in (5, 10, 20, 40, 80)]
        missed += any(not low <= 0.1 <= high for low, high in intervals)
    assert missed <= 12  # at most 5 expected


def test_more_queries_and_larger_differences_are_found_more_often(rng):
    d = rng.normal(0, 0.15, 60)
    few, many = (
        power(d, 0.05, level=0.95, most=0.25),
        power(np.tile(d, 5), 0.05, level=0.95, most=0.25),
    )
    assert few.chance < many.chance
    assert few.enough == pytest.approx(many.enough, rel=0.25)
    assert (
        power(d, 0.1, level=0.95, most=0.25).enough
        < few.enough
        < power(d, 0.05, level=0.99, most=0.25).enough
    )


def test_as_many_queries_as_it_names_would_do(rng):
    sample = rng.normal(0, 0.15, 100)
    enough = power(sample, 0.05, level=0.95, most=0.25).enough
    d = rng.choice(sample - sample.mean(), size=(400, enough)) + 0.05
    found = np.mean([log_e_value(log_wealth(counted(row, 0.25))) >= np.log(30) for row in d])
    assert 0.7 < found < 0.9


@settings(max_examples=30)
@given(differences, st.floats(0.001, 0.5))
def test_power_is_always_an_answer_in_words(d, difference):
    found = power(d, difference, level=0.95, most=0.25)
    assert 0 <= found.chance <= 1
    assert str(found).startswith(f"With {len(d)} quer")
    assert str(found).endswith(".")


def test_power_is_said_in_words():
    assert str(Power(62, 0.02, 0.21, 240)) == (
        "With 62 queries a difference of 0.02 is found one time in five; 240 would do."
    )
    assert str(Power(500, 0.02, 0.99, 240)) == (
        "With 500 queries a difference of 0.02 is found almost always."
    )
    assert str(Power(1, 0.02, 0.0, 240)) == (
        "With 1 query a difference of 0.02 is found almost never; 240 would do."
    )
