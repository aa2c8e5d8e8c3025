from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from experiments.traffic.clicks import ClickTable, Counts
from experiments.traffic.contenders import CONTENDERS, make
from experiments.traffic.fusion import base, distribution_based, min_max_sum, reciprocal_ranks
from experiments.traffic.loop import NEAR, NEW, SEEN, Cell, run
from experiments.traffic.people import KINDS, LOOKS, Dice, People, drifted, looked_at
from experiments.traffic.searches import BANDS, Law, draw_traffic
from experiments.traffic.vectors import Qdrant, Rocchio
from experiments.traffic.world import SHOWN, make_world
from similia import Views

N = 40_000
LAW = Law(searches=200)


@pytest.fixture(scope="module")
def world():
    return toy(copies=0)


def toy(copies):
    """30 queries of 200 items; the relevant ones are near the query but for a nuisance."""
    rng = np.random.default_rng(0)
    Z, Q = rng.normal(size=(200, 8)).astype("f4"), rng.normal(size=(30, 8)).astype("f4")
    taste = Q[:, :4] @ Z[:, :4].T
    relevant = taste >= np.sort(taste, axis=1)[:, -5, None]
    Q = np.vstack([Q] + [Q + 0.1 * rng.normal(size=Q.shape).astype("f4") for _ in range(copies)])
    topics = np.tile(np.arange(30), 1 + copies)
    Z, Q = (X / np.linalg.norm(X, axis=1, keepdims=True) for X in (Z, Q))
    items = Views(meaning=Z, words=np.abs(Z[:, :4]), length=Z[:, 0])
    return make_world("toy", Views(meaning=Q, words=np.abs(Q[:, :4])), items, topics, relevant)


def dice(rng, n=N):
    return Dice(rng.random((n, SHOWN)), rng.random((n, SHOWN)), rng.random(n))


def clicked(people, relevant, rng, tastes=None):
    shape = (N, SHOWN)
    tastes = rng.random(shape) if tastes is None else tastes
    return people.clicks(np.broadcast_to(relevant, shape), tastes, dice(rng))


@pytest.mark.parametrize("kind", ["position", "steep", "thin"])
def test_relevant_items_are_clicked_as_often_as_their_place_is_looked_at(kind, rng):
    rates = clicked(People(kind, noise=0.0), True, rng).mean(axis=0)
    assert rates == pytest.approx(looked_at(kind), abs=0.01)
    assert not clicked(People(kind, noise=0.0), False, rng).any()


def test_a_cascade_stops_at_its_first_click(rng):
    found = clicked(People("cascade", noise=0.3), rng.random(SHOWN) < 0.5, rng)
    assert found.sum(axis=1).max() == 1
    top = clicked(People("cascade", noise=0.0), True, rng)
    assert top[:, 0].all()
    assert not top[:, 1:].any()


@pytest.mark.parametrize("kind", [*LOOKS, "cascade", "mixture"])
def test_relevance_is_clicked_more_unless_half_of_it_is_flipped(kind, rng):
    relevant = np.arange(SHOWN) % 2 == 0
    halves = [
        clicked(People(kind, noise=0.15), relevant ^ flip, rng)[:, ::2].mean() for flip in (0, 1)
    ]
    assert halves[0] > 1.5 * halves[1]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "own"])
def test_pure_noise_says_nothing_of_relevance(kind, rng):
    rates = [
        clicked(People(kind, noise=0.5), relevant, rng).mean(axis=0) for relevant in (True, False)
    ]
    assert rates[0] == pytest.approx(rates[1], abs=0.012)


def test_own_rates_stay_with_their_pair_and_have_the_stated_means(rng):
    people = People("own")
    for relevant, mean in ((True, 2 / 3), (False, 1 / 6)):
        assert clicked(people, relevant, rng)[:, 0].mean() == pytest.approx(mean, abs=0.01)
    loved = clicked(people, False, rng, np.full((N, SHOWN), 1e-4))
    assert loved[:, 0].mean() == pytest.approx(1 - 1e-4**0.2, abs=0.01)


def test_a_mixture_has_the_mean_rates_of_all_kinds(rng):
    mixed = clicked(People("mixture", noise=0.0), True, rng).mean(axis=0)
    kinds = [clicked(People(kind, noise=0.0), True, rng).mean(axis=0) for kind in KINDS]
    assert mixed == pytest.approx(np.mean(kinds, axis=0), abs=0.015)


def test_drift_changes_a_share_of_the_queries_and_not_how_much_is_relevant(world):
    after = drifted(world.relevant, world.alike, 0.5, np.random.default_rng(0))
    moved = (after != world.relevant).any(axis=1)
    assert 0.2 < moved.mean() < 0.8
    assert_array_equal(after.sum(axis=1), world.relevant.sum(axis=1))
    assert not (after & world.relevant)[moved].any()


@pytest.mark.parametrize("zipf", [0.6, 0.9, 1.2])
def test_demand_falls_by_zipfs_law_and_each_band_has_a_third(world, zipf):
    traffic = draw_traffic(world, Law(searches=6000, zipf=zipf, late=0.0), 0)
    asked = np.array([np.mean(traffic.asked == topic) for topic in traffic.pool])
    law = np.arange(1.0, len(traffic.pool) + 1) ** -zipf
    assert asked == pytest.approx(law / law.sum(), abs=0.02)
    shares = np.bincount(traffic.band, minlength=len(BANDS)) / len(traffic.band)
    assert shares == pytest.approx(np.full(3, 1 / 3), abs=0.15)


