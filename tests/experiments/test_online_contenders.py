"""Contenders written as learners against the checks of every public learner."""

from itertools import product

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from experiments.contenders.paum import PAUM
from experiments.contenders.sgd_qn import SGDQN
from tests.checks import CHECKS, check_a_judgement_is_followed

CONTENDERS = [PAUM, SGDQN]
#: SGD-QN shrinks its weights every `skip` examples, and by more than the example adds
EXCEPTIONS = [(check_a_judgement_is_followed, SGDQN)]
CASES = [case for case in product(CHECKS, CONTENDERS) if case not in EXCEPTIONS]


@pytest.mark.parametrize(("check", "cls"), CASES, ids=lambda value: value.__name__)
def test_house_check(check, cls):
    check(cls)


@parametrize_with_checks([cls(random_state=0) for cls in CONTENDERS])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_check(estimator, check):
    check(estimator)
