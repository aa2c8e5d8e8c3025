"""Judgements, items and settings on their way into a log: checked once, and made into entries.

All that passes can be learnt: its bytes are decoded and turned into lessons or rows by the code
that learns from them.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC
from typing import Any, cast

from similia.index.backends import BACKENDS
from similia.service.answers import Receipt
from similia.service.catalogue.items import Layout, check_query, check_vector
from similia.service.engine.lessons import lessons_of
from similia.service.errors import Invalid
from similia.service.log.limits import (
    MAX_FEEDBACK_WEIGHT,
    MAX_FIELDS,
    MAX_GRADE,
    MAX_ID_LENGTH,
    MAX_ITEM_TEXT,
    MAX_MEMORY,
    MAX_MILLISECONDS,
    MAX_POSITION,
    MAX_QUERY_TEXT,
    MAX_SHOWN,
    MAX_VIEW_WIDTH,
    MAX_VIEWS,
    MAX_WEIGHT,
)
from similia.service.log.opening import check_name
from similia.service.log.provenance import provenance
from similia.service.log.records import (
    Clicks,
    Configured,
    Grades,
    Item,
    Judgement,
    Put,
    Skip,
    TenantSettings,
    Tie,
    Triplet,
    decoded,
    encoded,
    is_number,
    named_items,
    query_key,
    view_of,
    written,
)
from similia.service.log.rows import Appended, Entry

# -- entries ---------------------------------------------------------------------------------------


def judged_entries(
    judgements: Sequence[Judgement],
    settings: TenantSettings,
    layout: Layout | None = None,
    known: Callable[[str], bool] = lambda _: False,
    *,
    uploaded: bool = False,
) -> list[Entry]:
    """Entries of judgements about known items; raises Invalid with all that are wrong."""
    found: list[Entry] = []
    wrong: dict[int, str] = {}
    for place, judgement in enumerate(judgements):
        try:
            found.append(judged_entry(judgement, settings, layout, known, uploaded=uploaded))
        except Invalid as error:
            wrong[place] = str(error)
    if wrong:
        raise Invalid(next(iter(wrong.values())), wrong)
    return found


def judged_entry(
    judgement: Judgement,
    settings: TenantSettings | None = None,
    layout: Layout | None = None,
    known: Callable[[str], bool] | None = None,
    *,
    uploaded: bool = False,
) -> Entry:
    """Entry of a judgement, unchecked if no items are given; raises Invalid if it is wrong."""
    try:
        if known is not None:
            check_judgement(layout, judgement, known, uploaded=uploaded)
        origin = provenance(settings or TenantSettings(), judgement, uploaded=uploaded)
        id, body, vectors = written(judgement, origin)
        if layout is not None:  # dry run of the learner's first steps, on any items
            found = decoded(body)
            query = layout.query_bytes(found.vectors[0]) if found.vectors else 0
            if query is None:
                raise Invalid("query: vectors must have the widths of the views.")
            rows = dict.fromkeys(named_items(judgement), 0)
            lessons_of(0, cast(Judgement, found.record), query, rows.get)
    except Invalid:
        raise
    except Exception as error:
        raise _unlearnable("judgement", error) from error
    key = query_key(judgement.query, vectors)
    return Entry(str(type(judgement).__struct_config__.tag), body, id, key, judgement.judge)


@contextmanager
def _learnable(what: str) -> Iterator[None]:
    """Translate any failure of encoding, decoding or conversion."""
    try:
        yield
    except Invalid:
        raise
    except Exception as error:
        raise _unlearnable(what, error) from error


def _unlearnable(what: str, error: Exception) -> Invalid:
    return Invalid(f"{what}: it must be learnable, got {type(error).__name__}: {error!s:.200}.")


def item_entry(layout: Layout, items: Sequence[Item]) -> Entry:
    """Entry of a batch of items; raises Invalid with all that do not fit."""
    wrong = {}
    for place, item in enumerate(items):
        try:
            with _learnable("item"):
                check_item(layout, item)
        except Invalid as error:
            wrong[place] = str(error)
    if wrong:
        raise Invalid(next(iter(wrong.values())), wrong)
    found = entry(Put(items=list(items)))
    with _learnable("items"):
        body = decoded(found.body)
        layout.items(layout.item_rows(cast(Put, body.record).items, body.vectors))
    return found


def entry(record: Any) -> Entry:
    """Entry of a record other than a judgement; raises Invalid if it cannot be read back."""
    with _learnable("row"):
        body = encoded(record)
        decoded(body)
    return Entry(str(type(record).__struct_config__.tag), body)


def receipts(entries: Sequence[Entry], places: Sequence[Appended]) -> list[Receipt]:
    """Receipts of appended judgements."""
    return [Receipt(str(entry.id), *place) for entry, place in zip(entries, places, strict=True)]


# -- checks ----------------------------------------------------------------------------------------


def check_text(name: str, text: object, most: int = MAX_ID_LENGTH, *, least: int = 1) -> None:
    """Refuse a text that is empty, too long or not storable; by default an id or a name."""
    if not isinstance(text, str) or not least <= len(text) <= most or "\0" in text:
        raise Invalid(f"{name} must be {least} to {most} characters, got {text!r:.80}.")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Invalid(f"{name} must be Unicode text, got {text!r:.80}.") from None


def checked_settings(settings: TenantSettings) -> Entry:
    """Entry of settings; raises Invalid if they cannot work."""
    found = entry(Configured(settings=settings))  # fails unless all have their types
    check_text("settings: secret", settings.secret, least=0)
    for source in settings.exam_sources:
        check_text("settings: exam_sources", source)
    if settings.shares is not None:
        check_name(settings.shares)
    given = settings.views or []
    views = [*given, *map(view_of, settings.columns)]
    names = [view.name for view in views] + settings.fields
    for name in names:
        check_text("settings: the name of a view", name)
    if len(set(names)) != len(names) or len(given) > MAX_VIEWS or len(names) > MAX_FIELDS:
        raise Invalid(
            f"settings: views and fields must be at most {MAX_VIEWS} and {MAX_FIELDS} with "
            f"different names, got {names!s:.200}."
        )
    for view in views:
        if not 1 <= view.width <= MAX_VIEW_WIDTH or (view in given[:1] and not view.compared):
            raise Invalid(
                f"settings: view {view.name!r:.80} must have 1 to {MAX_VIEW_WIDTH} features, and "
                f"the first be one that queries have too, got {view.width}."
            )
    if settings.shares is not None and names:
        raise Invalid(f"settings: views must be those of shared items, got {names!s:.200}.")
    if not 0 <= settings.held_out < 1:
        raise Invalid(f"settings: held_out must be from 0 to below 1, got {settings.held_out}.")
    if not 0 <= settings.memory <= MAX_MEMORY:
        raise Invalid(f"settings: memory must be from 0 to {MAX_MEMORY:g}, got {settings.memory}.")
    if settings.half_life is not None and not 0 < settings.half_life < math.inf:
        raise Invalid(f"settings: half_life must be positive, got {settings.half_life}.")
    if settings.search not in BACKENDS:
        known = ", ".join(BACKENDS)
        raise Invalid(f"settings: search must be one of {known}, got {settings.search!r:.80}.")
    return found


def check_item(layout: Layout, item: Item) -> None:
    """Refuse an item that does not fit the layout."""
    check_text("item: id", item.id)
    for name, text in (("text", item.text), ("image", item.image)):
        if text is not None:
            check_text(f"item {item.id!r:.80}: {name}", text, MAX_ITEM_TEXT, least=0)
    if len(item.fields) > MAX_FIELDS:
        raise Invalid(
            f"item {item.id!r:.80}: fields must be at most {MAX_FIELDS}, got {len(item.fields)}."
        )
    for name, value in item.fields.items():
        check_text(f"item {item.id!r:.80}: the name of a field", name)
        if isinstance(value, str):
            check_text(f"item {item.id!r:.80}: {name}", value, MAX_ITEM_TEXT, least=0)
        elif not is_number(value):
            raise Invalid(
                f"item {item.id!r:.80}: {name} must be a finite number, got {value!r:.80}."
            )
    layout.check_item(item)


def check_judgement(
    layout: Layout | None,
    judgement: Judgement,
    known: Callable[[str], bool],
    *,
    uploaded: bool = False,
) -> None:
    """Refuse a judgement that cannot be learnt."""
    query = judgement.query
    for name in ("id", "judge", "source", "question", "left"):
        value = getattr(judgement, name)
        if value is not None:
            check_text(f"judgement: {name}", value)
    for name, value in (("id", query.id), ("item", query.item)):
        if value is not None:
            check_text(f"query: {name}", value)
    if query.text is not None:
        check_text("query: text", query.text, MAX_QUERY_TEXT, least=0)
    most = MAX_WEIGHT if uploaded else MAX_FEEDBACK_WEIGHT
    if not (math.isfinite(judgement.weight) and 0 <= judgement.weight <= most):
        raise Invalid(
            f"judgement: weight must be from 0 to {most:g} ({MAX_WEIGHT:g} for administrators), "
            f"got {judgement.weight!r}."
        )
    if judgement.milliseconds is not None and not 0 <= judgement.milliseconds <= MAX_MILLISECONDS:
        raise Invalid(
            f"judgement: milliseconds must be from 0 to {MAX_MILLISECONDS}, "
            f"got {judgement.milliseconds!s:.40}."
        )
    if judgement.time is not None and judgement.time.tzinfo is not None:
        try:
            judgement.time.astimezone(UTC)
        except OverflowError:
            raise Invalid(
                "judgement: time must be between the years 1 and 9999 in UTC, got "
                f"{judgement.time.isoformat()}."
            ) from None
    shown = named_items(judgement)
    most_named = 2 * MAX_SHOWN if isinstance(judgement, Clicks) else MAX_SHOWN
    if not 0 < len(shown) <= most_named:
        raise Invalid(f"judgement: there must be 1 to {MAX_SHOWN} items, got {len(shown)}.")
    if isinstance(judgement, Skip):
        _check_skip(layout, judgement)
        return
    check_query(layout, query, known)
    for id in shown:
        if not known(id):
            raise Invalid(f"judgement: items must be ids of items, got {id!r:.80}.")
    _check_kind(judgement)


def _check_skip(layout: Layout | None, skip: Skip) -> None:
    """Items may be gone by now, but the query must be valid."""
    for id in skip.shown:
        check_text("skip: shown", id)
    if skip.query.vectors:
        if layout is not None:
            layout.check_query(skip.query.vectors)
            return
        for name, vector in skip.query.vectors.items():
            check_text("query: the name of a view", name)
            check_vector(f"query: {name}", vector, min(len(vector), MAX_VIEW_WIDTH))


def _check_kind(judgement: Judgement) -> None:
    match judgement:
        case Triplet(better=one, worse=other) | Tie(items=(one, other)):
            if one == other:
                raise Invalid(
                    f"judgement: items must be two different ones, got {one!r:.80} twice."
                )
        case Grades(grades=grades):
            if not all(
                math.isfinite(grade) and 0 <= grade <= MAX_GRADE for grade in grades.values()
            ):
                raise Invalid(f"judgement: grades must be numbers from 0 to {MAX_GRADE:g}.")
        case Clicks(shown=shown, clicked=clicked, positions=positions):
            _check_clicks(shown, clicked, positions)
        case _:
            pass


def _check_clicks(shown: list[str], clicked: list[str], positions: list[int] | None) -> None:
    if len(shown) > MAX_SHOWN:
        raise Invalid(f"clicks: items shown must be at most {MAX_SHOWN}, got {len(shown)}.")
    if len(set(shown)) != len(shown):
        raise Invalid("clicks: items shown must be different ones, got one twice.")
    missing = set(clicked) - set(shown)
    if missing:
        raise Invalid(f"clicks: clicked items must be shown; not shown: {min(missing)!r:.80}.")
    if positions is None:
        return
    if len(positions) != len(shown) or not all(1 <= at <= MAX_POSITION for at in positions):
        raise Invalid(
            f"clicks: positions must be {len(shown)} places from 1, one for each item shown, "
            f"got {positions!s:.80}."
        )
