"""Records come back from their bytes as they were given, but for single precision."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from similia.service.log.records import (
    Clicks,
    Grades,
    Item,
    Pair,
    Put,
    Query,
    Triplet,
    encoded,
    query_key,
    whole,
    with_id,
)

numbers = st.floats(-1e6, 1e6, width=32)
vectors = st.dictionaries(
    st.text(min_size=1, max_size=5), st.lists(numbers, max_size=4), min_size=1
)
names = st.text(min_size=1, max_size=8)
queries = st.builds(
    Query, vectors=vectors | st.none(), id=names | st.none(), text=names | st.none()
)
common = {"query": queries, "id": names | st.none(), "judge": names | st.none()}
judgements = st.one_of(
    st.builds(Triplet, better=names, worse=names, trusted=st.booleans() | st.none(), **common),
    st.builds(Grades, grades=st.dictionaries(names, numbers, max_size=4), **common),
    st.builds(Clicks, shown=st.lists(names), clicked=st.lists(names), **common),
    st.builds(Pair, item=names, similar=st.booleans(), **common),
)
items = st.builds(
    Item,
    id=names,
    vectors=vectors,
    fields=st.dictionaries(names, st.booleans() | names, max_size=3),
)


@given(judgements)
def test_a_judgement_comes_back(judgement):
    known, body = with_id(judgement)
    assert whole(body) == known
    assert structs.replace(known, id=judgement.id) == judgement


@given(st.lists(items, min_size=1, max_size=4))
def test_items_come_back(given_items):
    assert whole(encoded(Put(items=given_items))).items == given_items


@given(judgements)
def test_the_same_judgement_has_the_same_id_and_bytes(judgement):
    known, body = with_id(judgement)
    assert with_id(judgement) == (known, body) == with_id(known)
    if judgement.query.vectors:
        turned = dict(reversed(judgement.query.vectors.items()))
        query = Query(id=judgement.query.id, text=judgement.query.text, vectors=turned)
        fields = {name: getattr(judgement, name) for name in judgement.__struct_fields__}
        assert with_id(type(judgement)(**{**fields, "query": query}))[1] == body


def test_numbers_are_rounded_to_single_precision_before_anything_sees_them():
    one = Triplet(query=Query(vectors={"v": [0.1]}), better="a", worse="b")
    other = Triplet(query=Query(vectors={"v": [float(np.float32(0.1))]}), better="a", worse="b")
    assert with_id(one)[1] == with_id(other)[1]
    array = Triplet(query=Query(vectors={"v": np.array([0.1])}), better="a", worse="b")
    assert with_id(array)[1] == with_id(one)[1]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (Query(id="a"), Query(id="a", item="x"), True),
        (Query(id="a"), Query(id="b"), False),
        (Query(item="a"), Query(id="a"), False),
        (Query(vectors={"v": [1.0]}), Query(vectors={"v": [1.0]}, text="x"), True),
        (Query(vectors={"v": [1.0]}), Query(vectors={"v": [2.0]}), False),
        (Query(text="a"), Query(text="b"), False),
    ],
)
def test_queries_are_recognized(one, other, same):
    assert (query_key(one) == query_key(other)) is same
