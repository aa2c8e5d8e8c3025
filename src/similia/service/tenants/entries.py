"""From what clients send to entries of the log, checked, and back to receipts."""

from collections.abc import Callable, Sequence
from typing import Any

from similia.service.answers import Receipt
from similia.service.engine.layout import Layout
from similia.service.errors import Invalid
from similia.service.log.log import Appended, Entry
from similia.service.log.records import (
    Judgement,
    Triplet,
    encoded,
    judged_bytes,
    query_key,
    written,
)
from similia.service.tenants.checking import check_judgement

#: characters of an id that needs no further look
PLAIN_ID = 128


class Behind(Exception):
    """Whether an item is known cannot be said without waiting for the learner."""


def entry(record: Any) -> Entry:
    """Entry of a record that is no judgement."""
    return Entry(str(type(record).__struct_config__.tag), encoded(record))


def judged_entries(
    layout: Layout | None, judgements: Sequence[Judgement], known: Callable[[str], bool]
) -> list[Entry]:
    """Entries of judgements; raises Invalid with all that are wrong."""
    wrong: dict[int, str] = {}
    for place, judgement in enumerate(judgements):
        try:
            check_judgement(layout, judgement, known)
        except Invalid as error:
            wrong[place] = str(error)
    if wrong:
        raise Invalid(next(iter(wrong.values())), wrong)
    return [judged_entry(judgement) for judgement in judgements]


def plain_entries(
    judgements: Sequence[Judgement], known: Callable[[str], bool]
) -> list[Entry] | None:
    """Entries of the most frequent judgements, if they pass all checks at a glance.

    One known item is better than another, for a third, under a short id, and little else is said.
    None means that the checks must decide, not that anything is wrong.
    """
    found = []
    for judgement in judgements:
        query, id = judgement.query, judgement.id
        item = query.item
        if not (
            isinstance(judgement, Triplet)
            and id
            and len(id) <= PLAIN_ID
            and "\0" not in id
            and item is not None
            and query.id is None
            and query.text is None
            and query.vectors is None
            and judgement.judge is None
            and judgement.source is None
            and judgement.trusted is None
            and judgement.weight == 1.0
            and judgement.better != judgement.worse
            and known(item)
            and known(judgement.better)
            and known(judgement.worse)
        ):
            return None
        found.append(Entry("triplet", judged_bytes(judgement), id, f"item:{item}"))
    return found


def judged_entry(judgement: Judgement) -> Entry:
    """Entry of a judgement."""
    id, body, vectors = written(judgement)
    key = query_key(judgement.query, vectors)
    return Entry(str(type(judgement).__struct_config__.tag), body, id, key, judgement.judge)


def receipts(entries: Sequence[Entry], places: Sequence[Appended]) -> list[Receipt]:
    """What is answered to judgements that were appended."""
    return [Receipt(str(entry.id), *place) for entry, place in zip(entries, places, strict=True)]
