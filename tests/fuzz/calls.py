"""Attacks on every public name that is called with arrays: see `ATTACKED`."""

import copy

import numpy as np

import similia
from similia import Views
from similia.files import Ids, Source, VectorFile
from similia.stream import learn_file
from similia.tabular.layout import ViewLayout, read_sides
from tests.fuzz import hostile
from tests.fuzz.targets import Broken, check_finite, refused

#: attacked by targets of their own, as files, commands or learners
ELSEWHERE = {"__version__", "load", "save", "open_index", "read_vectors", "write_vectors"}
ELSEWHERE |= {"FeedbackFile", "UbiLog", "evaluate", "build_index", "DistanceConstraints"}
ELSEWHERE |= set(similia.registry.LEARNERS)
#: work in shares
ELSEWHERE |= {"evaluate_parts", "learn_shares", "search_ranges"}
ELSEWHERE |= {"export_items", "index_shards", "search_shards"}


def vector(rng, n=20):
    """n numbers; often of odd type, size or shape."""
    x = hostile.pick(rng, [rng.integers(10, size=n), rng.normal(size=n), np.arange(n) // 4])
    way = rng.integers(6)
    if way == 0:
        x = x.astype(float)
        x[rng.integers(n)] = hostile.pick(rng, hostile.NUMBERS)
    elif way == 1:
        with np.errstate(all="ignore"):
            x = x.astype(hostile.pick(rng, hostile.DTYPES))
    elif way == 2:
        return hostile.pick(rng, [x[:-1], x[:, None], [], None, "abc", x.tolist(), ["a"] * n, 3])
    return x


def number(rng):
    return hostile.pick(rng, [1, 2, 5, 0.5, *hostile.NUMBERS, None, "x", True])


def flags(rng, n=20):
    return hostile.pick(rng, [rng.integers(2, size=n), vector(rng, n)])


def lists(rng):
    """Lists that were shown; often of odd arrays, and then mostly refused."""
    plain = np.arange(20) // 4, rng.integers(9, size=20), rng.integers(2, size=20)
    columns = [x if rng.random() < 0.8 else vector(rng) for x in plain]
    names = [
        name for name in ("impression", "position", "weight", "timestamp") if rng.random() < 0.3
    ]
    further = {name: hostile.pick(rng, [np.arange(20) % 4 + 1, vector(rng)]) for name in names}
    if rng.random() < 0.2:
        further["nuisance"] = {"device": vector(rng)}
    way = rng.integers(3)
    if way == 0:
        starts = hostile.pick(rng, [np.arange(0, 21, 4), vector(rng, 6)])
        few = [vector(rng, 5) if rng.random() < 0.3 else np.arange(5) for _ in range(2)]
        parts = few[0], starts, columns[1], columns[2], {}, few[1], np.ones(5, bool)
        return refused(lambda: similia.Impressions(*parts))
    if way == 1:
        return refused(lambda: similia.Impressions.from_triplets(hostile.tuples(rng, 9, 3, 9)))
    return refused(lambda: similia.Impressions.from_rows(*columns, **further))


def sides(rng):
    """Queries and items: matrices, or views of them."""
    made = [hostile.matrix(rng, 9, 4) for _ in range(2)]
    if rng.random() < 0.5:
        names = hostile.pick(rng, [("a", "b"), ("vectors", "text"), ("a", "a b")])
        made = [
            refused(lambda X=X: Views(**{names[0]: X, names[1]: hostile.matrix(rng, 9, 3)}))
            for X in made
        ]
    return made


def blend(rng, folder):
    shown, (X, Z) = lists(rng), sides(rng)
    learner = similia.Blend(memory=int(hostile.pick(rng, [0, 3, 10_000])))
    if rng.random() < 0.5:
        refused(lambda: learner.learn(np.eye(9), rng.integers(9, size=(20, 3))))
    started = learner.__sklearn_is_fitted__()
    before = copy.deepcopy(learner.get_state()) if started else {}
    done = refused(lambda: learner.learn(X, shown, items=Z))
    fitted = learner.__sklearn_is_fitted__()
    after = learner.get_state() if fitted else {}
    if done is None and (fitted != started or repr(before) != repr(after)):
        raise Broken("a failed Blend.learn changed the state")
    check_finite("Blend.learn", after)
    refused(lambda: learner.pairwise_score(X, Z))


def gerrymandering(rng, folder):
    learner = similia.NeighborhoodGerrymandering(n_neighbors=3, max_iter=1, random_state=0)
    X, y = hostile.matrix(rng, 40, 4), hostile.pick(rng, [np.arange(40) % 3, vector(rng, 40)])
    done = refused(lambda: learner.fit(X, y))
    if done is not None:
        check_finite("NeighborhoodGerrymandering.fit", learner.get_state())
    elif "U_" in vars(learner):
        raise Broken("a failed fit left a state")
    refused(lambda: learner.fit(np.eye(40)[:, :4] + rng.normal(size=(40, 4)), np.arange(40) % 3))
    refused(lambda: learner.partial_fit(X, y))
    refused(lambda: learner.predict(X))


def constraint_sets(rng):
    d = hostile.pick(rng, [3, 4])
    matrices = [hostile.matrix(rng, d, d) for _ in range(3)]
    sense = hostile.pick(rng, ["<=", ">=", ["<="] * 3, "=", None, 3])
    return [
        lambda: similia.MatrixConstraints(matrices, hostile.pick(rng, [0.0, vector(rng, 3)])),
        lambda: similia.RankOneConstraints(hostile.matrix(rng, 3, d), vector(rng, 3), sense),
        lambda: similia.DistanceConstraints(hostile.tuples(rng, 5, 2, d), vector(rng, 5), sense),
        lambda: similia.ConstraintOracle(d, lambda W: (0, (np.eye(d)[0], "<=", number(rng)))),
        lambda: similia.ConstraintOracle(number(rng), lambda W: None),
    ]


def constraints(rng, folder):
    for make in constraint_sets(rng):
        refused(make)


def searches(rng, folder):
    found = refused(hostile.pick(rng, constraint_sets(rng)))
    search = similia.DefiniteBoost(max_iter=20)
    if refused(lambda: search.fit(found)) is not None:
        check_finite("DefiniteBoost.fit", {"W_": search.W_})
    refused(lambda: similia.minimize_max_constraint(found, max_iter=20, tol=0.1))


def clicks(rng, folder):
    shown = hostile.pick(rng, [lists(rng), [lists(rng), lists(rng)], number(rng)])
    rule = hostile.pick(rng, ["clicked", "skip-above", "last-click", "x", None])
    refused(lambda: similia.click_preferences(shown, rule))
    found = refused(lambda: similia.estimate_propensities(shown))
    strength = hostile.pick(rng, [None, number(rng)])
    refused(lambda: similia.click_rates(shown, strength=strength, propensities=found))
    width = hostile.pick(rng, [2, 3])
    signs = None if width == 3 else vector(rng)
    refused(lambda: similia.feedback_report(hostile.tuples(rng, 20, width, 9), signs))


def comparisons(rng, folder):
    X, Z, grades = (hostile.matrix(rng, 12, d) for d in (4, 4, 12))
    a = refused(lambda: similia.evaluate("cosine", X, Z, relevance=grades))
    b = refused(lambda: similia.evaluate("euclidean", np.eye(12)[:, :4], labels=np.arange(12) % 3))
    measure = hostile.pick(rng, ["precision@1", "ndcg@10", "map", "x", None])
    options = {"level": number(rng), "n_resamples": hostile.pick(rng, [20, 0, -1, "x", 1.5])}
    refused(lambda: similia.compare(a, b, measure, **options))
    refused(lambda: similia.compare(b, b, measure, **options))
    refused(lambda: similia.compare_all({"a": a, "b": b}, b, [measure], **options))
    learner = similia.OASIS().learn(np.eye(4), [[0, 1, 2]])
    refused(lambda: similia.scaled_like(learner, "cosine", X, Z).query_vectors(X))


def users(rng, folder):
    adapters = refused(lambda: similia.Adapters(rank=number(rng))) or similia.Adapters(rank=4)
    X, Z = hostile.matrix(rng, 20, 4), hostile.matrix(rng, 20, 4)
    for user in ("me", hostile.pick(rng, ["you", 3, None, "\x1b", ("a", 1), ["x"]])):
        refused(lambda user=user: adapters.learn(user, X, hostile.tuples(rng, 9, 3, 20), items=Z))
        refused(lambda user=user: adapters.learn(user, np.eye(4), rng.integers(4, size=(9, 3))))
        scores = refused(lambda user=user: adapters.pairwise_score(user, X, Z))
        if scores is not None and not np.isfinite(scores).all():
            raise Broken("Adapters gave scores that are not finite")


def drafts(rng, folder):
    trial = refused(lambda: similia.Interleaving(length=number(rng), random_state=0))
    trial = trial or similia.Interleaving(random_state=0)
    for search in range(4):
        rankings = vector(rng), vector(rng)
        shown = refused(lambda s=search, r=rankings: trial.draft(s, *r))
        for item in [] if shown is None else shown[:2]:
            refused(lambda s=search, i=item: trial.click(s, i))
        refused(lambda s=search: trial.click(s, number(rng)))
    refused(trial.preference)
    columns = vector(rng), flags(rng), flags(rng)
    refused(lambda: similia.Interleaving.from_rows(*columns).preference())


def promotions(rng, folder):
    promotion = refused(
        lambda: similia.Promotion(folder, share=hostile.pick(rng, [None, number(rng)]))
    )
    promotion = promotion or similia.Promotion(folder)
    learner = similia.OASIS(average=False).learn(np.eye(4), [[0, 1, 2]])
    X, triplets = hostile.matrix(rng, 20, 4), hostile.tuples(rng, 30, 3, 20)
    refused(lambda: promotion.run(learner, X, triplets))
    refused(lambda: promotion.challenge(learner, X, triplets))
    grades = hostile.matrix(rng, 20, 20)
    refused(lambda: promotion.challenge_by_relevance(learner, X, X, grades))
    refused(lambda: promotion.rollback())
    refused(lambda: promotion.champion)


def selections(rng, folder):
    X, y = hostile.matrix(rng, 20, 4), hostile.tuples(rng, 15, 3, 20)
    weight = hostile.pick(rng, [None, vector(rng, 15)])
    estimator = similia.JudgementEstimator(similia.OASIS(), X)
    refused(lambda: estimator.fit(y, sample_weight=weight))
    refused(lambda: estimator.score(y))
    step = similia.JudgedTransformer(similia.LEGO())
    pairs, signs = hostile.tuples(rng, 15, 2, 20), hostile.pick(rng, [np.ones(15), vector(rng, 15)])
    rows = hostile.pick(rng, [None, vector(rng), np.arange(20)])
    options = {"feedback": signs, "rows": rows, "sample_weight": weight}
    refused(lambda: step.fit(X, judgements=pairs, **options))
    refused(lambda: step.transform(X))


def texts(rng, folder):
    some = hostile.pick(
        rng,
        [["red shoe", "a hat"], ["", "\x1b[2J"], [], None, "red", [3, None], vector(rng), ["a"]],
    )
    bm25 = refused(lambda: similia.BM25(k1=hostile.pick(rng, [1.2, number(rng)])).fit(some))
    bm25 = bm25 or similia.BM25().fit(["red shoe", "blue hat"])
    refused(lambda: bm25.items(some))
    refused(lambda: bm25.queries(some))


def rerankers(rng, folder):
    path = folder / "items.csv"
    path.write_text("id,title,price\na,red shoe,3\nb,blue hat,5\nc,red hat,4\n")
    log = {"query": ["hat"] * 3, "item": ["a", "b", "c"], "click": [0, 1, 0]}
    source, layout = Source(log), ViewLayout.found_in(path)
    queries, items = read_sides(path, layout, feedback=source)
    reranker = similia.TextReranker(learn_file(similia.Blend(), queries, source, items=items).model)
    plain = [["red shoe", "a hat"], [("a hat", {"price": 4.0})]]
    odd = [
        [],
        None,
        "red",
        [3],
        [("a", None)],
        [("a", {"price": "x"})],
        [("a", {3: 4})],
        vector(rng),
    ]
    asked, some = hostile.pick(rng, ["hat", "", "\x00", None, 3]), hostile.pick(rng, plain + odd)
    k = hostile.pick(rng, [None, 1, number(rng)])
    found = refused(lambda: reranker.rerank(asked, some, k=k))
    if found is not None and not np.isfinite([one.score for one in found]).all():
        raise Broken("TextReranker: a score is not finite")


def filters(rng, folder):
    given = hostile.pick(rng, [["nearest", "all"], [number(rng)]])
    learner = similia.POLA()
    found = refused(
        lambda: similia.RelevanceFilter(
            learner, pairs=given[0], budget=hostile.pick(rng, [None, 3])
        )
    )
    if found is not None:
        X, relevant = hostile.matrix(rng, 20, 4), flags(rng)
        refused(lambda: found.learn(X, relevant))
        refused(lambda: found.run(X, relevant))
        refused(lambda: found.predict(X))


def sources(rng, folder):
    names = (
        "query",
        "better",
        "worse",
        "item",
        "clicked",
        "position",
        "impression",
        "rank",
        "score",
    )
    table = {name: vector(rng) for name in names if rng.random() < 0.7}
    ids = hostile.pick(rng, [Ids(None, 10), Ids([f"i{n}" for n in range(10)], 10)])
    source = refused(lambda: similia.Source(table))
    refused(lambda: list(similia.ImpressionsFile(table if source is None else source, ids)))
    refused(lambda: similia.read_run(table, ids))
    learner = similia.OASIS()
    refused(lambda: similia.learn_file(learner, VectorFile(np.eye(10), Ids(None, 10)), table))
    if learner.__sklearn_is_fitted__():
        check_finite("learn_file", learner.get_state())


#: attack of each group of public names
ATTACKED = {
    blend: ("Impressions", "Views"),
    gerrymandering: ("NeighborhoodGerrymandering",),
    constraints: ("ConstraintOracle", "MatrixConstraints", "RankOneConstraints"),
    searches: ("DefiniteBoost", "minimize_max_constraint"),
    clicks: ("click_preferences", "click_rates", "estimate_propensities", "feedback_report"),
    comparisons: ("compare", "compare_all", "scaled_like"),
    users: ("Adapters",),
    drafts: ("Interleaving",),
    promotions: ("Promotion",),
    selections: ("JudgedTransformer", "JudgementEstimator"),
    texts: ("BM25",),
    rerankers: ("TextReranker",),
    filters: ("RelevanceFilter",),
    sources: ("ImpressionsFile", "Source", "learn_file", "read_run"),
}


def public(rng, folder):
    hostile.pick(rng, list(ATTACKED))(rng, folder)