def test_late_queries_come_later_and_held_ones_never(world):
    traffic = draw_traffic(world, Law(searches=3000, late=1.0), 1)
    first = [np.flatnonzero(traffic.asked == topic).min(initial=3000) for topic in traffic.pool]
    early = draw_traffic(world, Law(searches=3000, late=0.0), 1)
    sooner = [np.flatnonzero(early.asked == topic).min(initial=3000) for topic in early.pool]
    assert np.median(first) > 500 > np.median(sooner)
    assert not np.isin(traffic.asked, traffic.held).any()
    assert_array_equal(np.sort(np.concatenate([traffic.pool, traffic.held])), np.arange(30))


def test_paraphrases_are_near_what_was_asked_and_not_seen():
    world = toy(copies=2)
    cell = Cell(law=replace(LAW, paraphrased=0.5), paraphrases=2)
    found = run(world, base(world), cell, 0, (200,))
    assert {SEEN, NEAR, NEW} == set(found.status)
    assert found.status[:20].tolist() == [NEW] * 20  # the first block is new as a whole


def test_a_seed_makes_the_same_run(world):
    cell = Cell(law=LAW, people=People("mixture"))
    one, other = (
        run(world, make("LinUCB", world, {"alpha": 0.1, "ridge": 3.0}), cell, 4, (200,))
        for _ in range(2)
    )
    assert_array_equal(one.shown, other.shown)
    assert one.held == other.held


@pytest.mark.parametrize("name", ["base", "RRF", "DBSF", "min-max sum", "fixed weights"])
def test_what_learns_nothing_never_changes(world, name):
    contender = make(name, world, CONTENDERS[name][1][0])
    found = run(world, contender, Cell(law=LAW), 0, (200,))
    assert_array_equal(found.shown, found.start)
    assert found.held[0] == found.held[200]


def test_no_fixed_blend_beats_the_best_in_hindsight_by_its_own_weights(world):
    contender = make("fixed weights", world, {"words": 1.0, "length": 0.0})
    found = run(world, contender, Cell(law=LAW), 0, (200,))
    assert found.hindsight[200] >= found.shown.mean() - 1e-6


def test_fusions_put_first_what_is_first_in_both_searches(world):
    both = (world.cosine == world.cosine.max(axis=1, keepdims=True)) & (
        world.words == world.words.max(axis=1, keepdims=True)
    )
    rows = np.flatnonzero((both & world.inside).any(axis=1))
    assert len(rows)
    for fusion in (reciprocal_ranks, distribution_based, min_max_sum):
        best = world.best(rows, fusion(world)[rows])[:, 0]
        assert_array_equal(best, (world.candidates * both)[rows].max(axis=1))


def test_a_click_table_promotes_what_is_clicked_and_only_for_its_query(world):
    table = ClickTable(world, "rrf", 0.5, 1.0)
    queries = np.array([3])
    before, other = table.first(queries), table.first(np.array([4]))
    clicks = np.arange(SHOWN)[None] == SHOWN - 1
    for _ in range(5):
        table.learn(queries, before, clicks)
    assert table.first(queries)[0, 0] == before[0, -1]
    assert_array_equal(table.first(np.array([4])), other)


def test_clicks_as_expected_from_the_places_promote_nothing(world):
    counts = Counts(world)
    queries = np.arange(30)
    for _ in range(50):
        counts.add(queries, base(world).first(queries), np.ones((30, SHOWN)))
    rates = counts.pairs[0] / np.maximum(counts.pairs[1], 1e-9)
    assert rates[counts.pairs[1] > 0] == pytest.approx(1.0)


@pytest.mark.parametrize(
    "make_one",
    [
        lambda world: Rocchio(world, 3.0, 0.5),
        lambda world: Qdrant(world, "average_vector", True),
        lambda world: Qdrant(world, "best_score", True),
    ],
)
def test_vectors_move_towards_clicks_of_their_query_alone(world, make_one):
    contender, queries = make_one(world), np.arange(30)
    before = contender.first(queries)
    clicks = np.arange(SHOWN)[None] == SHOWN - 1
    contender.learn(queries[:1], before[:1], clicks)
    after = contender.first(queries)
    liked = before[0, -1]
    assert after[0].tolist().index(liked) < SHOWN - 1
    assert_array_equal(after[1:], before[1:])


def test_what_learns_gains_on_what_was_asked_before(world):
    cell = Cell(law=Law(searches=600), people=People(noise=0.0))
    for name, setting in (
        ("click table", {"fusion": "rrf", "boost": 0.5, "prior": 1.0}),
        ("LinUCB", {"alpha": 0.1, "ridge": 3.0}),
        ("Blend", {}),
    ):
        found = run(world, make(name, world, setting), cell, 0, (600,))
        seen = found.status == SEEN
        assert found.shown[seen].mean() > found.start[seen].mean() + 0.02, name
