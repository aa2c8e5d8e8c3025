"""Shared items are followed exactly: a state is a function of two logs, whatever happens."""

import shutil
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from similia.service.catalogue import items, shared
from similia.service.catalogue.items import Items, Layout
from similia.service.engine import fold, snapshots
from similia.service.errors import Damaged, Invalid
from similia.service.log.records import View
from similia.service.tenants import upkeep
from similia.service.tenants.tenants import Tenants
from tests.service.problems import (
    bits,
    folded,
    folded_sharing,
    item,
    judgement,
    learner,
    query,
    triplet,
)
from tests.service.teams import PATIENCE, expected, filled


@pytest.fixture
def often(monkeypatch):
    """Snapshots after every block, of eight lists, and items that are moved together soon."""
    monkeypatch.setattr(snapshots, "BLOCKS_BETWEEN", 1)
    monkeypatch.setattr(fold, "LISTS_PER_BLOCK", 8)
    monkeypatch.setattr(items, "MIN_COMPACTED", 40)
    monkeypatch.setattr(shared, "MAX_COPIED", 8)


# -- exact -------------------------------------------------------------------------------------

changes = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 34), st.integers(0, 3)),
    st.tuples(st.just("delete"), st.integers(0, 34)),
    st.tuples(st.just("judge"), st.sampled_from(["one", "two", "owner"]), st.integers(1, 12)),
    st.tuples(st.just("retract"), st.sampled_from(["one", "two"]), st.integers(0, 60)),
    st.tuples(st.just("rank"), st.sampled_from(["one", "two", "owner"])),
    st.tuples(st.just("restart")),
)


@settings(max_examples=15, deadline=None)
@given(steps=st.lists(changes, min_size=20, max_size=60))
def test_any_order_of_changes_gives_the_bits_of_a_fresh_fold(tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("steps")
    tenants, count = Tenants(folder), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots, "BLOCKS_BETWEEN", 1)
        patch.setattr(fold, "LISTS_PER_BLOCK", 8)
        patch.setattr(items, "MIN_COMPACTED", 40)
        patch.setattr(shared, "MAX_COPIED", 8)
        filled(tenants)
        for step in steps:
            match step:
                case ("put", number, seed):
                    some = [item((number + i) % 35, seed=seed) for i in range(5)]
                    tenants.get("owner").put_items(some)
                case ("delete", number):
                    tenants.get("owner").delete_items([f"i{number}"])
                case ("judge", who, n):
                    for _ in range(n):
                        count += 1
                        try:
                            tenants.get(who).feedback([judgement(count)])
                        except Invalid:
                            assert tenants.get("owner").n_items < 35
                case ("retract", who, number):
                    logged = tenants.get(who).judgements()
                    if logged:
                        tenants.get(who).retract(logged[number % len(logged)].record.id)
                case ("rank", who):
                    tenant = tenants.get(who)
                    tenant.rank(query(0), 3, min_seq=tenant.log.last)
                case ("restart",):
                    tenants.close()
                    tenants = Tenants(folder)
        owner = tenants.get("owner")
        found = {}
        for name in ("one", "two"):
            tenant = tenants.get(name)
            found[name] = same = learner(tenant)
            logs = (tenant.log.rows(), owner.log.rows(), tenant.log.retracted())
            reference = folded_sharing(*logs)
            assert (same is None) == (reference is None)
            assert same is None or bits(same) == bits(reference)
        alone = folded(owner.log.rows())
        assert (alone is None) == (learner(owner) is None)
        assert alone is None or bits(alone) == bits(learner(owner))
        tenants.close()
        shutil.rmtree(folder / "one" / "snapshots", ignore_errors=True)
        tenants = Tenants(folder)
        for name, same in found.items():
            assert same is None or bits(learner(tenants.get(name))) == bits(same)
        tenants.close()


