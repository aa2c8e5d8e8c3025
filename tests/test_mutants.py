"""The common checks are worth what they kill: every mutant of the toy learner dies."""

import pytest

from tests.checks import CHECKS
from tests.toy import MUTANTS, Toy


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_toy_passes_every_check(check):
    check(Toy)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_mutant_dies(mutant):
    assert killers(mutant)


def killers(mutant):
    """Names of the checks that a mutant fails."""
    failed = []
    for check in CHECKS:
        try:
            check(mutant)
        except AssertionError:
            failed.append(check.__name__)
    return failed


if __name__ == "__main__":
    for mutant in MUTANTS:
        print(f"{mutant.__name__:16}", *killers(mutant))  # noqa: T201
