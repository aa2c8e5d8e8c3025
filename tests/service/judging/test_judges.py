"""Judges: how consistent each is, and how far they agree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from similia.service.judging.judges import Count, krippendorff_alpha
from similia.service.log.records import Query, Triplet
from similia.service.tenants.tenant import Tenant
from tests.service.conftest import some_items


def units(rows):
    """Values by unit, of rows of digits by observer."""
    return [[value for value in column if value not in ". "] for column in zip(*rows, strict=True)]


def test_alpha_is_that_of_the_published_example():
    rows = ["12332141 2...", "12332241 25.3", ".3332342 251.", "12332441 251."]
    rows = [row.replace(" ", "") for row in rows]
    assert krippendorff_alpha(units(rows)) == pytest.approx(0.743, abs=5e-4)


@given(st.lists(st.lists(st.sampled_from("ab"), min_size=2, max_size=4), min_size=1, max_size=8))
def test_alpha_is_one_only_if_all_agree(found):
    alpha = krippendorff_alpha(found)
    if alpha is None:
        assert len({value for unit in found for value in unit}) == 1
    else:
        assert alpha <= 1.0
        assert (alpha == 1.0) == all(len(set(unit)) == 1 for unit in found)


@pytest.fixture
def tenant(tmp_path):
    made = Tenant.create(tmp_path, "default")
    made.put_items(some_items())
    yield made
    made.close()


def said(judge, better, worse, source="suggested"):
    names = {"better": f"i{better}", "worse": f"i{worse}"}
    return Triplet(query=Query(item="i0"), judge=judge, source=source, weight=0.0, **names)


def test_consistency_is_told_from_repeats_and_check_questions(tenant):
    tenant.feedback([said("ann", 1, 2), said("ann", 2, 1, "repeat"), said("ann", 3, 4)])
    tenant.feedback([said("ann", 3, 4, "repeat"), said("owner", 5, 6, "gold")])
    tenant.feedback([said("ann", 5, 6, "check"), said("bea", 6, 5, "check")])
    found = tenant.judges.standing("ann")
    assert (found.repeats, found.gold) == (Count(2, 1), Count(1, 1))
    assert tenant.judges.standing("bea").gold == Count(1, 0)


def test_a_question_counts_once_however_often_it_is_answered(tenant):
    tenant.feedback([said("ann", 1, 2), said("owner", 5, 6, "gold")])
    for took in range(5):
        again = [said("ann", 1, 2, "repeat"), said("ann", 5, 6, "check")]
        tenant.feedback([structs.replace(each, milliseconds=took) for each in again])
    found = tenant.judges.standing("ann")
    assert (found.repeats, found.gold) == (Count(1, 1), Count(1, 1))


def test_agreement_counts_comparisons_that_several_answered(tenant):
    assert tenant.judges.agreement().alpha is None
    tenant.feedback([said("ann", 1, 2), said("bea", 1, 2), said("ann", 3, 4), said("bea", 3, 4)])
    tenant.feedback([said("ann", 6, 5), said("bea", 6, 5), said("cem", 8, 7)])
    found = tenant.judges.agreement()
    assert (found.alpha, found.questions) == (1.0, 3)
    tenant.feedback([said("cem", 2, 1)])
    assert tenant.judges.agreement().alpha < 1.0


def test_retracted_answers_do_not_count(tenant):
    receipts = tenant.feedback([said("ann", 1, 2), said("ann", 3, 4)])
    tenant.retract(receipts[0].id)
    assert tenant.judges.standing("ann").answers == 1
