"""Logs of version 0.2 open as they are: the same bits, the same exams; they say what is public."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from similia.service.log.records import Triplet, query_key
from similia.service.tenants import upkeep
from similia.service.tenants.tenants import Tenants
from similia.trust import held_out
from tests.service.problems import bits, folded, folded_sharing, learner, query

LOGS = Path(__file__).parents[2] / "fixtures" / "logs"


@pytest.fixture
def store(tmp_path):
    return Path(shutil.copytree(LOGS, tmp_path / "store"))


@pytest.fixture
def tenants(store):
    found = Tenants(store)
    yield found
    found.close()


def test_states_are_folds_row_by_row(tenants):
    plain, team = tenants.get("plain"), tenants.get("team")
    assert (plain.log.last, team.log.last) == (161, 53)
    assert bits(learner(plain)) == bits(folded(plain.log.rows(), plain.log.retracted()))
    expected = folded_sharing(team.log.rows(), plain.log.rows(), team.log.retracted())
    assert bits(learner(team)) == bits(expected)
    assert learner(plain).n_seen_ > 100
    assert learner(team).n_seen_ > 20


def test_checks_find_them_whole_and_learnable(store):
    found = dict(upkeep.check(str(store)))
    assert found["plain"].rows == 161
    assert found["team"].rows == 53
    assert not found["plain"].unlearnable
    assert not found["team"].unlearnable


def test_held_out_queries_follow_the_public_rule_and_it_is_said(tenants):
    team = tenants.get("team")
    learner(team)
    keys = [row.query for row in team.log.rows() if row.kind == "triplet"]
    gone = team.log.retracted()
    held = held_out(np.array(keys, object), 0.5)
    rows = [row.seq for row in team.log.rows() if row.kind == "triplet"]
    expected = {seq for seq, out in zip(rows, held, strict=True) if out and seq not in gone}
    assert set(team.learner.exams()[1]) == expected
    assert expected
    assert "no secret" in team.champions.evaluate().note


def test_feedback_goes_on_as_before(tenants):
    """Rows since follow the rule of their log: what calls itself random is an exam's."""
    team = tenants.get("team")
    asked = next(q for i in range(99) if held_out(np.array([query_key(q := query(i))]), 0.5)[0])
    before = len(team.learner.exams()[1])
    told = Triplet(query=asked, better="i1", worse="i2", source="random")
    seq = team.feedback([told], uploaded=False)[-1].seq
    team.learner.wait(seq, 60)
    assert len(team.learner.exams()[1]) == before + 1
