"""The simulator has the biases that it says it has."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from experiments.clicks import Person, as_rows, simulated
from similia import Blend, FactoredAROMA, Views
from similia.feedback import read_impressions
from similia.feedback.clicks import click_preferences
from similia.files import Ids

N, DEPTH = 40_000, 6
RELEVANT = np.ones((N, DEPTH), bool)
TEST = slice(80, None)


def test_clicks_fall_with_places_as_planted(rng):
    rates = Person(eta=1.0, depth=DEPTH).clicks(RELEVANT, rng).mean(axis=0)
    np.testing.assert_allclose(rates, 1 / np.arange(1, DEPTH + 1), rtol=0.05)


def test_without_bias_clicks_are_relevance(rng):
    relevant = rng.random((N, DEPTH)) < 0.3
    np.testing.assert_array_equal(Person(eta=0.0, depth=DEPTH).clicks(relevant, rng), relevant)


def test_nobody_goes_on_after_a_click_in_a_pure_cascade(rng):
    relevant = rng.random((N, DEPTH)) < 0.5
    clicked = Person(eta=0.0, stop=1.0, depth=DEPTH).clicks(relevant, rng)
    np.testing.assert_array_equal(clicked.any(axis=1), relevant.any(axis=1))
    assert clicked.sum(axis=1).max() == 1
    some = relevant.any(axis=1)
    np.testing.assert_array_equal(clicked.argmax(axis=1)[some], relevant.argmax(axis=1)[some])


def test_trust_clicks_on_what_is_irrelevant_most_at_the_top(rng):
    rates = Person(eta=0.0, trust=0.4, depth=DEPTH).clicks(~RELEVANT, rng).mean(axis=0)
    np.testing.assert_allclose(rates, 0.4 / np.arange(1, DEPTH + 1), rtol=0.1)


def test_noise_flips_so_many(rng):
    assert Person(eta=0.0, noise=0.2, depth=DEPTH).clicks(RELEVANT, rng).mean() == pytest.approx(
        0.8, abs=0.01
    )


def test_items_below_the_cut_are_never_shown(rng):
    scores = rng.normal(size=(5, 30))
    log = simulated(scores, scores > 0, 500, Person(depth=4, swaps=0.5), rng)
    query = np.repeat(log.queries, 4)
    ranks = np.argsort(np.argsort(-scores, axis=1), axis=1)
    assert ranks[query, log.items].max() == 3


def test_a_log_survives_its_file(rng, tmp_path):
    scores = rng.normal(size=(5, 30))
    log = simulated(scores, scores > 0, 200, Person(depth=4, swaps=0.5), rng)
    read = read_impressions(as_rows(log), Ids(None, 5), Ids(None, 30))
    for name in ("queries", "starts", "items", "gains"):
        np.testing.assert_array_equal(getattr(read, name), getattr(log, name))
    np.testing.assert_allclose(read.nuisance["position"], log.nuisance["position"])


@pytest.mark.parametrize(
    "person",
    [
        Person(noise=0.1),
        Person(noise=0.1, trust=0.3),
        Person(eta=0.5, noise=0.1, trust=0.3, stop=0.7),
    ],
    ids=["position", "trust", "cascade"],
)
def test_naive_learning_fails_where_learning_places_beside_does_not(person):
    """The truth is the base and another view; clicks were made on a ranking by the base alone."""
    lost = [_lost_without_places(person, np.random.default_rng(seed)) for seed in range(8)]
    assert np.mean(lost) > 0.05


def _lost_without_places(person, rng):
    queries, items = rng.normal(size=(2, 120, 16)), rng.normal(size=(2, 300, 16))
    base, other = (Q @ Z.T for Q, Z in zip(queries, items, strict=True))
    truth = base + other
    relevance = truth > np.quantile(truth, 0.93, axis=1, keepdims=True)
    log = simulated(base[:80], relevance[:80], 1500, person, rng)
    Q, new = (Views(base=queries[0, part], other=queries[1, part]) for part in (slice(80), TEST))
    Z = Views(base=items[0], other=items[1])

    def quality(scores):
        return ndcg_score(relevance[TEST], scores, k=10)

    before = quality(base[TEST])
    ours = quality(Blend().learn(Q, log, items=Z).pairwise_score(new, Z))
    placeless = replace(log, nuisance={})
    blind = quality(Blend().learn(Q, placeless, items=Z).pairwise_score(new, Z))
    triplets = click_preferences(log, "skip-above").triplets
    naive = FactoredAROMA().learn(queries[0, :80], triplets, items=items[0])
    assert ours > before + 0.2
    assert blind < ours
    assert quality(naive.pairwise_score(queries[0, TEST], items[0])) < before
    return ours - blind
