"""What Blend trusts, and when."""

import copy

import numpy as np
import pytest
from hypothesis import strategies as st

from similia import Blend, Impressions, Views
from similia.similarity import matrix, memory
from similia.similarity.weights import design_effect, trust
from similia.updates.blend_weights import BASE, BELIEFS
from tests.similarity.blend_cases import (
    problem,
)

SEEDS = st.integers(0, 2**32 - 1)


def test_the_base_ranks_until_something_is_better_beyond_doubt():
    rng = np.random.default_rng(0)
    queries, items = problem(rng, n_queries=200)
    blend = Blend().learn(queries, np.empty((0, 3), int), items=items)
    assert blend.trust_ == pytest.approx(
        {"views": 1 - BELIEFS[BASE], "W": matrix.BELIEF, "memory": memory.BELIEF}
    )
    scores = blend.pairwise_score(queries, items)
    base = queries["meaning"] @ items["meaning"].T / blend.gaps_[0]
    # Only views that agree with the base add something of their own accord, and little.
    np.testing.assert_allclose(scores, base, atol=0.5)
    plain = Blend().learn(queries["meaning"], np.empty((0, 3), int), items=items["meaning"])
    np.testing.assert_allclose(
        plain.pairwise_score(queries["meaning"], items["meaning"]), base, rtol=1e-12
    )


def test_a_view_that_does_not_vary_among_the_items_shown_is_not_blown_up(rng):
    """Its prior stays in typical gaps, however many such lists there are."""
    queries, items = problem(rng)
    text = np.ones((len(items), 8))
    text[20:] = rng.poisson(0.4, (20, 8))
    meaning = items["meaning"].copy()
    meaning[:, :4] += 0.5 * text[:, :4]  # so that the two agree
    items = Views(meaning=meaning, text=text)
    rows = np.array([rng.permutation(20)[:5] for _ in range(30)])
    lists = chosen_lists(rng, rng.integers(12, size=30), rows, rng.integers(5, size=30))
    blend = Blend()
    for t in range(30):
        blend.learn(queries, lists.part(slice(t, t + 1)), items=items)
        assert np.abs(blend.weights_).max() < 2


def test_trust_is_monotone_and_bounded():
    values = [trust(evidence, 0.2) for evidence in (-1e9, -3.0, 0.0, 3.0, 1e9)]
    assert values == sorted(values)
    assert values[2] == pytest.approx(0.2)
    assert 0 <= values[0] < values[-1] <= 1


def test_repeats_of_one_query_count_once():
    """The same evidence n times for one query: the design effect is n."""
    assert design_effect((10 * 0.3) ** 2, 10 * 0.3**2) == pytest.approx(10)
    assert design_effect(0.0, 0.0) == 1.0


def choose(rng, scores):
    """One item of each row of `scores`, by a softmax."""
    return np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)


def chosen_lists(rng, queries, rows, picked, trusted=False):
    n, size = rows.shape
    gains = np.zeros((n, size))
    gains[np.arange(n), picked] = 1.0
    return Impressions.from_rows(
        np.repeat(queries, size),
        rows.ravel(),
        gains.ravel(),
        impression=np.repeat(np.arange(n), size),
        trusted=trusted,
    )


def null_stream(seed, n=150, strength=1.0, size=5):
    """Choices that follow the base, and nothing else, with a view and a field that mean nothing."""
    rng = np.random.default_rng([seed, n])
    queries = Views(meaning=rng.normal(size=(40, 6)), text=rng.normal(size=(40, 6)))
    items = Views(
        meaning=rng.normal(size=(60, 6)), text=rng.normal(size=(60, 6)), price=rng.normal(size=60)
    )
    asked = rng.integers(40, size=n)
    rows = np.array([rng.permutation(60)[:size] for _ in range(n)])
    base = strength * np.vecdot(queries["meaning"][asked][:, None], items["meaning"][rows])
    return queries, items, chosen_lists(rng, asked, rows, choose(rng, base))


@pytest.mark.parametrize("strength", [0.0, 0.3, 1.0])
def test_parts_that_mean_nothing_are_trusted_at_most_as_much_as_believed_on_average(strength):
    """E[trust] ≤ belief over null streams: the evidence is a likelihood ratio against the truth."""
    found = []
    for seed in range(100):
        queries, items, lists = null_stream(seed, strength=strength)
        blend = Blend().learn(queries, lists, items=items)
        near = trust(blend.memory_part_.totals[memory.NEIGHBORS], memory.BELIEF)
        found.append([*blend.trust_.values(), near])
    beliefs = np.array([1 - BELIEFS[BASE], matrix.BELIEF, memory.BELIEF, memory.BELIEF])
    error = 2 * np.std(found, axis=0) / np.sqrt(len(found)) + 1e-9
    assert (np.mean(found, axis=0) <= beliefs + error).all()


