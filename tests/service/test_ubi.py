"""User Behavior Insights: documents of both versions become lists with clicks."""

from datetime import UTC, datetime

import pytest

from similia.service.errors import Invalid
from similia.service.http.ubi import judgements_of
from similia.service.log.records import Clicks, Query
from similia.service.schemas import UbiDocuments
from tests.service.conftest import WIDTH


def event(action, item, ordinal=None, query="q1", **more):
    position = {} if ordinal is None else {"position": {"ordinal": ordinal}}
    attributes = {"object": {"object_id": item}, **position}
    return {"action_name": action, "query_id": query, "event_attributes": attributes, **more}


def query(**more):
    return {"query_id": "q1", "user_query": "red shoes", **more}


def test_hits_are_what_was_shown_and_clicks_what_was_wanted():
    log = UbiDocuments(
        [query(query_response_hit_ids=["a", "b", "c", "a"], timestamp="2026-01-02T03:04:05")],
        [event("click", "b"), event("purchase", "b"), event("hover", "a"), event("click", "z")],
    )
    assert judgements_of(log) == [
        Clicks(
            query=Query(text="red shoes"),
            time=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
            source="ubi",
            shown=["a", "b", "c"],
            clicked=["b"],
        )
    ]


@pytest.mark.parametrize("wrap", [lambda place: place, lambda place: {"index": place}])
def test_impressions_beat_hits_and_have_places_in_both_versions(wrap):
    events = [event("impression", item, wrap(i)) for i, item in enumerate("xyz", start=4)]
    log = UbiDocuments(
        [query(query_response_hit_ids=["a"], client_id="c7")], [*events, event("click", "y")]
    )
    found = judgements_of(log)[0]
    assert (found.shown, found.clicked, found.positions) == (["x", "y", "z"], ["y"], [4, 5, 6])
    assert found.judge == "c7"


def test_a_search_that_showed_nothing_says_nothing():
    assert judgements_of(UbiDocuments([query()], [event("click", "a")])) == []


@pytest.mark.parametrize(
    "log",
    [
        UbiDocuments([{}], []),
        UbiDocuments([query()], [{}]),
        UbiDocuments([], [event("click", "a")]),
        UbiDocuments([query(query_response_hit_ids="a")], []),
        UbiDocuments([query(query_response_hit_ids=[{}])], []),
    ],
)
def test_documents_that_cannot_be_matched_are_refused(log):
    with pytest.raises(Invalid):
        judgements_of(log)


@pytest.mark.parametrize(
    "attributes", [None, 3, {}, {"object": 3}, {"object": {"object_id": None}}, {"object": []}]
)
def test_events_without_an_item_count_for_nothing(attributes):
    odd = {"action_name": "click", "query_id": "q1", "event_attributes": attributes}
    found = judgements_of(UbiDocuments([query(query_response_hit_ids=["a"])], [odd]))
    assert found[0].clicked == []


class Lengths:
    """An embedder of a kind."""

    async def embed(self, text):
        return [float(len(text))] * WIDTH


@pytest.mark.parametrize("action", [None, 1, ["click"], {"name": "click"}])
def test_actions_that_are_no_texts_count_for_nothing(action):
    log = UbiDocuments([query(query_response_hit_ids=["a", "b"])], [event(action, "b")])
    assert judgements_of(log)[0].clicked == []


def test_the_same_log_sent_twice_counts_once(http):
    http.running.service.embedder = Lengths()
    body = {
        "queries": [query(query_response_hit_ids=["i1", "i2"])],
        "events": [event("click", "i2")],
    }
    first, second = (http.post("/v1/default/feedback/ubi", json=body).json() for _ in range(2))
    assert [row["duplicate"] for row in first["results"] + second["results"]] == [False, True]
    assert http.get("/v1/default/status").json()["judgements"] == 1


def test_an_empty_log_is_no_error(http):
    empty = {"queries": [], "events": []}
    assert http.post("/v1/default/feedback/ubi", json=empty).json() == {"results": []}
