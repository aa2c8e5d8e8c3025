import warnings

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from experiments.clicks import Person, simulated
from similia import Impressions
from similia.feedback.clicks import click_rates, estimate_propensities


def problem(rng, n_queries=40, n_items=60):
    """Scores of a ranking that knows little about relevance."""
    relevance = rng.random((n_queries, n_items)) < 0.3
    return rng.normal(size=relevance.shape) + 0.5 * relevance, relevance


@pytest.mark.parametrize("eta", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_a_planted_position_bias_is_recovered_within_ten_percent(eta, noise, rng):
    person = Person(eta=eta, noise=noise, swaps=0.5, depth=8)
    found = estimate_propensities(simulated(*problem(rng), 150_000, person, rng))
    np.testing.assert_allclose(found.values, person.examination(), rtol=0.1)
    assert found.known.all()


def test_errors_say_how_far_the_estimate_may_be_off(rng):
    """They are those of rare clicks, and so rather too large where clicks are frequent."""
    person = Person(swaps=0.5, depth=6)
    scores, relevance = problem(rng)
    off = []
    for _ in range(30):
        found = estimate_propensities(simulated(scores, relevance, 4000, person, rng))
        off.append(np.log(found.values / person.examination())[1:] / found.errors[1:])
    assert 0.4 < np.std(off) < 1.2
    assert abs(np.mean(off)) < 0.3


def test_a_log_without_swaps_cannot_identify_and_says_so(rng):
    with pytest.warns(
        UserWarning, match=r"cannot identify the effect of places 2, 3, 4.*at random"
    ):
        found = estimate_propensities(simulated(*problem(rng), 2000, Person(depth=4), rng))
    assert found.known.tolist() == [True, False, False, False]
    assert found.n_swapped == 0


def test_places_that_no_chain_of_swaps_joins_to_the_first_are_named(rng):
    # Item 0 moves between places 1 and 2, item 1 between 3 and 4.
    rows = [(0, 0, 1), (1, 0, 2), (0, 1, 3), (1, 1, 4)] * 50
    impression, item, position = np.array(rows).T
    order = np.argsort(impression, kind="stable")
    click = rng.random(len(rows)) < 0.5
    lists = Impressions.from_rows(
        np.zeros(len(rows), int),
        item[order],
        click,
        impression=impression[order],
        position=position[order],
    )
    with pytest.warns(UserWarning, match="effect of places 3, 4:"):
        found = estimate_propensities(lists)
    assert found.known.tolist() == [True, True, False, False]


def test_batches_are_the_whole(rng):
    whole = simulated(*problem(rng), 3000, Person(swaps=0.5, depth=5), rng)
    parts = [whole.part(slice(a, a + 700)) for a in range(0, 3000, 700)]
    one, other = estimate_propensities(whole), estimate_propensities(iter(parts))
    np.testing.assert_allclose(one.values, other.values)
    np.testing.assert_allclose(one.errors, other.errors)
    assert one.n_swapped == other.n_swapped


def test_corrected_gains_are_right_in_the_mean(rng):
    person = Person(swaps=1.0, depth=5)
    scores, relevance = problem(rng)
    log = simulated(scores, relevance, 100_000, person, rng)
    corrected = estimate_propensities(log).correct(log, clip=0.01).impressions
    query = np.repeat(corrected.queries, np.diff(corrected.starts))
    relevant = relevance[query, corrected.items]
    by_place = corrected.gains.reshape(-1, 5)
    for place in range(5):
        chosen = relevant.reshape(-1, 5)[:, place]
        assert by_place[chosen, place].mean() == pytest.approx(1.0, rel=0.1)
    assert "position" not in corrected.nuisance


def test_clipping_bounds_the_weights_and_keeps_more_of_the_sample(rng):
    log = simulated(*problem(rng), 20_000, Person(eta=2.0, swaps=0.5), rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = estimate_propensities(log)
    loose, tight = (found.correct(log, clip=clip) for clip in (0.02, 0.5))
    assert tight.impressions.gains.max() <= 2.0
    assert loose.effective_sample_size < tight.effective_sample_size <= tight.n
    assert 0 < loose.n_clipped < tight.n_clipped < tight.n
    assert str(tight).startswith(f"{tight.n} clicks count as ")


def test_naive_rates_follow_places_and_corrected_ones_do_not(rng):
    """Where the ranking is hardly ever changed, a raw rate says where an item stood."""
    person = Person(eta=1.5, noise=0.2, swaps=0.1)
    relevance = rng.random((30, 40)) < 0.4
    scores = rng.normal(size=relevance.shape)
    log = simulated(scores, relevance, 60_000, person, rng)
    naive = click_rates(log)
    ours = click_rates(log, propensities=estimate_propensities(log))
    assert share_right(naive, relevance) < 0.9
    assert share_right(ours, relevance) > 0.97


def share_right(rates, relevance):
    """Chance that a relevant item has a higher rate than an irrelevant one."""
    return roc_auc_score(relevance[rates.query, rates.item], rates.rate)


def test_positions_must_be_known():
    log = Impressions.from_rows([0, 0], [1, 2], [0, 1])
    with pytest.raises(ValueError, match="impressions must have positions, got none"):
        estimate_propensities(log)
