"""Problems for tests of Blend, and how it is compared with its transcription."""

import numpy as np

from similia import Impressions, Views


def problem(rng, n_queries=12, n_items=40, m=5):
    """Queries and items with a base, a text that only sometimes agrees, and two fields."""
    queries = Views(meaning=rng.normal(size=(n_queries, m)), text=rng.poisson(0.4, (n_queries, 8)))
    items = Views(
        meaning=rng.normal(size=(n_items, m)),
        text=rng.poisson(0.4, (n_items, 8)),
        place=rng.normal(size=(n_items, 2)),
        price=rng.uniform(size=n_items),
    )
    return queries, items


def shown(
    rng, queries, items, n, *, n_queries=None, longest=6, follow=None, trusted=0.2, weights=(1.0,)
):
    """n lists of 2 items or more, chosen by `follow` (scores of all pairs), or at random."""
    asked = rng.integers(n_queries or len(queries), size=n)
    sizes = rng.integers(2, longest + 1, size=n)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.concatenate([rng.permutation(len(items))[:size] for size in sizes])
    gains = np.zeros(len(rows))
    for t, query in enumerate(asked):
        own = slice(starts[t], starts[t + 1])
        scores = rng.gumbel(size=sizes[t])
        if follow is not None:
            scores = scores + follow[query, rows[own]]
        order = np.argsort(-scores)
        gains[own][order[0]] = rng.integers(1, 3)
        if sizes[t] > 3 and rng.random() < 0.3:
            gains[own][order[1]] = 1.0
    position = np.concatenate([np.arange(size) for size in sizes])
    nuisance = {"position": np.log1p(position), "device": rng.normal(size=len(rows))}
    trusted = rng.random(n) < trusted
    for t in np.flatnonzero(trusted & (rng.random(n) < 0.2)):  # none of these
        gains[starts[t] : starts[t + 1]] = 0.0
    return Impressions(asked, starts, rows, gains, nuisance, rng.choice(weights, size=n), trusted)


def features_of(blend, queries, items, q, rows):
    """Scores of all views in their units, one pair at a time."""
    found = []
    for z in rows:
        scores = []
        for name in items:
            item = np.asarray(items[name][z]).ravel()
            own = [np.asarray(queries[name][q]).ravel() @ item] if name in queries else item
            scores.extend(own)
        found.append(np.array(scores) / blend.units_)
    return np.array(found)


def transcribed(blend, reference, queries, items, lists):
    base = next(iter(items))
    for t in range(len(lists)):
        own = slice(lists.starts[t], lists.starts[t + 1])
        q, rows = lists.queries[t], lists.items[own]
        others = [name for name in lists.nuisance if name != "position"]
        reference.learn_list(
            np.asarray(queries[base][q]),
            features_of(blend, queries, items, q, rows),
            np.asarray(items[base][rows]),
            lists.gains[own],
            lists.trusted[t],
            lists.nuisance["position"][own] if "position" in lists.nuisance else None,
            np.column_stack([lists.nuisance[n][own] for n in others]) if others else None,
            lists.weights[t],
        )


def assert_agree(blend, reference, queries, items):
    state = blend.get_state()
    for name, value in reference.state.items():
        close(state[name], value, name)
    ours = [reference.weight, reference.precision, reference.behind, reference.turned]
    close(blend.matrix_part_.numbers[:4], ours, "numbers of W")
    base, everything = next(iter(items)), np.arange(len(items))
    for q in range(len(queries)):
        x = features_of(blend, queries, items, q, everything)
        rows = np.asarray(items[base])
        theirs = reference.scores(np.asarray(queries[base][q]), x, rows)
        close(blend.pairwise_score(queries[q : q + 1], items)[0], theirs, "scores")


def close(ours, theirs, name):
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7, err_msg=name)


def in_pieces(rng, blend, queries, lists, items):
    """Learn lists in pieces of random lengths."""
    ends = np.sort(rng.integers(len(lists) + 1, size=rng.integers(4)))
    for begin, end in zip([0, *ends], [*ends, len(lists)], strict=True):
        blend.learn(queries, lists.part(slice(begin, end)), items=items)
    return blend


def numeric(value):
    return isinstance(value, float | np.ndarray) and np.asarray(value).dtype.kind == "f"
