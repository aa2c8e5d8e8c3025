"""state(n) is a function of rows 1 to n: however they came, and from whatever snapshot."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from similia.persistence import saving
from similia.service.catalogue import items
from similia.service.engine import fold as folding
from similia.service.engine import snapshots
from similia.service.engine.fold import Fold
from similia.service.log.records import (
    Configured,
    Delete,
    Put,
    Retraction,
    encoded,
    query_key,
    with_id,
)
from similia.service.log.rows import Entry, Row
from similia.service.tenants.tenant import Tenant
from tests.service.problems import (
    SETTINGS,
    bits,
    filled,
    folded,
    item,
    judgement,
    learner,
    query,
    reopened,
    triplet,
)


def rows_of(records, start=1):
    """Rows as a log has them."""
    found = []
    for seq, record in enumerate(records, start):
        if isinstance(record, Entry):
            entry = record
        else:
            known, body = with_id(record)
            kind = type(known).__struct_config__.tag
            entry = Entry(kind, body, known.id, query_key(known.query), known.judge)
        found.append(Row(seq, seq, *entry, bytes(32)))
    return found


@pytest.fixture(scope="module")
def beginning(tmp_path_factory):
    """The first rows of a tenant with items."""
    tenant = filled(tmp_path_factory.mktemp("beginning"))
    rows = list(tenant.log.rows())
    tenant.close()
    return rows


def test_live_learning_and_replay_give_the_same_bits(tmp_path):
    tenant = filled(tmp_path)
    for i in range(0, 300, 3):
        tenant.feedback([judgement(i), judgement(i + 1), judgement(i + 2)])
        if i % 60 == 0:
            tenant.rank(query(i), min_seq=tenant.log.last)
            tenant.put_items([item(i % 30, seed=i)])
            tenant.delete_items([f"i{(i + 1) % 30}"])
            tenant.put_items([item((i + 1) % 30)])
    live = bits(learner(tenant))
    rows = list(tenant.log.rows())
    with reopened(tenant, tmp_path) as again:
        assert bits(learner(again)) == live
    assert bits(folded(rows)) == live


@pytest.mark.parametrize("memory", [0, 10, 10_000])
def test_blocks_learnt_together_give_the_bits_of_blocks_learnt_alone(memory, monkeypatch):
    """Whatever comes between them: ties that overfill a block, first clicks, moving items."""
    monkeypatch.setattr(folding, "LISTS_PER_BLOCK", 16)
    monkeypatch.setattr(items, "MIN_COMPACTED", 40)
    settings = structs.replace(SETTINGS, memory=memory)
    records = [
        Entry("settings", encoded(Configured(settings=settings))),
        Entry("put", encoded(Put(items=[item(i) for i in range(30)]))),
        *(triplet(i) for i in range(100)),
        *(judgement(i) for i in range(150)),
    ]
    changes = [
        Entry("put", encoded(Put(items=[item(i % 30, seed=i) for i in range(start, start + 5)])))
        for start in range(0, 200, 5)
    ]
    for number, change in enumerate(changes):
        records.insert(20 + 6 * number, change)
    rows = rows_of(records)
    alone, together = Fold(), Fold()
    calls = []
    learnt = Fold._learnt
    monkeypatch.setattr(Fold, "_learnt", lambda *given: (calls.append(1), learnt(*given))[1])
    for row in rows:
        alone.take(row)
        alone.settle()
    n_alone = len(calls)
    together.replay(rows)
    assert len(calls) - n_alone < n_alone
    assert (alone.through, alone.exams) == (together.through, together.exams)
    assert bits(alone.learner) == bits(together.learner)
    assert bits(alone.state().learner) == bits(together.state().learner)


@settings(max_examples=12)
@given(cuts=st.lists(st.integers(1, 40), max_size=12), kinds=st.booleans())
def test_when_states_are_asked_for_changes_nothing(beginning, cuts, kinds):
    make = judgement if kinds else triplet
    rows = [*beginning, *rows_of([make(i) for i in range(170)], len(beginning) + 1)]
    fold, place = Fold(), 0
    for cut in cuts:
        for row in rows[place : place + cut]:
            fold.take(row)
        fold.state()
        place += cut
    for row in rows[place:]:
        fold.take(row)
    assert bits(fold.state().learner) == bits(folded(rows))


def test_a_state_does_not_change_when_more_is_learnt(beginning):
    rows = [*beginning, *rows_of([judgement(i) for i in range(300)], len(beginning) + 1)]
    fold = Fold()
    for row in rows[:150]:
        fold.take(row)
    state = fold.state()
    before = bits(state.learner), state.snapshot.matrix.copy(), len(state.snapshot)
    for row in rows[150:]:
        fold.take(row)
    fold.state()
    assert bits(state.learner) == before[0]
    assert np.array_equal(state.snapshot.matrix, before[1])
    assert len(state.snapshot) == before[2]


@settings(max_examples=12)
@given(gone=st.sets(st.integers(0, 199), min_size=1, max_size=5), kinds=st.booleans())
def test_a_retracted_judgement_leaves_no_trace(beginning, gone, kinds):
    make = judgement if kinds else triplet
    n = len(beginning) + 1
    judged = rows_of([make(i) for i in range(200)], n)
    retractions = rows_of(
        [Entry("retraction", encoded_retraction(i), target=n + i) for i in sorted(gone)], n + 200
    )
    retracted = {row.target: row.seq for row in retractions}
    fold = Fold()
    again = False
    for row in [*beginning, *judged, *retractions]:
        again = again or not fold.take(row)
    if again:
        fold = Fold(retracted)
        for row in [*beginning, *judged, *retractions]:
            assert fold.take(row)
    kept = [row for row in judged if row.seq not in retracted]
    expected = folded([*beginning, *kept])
    assert bits(fold.state().learner) == bits(expected)


def encoded_retraction(number):
    return encoded(Retraction(judgement=f"{number}"))


def test_a_judgement_is_about_the_item_as_it_was(beginning):
    n = len(beginning) + 1
    before = triplet(0)
    change = Entry("put", encoded(Put(items=[item(int(before.better[1:]), seed=9)])))
    remove = Entry("delete", encoded(Delete(items=[before.worse])))
    with_changes = [*beginning, *rows_of([before, change, remove], n)]
    plain = [*beginning, *rows_of([before], n)]
    # What is typical is measured when a block is learnt, so compare what was decided.
    one, other = folded(with_changes), folded(plain)
    scale = one.lengths_[1] / other.lengths_[1]
    decided = one.memory_part_.decided_vectors * scale
    np.testing.assert_allclose(decided, other.memory_part_.decided_vectors, rtol=1e-5)


def test_judgements_of_items_that_are_gone_are_passed_over(beginning):
    n = len(beginning) + 1
    remove = Entry("delete", encoded(Delete(items=["i1"])))
    bad = triplet(0).__class__(query=query(0), better="i1", worse="i2", id="bad")
    rows = [*beginning, *rows_of([remove, bad, triplet(3, 1 + 1)], n)]
    assert folded(rows) is None


# -- snapshots -------------------------------------------------------------------------------------


@pytest.fixture
def often(monkeypatch):
    """Snapshots after every block, of eight lists."""
    monkeypatch.setattr(snapshots, "BLOCKS_BETWEEN", 1)
    monkeypatch.setattr(folding, "LISTS_PER_BLOCK", 8)


def test_a_snapshot_and_the_rest_of_the_log_give_the_same_bits(tmp_path, often):
    tenant = filled(tmp_path)
    for i in range(100):
        tenant.feedback([judgement(i)])
        if i % 10 == 0:
            tenant.put_items([item(i % 30, seed=i)])
            tenant.rank(query(i), min_seq=tenant.log.last)
    live, rows = bits(learner(tenant)), list(tenant.log.rows())
    with reopened(tenant, tmp_path) as again:
        assert again.status().snapshot_seq > 50
        assert bits(learner(again)) == live
        again.feedback([judgement(i) for i in range(100, 130)])
        live, rows = bits(learner(again)), list(again.log.rows())
    assert bits(folded(rows)) == live


def test_snapshots_that_do_not_fit_are_passed_over(tmp_path, often, caplog):
    tenant = filled(tmp_path)
    tenant.feedback([triplet(i) for i in range(60)])
    live = bits(learner(tenant))
    tenant.close()
    files = sorted((tmp_path / "acme" / "snapshots").glob("*.safetensors"))
    assert files
    for path in files:
        path.write_bytes(path.read_bytes()[:-10])
    tenant = Tenant.open(tmp_path, "acme")
    assert bits(learner(tenant)) == live
    assert "ignored" in caplog.text
    tenant.close()


def test_a_forged_snapshot_is_passed_over(tmp_path, often, caplog):
    """Right checksums, and arrays of other sizes, which compiled code would follow."""
    tenant = filled(tmp_path)
    tenant.feedback([triplet(i) for i in range(150)])
    expected = bits(learner(tenant))
    tenant.close()
    path = max((tmp_path / "acme" / "snapshots").glob("*.safetensors"))
    good = snapshots.read(path)
    state = good.learner.get_state()
    for name, forged in {
        "clicks_precision_": state["clicks_precision_"][:1, :1],
        "clicks_ranks_": state["clicks_ranks_"][:2],
        "memory_keys_": state["memory_keys_"][:1],
        "memory_counts_": state["memory_counts_"] + 10**6,
    }.items():
        parameters = {
            "seq": good.seq,
            "hash": good.hash,
            "pairs": "{}",
            "block": folding.LISTS_PER_BLOCK,
        }
        parameters["learner"] = good.learner.get_params(deep=False)
        arrays = {known: getattr(good, known) for known in snapshots.ARRAYS}
        saving.write(
            path, snapshots.CLASS, parameters, {**arrays, "learner": {**state, name: forged}}
        )
        again = Tenant.open(tmp_path, "acme")
        assert bits(learner(again)) == expected
        again.close()
        assert f"{path} is damaged" in caplog.text
        caplog.clear()


@pytest.mark.parametrize("seq", [0, -(2**63), 2**63 - 1, 2**64 - 1, 1.5, "7"])
def test_a_snapshot_of_another_row_than_its_name_says_is_passed_over(tmp_path, often, caplog, seq):
    tenant = filled(tmp_path)
    tenant.feedback([triplet(i) for i in range(60)])
    expected = bits(learner(tenant))
    tenant.close()
    path = max((tmp_path / "acme" / "snapshots").glob("*.safetensors"))
    snapshots.write(path, snapshots.read(path)._replace(seq=seq))
    again = Tenant.open(tmp_path, "acme")
    assert bits(learner(again)) == expected
    again.close()
    assert "ignored" in caplog.text


def test_a_retraction_makes_earlier_snapshots_count_again(tmp_path, often):
    tenant = filled(tmp_path)
    for i in range(80):
        tenant.feedback([judgement(i)])
        tenant.rank(query(0), min_seq=tenant.log.last)
    tenant.retract("j30")
    after = bits(learner(tenant))
    rows, gone = list(tenant.log.rows()), tenant.log.retracted()
    kept = [row for row in rows if row.seq not in gone]
    assert after == bits(folded(kept))
    with reopened(tenant, tmp_path) as again:
        assert bits(learner(again)) == after


def test_few_snapshots_are_kept():
    numbers = list(range(0, 6400, 64))
    gone = set(snapshots.superfluous(numbers))
    kept = [number for number in numbers if number not in gone]
    assert len(kept) <= 10
    assert kept[-2:] == numbers[-2:]
    assert kept[0] == 0