def test_items_that_change_under_many_judges_are_followed_exactly(tenants, often):
    """An owner that replaces and deletes, two teams with threads that judge and take back."""
    owner, *teams = filled(tenants)
    stop, errors = threading.Event(), []

    def change():
        for i in range(10**9):
            if stop.is_set():
                return
            owner.put_items([item((i + j) % 30, seed=i) for j in range(3)])
            owner.delete_items([f"i{(7 * i) % 30}"])

    def judge(team, own):
        try:
            for i in range(60):
                told = judgement(1000 * own + i)
                try:
                    team.feedback([told])
                except Invalid:
                    continue
                if i % 9 == 0:
                    team.retract(told.id)
        except BaseException as error:
            errors.append(error)

    threads = [
        threading.Thread(target=judge, args=(team, own))
        for own, team in enumerate([*teams, *teams])
    ]
    changing = threading.Thread(target=change)
    for thread in (changing, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    changing.join()
    assert not errors
    owner.learner.wait(owner.log.last, PATIENCE)
    assert owner.learner.items._rows.floor > 0  # it was compacted meanwhile
    for team in teams:
        assert bits(learner(team)) == expected(team, owner)


def test_items_that_were_compacted_away_are_read_from_the_owners_log(tmp_path, often):
    tenants = Tenants(tmp_path)
    owner, one, two = filled(tenants)
    one.feedback([triplet(i) for i in range(30)])  # from the first versions
    two.feedback([triplet(i) for i in range(3)])
    for seed in range(1, 6):
        owner.put_items([item(i, seed=seed) for i in range(30)])
    live = [bits(learner(team)) for team in (one, two)]
    tenants.close()
    shutil.rmtree(tmp_path / "one" / "snapshots")
    tenants = Tenants(tmp_path)
    assert tenants.get("owner").learner.items.as_of(one.learner.mark) is None
    one, two = tenants.get("one"), tenants.get("two")
    assert [bits(learner(team)) for team in (one, two)] == live
    assert one.learner._fold.items._past is None  # and not kept
    one.feedback([triplet(i) for i in range(30, 50)])
    assert bits(learner(one)) == expected(one, tenants.get("owner"))
    one.retract("t3")  # of the first versions, learnt in a block
    assert bits(learner(one)) == expected(one, tenants.get("owner"))
    tenants.close()


def test_follow_rows_are_written_only_when_items_have_changed(tenants):
    owner, one, _ = filled(tenants)

    def follows():
        return sum(row.kind == "follow" for row in one.log.rows())

    assert follows() == 0
    for i in range(5):
        one.feedback([triplet(i)])
    assert follows() == 1
    assert not one.checked([triplet(9)])[1]
    owner.put_items([item(0, seed=5)])
    owner.learner.wait(owner.log.last, PATIENCE)
    # That row must be followed first.
    assert one.checked([triplet(9)])[1] == owner.log.last
    one.feedback([triplet(9)])
    assert follows() == 2


def test_items_of_a_row_that_is_half_done_are_not_judged_yet():
    """They are not there as of any row that could be followed."""
    half = Items(Layout([View("a", 1)]))
    half.put(item(0), [1.0], 5)
    assert "i0" in half
    assert not half.latest().has("i0")
    half.put(item(1), [1.0], 5)
    half.changed = 5
    assert half.latest().has("i0")
    assert half.latest().seq == 5


# -- items as of a row -------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.lists(st.integers(0, 5), min_size=1, max_size=4)),
            st.tuples(st.just("delete"), st.lists(st.integers(0, 5), min_size=1, max_size=2)),
            st.tuples(st.just("compact"), st.just([])),
        ),
        max_size=25,
    )
)
def test_items_as_of_a_row_are_those_there_were(steps):
    found, then = Items(Layout([View("a", 1)])), {}
    present, count = {}, 0.0
    for seq, (kind, numbers) in enumerate(steps, 1):
        for number in numbers:
            name = f"i{number}"
            count += 1.0
            if kind == "put":
                found.put(item(number), [count], seq)
                present = {id: value for id, value in present.items() if id != name}
                present[name] = count
            else:
                found.delete(name, seq)
                present = {id: value for id, value in present.items() if id != name}
        if kind == "compact":
            found.compact()
        else:
            found.changed = seq
        then[seq] = present
    for seq, there in then.items():
        versions = found.as_of(seq)
        if versions is None:
            assert seq < found._rows.floor
            continue
        for number in range(6):
            row = versions.row(f"i{number}")
            value = None if row is None else float(versions.rows.matrix[row, 0])
            assert value == there.get(f"i{number}")
        assert versions.sample(100)[:, 0].tolist() == list(there.values())


