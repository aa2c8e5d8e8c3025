"""Blends that learn in shares."""

import copy

import numpy as np
import pytest

from similia import Blend, Impressions
from tests.similarity.blend_cases import problem, shown


@pytest.fixture
def shared(rng):
    """A start, queries, items, and lists that follow the second view, with the share of each."""
    queries, items = problem(rng, n_queries=60, n_items=80)
    follow = np.asarray(queries["text"]) @ np.asarray(items["text"]).T
    lists = shown(rng, queries, items, 1200, follow=3.0 * follow, trusted=0.1)
    start = Blend().learn(queries, lists.part(slice(0, 40)), items=items)
    return start, queries, items, lists.part(slice(40, None))


def taught(start, queries, items, lists, n):
    """Parts, each of which learnt the lists of its queries."""
    parts = start.split(n)
    for share, part in enumerate(parts):
        part.learn(queries, lists.part(np.flatnonzero(lists.queries % n == share)), items=items)
    return parts


def test_evidence_and_weights_add_up(shared):
    start, *given = shared
    parts = taught(start, *given, 3)
    merged, alone = start.merge(parts), copy.deepcopy(start)
    alone.learn(given[0], given[2], items=given[1])
    assert merged.n_seen_ == alone.n_seen_
    precisions = [part.clicks_part_.precision for part in parts]
    total = sum(precisions) - 2 * start.clicks_part_.precision
    np.testing.assert_allclose(merged.clicks_part_.precision, total)
    wanted, found = alone.weights_, merged.weights_
    assert np.abs(found - wanted).max() < 0.5 * np.abs(wanted - alone.start_weights_).max()


def test_what_is_remembered_of_a_query_is_that_of_its_share(shared):
    start, queries, items, lists = shared
    parts = taught(start, queries, items, lists, 3)
    merged = start.merge(parts)
    for share, part in enumerate(parts):
        ours, theirs = merged.memory_part_, part.memory_part_
        keys = part._query_keys(queries[np.arange(share, 60, 3)])
        mine, its = ours.places(keys), theirs.places(keys)
        for name in ("items", "pairs", "told", "vectors"):
            np.testing.assert_array_equal(getattr(ours, name)[mine], getattr(theirs, name)[its])
        ages = merged.n_seen_ - ours.times[mine], part.n_seen_ - theirs.times[its]
        np.testing.assert_array_equal(*ages)


def test_what_is_merged_ranks_as_well_as_its_best_part(shared, rng):
    start, queries, items, lists = shared
    parts = taught(start, queries, items, lists, 3)
    triplets = np.column_stack([rng.integers(60, size=3000), rng.integers(80, size=(3000, 2))])
    text = np.asarray(queries["text"]) @ np.asarray(items["text"]).T
    scores = [text[triplets[:, 0], triplets[:, side]] for side in (1, 2)]
    triplets = triplets[scores[0] > scores[1]]
    found = [blend.score(queries, triplets, items=items) for blend in (start.merge(parts), *parts)]
    assert found[0] > max(found[1:]) - 0.01


def test_decisions_of_all_shares_are_obeyed(shared):
    start, queries, items, _ = shared
    parts = start.split(2)
    wanted = [[0, 7, 3], [1, 9, 4]]
    for part, triplet in zip(parts, wanted, strict=True):
        part.learn(queries, [triplet], items=items)
    merged = start.merge(parts)
    assert (merged.triplet_scores(queries, wanted, items=items) > 0).all()
    order = start.merge(parts[::-1]).pairwise_score(queries, items)
    np.testing.assert_allclose(merged.pairwise_score(queries, items), order)


def test_memory_of_parts_stays_within_the_budget(rng):
    queries, items = problem(rng, n_queries=40)
    start = Blend(memory=10)
    start.begin(queries, items)
    lists = shown(rng, queries, items, 200)
    merged = start.merge(taught(start, queries, items, lists, 2))
    assert merged.memory_part_.counts[0] == 10
    assert len(merged.memory_part_.decided) <= 16
    merged.learn(queries, lists, items=items)


def test_parts_of_other_nuisances_are_refused(rng):
    queries, items = problem(rng)
    start = Blend()
    start.begin(queries, items)
    parts = start.split(2)
    for name, part in zip(("device", "hour"), parts, strict=True):
        lists = shown(rng, queries, items, 5)
        lists = Impressions(**{**vars(lists), "nuisance": {name: lists.nuisance["device"]}})
        part.learn(queries, lists, items=items)
    with pytest.raises(ValueError, match=r"Blend\.merge: parts must have the same nuisances"):
        start.merge(parts)
