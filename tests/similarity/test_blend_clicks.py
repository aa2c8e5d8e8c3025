"""Laws of Blend's click model and of its memory of pairs."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from similia import Blend, Impressions, Views
from similia.similarity.blend import clicks as of_clicks
from similia.similarity.blend.memory import PAIRS_A_QUERY
from similia.updates import blend as constants
from similia.updates.blend import (
    ABOVE,
    CLICKS,
    ONE,
    OWN,
    PASSES,
    PLACE,
    RATE,
    RATIO,
    remembered_of,
    sigmoid,
)
from tests.reference import blend as naive
from tests.similarity.blend_cases import problem, shown

SEEDS = st.integers(0, 2**32 - 1)


def log_of(asked, rows, clicks):
    """Lists of equal length, shown from the first place on."""
    n, size = rows.shape
    return Impressions.from_rows(
        np.repeat(asked, size),
        rows.ravel(),
        clicks.ravel().astype(float),
        impression=np.repeat(np.arange(n), size),
        position=np.tile(np.arange(1, size + 1), n),
    )


class World:
    """Queries and items, of which some are relevant, as the base knows in part."""

    def __init__(self, seed, n_queries=30, n_items=80, known=1.0):
        rng = self.rng = np.random.default_rng(seed)
        self.Q, self.Z = rng.normal(size=(n_queries, 8)), rng.normal(size=(n_items, 8))
        self.noise = rng.normal(size=(n_queries, n_items))
        scores = known * self.Q @ self.Z.T / 8**0.5 + self.noise
        self.relevant = scores > np.quantile(scores, 0.85, axis=1, keepdims=True)

    def search(self, blend, n, *, flip=0.1, fall=0.6, click=None):
        """Show the first ten n times, and learn the clicks; the share of relevant ones shown."""
        found = []
        for _ in range(n // 10):
            asked = self.rng.integers(len(self.Q), size=10)
            rows = np.argsort(-blend.pairwise_score(self.Q[asked], self.Z), axis=1)[:, :10]
            relevant = self.relevant[asked[:, None], rows]
            if click is None:
                liked = relevant ^ (self.rng.random(rows.shape) < flip)
                seen = self.rng.random(rows.shape) < np.arange(1, 11) ** -fall
                clicks = liked & seen
            else:
                clicks = self.rng.random(rows.shape) < click
            blend.learn(self.Q, log_of(asked, rows, clicks), items=self.Z)
            found.append(relevant.mean())
        return np.mean(found[-5:])

    def begun(self, **parameters):
        blend = Blend(**parameters)
        blend.begin(self.Q, self.Z)
        return blend


# -- Bayes' rule -----------------------------------------------------------------------------------


@settings(max_examples=20)
@given(SEEDS, st.booleans(), st.floats(0.01, 0.99))
def test_a_click_and_a_pass_are_worth_what_bayes_says(seed, clicked, rho):
    """Of an item at the second place, where nothing was clicked above."""
    world = World(seed)
    blend = world.begun()
    theta = blend.clicks_part_.theta.copy()
    clicks = np.array([[0, clicked]])
    blend.learn(world.Q, log_of(np.array([3]), np.array([[5, 6]]), clicks), items=world.Z)
    part = blend.memory_part_
    kept = part.pairs[0, part.items[0] == blend.item_keys(world.Z[6:7])[0]][0]
    high = sigmoid(theta[RATE])
    low, e = high * np.exp(-theta[RATIO]), 2.0 ** -theta[PLACE]
    down = np.log((1 - low) / (1 - high))
    told = [e * high, e * low] if clicked else [1 - e * high, 1 - e * low]
    after = rho * told[0] / (rho * told[0] + (1 - rho) * told[1])
    moved = np.log(after / (1 - after)) - np.log(rho / (1 - rho))
    assert theta[RATIO] * kept[CLICKS] - down * kept[PASSES] == pytest.approx(moved)


@settings(max_examples=5)
@given(SEEDS)
def test_a_step_is_the_gradient_of_the_log_likelihood(seed):
    """P times the step, by finite differences of what a list adds to the evidence."""
    rng = np.random.default_rng(seed)
    queries, items = problem(rng)
    blend = Blend()
    blend.begin(queries, items)

    def learnt(moved):
        reference = naive.Blend(blend, queries, n_nuisances=1)
        reference.model.theta = reference.model.theta + moved
        x = 0.3 * np.random.default_rng(1).normal(size=(4, 5))
        rows, places = rng.normal(size=(4, 5)), np.log([1, 2, 3, 4])
        given = rows[0], x, rows, np.array([0.0, 1, 0, 1]), False, places, x[:, :1]
        reference.learn_list(*given)
        return reference

    reference = learnt(0.0)
    prior = reference.model.prior[:, 0]
    gradient = reference.model.P @ (reference.model.theta - prior)
    for i in range(len(prior)):
        above, below = (learnt(sign * 1e-5 * np.eye(len(prior))[i]).evidence for sign in (1, -1))
        free = (reference.model.theta != reference.model.prior[:, 2:].T).all()
        assert not free or gradient[i] == pytest.approx((above - below) / 2e-5, abs=1e-4)


@settings(max_examples=10)
@given(SEEDS)
def test_the_order_of_the_rows_of_a_list_does_not_matter(seed):
    world, states = World(seed), []
    rows = world.rng.permutation(80)[:9]
    clicks = world.rng.random(9) < 0.3
    for order in (np.arange(9), world.rng.permutation(9)):
        lists = Impressions.from_rows(
            np.zeros(9, int), rows[order], clicks[order], position=order + 1
        )
        blend = world.begun().learn(world.Q, lists, items=world.Z)
        states.append([blend.clicks_part_.theta, blend.pairwise_score(world.Q[:1], world.Z)])
    for one, other in zip(*states, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_a_list_without_a_click_sinks_what_was_looked_at():
    world = World(0)
    blend = world.begun()
    world.search(blend, 400)
    assert blend.trust_["clicks"] > 0.9
    first = np.argsort(-blend.pairwise_score(world.Q[:1], world.Z)[0])[:10]
    before = blend.pairwise_score(world.Q[:1], world.Z[first])[0]
    for _ in range(3):
        blend.learn(
            world.Q, log_of(np.zeros(1, int), first[None], np.zeros((1, 10))), items=world.Z
        )
    moved = blend.pairwise_score(world.Q[:1], world.Z[first])[0] - before
    assert (moved < 0).all()
    assert moved[0] < moved[-1]  # further down fewer people look


def test_places_begin_anew_on_each_page():
    world = World(1)
    lists = log_of(np.zeros(1, int), np.arange(20)[None], np.zeros((1, 20)))
    passes = []
    for page in (None, 10):
        part = world.begun(page=page).learn(world.Q, lists, items=world.Z).memory_part_
        passes.append(part.pairs[0, :20, PASSES])
    np.testing.assert_allclose(passes[1][:10], passes[1][10:])
    assert passes[0][10] < passes[1][10] == passes[1][0]


def test_what_is_known_teaches_the_weights_nothing_more():
    """A click that memory expected moves β less than the first one did."""
    world = World(2)
    lists = log_of(np.zeros(1, int), np.arange(10)[None], np.eye(10)[[4]])
    blend, steps = world.begun(), []
    for _ in range(8):
        before = blend.clicks_part_.theta[ONE + 1]
        blend.learn(world.Q, lists, items=world.Z)
        steps.append(abs(blend.clicks_part_.theta[ONE + 1] - before))
    assert steps[-1] < 0.7 * steps[0]


# -- people ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_searches_show_more_that_is_relevant(seed):
    world = World(seed)
    blend = world.begun()
    start = copy.deepcopy(blend)
    found = world.search(blend, 900)
    order = np.argsort(-start.pairwise_score(world.Q, world.Z), axis=1)[:, :10]
    assert found > np.take_along_axis(world.relevant, order, axis=1).mean() + 0.1


@pytest.mark.parametrize("click", [0.05, 0.5, 0.9])
def test_clicks_at_random_leave_the_start(click):
    kept = []
    for seed in range(5):
        world = World(seed)
        blend = world.begun()
        start = blend.pairwise_score(world.Q, world.Z)
        world.search(blend, 400, click=click)
        orders = (
            np.argsort(-s, axis=1)[:, :10] for s in (start, blend.pairwise_score(world.Q, world.Z))
        )
        kept.append(
            np.mean([len(np.intersect1d(*pair)) for pair in zip(*orders, strict=True)]) / 10
        )
    assert np.mean(kept) > 0.9


def opposite(world, blend, n):
    """Learn n lists with clicks on what is irrelevant."""
    for _ in range(n // 10):
        asked = world.rng.integers(len(world.Q), size=10)
        scores = blend.pairwise_score(world.Q[asked], world.Z)
        rows = np.argsort(-scores, axis=1)[:, :10]
        clicks = ~world.relevant[asked[:, None], rows] & (world.rng.random(rows.shape) < 0.7)
        blend.learn(world.Q, log_of(asked, rows, clicks), items=world.Z)


def test_trust_closes_again_where_clicks_say_the_opposite():
    """However long it was right before: the evidence is bounded above."""
    world = World(0)
    blend = world.begun()
    world.search(blend, 1500)
    assert blend.trust_["clicks"] > 0.99
    assert blend.clicks_part_.evidence[0] <= constants.BEST
    least = 1.0
    for _ in range(10):
        opposite(world, blend, 20)
        least = min(least, blend.trust_["clicks"])
    assert least < 0.1


def test_trust_comes_back_after_many_clicks_at_random():
    """The evidence is bounded below."""
    world = World(0)
    blend = world.begun()
    world.search(blend, 600, click=0.5)
    assert blend.trust_["clicks"] == 0
    assert blend.clicks_part_.evidence[0] >= constants.WORST
    world.search(blend, 400)
    assert blend.trust_["clicks"] > 0.9


@pytest.mark.parametrize("seed", range(3))
def test_a_change_of_taste_is_followed_within_a_few_lists_of_the_query(seed):
    """At most 16 observations of a pair count, however often it was clicked before."""
    world = World(seed)
    blend = world.begun()
    world.search(blend, 600)
    shown, n = np.arange(10)[None], 60
    asked = np.zeros(n, int)
    liked, other = (np.tile(np.eye(10)[[i]], (n, 1)) for i in (0, 1))
    rows = np.tile(shown, (n, 1))
    blend.learn(world.Q, log_of(asked, rows, liked), items=world.Z)
    blend.learn(world.Q, log_of(asked[:32], rows[:32], other[:32]), items=world.Z)
    scores = blend.pairwise_score(world.Q[:1], world.Z[:2])[0]
    assert scores[1] > scores[0]


def test_where_all_is_clicked_a_click_keeps_its_worth():
    """r₀ cannot be told from r₁ where nearly all that is shown is clicked: A is bounded."""
    world = World(0)
    blend = world.begun()
    world.search(blend, 600, click=0.95)
    least = of_clicks.RATES[1][2]
    assert blend.clicks_part_.theta[RATIO] >= least > 0


def test_weights_stay_near_the_start_among_what_they_chose(monkeypatch):
    """A hundred lists of ten that the weights chose themselves are no reason to leave the start."""
    found = []
    for deviation in (of_clicks.VIEW, 2.0):
        monkeypatch.setattr(of_clicks, "VIEW", deviation)
        moved = []
        for seed in range(3):
            world = World(seed, known=2.0)
            views = [Views(meaning=side, part=side[:, :4]) for side in (world.Q, world.Z)]
            world.Q, world.Z = views
            blend = Blend()
            blend.begin(*views)
            world.search(blend, 100)
            start = blend.start_weights_
            moved.append(np.abs(blend.clicks_part_.theta[ONE + 1 : ONE + 3] - start).max())
        found.append(np.max(moved))
    assert found[0] < 0.15 < found[1]


def liked_anyway(blend, world, n, *, own):
    """Show ten to thirty queries n times; of the irrelevant some are clicked, always the same."""
    rate = world.rng.beta(1, 3, size=world.relevant.shape) if own else np.full((30, 80), 0.25)
    rate[world.relevant] = 0.6
    for _ in range(n):
        for asked in np.arange(30).reshape(3, 10):
            rows = np.argsort(-blend.pairwise_score(world.Q[asked], world.Z), axis=1)[:, :10]
            looked = world.rng.random(rows.shape) < np.arange(1, 11) ** -0.6
            clicks = looked & (world.rng.random(rows.shape) < rate[asked[:, None], rows])
            blend.learn(world.Q, log_of(asked, rows, clicks), items=world.Z)


def test_clicks_of_pairs_that_have_their_own_rates_are_found_to_be_alike():
    """People who go on clicking what is not relevant, and people who err anew each time."""
    found = []
    for own in (True, False):
        worlds = [World(seed) for seed in range(3)]
        blends = [world.begun() for world in worlds]
        for blend, world in zip(blends, worlds, strict=True):
            liked_anyway(blend, world, 20, own=own)
        found.append([blend.clicks_part_.theta[OWN] for blend in blends])
    assert np.mean(found[0]) > np.mean(found[1]) + 0.1


@settings(max_examples=20)
@given(st.floats(0.05, 1), st.floats(0, 16), st.floats(0, 16))
def test_what_is_observed_of_a_pair_again_and_again_has_a_bound(alpha, clicks, passes):
    """Whatever is observed of it, it is worth no more than 1/α clicks, or as much against it."""
    up, down = 1.7, 0.6
    pairs, ranks = np.zeros((1, 5)), np.array([1.0, up, down, 0.5, alpha])
    pairs[0, [CLICKS, PASSES]] = clicks, passes
    found, total = remembered_of(pairs, ranks)[0], up * clicks - down * passes
    assert abs(found) <= up / alpha + 1e-9
    assert found * total >= 0
    ranks[4] = 0.0
    assert remembered_of(pairs, ranks)[0] == pytest.approx(total)


def test_one_view_has_nothing_to_learn_but_memory():
    """Its weight is the unit of all others, so it cannot move."""
    world = World(0)
    blend = world.begun()
    world.search(blend, 200)
    assert blend.clicks_part_.theta[ONE + 1] == pytest.approx(1.0, abs=1e-6)


def asked_once(blend, world, n):
    """Lists about n queries that nobody asks again, clicked by place alone."""
    Q = world.rng.normal(size=(n, 8))
    rows = np.argsort(-blend.pairwise_score(Q, world.Z), axis=1)[:, :10]
    clicks = world.rng.random((n, 10)) < 0.6 * np.arange(1, 11) ** -0.5
    blend.learn(Q, log_of(np.arange(n), rows, clicks), items=world.Z)


def test_lists_of_which_nothing_was_shown_before_are_no_evidence():
    """Rates that were learnt in another order are no reason to rank by memory."""
    world = World(0)
    blend = world.begun()
    world.search(blend, 100)
    before = blend.clicks_part_.evidence[0]
    asked_once(blend, world, 300)
    assert blend.clicks_part_.evidence[0] == pytest.approx(before, abs=1e-6)


def test_that_nobody_clicks_twice_is_no_evidence_for_memory(monkeypatch):
    """Whoever sees a list again opens hardly anything: that says nothing of its items."""
    found = []
    mean, deviation, *bounds = of_clicks.SHOWN_AGAIN
    for prior in ((mean, deviation, *bounds), (mean, of_clicks.FIXED, *bounds)):
        monkeypatch.setattr(of_clicks, "SHOWN_AGAIN", prior)
        evidence = []
        for seed in range(3):
            world = World(seed)
            blend = world.begun()
            asked_once(blend, world, 300)
            for query in np.repeat(np.arange(30), 2).reshape(-1, 2):
                rows = np.argsort(-blend.pairwise_score(world.Q[query], world.Z), axis=1)[:, :10]
                clicks = world.rng.random(rows.shape) < np.array([[0.3], [0.02]])
                blend.learn(world.Q, log_of(query, rows, clicks), items=world.Z)
            evidence.append(blend.clicks_part_.evidence[0])
        found.append(np.mean(evidence))
    assert found[0] < -2
    assert found[1] > 2


def test_a_cascade_and_places_are_told_apart():
    """People who stop at the first click, and people who look at fewer and fewer places."""
    found = []
    for cascade in (False, True):
        world, n = World(0, n_queries=200), 800
        asked = world.rng.integers(200, size=n)
        rows = np.array([world.rng.permutation(80)[:10] for _ in range(n)])
        liked = world.relevant[asked[:, None], rows] ^ (world.rng.random((n, 10)) < 0.1)
        if cascade:
            clicks = liked & (np.cumsum(liked, axis=1) == 1)
        else:
            clicks = liked & (world.rng.random((n, 10)) < np.arange(1, 11) ** -1.0)
        blend = world.begun().learn(world.Q, log_of(asked, rows, clicks), items=world.Z)
        found.append(blend.clicks_part_.theta[[PLACE, ABOVE]])
    (place, above), (place_of_cascade, above_of_cascade) = found
    assert place == pytest.approx(1.0, abs=0.25)
    assert above < 0.3
    assert place_of_cascade < 0.3
    assert above_of_cascade > 2


def test_a_view_that_decides_is_found_and_a_nuisance_is_left_out():
    rng = np.random.default_rng(4)
    Q, Z, n = rng.normal(size=(200, 5)), rng.normal(size=(80, 5)), 1500
    price = rng.normal(size=80)
    queries, items = Views(meaning=Q), Views(meaning=Z, price=price)
    asked = rng.integers(200, size=n)
    rows = np.array([rng.permutation(80)[:6] for _ in range(n)])
    device = rng.normal(size=(n, 6))
    liked = Q[asked][:, None] @ Z[rows].transpose(0, 2, 1)
    logit = liked[:, 0] - 2 * price[rows] + 2 * device - 2
    clicks = rng.random((n, 6)) < sigmoid_of(logit)
    plain = log_of(asked, rows, clicks)
    lists = Impressions(**{**vars(plain), "nuisance": {**plain.nuisance, "device": device.ravel()}})
    blend = Blend().learn(queries, lists, items=items)
    assert blend.trust_["clicks"] > 0.99
    assert blend.start_weights_.tolist() == [1.0, 0.0]
    assert blend.weights_[1] < -0.5
    assert blend.clicks_part_.theta[-1] > 0.5
    assert blend.query_vectors(queries).shape == (200, 6)


def sigmoid_of(x):
    return 1 / (1 + np.exp(-x))


# -- memory ----------------------------------------------------------------------------------------


def test_vectors_say_of_judged_items_what_boosts_say():
    world = World(3)
    blend = world.begun()
    world.search(blend, 600)
    asked = np.array([5])
    rows = np.argsort(-blend.pairwise_score(world.Q[asked], world.Z), axis=1)[:, :4]
    lists = log_of(asked, rows, np.array([[0, 1, 0, 0]]))
    blend.learn(world.Q, lists, items=world.Z)
    alpha = blend.clicks_part_.theta[OWN]
    blend.clicks_part_.ranks[:5] = [1.0, *_worth(blend), 0.5, alpha]  # as of now
    told = blend.pairwise_score(world.Q[asked], world.Z[rows[0]])[0]
    nearly = (blend.query_vectors(world.Q[asked]) @ world.Z[rows[0]].T)[0]
    mean = blend.query_vectors(world.Q[asked]) - blend.query_vectors(
        world.Q[asked], remembered=False
    )
    shift = (mean @ (blend.mean_ * blend.lengths_[1]))[0]
    np.testing.assert_allclose(nearly - shift, told, rtol=0.05)  # ten items in eight dimensions


def _worth(blend):
    high = sigmoid(blend.clicks_part_.theta[RATE])
    low = high * np.exp(-blend.clicks_part_.theta[RATIO])
    return blend.clicks_part_.theta[RATIO], np.log((1 - low) / (1 - high))


@pytest.mark.parametrize("memory", [5, 12])
def test_memory_is_bounded_and_keeps_the_queries_judged_last(memory):
    world = World(4)
    blend = world.begun(memory=memory)
    asked = world.rng.permutation(30)
    rows = np.array([world.rng.permutation(80)[:10] for _ in asked])
    blend.learn(world.Q, log_of(asked, rows, np.eye(10)[[0] * 30]), items=world.Z)
    known = [len(items) for items, _ in blend.boosts(world.Q)]
    assert np.flatnonzero(known).tolist() == sorted(asked[-memory:])


def test_of_many_items_of_a_query_those_of_which_least_is_known_go():
    world = World(5, n_items=300)
    lists = log_of(np.zeros(20, int), np.arange(300).reshape(20, 15), np.eye(15)[[0] * 20])
    blend = world.begun().learn(world.Q, lists, items=world.Z)
    kept = blend.boosts(world.Q[:1])[0][0]
    assert len(kept) == PAIRS_A_QUERY
    assert np.isin(blend.item_keys(world.Z[::15]), kept).all()  # what was clicked stays


def test_equal_items_are_one_item():
    world = World(6)
    Z = np.concatenate([world.Z, world.Z[:10]])
    blend = world.begun()
    world.search(blend, 300)
    scores = blend.pairwise_score(world.Q, Z)
    np.testing.assert_array_equal(scores[:, :10], scores[:, 80:])


@settings(max_examples=6)
@given(SEEDS)
def test_a_permutation_of_items_permutes_scores(seed):
    rng = np.random.default_rng(seed)
    queries, items = problem(rng)
    blend = Blend().learn(queries, shown(rng, queries, items, 100), items=items)
    order = rng.permutation(40)
    np.testing.assert_allclose(
        blend.pairwise_score(queries, items[order]),
        blend.pairwise_score(queries, items)[:, order],
        rtol=1e-12,
        atol=1e-12,
    )
