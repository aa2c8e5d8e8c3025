"""The attack of `make fuzz`: former findings, and a few other cases of every target."""

import json
import sys
from pathlib import Path

import pytest

import similia
from tests.fuzz.__main__ import batch
from tests.fuzz.calls import ATTACKED, ELSEWHERE
from tests.fuzz.everything import TARGETS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and forks of Linux")
CASES = json.loads((Path(__file__).parent / "corpus" / "cases.json").read_text())
#: further cases of each target
SHORT = range(15)


@pytest.mark.parametrize("target", TARGETS)
def test_neither_the_corpus_nor_a_short_attack_is_a_finding(target):
    seeds = [seed for name, seed in CASES if name == target]
    seeds += [seed for seed in SHORT if seed not in seeds]
    assert batch(target, seeds) == ({}, len(seeds))


def test_every_case_of_the_corpus_is_of_a_target():
    assert {target for target, _ in CASES} <= set(TARGETS)


def test_every_public_name_is_attacked():
    attacked = {name for names in ATTACKED.values() for name in names}
    assert attacked | ELSEWHERE == set(similia.__all__)
