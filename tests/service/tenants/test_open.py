"""Many tenants, few of them open: idle ones are closed, and opened again when somebody asks."""

import gc
import os
import subprocess
import sys
import threading
import weakref

import pytest

from similia.service.engine import learner as learning
from similia.service.errors import Damaged, NotFound, Unavailable
from similia.service.log.records import TenantSettings
from similia.service.log.sqlite import LOG_FILE
from similia.service.tenants import tenants as opening
from similia.service.tenants.tenants import Tenants
from tests.service.problems import SETTINGS, bits, item, learner, query, triplet


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(opening, "MAX_OPEN", 4)
    monkeypatch.setattr(opening, "MIN_IDLE_SECONDS", 0.0)


def named(tenants):
    return {tenant.name for tenant in tenants.opened()}


def filled(tenants, name, settings=SETTINGS):
    tenant = tenants.create(name, settings)
    if settings.shares is None:
        tenant.put_items([item(i) for i in range(10)])
    return tenant


def test_idle_tenants_are_closed_and_opened_again_the_same(tmp_path, few):
    tenants = Tenants(tmp_path)
    live = {}
    for number in range(10):
        tenant = filled(tenants, f"t{number}")
        tenant.feedback([triplet(i + 100 * number, 10) for i in range(5)])
        live[tenant.name] = bits(learner(tenant))
    assert named(tenants) == {"t6", "t7", "t8", "t9"}
    for name in sorted(live):
        assert bits(learner(tenants.get(name))) == live[name]
        assert len(named(tenants)) <= 4
    tenants.close()


def test_tenants_in_use_stay_open(tmp_path, few):
    tenants = Tenants(tmp_path)
    for number in range(6):
        filled(tenants, f"t{number}")
    tenants.get("t0")
    used = tenants.take("t0")
    for number in range(1, 6):
        tenants.get(f"t{number}")
    assert tenants.take("t0") is used
    assert used.rank(query(0)).results
    for _ in range(2):
        tenants.give(used)
    for number in range(1, 6):
        tenants.get(f"t{number}")
    assert "t0" not in named(tenants)
    assert tenants.take("t0") is None
    tenants.close()


def test_owners_of_shared_items_stay_open_as_long_as_those_who_share_them(tmp_path, few):
    tenants = Tenants(tmp_path)
    filled(tenants, "owner")
    filled(tenants, "team", TenantSettings(shares="owner"))
    for number in range(8):
        filled(tenants, f"t{number}")
        tenants.get("team")
    assert {"owner", "team"} <= named(tenants)
    for number in range(8):
        tenants.get(f"t{number}")
    assert not {"owner", "team"} & named(tenants)
    assert tenants.get("team").rank(query(0)).results
    tenants.close()


def test_an_owner_stays_open_while_those_who_share_its_items_are_opened(tmp_path, few, monkeypatch):
    tenants = Tenants(tmp_path)
    filled(tenants, "owner")
    filled(tenants, "team", TenantSettings(shares="owner")).feedback([triplet(0, 10)])
    for number in range(8):
        filled(tenants, f"t{number}")
    check = learning.check_followed

    def check_followed(log, owner):
        for number in range(8):  # meanwhile others ask for other tenants
            thread = threading.Thread(target=tenants.get, args=(f"t{number}",))
            thread.start()
            thread.join()
        check(log, owner)

    monkeypatch.setattr(learning, "check_followed", check_followed)
    assert tenants.get("team").rank(query(0)).results
    assert {"owner", "team"} <= named(tenants)
    tenants.close()


def test_nothing_of_a_closed_tenant_is_kept_by_those_who_keep_its_log(tmp_path):
    tenants = Tenants(tmp_path)
    tenant = filled(tenants, "t")
    learner(tenant)
    log, held = tenant.log, weakref.ref(tenant.learner)
    tenants.close()
    del tenant, tenants
    gc.collect()
    assert log.name == "t"
    assert held() is None


def test_a_log_that_was_emptied_is_not_begun_anew(tmp_path):
    tenants = Tenants(tmp_path)
    tenant = filled(tenants, "t")
    receipts = tenant.feedback([triplet(i, 10) for i in range(200)])
    tenant.learner.wait(receipts[-1].seq, 60)  # what is not learnt leaves no snapshot
    tenants.close()
    (tmp_path / "t" / LOG_FILE).write_bytes(b"")
    tenants = Tenants(tmp_path)
    with pytest.raises(Damaged, match="empty, but there are snapshots"):
        tenants.get_or_create("t")
    tenants.close()


def test_handles_and_threads_do_not_grow_with_tenants(tmp_path, few):
    tenants = Tenants(tmp_path)

    def standing():
        return len(os.listdir("/proc/self/fd")), threading.active_count()

    for number in range(6):
        tenants.create(f"a{number}")
    before = standing()
    for number in range(60):
        tenants.create(f"b{number}")
    after = standing()
    assert after[0] <= before[0] + 20
    assert after[1] <= before[1] + 5
    tenants.close()


def test_many_threads_ask_for_many_tenants(tmp_path, few):
    tenants, errors = Tenants(tmp_path), []
    for number in range(8):
        filled(tenants, f"t{number}")

    def ask(own):
        try:
            for step in range(12):
                name = f"t{(own + step) % 8}"
                with tenants.using(name) as tenant:
                    tenant.feedback([triplet(1000 * own + step, 10)])
                    assert tenant.rank(query(0), min_seq=tenant.log.last).results
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=ask, args=(own,)) for own in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert sum(tenants.get(f"t{n}").log.counts()[0] for n in range(8)) == 72
    tenants.close()


@pytest.mark.parametrize("damaged", ["t0", "t3"])
def test_a_damaged_log_is_the_business_of_its_tenant_alone(tmp_path, damaged):
    tenants = Tenants(tmp_path)
    for number in range(4):
        filled(tenants, f"t{number}")
    tenants.close()
    path = tmp_path / damaged / LOG_FILE
    path.write_bytes(b"no log" + path.read_bytes()[6:])
    tenants = Tenants(tmp_path)
    tenants.open_some()
    assert set(tenants.unusable) == {damaged}
    assert named(tenants) == {"t0", "t1", "t2", "t3"} - {damaged}
    with pytest.raises(Unavailable, match="restore it from a backup"):
        tenants.get(damaged)
    with pytest.raises(NotFound):
        tenants.get("t9")
    tenants.close()
    tenants = Tenants(tmp_path)
    with pytest.raises(Damaged):
        tenants.get_or_create(damaged)
    tenants.close()


def test_names_of_no_tenant_leave_nothing(tmp_path):
    tenants = Tenants(tmp_path)
    filled(tenants, "there")
    for number in range(100):
        with pytest.raises(NotFound):
            tenants.get(f"nobody-{number}")
    gc.collect()
    assert len(tenants._changing) <= 1  # the last error's
    tenants.close()


HOLES = """
import sys
import numpy as np
from benchmarks.tenants import resident
from similia.service.tenants.tenants import Tenants
Tenants(sys.argv[1]).close()
np.ones(30 * 2**17)  # what is freed tells glibc how much to keep
before, kept, large = resident(), [], []
for _ in range(60):
    large.append(np.ones(4 * 2**17))
    kept.append([np.ones(2000) for _ in range(8)])
large.clear()
print(resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs glibc")
def test_large_arrays_leave_no_holes(tmp_path):
    command = [sys.executable, "-c", HOLES, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert float(done.stdout) < 60  # of 240 MB
