"""What a user meets first: names, import time, examples in docstrings."""

import doctest
import subprocess
import sys

import pytest

import similia
from similia.registry import ALL_LEARNERS, learner_class

HEAVY = ("sklearn", "scipy", "pandas", "matplotlib", "rich", "typer")


def test_importing_the_package_imports_nothing_heavy():
    program = f"import sys, similia; print([m for m in {HEAVY!r} if m in sys.modules])"
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize("name", similia.__all__)
def test_public_names_can_be_had(name):
    assert getattr(similia, name) is not None
    assert name in dir(similia)


def test_unknown_names_say_so():
    with pytest.raises(AttributeError, match="no attribute 'COFFEE'"):
        _ = similia.COFFEE
    with pytest.raises(ValueError, match="learner must be one of Blend, FactoredAROMA"):
        learner_class("COFFEE")


@pytest.mark.parametrize("name", ALL_LEARNERS)
def test_examples_in_docstrings_run(name):
    module = sys.modules[learner_class(name).__module__]
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
