import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from similia import Impressions
from similia.feedback.clicks import click_rates


def log_of(counts):
    """A log in which item i of query 0 has so many clicks of so many views."""
    rows = [(i, int(j < c)) for i, (c, v) in enumerate(counts) for j in range(v)]
    item, click = np.array(rows).T
    return Impressions.from_rows(np.zeros(len(rows), int), item, click)


counts = st.lists(
    st.integers(1, 30).flatmap(lambda v: st.tuples(st.integers(0, v), st.just(v))),
    min_size=2,
    max_size=8,
)


def test_nine_clicks_of_ten_beat_one_of_one():
    rates = click_rates(log_of([(1, 1), (9, 10), (0, 20)]))
    assert rates.rate[1] > rates.rate[0] > rates.rate[2]


@given(counts)
def test_rates_lie_between_the_raw_rate_and_the_usual_one(found):
    rates = click_rates(log_of(found))
    raw = rates.clicks / rates.views
    low, high = np.minimum(raw, rates.usual), np.maximum(raw, rates.usual)
    assert ((low - 1e-12 <= rates.rate) & (rates.rate <= high + 1e-12)).all()
    assert rates.strength >= 1.0


@given(counts, st.integers(1, 40))
def test_batches_are_the_whole(found, size):
    log = log_of(found)
    lists = Impressions.from_rows(
        np.zeros(len(log.items), int), log.items, log.gains, impression=np.arange(len(log.items))
    )
    parts = [lists.part(slice(a, a + size)) for a in range(0, len(lists), size)]
    one, other = click_rates(lists), click_rates(parts)
    np.testing.assert_array_equal(one.item, other.item)
    np.testing.assert_allclose(one.rate, other.rate)


def test_the_strength_of_planted_rates_is_found(rng):
    """Rates of a beta distribution with a + b = 20 are worth 20 views."""
    rate = rng.beta(4, 16, size=3000)
    views = rng.integers(5, 60, size=3000)
    clicks = rng.binomial(views, rate)
    log = log_of(list(zip(clicks.tolist(), views.tolist(), strict=True)))
    assert click_rates(log).strength == pytest.approx(20, rel=0.15)


def test_weights_of_lists_count():
    log = Impressions.from_rows(
        [0, 0, 0, 0], [1, 2, 1, 2], [1, 0, 0, 1], impression=[0, 0, 1, 1], weight=[3, 3, 1, 1]
    )
    rates = click_rates(log, strength=1.0)
    assert rates.clicks.tolist() == [3.0, 1.0]
    assert rates.views.tolist() == [4.0, 4.0]


def test_a_strength_is_positive():
    with pytest.raises(ValueError, match=r"click_rates: strength must be None or a positive"):
        click_rates(log_of([(1, 2), (1, 3)]), strength=0.0)
