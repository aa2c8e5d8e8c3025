"""Small tenants with something to learn."""

import hashlib
from contextlib import contextmanager

import numpy as np
from msgspec import structs

from similia.service.engine.fold import Fold
from similia.service.log.records import (
    Clicks,
    Configured,
    Delete,
    Follow,
    Grades,
    Item,
    NoneOfThese,
    Pair,
    Put,
    Query,
    Skip,
    TenantSettings,
    Tie,
    Triplet,
    View,
    decoded,
    encoded,
)
from similia.service.tenants.tenant import Tenant

WIDTH = 6
VIEWS = [View("meaning", WIDTH), View("words", 3), View("freshness", 1, compared=False)]
SETTINGS = TenantSettings(views=VIEWS, fields=["price"])


def item(number, seed=0):
    rng = np.random.default_rng([seed, number])
    vectors = {"meaning": rng.normal(size=WIDTH), "words": rng.normal(size=3)}
    vectors["freshness"] = rng.uniform(size=1)
    plain = {name: vector.tolist() for name, vector in vectors.items()}
    fields = {"price": float(rng.uniform()), "color": "red"}
    return Item(id=f"i{number}", vectors=plain, text=f"item {number}", fields=fields)


def query(number, seed=1, **more):
    rng = np.random.default_rng([seed, number])
    vectors = {"meaning": rng.normal(size=WIDTH).tolist(), "words": rng.normal(size=3).tolist()}
    return Query(vectors=vectors, **more)


def triplet(number, n_items=30, **more):
    rng = np.random.default_rng([2, number])
    better, worse = rng.choice(n_items, 2, replace=False)
    asked = query(rng.integers(20))
    return Triplet(query=asked, better=f"i{better}", worse=f"i{worse}", id=f"t{number}", **more)


def judgement(number, n_items=30):
    """One of any kind."""
    rng = np.random.default_rng([3, number])
    ids = [f"i{i}" for i in rng.choice(n_items, 4, replace=False)]
    common = {"id": f"j{number}", "query": query(rng.integers(20))}
    if number % 11 == 0:
        common["query"] = Query(item=f"i{rng.integers(n_items)}")
    match number % 8:
        case 0:
            return Tie(items=(ids[0], ids[1]), **common)
        case 1:
            return NoneOfThese(shown=ids[:3], **common)
        case 2:
            return Grades(grades={id: float(rng.integers(4)) for id in ids}, **common)
        case 3:
            return Clicks(shown=ids, clicked=ids[:1], **common)
        case 4:
            return Pair(item=ids[0], similar=bool(rng.integers(2)), **common)
        case 5:
            return Skip(shown=ids, **common)
        case _:
            return Triplet(better=ids[0], worse=ids[1], **common)


def filled(where, name="acme", n_items=30, settings=SETTINGS, **options):
    tenant = Tenant.create(where, name, settings, **options)
    receipt = tenant.put_items([item(i) for i in range(n_items)])
    tenant.rank(query(0), min_seq=receipt.seq)
    return tenant


#: of which people follow the second
TAUGHT_VIEWS = [View("noise", 4), View("truth", 4)]


def taught(where, n=1500, *, name="acme", cache=None, **options):
    """A tenant whose people follow the second view, and whose questions are random."""
    rng = np.random.default_rng(0)
    tenant = Tenant.create(
        where, name, TenantSettings(views=TAUGHT_VIEWS, memory=0, **options), cache=cache
    )
    vectors = {view: rng.normal(size=(40, 4)) for view in ("noise", "truth")}
    tenant.put_items(
        [
            Item(id=f"i{i}", vectors={n: v[i].tolist() for n, v in vectors.items()})
            for i in range(40)
        ]
    )
    told = []
    for number in range(n):
        asked = rng.normal(size=(2, 4))
        one, other = rng.choice(40, 2, replace=False)
        scores = vectors["truth"] @ asked[1]
        if scores[one] < scores[other]:
            one, other = other, one
        query = Query(
            id=f"q{number}", vectors={"noise": asked[0].tolist(), "truth": asked[1].tolist()}
        )
        told.append(Triplet(query=query, better=f"i{one}", worse=f"i{other}", source="random"))
    tenant.feedback(told)
    learner(tenant)
    return tenant


@contextmanager
def reopened(tenant, where, **options):
    """The tenant as another process would find it."""
    tenant.close()
    found = Tenant.open(where, tenant.name, **options)
    try:
        yield found
    finally:
        found.close()


def learner(tenant):
    """The learner after everything in the log."""
    tenant.learner.wait(tenant.log.last, 60)
    return tenant.learner.live.learner


def bits(learner):
    """Digest of all that was learnt; of nothing, if there is no learner yet."""
    digest = hashlib.sha256()
    if learner is None:  # a process that was killed early may have left nothing to learn from
        return digest.hexdigest()
    for name, value in sorted(learner.get_state().items()):
        digest.update(name.encode())
        digest.update(value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode())
    return digest.hexdigest()


def folded(rows, retracted=None):
    """The learner that follows from rows, one by one and without snapshots."""
    fold = Fold(retracted)
    for row in rows:
        fold.take(row)
    return fold.state().learner


def folded_sharing(rows, of_owner, retracted=None):
    """The learner of a tenant that shares items, as if it had put them itself.

    In place of each row that follows the owner come the owner's changes of items until there, and a
    tenant with items of its own learns the whole.
    """
    of_owner, mark, found = list(of_owner), 0, []
    views = next(
        settings
        for row in of_owner
        for settings in [getattr(decoded(row.body).record, "settings", None)]
        if settings and settings.views
    )
    for row in rows:
        record = decoded(row.body).record
        if isinstance(record, Configured):
            own = structs.replace(
                record.settings, views=views.views, fields=views.fields, shares=None
            )
            found.append(row._replace(body=encoded(Configured(settings=own))))
        elif isinstance(record, Follow):
            between = [other for other in of_owner if mark < other.seq <= record.seq]
            changes = [r for r in between if isinstance(decoded(r.body).record, Put | Delete)]
            found += [change._replace(seq=row.seq) for change in changes]
            mark = max(mark, record.seq)
        else:
            found.append(row)
    return folded(found, retracted)
