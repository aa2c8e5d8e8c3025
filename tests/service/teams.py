"""An owner of items and teams that share them, small enough to compare with a naive fold."""

from similia.service.log.records import TenantSettings
from tests.service.problems import SETTINGS, bits, folded_sharing, item

SHARING = TenantSettings(shares="owner")
PATIENCE = 120


def filled(tenants, n_items=30, teams=("one", "two")):
    """An owner with items, and teams that share them."""
    owner = tenants.create("owner", SETTINGS)
    owner.put_items([item(i) for i in range(n_items)])
    owner.learner.wait(owner.log.last, PATIENCE)
    return [owner, *(tenants.create(team, SHARING) for team in teams)]


def expected(tenant, owner):
    """Bits of what follows from two logs."""
    log = tenant.log
    return bits(folded_sharing(log.rows(), owner.log.rows(), log.retracted()))
