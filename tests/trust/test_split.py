import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from similia.trust import held_out


@given(st.lists(st.text(max_size=4), max_size=30), st.integers(0, 9), st.floats(0.05, 0.95))
def test_a_query_lies_on_one_side_whatever_comes_with_it(names, seed, share):
    whole = held_out([*names, "z"], share, seed)
    for i, name in enumerate([*names, "z"]):
        assert held_out([name], share, seed)[0] == whole[i]


def test_numbers_and_the_strings_that_show_them_are_one_name():
    numbers = np.arange(100)
    np.testing.assert_array_equal(held_out(numbers), held_out([str(n) for n in numbers]))
    np.testing.assert_array_equal(held_out(numbers), held_out(numbers.astype(np.int8)))


@given(st.floats(0.01, 0.98), st.integers(0, 5))
def test_a_larger_share_holds_out_more_and_none_fewer(share, seed):
    names = np.arange(500)
    assert (held_out(names, share, seed) <= held_out(names, share + 0.01, seed)).all()


def test_the_share_is_about_what_was_asked_and_the_seed_matters():
    names = np.arange(10_000)
    assert abs(held_out(names, 0.3).mean() - 0.3) < 0.02
    assert (held_out(names, 0.3, 1) != held_out(names, 0.3, 2)).mean() > 0.3


def test_the_split_is_kept_for_ever():
    assert np.flatnonzero(held_out(np.arange(20))).tolist() == [5, 9, 13, 14, 16, 19]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([1.5, 2.0],), "queries must be a list"),
        (([[1], [2]],), "queries must be a list"),
        (([None, "a"],), "queries must be integers or strings"),
        ((["a"], 0.0), "share must be"),
        ((["a"], 1.0), "share must be"),
        ((["a"], 0.5, -1), "seed must be"),
        ((["a"], 0.5, True), "seed must be"),
    ],
)
def test_bad_arguments_are_refused(arguments, words):
    with pytest.raises(ValueError, match=f"^held_out: {words}"):
        held_out(*arguments)
