import numpy as np
import pytest

pytest.importorskip("usearch", reason="needs usearch")

from similia.service.catalogue import approximate
from similia.service.errors import Invalid
from similia.service.log.records import Item, Query, TenantSettings
from similia.service.tenants.tenant import Tenant

WIDTH, N = 8, 400


@pytest.fixture
def tenant(tmp_path, monkeypatch):
    monkeypatch.setattr(approximate, "MIN_ROWS", 100)
    tenant = Tenant.create(tmp_path, "acme", TenantSettings(search="usearch"))
    tenant.put_items([item(i) for i in range(N)])
    tenant.learner.wait(tenant.log.last, 60)
    tenant._approximate.build(tenant.learner.live.snapshot)
    yield tenant
    tenant.close()


def item(number, seed=0):
    vector = np.random.default_rng([seed, number]).normal(size=WIDTH)
    return Item(id=f"i{number}", vectors={"v": vector.tolist()})


def query(number):
    return Query(vectors={"v": np.random.default_rng([7, number]).normal(size=WIDTH).tolist()})


def found(tenant, asked, k=10, **options):
    return [result.id for result in tenant.rank(asked, k, **options).results]


def test_candidates_hold_the_best_items_also_after_changes(tenant):
    tenant.put_items([item(i, seed=1) for i in range(0, N, 7)])
    tenant.delete_items([f"i{i}" for i in range(0, N, 5)])
    tenant.put_items([item(i) for i in range(N, N + 30)])
    tenant.learner.wait(tenant.log.last, 60)
    snapshot, right = tenant.learner.live.snapshot, 0
    vector = np.zeros(WIDTH, np.float32)
    rows = tenant._approximate.candidates(snapshot, vector, 10)
    assert rows is not None
    assert len(rows) < len(snapshot)
    assert not np.isin(rows, snapshot.dead).any()
    for number in range(50):
        approximately = found(tenant, query(number))
        library, tenant._approximate = tenant._approximate, None
        exactly = found(tenant, query(number))
        tenant._approximate = library
        right += len(set(approximately) & set(exactly))
    assert right >= 0.95 * 500


def test_without_an_index_search_is_exact_until_one_is_built(tenant):
    tenant._approximate._built = None
    assert len(found(tenant, query(0))) == 10


def test_unknown_libraries_and_bad_settings_are_refused(tmp_path):
    from similia.service.log.records import View

    for number, bad in enumerate(
        (
            TenantSettings(search="magic"),
            TenantSettings(held_out=1.0),
            TenantSettings(memory=-1),
            TenantSettings(half_life=0.0),
            TenantSettings(views=[View("a", 0)]),
            TenantSettings(views=[View("a", 1, compared=False)]),
            TenantSettings(views=[View("a", 1), View("a", 2)]),
        )
    ):
        with pytest.raises(Invalid, match="settings"):
            Tenant.create(tmp_path, f"bad-{number}", bad)
    assert not list(tmp_path.iterdir())
