"""Sizes of what clients send, checked before the engine sees it."""

from collections.abc import Collection, Sized

from msgspec import structs

from similia.service.errors import Invalid
from similia.service.http.keys import Key
from similia.service.http.problems import Problem
from similia.service.log.records import Clicks, Grades, Item, Judgement, NoneOfThese, Query, Skip
from similia.service.settings import Settings

LONGEST_ID = 256
LONGEST_TEXT = 32_768
MOST_VIEWS = 64
MOST_FIELDS = 256
MOST_LISTED = 1000
#: largest number of single precision
LARGEST = 3.4028234663852886e38


class Bounds:
    """Limits of one service."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def batch(self, what: str, rows: Sized) -> None:
        """Refuse batches that are too long."""
        _at_most(f"{what} in one request", len(rows), self.settings.max_batch)

    def query(self, query: Query) -> None:
        """Refuse a query that is too large, or says nothing or too much."""
        _id("query.id", query.id)
        _id("query.item", query.item)
        _text("query.text", query.text)
        if query.vectors is not None:
            self.vectors("query.vectors", query.vectors)

    def item(self, item: Item) -> None:
        """Refuse an item that is too large."""
        _id("id", item.id)
        _text("text", item.text)
        _text("image", item.image)
        self.vectors("vectors", item.vectors)
        _at_most("fields", len(item.fields), MOST_FIELDS)
        for name, value in item.fields.items():
            _id("a name of fields", name)
            _text("a field", value if isinstance(value, str) else None)

    def vectors(self, name: str, vectors: dict[str, list[float]]) -> None:
        """Refuse too many or too long vectors."""
        _at_most(f"views of {name}", len(vectors), MOST_VIEWS)
        for view, values in vectors.items():
            _id("a view's name", view)
            _at_most(f"numbers in {name}", len(values), self.settings.max_features)
            if values and not -LARGEST <= min(values) <= max(values) <= LARGEST:
                raise Invalid(f"{name} must be numbers of single precision, got larger ones.")

    def ranking(self, k: int, items: list[str] | None) -> None:
        """Refuse a ranking that is too long."""
        _at_most("k", k, self.settings.max_k)
        if items is not None:
            _at_most("items to rank", len(items), 10 * self.settings.max_batch)

    def judgement(self, judgement: Judgement) -> None:
        """Refuse a judgement that is too large."""
        self.query(judgement.query)
        for name, value in (
            ("id", judgement.id),
            ("judge", judgement.judge),
            ("source", judgement.source),
        ):
            _id(name, value)
        listed: Collection[str]
        if isinstance(judgement, Clicks | NoneOfThese | Skip):
            listed = judgement.shown
        elif isinstance(judgement, Grades):
            listed = judgement.grades
        else:
            return
        _at_most("items", len(listed), MOST_LISTED)
        for item in listed:
            _id("an item's id", item)

    def judgements(self, judgements: list[Judgement], key: Key) -> list[Judgement]:
        """Check a batch; rows that are wrong are named, all of them."""
        self.batch("judgements", judgements)
        wrong: dict[int, str] = {}
        for place, judgement in enumerate(judgements):
            try:
                self.judgement(judgement)
            except Invalid as error:
                wrong[place] = str(error)
        if wrong:
            place, why = next(iter(wrong.items()))
            raise Invalid(why if len(judgements) == 1 else f"row {place}: {why}", wrong)
        return [_signed(judgement, key) for judgement in judgements]


def _signed(judgement: Judgement, key: Key) -> Judgement:
    """A judge's key signs with the judge's name; only owners say what is trusted."""
    if judgement.trusted and "admin" not in key.scopes:
        raise Problem(403, "trusted judgements need a key for admin.")
    if key.judge is None or judgement.judge == key.judge:
        return judgement
    if judgement.judge is not None:
        raise Problem(403, "judge must be the judge of the key, or be left out.")
    return structs.replace(judgement, judge=key.judge)


def _id(name: str, value: str | None) -> None:
    if value is None:
        return
    if not 0 < len(value) <= LONGEST_ID:
        raise Invalid(f"{name} must be a text of 1 to {LONGEST_ID} characters, got {len(value)}.")


def _text(name: str, value: str | None) -> None:
    if value is not None:
        _at_most(f"characters of {name}", len(value), LONGEST_TEXT)


def _at_most(name: str, count: int, most: int) -> None:
    if count > most:
        raise Invalid(f"{name} must be at most {most}, got {count}.")
