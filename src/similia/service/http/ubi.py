"""Documents of User Behavior Insights (1.0.0 to 1.3.0) as judgements: lists shown, and clicks.

What was shown for a query are the objects of its "impression" events if it has some, else its
`query_response_hit_ids`. An event on what was not shown counts for nothing, as in files of UBI.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from similia.feedback.ubi import GAINS
from similia.service.errors import Invalid
from similia.service.log.limits import MAX_ID_LENGTH
from similia.service.log.records import Clicks, Judgement, Query
from similia.service.schemas import UbiDocuments

IMPRESSION = "impression"


def judgements_of(log: UbiDocuments) -> list[Judgement]:
    """One judgement for each search that showed something."""
    events: dict[str, list[dict[str, Any]]] = {}
    for place, event in enumerate(log.events):
        events.setdefault(_text(event, "query_id", f"events[{place}]"), []).append(event)
    found: list[Judgement] = []
    for place, query in enumerate(log.queries):
        where = f"queries[{place}]"
        own = events.pop(_text(query, "query_id", where), [])
        clicks = _clicks(query, own, where)
        if clicks is not None:
            found.append(clicks)
    if events:
        raise Invalid(
            f"events must come with their queries, got none for query_id {min(events)!r:.80}."
        )
    return found


def _clicks(query: dict[str, Any], events: list[dict[str, Any]], where: str) -> Clicks | None:
    places = dict(_impressions(events))
    shown = list(places)
    if not shown:
        hits = query.get("query_response_hit_ids") or []
        if not isinstance(hits, list) or not all(isinstance(h, str | int) for h in hits):
            raise Invalid(f"{where}: query_response_hit_ids must be a list of ids.")
        shown = list(dict.fromkeys(map(str, hits)))
    if not shown:
        return None
    wanted = {_object(event) for event in events if str(event.get("action_name")) in GAINS}
    text = query.get("user_query")
    user = _text(query, "client_id", where, needed=False)
    positions = [place for place in map(places.get, shown) if place is not None]
    return Clicks(
        query=Query(
            id=None if isinstance(text, str) and text else _text(query, "query_id", where),
            text=text if isinstance(text, str) and text else None,
        ),
        judge=user,
        time=_time(query.get("timestamp")),
        source="ubi",
        shown=shown,
        clicked=[item for item in shown if item in wanted],
        positions=positions if positions and len(positions) == len(shown) else None,
    )


def _impressions(events: list[dict[str, Any]]) -> Iterator[tuple[str, int | None]]:
    """Items shown, and their places if these were logged."""
    for event in events:
        name = _object(event)
        if event.get("action_name") == IMPRESSION and name is not None:
            yield name, _ordinal(event)


def _attributes(event: dict[str, Any], name: str) -> dict[str, Any]:
    found = event.get("event_attributes")
    inner = found.get(name) if isinstance(found, dict) else None
    return inner if isinstance(inner, dict) else {}


def _object(event: dict[str, Any]) -> str | None:
    found = _attributes(event, "object").get("object_id")
    return str(found) if isinstance(found, str | int) else None


def _ordinal(event: dict[str, Any]) -> int | None:
    """Place from 1: an integer since 1.1.0, an object with an index before."""
    found = _attributes(event, "position").get("ordinal")
    if isinstance(found, dict):
        found = found.get("index")
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 1 else None


def _text(document: dict[str, Any], name: str, where: str, *, needed: bool = True) -> Any:
    found = document.get(name)
    if isinstance(found, str) and 0 < len(found) <= MAX_ID_LENGTH:
        return found
    if needed:
        raise Invalid(f"{where}: {name} must be a text of 1 to {MAX_ID_LENGTH} characters.")
    return None


def _time(found: Any) -> datetime | None:
    """A time, in UTC unless it has a zone."""
    if not isinstance(found, str):
        return None
    try:
        time = datetime.fromisoformat(found)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