@pytest.mark.parametrize("noise", ["coin", "base"])
def test_evidence_is_wrong_at_most_at_its_level(noise):
    """At any time one null stream in a hundred may be evidence of 100 to 1 for W, or for memory.

    P(more than 5 of 120 at 1/100 each) < 0.002.
    """
    opened = np.zeros(3)
    for seed in range(120):
        rng = np.random.default_rng([seed, 7])
        X = rng.normal(size=(150, 8))
        triplets = np.column_stack(
            [rng.integers(150, size=600), rng.integers(150, size=600), rng.integers(150, size=600)]
        )
        if noise == "base":
            margin = np.vecdot(X[triplets[:, 0]], X[triplets[:, 1]] - X[triplets[:, 2]])
            other = rng.logistic(size=600) > margin
            triplets[other] = triplets[other][:, [0, 2, 1]]
        blend, ever = Blend(obey=False), np.zeros(3, bool)
        for part in np.split(triplets, 12):
            blend.learn(X, part)
            found = np.array([blend.matrix_part_.evidence, *blend.memory_part_.totals])
            ever |= found >= np.log(100)
        opened += ever
    assert (opened <= 5).all(), opened


def test_memory_that_is_no_better_than_forgetting_does_not_rank():
    """It ranks as far as evidence S has raised trust in it: by half at S = log 11."""
    part = Blend().learn(np.eye(3), [[0, 1, 2]]).memory_part_
    for kind in (memory.OWN, memory.NEIGHBORS):
        for evidence, share in ((-1.0, 0.0), (0.0, 0.0), (np.log(11), 0.5), (40.0, 1.0)):
            part.totals[kind] = evidence
            assert part.shares()[kind].sum() == pytest.approx(share, abs=1e-9)


def test_pure_noise_leaves_the_order_of_the_base():
    rng = np.random.default_rng(1)
    changes = []
    for seed in range(5):
        queries, items, _ = null_stream(seed)
        n = 400
        rows = np.array([rng.permutation(60)[:8] for _ in range(n)])
        lists = chosen_lists(rng, rng.integers(40, size=n), rows, rng.integers(8, size=n))
        start = Blend().learn(queries, lists.part(slice(0)), items=items)
        blend = copy.deepcopy(start).learn(queries, lists, items=items)
        before, after = (
            np.argsort(-b.pairwise_score(queries, items), axis=1)[:, :10] for b in (start, blend)
        )
        kept = [len(np.intersect1d(a, b)) for a, b in zip(before, after, strict=True)]
        changes.append(10 - np.mean(kept))
    assert np.mean(changes) < 0.5


def test_a_view_that_decides_is_found_and_weighed():
    rng = np.random.default_rng(2)
    queries, items, _ = null_stream(0)
    rows = np.array([rng.permutation(60)[:6] for _ in range(300)])
    asked = rng.integers(40, size=300)
    true = 0.3 * np.vecdot(queries["meaning"][asked][:, None], items["meaning"][rows])
    true += 0.9 * np.vecdot(queries["text"][asked][:, None], items["text"][rows])
    blend = Blend().learn(queries, chosen_lists(rng, asked, rows, choose(rng, true)), items=items)
    base, text, price = blend.weights_
    assert blend.trust_["views"] > 0.99
    assert base == 1.0
    assert 1.5 < text < 6.0
    assert abs(price) < 0.3 * text


def test_a_nuisance_is_learnt_and_left_out_of_the_ranking():
    """Clicks fall with the place and follow the base; items are shown in random order."""
    rng = np.random.default_rng(4)
    Q, Z = rng.normal(size=(200, 5)), rng.normal(size=(80, 5))
    n, size = 800, 8
    asked, rows = rng.integers(200, size=n), np.array([rng.permutation(80)[:8] for _ in range(n)])
    place = np.log(np.arange(1, size + 1))
    picked = choose(rng, np.vecdot(Q[asked][:, None], Z[rows]) - 1.5 * place)
    gains = np.zeros((n, size))
    gains[np.arange(n), picked] = 1.0
    lists = Impressions.from_rows(
        np.repeat(asked, size),
        rows.ravel(),
        gains.ravel(),
        impression=np.repeat(np.arange(n), size),
        position=np.tile(np.arange(1, size + 1), n),
    )
    blend = Blend().learn(Q, lists, items=Z)
    part = blend.weights_part_
    shares = np.exp(part.likelihood[0] - np.logaddexp.reduce(part.likelihood[0]))
    gamma = [
        np.linalg.inv(np.eye(1) + info) @ nat
        for info, nat in zip(part.information[0], part.natural[0] - 0.5, strict=True)
    ]
    assert shares @ np.array(gamma)[:, 0] == pytest.approx(-1.5, abs=0.3)
    assert blend.names_ == ["vectors"]
    assert blend.weights_.tolist() == [1.0]
    assert blend.query_vectors(Q).shape == Q.shape
