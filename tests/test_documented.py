"""Functions and classes that are not learners document the parameters that they have."""

import inspect

import pytest
from numpydoc.docscrape import ClassDoc, FunctionDoc

from similia.adapters import Adapters, load_adapters
from similia.feedback import FeedbackFile, ImpressionsFile, UbiLog
from similia.feedback.clicks import click_preferences, click_rates, estimate_propensities
from similia.files import Source
from similia.index import Index, build_index, open_index
from similia.stream import learn_file
from similia.trust import (
    Promotion,
    calibration,
    calibration_of,
    chosen_scale,
    held_out,
    pairs_as_triplets,
    triplet_evaluation,
    triplet_margins,
)

DOCUMENTED = [
    FeedbackFile,
    ImpressionsFile,
    Source,
    UbiLog,
    click_preferences,
    click_rates,
    estimate_propensities,
    Adapters,
    Adapters.learn,
    load_adapters,
    build_index,
    open_index,
    Index.search,
    Index.add,
    Promotion,
    Promotion.run,
    Promotion.record_split,
    Promotion.check_split,
    Promotion.judge,
    Promotion.challenge,
    Promotion.challenge_by_relevance,
    Promotion.rollback,
    calibration,
    calibration_of,
    chosen_scale,
    held_out,
    learn_file,
    pairs_as_triplets,
    triplet_evaluation,
    triplet_margins,
]


@pytest.mark.parametrize("thing", DOCUMENTED, ids=lambda thing: thing.__qualname__)
def test_documented_parameters_are_the_signature(thing):
    documentation = ClassDoc(thing) if inspect.isclass(thing) else FunctionDoc(thing)
    entries = [part.strip(" *") for p in documentation["Parameters"] for part in p.name.split(",")]
    assert entries == [name for name in inspect.signature(thing).parameters if name != "self"]
