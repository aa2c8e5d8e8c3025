import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from similia import Impressions
from similia.feedback.clicks import RULES, click_preferences

lists = st.lists(
    st.lists(st.sampled_from([0.0, 0.0, 1.0, 2.0]), min_size=1, max_size=6), max_size=6
)


def impressions(gains):
    flat = [gain for row in gains for gain in row]
    number = np.repeat(np.arange(len(gains)), [len(row) for row in gains]).astype(int)
    return Impressions.from_rows(number % 3, np.arange(len(flat)), flat, impression=number)


@pytest.mark.parametrize("rule", RULES)
@given(gains=lists)
def test_preferences_are_those_of_the_definition(gains, rule):
    found = click_preferences(impressions(gains), rule)
    wanted, start = [], 0
    for number, row in enumerate(gains):
        clicked = [i for i, gain in enumerate(row) if gain > 0]
        for i in clicked[-1:] if rule == "last-click" else clicked:
            for j, gain in enumerate(row):
                if gain < row[i] and (rule == "clicked" or j < i):
                    wanted.append([number % 3, start + i, start + j])
        start += len(row)
    assert found.triplets.tolist() == wanted


@given(gains=lists)
def test_a_list_counts_once_however_many_pairs_it_has(gains):
    log = impressions(gains)
    found = click_preferences(log)
    owner = np.searchsorted(log.starts, found.better, side="right") - 1
    sums = np.bincount(owner, weights=found.weights, minlength=len(log))
    assert set(sums.round(9).tolist()) <= {0.0, 1.0}


def test_nothing_shown_is_no_negative():
    only_clicks = Impressions.from_rows([0, 1], [5, 6], [1, 1])
    assert len(click_preferences(only_clicks).triplets) == 0


def test_places_count_rather_than_the_order_of_rows():
    log = Impressions.from_rows([0, 0, 0], [7, 8, 9], [1, 0, 0], position=[2, 1, 3])
    assert click_preferences(log, "skip-above").triplets.tolist() == [[0, 7, 8]]


def test_the_last_click_is_the_last_in_time():
    log = Impressions.from_rows([0, 0, 0], [7, 8, 9], [0, 1, 1], timestamp=[0.0, 9.0, 5.0])
    assert click_preferences(log, "last-click").triplets.tolist() == [[0, 8, 7]]


def test_an_unknown_rule_is_refused():
    with pytest.raises(ValueError, match="rule must be one of 'clicked', 'skip-above'"):
        click_preferences(impressions([[1.0, 0.0]]), "above")