# -- backups -----------------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path):
    """A store with a team that has followed its owner twice, and copies from before."""
    store = tmp_path / "store"
    tenants = Tenants(store)
    owner, one, _ = filled(tenants)
    one.feedback([triplet(i) for i in range(10)])
    list(upkeep.backup(str(store), tmp_path / "old"))
    owner.put_items([item(3, seed=1)])
    owner.learner.wait(owner.log.last, PATIENCE)
    one.feedback([triplet(i) for i in range(10, 20)])
    live = bits(learner(one))
    tenants.close()
    return tmp_path, store, live


def test_a_backup_while_it_runs_is_whole(tmp_path, monkeypatch):
    """Owners are copied last, so that whatever is followed is in the copy."""
    store, copies = tmp_path / "store", tmp_path / "copies"
    tenants = Tenants(store)
    owner, one, _ = filled(tenants)
    one.feedback([triplet(0)])
    copy = upkeep.copy_log

    def slow(where, name, target):
        owner.put_items([item(0, seed=len(list(owner.log.rows())))])
        one.feedback([triplet(owner.log.last)])
        copy(where, name, target)

    monkeypatch.setattr(upkeep, "copy_log", slow)
    order = [name for name, _, _ in upkeep.backup(str(store), copies)]
    assert order[-1] == "owner"
    tenants.close()
    assert len(list(upkeep.check(str(copies)))) == 3
    with_copies = Tenants(copies)
    assert bits(learner(with_copies.get("one"))) == expected(
        with_copies.get("one"), with_copies.get("owner")
    )
    with_copies.close()


def refused(store, reason):
    """Neither checked nor opened, with a reason."""
    with pytest.raises(Damaged, match=reason):
        list(upkeep.check(str(store), "one"))
    tenants = Tenants(store)
    with pytest.raises(Damaged, match=reason):
        tenants.get("one")
    tenants.close()


def test_a_missing_owner_is_told(kept):
    _, store, _ = kept
    shutil.rmtree(store / "owner")
    refused(store, "one shares the items of 'owner', which is missing")


def test_an_owner_from_an_older_backup_is_told(kept):
    folder, store, _ = kept
    shutil.rmtree(store / "owner")
    shutil.copytree(folder / "old" / "owner", store / "owner")
    refused(store, "up to row 3 of its log, which is not there; restore a backup of 'owner'")
    tenants = Tenants(store)
    tenants.get("owner").put_items([item(4, seed=4)])  # goes on otherwise
    tenants.close()
    refused(store, "up to row 3 of its log, where another one is now")


def test_one_log_alone_can_be_restored(kept):
    """A team from an older backup with the owner of today, and both from the older one."""
    folder, store, live = kept
    newest = folder / "newest"
    shutil.copytree(store, newest)
    shutil.rmtree(store / "one")
    shutil.copytree(folder / "old" / "one", store / "one")
    tenants = Tenants(store)
    one = tenants.get("one")
    assert learner(one).n_seen_ == 10
    one.feedback([triplet(i) for i in range(10, 20)])
    assert bits(learner(one)) == live  # the same items, the same judgements
    tenants.close()
    shutil.rmtree(newest / "one")
    shutil.copytree(store / "one", newest / "one")
    assert len(list(upkeep.check(str(newest)))) == 3
