"""Rules for what clients send, checked before anything is stored."""

import math
from collections.abc import Callable, Sequence

from similia.index.backends import BACKENDS
from similia.service.engine.layout import Layout
from similia.service.engine.lessons import MOST_SHOWN, shown_items
from similia.service.errors import Invalid
from similia.service.log.records import (
    Clicks,
    Grades,
    Item,
    Judgement,
    Query,
    Settings,
    Skip,
    Tie,
    Triplet,
)

#: characters of an id
LONGEST = 512
#: features of a view
WIDEST = 65_536


def check_id(name: str, id: object) -> None:
    """Refuse an empty, endless or unprintable id."""
    if not isinstance(id, str) or not 0 < len(id) <= LONGEST or "\0" in id:
        raise Invalid(f"{name} must be 1 to {LONGEST} characters, got {id!r:.80}.")


def check_settings(settings: Settings) -> None:
    """Refuse settings with which nothing could be learnt."""
    names = [view.name for view in settings.views or []] + settings.fields
    if len(set(names)) != len(names) or not all(names):
        raise Invalid(f"settings: views and fields must have different names, got {names!s:.200}.")
    for place, view in enumerate(settings.views or []):
        if not 1 <= view.width <= WIDEST or (place == 0 and not view.compared):
            raise Invalid(
                f"settings: view {view.name!r:.80} must have 1 to {WIDEST} features, and the first "
                f"be one that queries have too, got {view.width}."
            )
    if settings.shares is not None and names:
        raise Invalid(f"settings: views must be those of shared items, got {names!s:.200}.")
    if not 0 <= settings.held_out < 1:
        raise Invalid(f"settings: held_out must be from 0 to below 1, got {settings.held_out}.")
    if not 0 <= settings.memory <= 10**7:
        raise Invalid(f"settings: memory must be from 0 to 1e7, got {settings.memory}.")
    if settings.half_life is not None and not 0 < settings.half_life < math.inf:
        raise Invalid(f"settings: half_life must be positive, got {settings.half_life}.")
    if settings.search not in BACKENDS:
        known = ", ".join(BACKENDS)
        raise Invalid(f"settings: search must be one of {known}, got {settings.search!r:.80}.")


def check_items(layout: Layout, items: Sequence[Item]) -> None:
    """Refuse a batch with an item that does not fit."""
    wrong = {}
    for place, item in enumerate(items):
        try:
            check_id("item: id", item.id)
            layout.check_item(item)
        except Invalid as error:
            wrong[place] = str(error)
    if wrong:
        raise Invalid(next(iter(wrong.values())), wrong)


def check_query(layout: Layout | None, query: Query, known: Callable[[str], bool]) -> None:
    """Refuse a query that nothing can be ranked for."""
    for name, value in (("id", query.id), ("item", query.item)):
        if value is not None:
            check_id(f"query: {name}", value)
    if layout is None:
        raise Invalid("query: there must be items before anything is asked, got none.")
    if query.vectors:
        layout.check_query(query.vectors)
    elif query.item is None:
        raise Invalid(
            "query: there must be vectors or an item"
            f"{', got only a text; set up an embedder' if query.text else ', got neither'}."
        )
    elif not known(query.item):
        raise Invalid(f"query: item must be the id of an item, got {query.item!r:.80}.")


def check_judgement(
    layout: Layout | None, judgement: Judgement, known: Callable[[str], bool]
) -> None:
    """Refuse a judgement that could never be learnt."""
    if judgement.id is not None:
        check_id("judgement: id", judgement.id)
    if judgement.judge is not None:
        check_id("judgement: judge", judgement.judge)
    if not (math.isfinite(judgement.weight) and 0 <= judgement.weight <= 1e6):
        raise Invalid(f"judgement: weight must be from 0 to 1e6, got {judgement.weight!r}.")
    shown = shown_items(judgement)
    if not 0 < len(shown) <= 2 * MOST_SHOWN:
        raise Invalid(f"judgement: there must be 1 to {MOST_SHOWN} items, got {len(shown)}.")
    if isinstance(judgement, Skip):
        return
    check_query(layout, judgement.query, known)
    for id in shown:
        if not known(id):
            raise Invalid(f"judgement: items must be ids of items, got {id!r:.80}.")
    _check_kind(judgement)


def _check_kind(judgement: Judgement) -> None:
    match judgement:
        case Triplet(better=one, worse=other) | Tie(items=(one, other)):
            if one == other:
                raise Invalid(
                    f"judgement: items must be two different ones, got {one!r:.80} twice."
                )
        case Grades(grades=grades):
            if not all(math.isfinite(grade) and 0 <= grade <= 1e6 for grade in grades.values()):
                raise Invalid("judgement: grades must be numbers from 0 to 1e6, got others.")
        case Clicks(shown=shown, clicked=clicked, positions=positions):
            _check_clicks(shown, clicked, positions)
        case _:
            pass


def _check_clicks(shown: list[str], clicked: list[str], positions: list[int] | None) -> None:
    if len(set(shown)) != len(shown):
        raise Invalid("clicks: items shown must be different ones, got one twice.")
    if not set(clicked) <= set(shown):
        raise Invalid("clicks: clicked items must be among those shown, got another.")
    if positions is None:
        return
    if len(positions) != len(shown) or not all(1 <= place <= 1e9 for place in positions):
        raise Invalid(
            f"clicks: positions must be {len(shown)} places from 1, one for each item shown, "
            f"got {positions!s:.80}."
        )
