import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from similia.files import Ids
from similia.files.ids import as_integers
from similia.files.rows import RowError, csv_text
from similia.files.vectors import read_ids

integers = st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, min_size=1)
texts = st.lists(st.text(min_size=1), unique=True, min_size=1)


@given(integers | texts, st.randoms())
def test_every_id_leads_to_its_row(values, random):
    ids = Ids(
        np.array(values, dtype=object if isinstance(values[0], str) else np.int64), len(values)
    )
    rows = [random.randrange(len(values)) for _ in range(10)]
    asked = [values[row] for row in rows]
    assert [ids.row(value) for value in asked] == rows
    assert ids.names(rows) == asked
    column = asked if isinstance(values[0], str) else np.array(asked)
    assert ids.rows(column).tolist() == rows


@given(st.lists(st.sampled_from("=+-@'ax").map(lambda c: f"{c}1"), unique=True, min_size=1))
def test_ids_are_read_as_csv_without_formulas_has_them(values):
    ids = Ids(values, len(values))
    assert [ids.row(csv_text(value)) for value in values] == list(range(len(values)))
    assert not any(csv_text(value).startswith(tuple("=+-@")) for value in values)


def test_an_id_with_a_quote_of_its_own_is_itself():
    ids = Ids(["=a", "'=a"], 2)
    assert [ids.row("=a"), ids.row("'=a")] == [0, 1]


@given(st.integers(1, 50), st.integers())
def test_without_ids_rows_are_numbered_from_zero(n, value):
    ids = Ids(None, n)
    known = 0 <= value < n
    for form in (value, str(value)):
        if known:
            assert ids.row(form) == value
        else:
            with pytest.raises(RowError, match="unknown id"):
                ids.row(form)
    if abs(value) < 2**63:
        assert (ids.known_rows(np.array([value]))[0] >= 0) == known


@pytest.mark.parametrize("values", [[3, 5], ["3", "5"]])
@pytest.mark.parametrize("asked", [5, "5"])
def test_integers_and_texts_of_integers_are_the_same_id(values, asked):
    ids = Ids(np.array(values, dtype=object if values[0] == "3" else np.int64), 2)
    assert ids.row(asked) == 1
    for column in ([asked], np.array([asked])):
        assert ids.rows(column).tolist() == [1]


@pytest.mark.parametrize(
    "value",
    [True, None, 1.5, "1.5", "", [1], float("nan"), 2**70, "1_0", "\u0661", " 1", "1" * 5000],
)
def test_what_is_no_id_is_unknown(value):
    for ids in (Ids(None, 3), Ids(np.array([1, 2]), 2), Ids(np.array(["x"], dtype=object), 1)):
        with pytest.raises(RowError, match="unknown id"):
            ids.row(value)


def test_whole_floats_are_integers():
    assert Ids(None, 5).row(3.0) == 3
    assert Ids(None, 5).rows(np.array([3.0, 1.0])).tolist() == [3, 1]
    assert Ids(None, 5).known_rows(np.array([3.5, 1.0])).tolist() == [-1, 1]


@given(st.lists(st.integers(-(2**63), 2**63 - 1).map(str) | st.text("0123456789-+_ ", max_size=5)))
def test_texts_are_integers_only_if_nothing_is_lost(texts):
    numbers = as_integers(texts)
    if numbers is not None:
        assert [str(number) for number in numbers] == texts
    else:
        assert any(not text.isdecimal() or text.startswith("0") for text in texts)


def test_leading_zeros_are_kept(tmp_path):
    (tmp_path / "v.ids").write_text("007\n7\n10\n")
    ids = Ids(read_ids(tmp_path / "v.ids"), 3)
    assert ids.names([0, 1, 2]) == ["007", "7", "10"]
    assert [ids.row("007"), ids.row("7"), ids.row(7)] == [0, 1, 1]


@pytest.mark.parametrize("values", [[2**63, 5], np.array([2**64 - 1, 5], dtype=np.uint64)])
def test_integers_beyond_64_bits_with_a_sign_are_kept(values):
    ids = Ids(values, 2)
    assert ids.names([0, 1]) == [str(value) for value in values]
    assert [ids.row(int(values[0])), ids.row("5"), ids.row(5)] == [0, 1, 1]


@given(
    st.lists(st.text("=+ab\N{GREEK SMALL LETTER BETA}\0"), unique=True, min_size=1),
    st.lists(st.none() | st.integers(0, 5) | st.text("'=+ab01"), min_size=1),
)
def test_ids_found_together_are_those_found_one_by_one(known, asked):
    for ids in (Ids(known, len(known)), Ids(np.array([3, 1, 5]), 3), Ids(None, 3)):
        together = ids.known_rows(asked)
        assert together.tolist() == [int(ids.known_rows([value])[0]) for value in asked]
        for value, row in zip(asked, together.tolist(), strict=True):
            if row < 0:
                with pytest.raises(RowError, match="unknown id"):
                    ids.row(value)
            else:
                assert ids.row(value) == row
        if together.min() < 0:
            with pytest.raises(LookupError):
                ids.rows(asked)
        else:
            assert ids.rows(asked).tolist() == together.tolist()


def test_ids_that_no_file_can_hold_do_not_matter_to_others():
    ids = Ids(["a", "\ud800", "b"], 3)
    assert ids.known_rows(["b", "c", "a"]).tolist() == [2, -1, 0]
