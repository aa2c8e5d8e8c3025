"""The attack of `make fuzz`: former findings, and a few other cases of every target."""

import json
import sys
from pathlib import Path

import pytest

import similia
from tests.fuzz.__main__ import batch
from tests.fuzz.calls import ATTACKED, ELSEWHERE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and forks of Linux")
CASES = json.loads((Path(__file__).parent / "corpus" / "cases.json").read_text())
TARGETS = sorted({target for target, _ in CASES})


@pytest.mark.parametrize("target", TARGETS)
def test_no_case_of_the_corpus_is_a_finding(target):
    for name, seed in CASES:
        if name == target:
            findings, n = batch(name, seed, 1)
            assert (findings, n) == ({}, 1)


@pytest.mark.parametrize("target", TARGETS)
def test_a_short_attack_finds_nothing(target):
    findings, n = batch(target, 0, 15)
    assert (findings, n) == ({}, 15)


def test_every_public_name_is_attacked():
    attacked = {name for names in ATTACKED.values() for name in names}
    assert attacked | ELSEWHERE == set(similia.__all__)
