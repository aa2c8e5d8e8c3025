"""Keys: the same number for the same id, wherever it stands."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from similia.files import RowError
from similia.files.ids import key, keys_of_texts


@given(st.lists(st.text()))
def test_a_text_has_one_key_alone_or_among_others(texts):
    assert keys_of_texts(texts).tolist() == [key(text) for text in texts]


@given(st.lists(st.text(), unique=True))
def test_different_texts_have_different_keys(texts):
    assert len(set(keys_of_texts(texts).tolist())) == len(texts)


def test_close_texts_do_not_collide():
    texts = [f"{i:08x}-0000-4000-8000-{j:012x}" for i in range(500) for j in range(500)]
    assert len(np.unique(keys_of_texts(texts))) == len(texts)


@given(st.integers())
def test_an_integer_is_its_own_key_as_far_as_it_fits(number):
    assert -(2**63) <= key(number) < 2**63
    if -(2**63) <= number < 2**63:
        assert key(number) == number


@pytest.mark.parametrize("raw", [True, 1.5, None, ["a"]])
def test_other_values_are_no_ids(raw):
    with pytest.raises(RowError, match="not an id"):
        key(raw)
