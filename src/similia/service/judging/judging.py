"""Operations behind the judging page."""

import secrets
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, structs

from similia.service import schemas as s
from similia.service.answers import Point, Question
from similia.service.http.calls import Call
from similia.service.http.endpoints import JUDGE, READ, SEE, V1, endpoint
from similia.service.http.feedback import stored
from similia.service.http.keys import EVERY, SCOPES
from similia.service.judging.judges import (
    CHECK,
    GOLD,
    REPEAT,
    Agreement,
    Answered,
    Standing,
)
from similia.service.log.limits import MAX_CONTENTS, MAX_OFFERED, MAX_QUESTIONS
from similia.service.log.records import (
    JUDGEMENTS,
    Item,
    Judgement,
    NoneOfThese,
    Query,
    Skip,
    Tie,
    Triplet,
    readable,
)
from similia.service.tenants.files import bare
from similia.service.tenants.tenant import Tenant

#: name of a judge without a key
UNNAMED_JUDGE = "owner"
#: one question in so many is a repeat or a gold question
REPEAT_ONE_IN = 10
#: answers between a question and its repeat
ANSWERS_APART = 10


# -- what goes in and out ------------------------------------------------------------------------


class Shown(Struct, frozen=True, omit_defaults=True):
    """An item as people see it."""

    id: str
    text: str | None = None
    fields: dict[str, str | float | bool] = {}
    image: str | None = None


class Asked(Struct, frozen=True, omit_defaults=True):
    """A comparison with all that is needed to show it."""

    id: str
    query: Query
    left: Shown
    right: Shown
    source: str
    #: the item that is the query
    like: Shown | None = None


class Sheet(Struct, frozen=True):
    """Questions for a judge, and how that judge stands."""

    questions: list[Asked]
    judge: Standing


class SheetPage(s.Strict, frozen=True, kw_only=True):
    """How many questions."""

    n: Annotated[int, Meta(ge=1, le=MAX_QUESTIONS, description="How many.")] = 10


class Answer(s.Strict, frozen=True, kw_only=True):
    """What a person said to a question."""

    id: s.Id
    query: Query
    left: s.Id
    right: s.Id
    answer: Literal["left", "right", "alike", "none", "skip"]
    source: Literal["suggested", "random", "repeat", "check", "gold"] = "suggested"
    question: s.Id | None = None
    milliseconds: s.Milliseconds | None = None


class ItemIds(s.Strict, frozen=True, kw_only=True):
    """Items to show."""

    ids: Annotated[list[s.Id], Meta(min_length=1, max_length=MAX_CONTENTS)]


class Contents(Struct, frozen=True):
    """Items as people see them; unknown ones are left out."""

    items: list[Shown]


class Offered(s.Strict, frozen=True, kw_only=True):
    """How many queries."""

    limit: Annotated[int, Meta(ge=1, le=MAX_OFFERED, description="How many at most.")] = 100


class Offer(Struct, frozen=True):
    """Queries to choose from."""

    queries: list[Query]


class Me(Struct, frozen=True):
    """Who is asking."""

    judge: str
    scopes: list[str]
    tenants: list[str]
    #: whether the service needs keys
    keyed: bool


class Day(Struct, frozen=True):
    """Judgements of a day (UTC)."""

    day: str
    judgements: int


class Confidence(Struct, frozen=True):
    """How often the model is right when it is so sure, with a 95 % interval."""

    predicted: float
    observed: float
    low: float
    high: float
    judgements: int


class Progress(Struct, frozen=True):
    """How learning and judging go."""

    curve: list[Point]
    days: list[Day]
    calibration: list[Confidence]
    agreement: Agreement
    judges: list[Standing]
    note: str = ""


# -- operations ----------------------------------------------------------------------------------


@endpoint("GET", f"{V1}/judging/me", SEE)
async def me(call: Call) -> Me:
    """Who is asking, and what they may do."""
    names = await call.run(call.service.tenants.names)
    scopes = list(SCOPES) if "admin" in call.key.scopes else list(call.key.scopes)
    seen = [name for name in names if call.key.tenant in (EVERY, name)]
    return Me(_judge(call), scopes, seen, call.service.keys.needed)


@endpoint("GET", f"{V1}/judging/questions", JUDGE, query=SheetPage, lane="ask")
async def questions(call: Call) -> Sheet:
    """Comparisons for this judge, with the items to show.

    Some are asked again with the sides swapped, and some have an answer of an owner, so that a
    judge's consistency can be told.
    """
    pool = call.service.queries[call.tenant.name].pool()
    return await call.run(_sheet, call.tenant, _judge(call), call.query.n, pool)


@endpoint("POST", f"{V1}/judging/answers", JUDGE, body=Answer, errors=(409, 507))
async def answer(call: Call) -> s.Receipts:
    """Store the answer to a comparison.

    It may be sent again with the same id without harm.
    """
    given: Answer = call.body
    if given.source == GOLD and "admin" not in call.key.scopes:
        given = structs.replace(given, source="suggested")
    return await stored(call, [_judgement(given, _judge(call))])


@endpoint("POST", f"{V1}/judging/items", SEE, body=ItemIds)
async def contents(call: Call) -> Contents:
    """Items as people see them."""
    return Contents(_shown(await call.run(call.tenant.contents, call.body.ids)))


@endpoint("GET", f"{V1}/judging/queries", READ, query=Offered)
async def offer(call: Call) -> Offer:
    """Queries that the service knows."""
    known = call.service.queries[call.tenant.name]
    return Offer(await call.run(known.some, call.tenant, call.query.limit))


@endpoint("GET", f"{V1}/judging/progress", READ, lane="long")
async def progress(call: Call) -> Progress:
    """Learning curve on held-out queries, judgements a day, calibration, agreement."""
    return await call.run(_progress, call.tenant)


# -- work ----------------------------------------------------------------------------------------


def _judge(call: Call) -> str:
    return call.key.judge or call.key.name or UNNAMED_JUDGE


def _shown(items: Sequence[Item]) -> list[Shown]:
    return [Shown(item.id, item.text, item.fields, item.image) for item in items]


def _sheet(tenant: Tenant, judge: str, n: int, pool: Sequence[Query]) -> Sheet:
    given = tenant.judges.answers(judge)
    found = [_maybe_again(tenant, judge, given, each) for each in tenant.next(n, judge, pool)]
    wanted = {id for each in found for id in (each.left, each.right, each.query.item) if id}
    known = {shown.id: shown for shown in _shown(tenant.contents(list(wanted)))}
    asked = [
        Asked(
            each.id,
            bare(each.query),
            known[each.left],
            known[each.right],
            each.source,
            known.get(each.query.item or ""),
        )
        for each in found
        if each.left in known and each.right in known
    ]
    return Sheet(asked, tenant.judges.standing(judge))


def _maybe_again(tenant: Tenant, judge: str, given: list[Answered], question: Question) -> Question:
    """The question, or occasionally one that was answered before."""
    chance = secrets.randbelow(2 * REPEAT_ONE_IN)
    again: Question | None = None
    if chance == 0:
        mine = {answered.comparison for answered in given}
        gold = [each for key, each in tenant.judges.golden().items() if key not in mine]
        again = _again(tenant, gold, judge, CHECK)
    elif chance in (1, 2) and len(given) > ANSWERS_APART:
        repeated = {each.comparison for each in given if each.source == REPEAT}
        old = [
            each
            for each in given[:-ANSWERS_APART]
            if each.comparison not in repeated and each.source not in (REPEAT, CHECK, GOLD)
        ]
        again = _again(tenant, old, judge, REPEAT)
    return again or question


def _again(tenant: Tenant, known: list[Answered], judge: str, source: str) -> Question | None:
    """One of these comparisons with its sides swapped; None if there is none."""
    if not known:
        return None
    each = secrets.choice(known)
    row = tenant.log.row(each.seq)
    judgement = None if row is None else readable(row.body)
    if not isinstance(judgement, JUDGEMENTS):
        return None
    _, one, other = each.comparison
    left, right = (other, one) if judgement.left == one else (one, other)
    return tenant.signed(Question("", judgement.query, left, right, source), judge)


def _judgement(given: Answer, judge: str) -> Judgement:
    common: dict[str, Any] = {
        "id": given.id,
        "query": given.query,
        "judge": judge,
        "source": given.source,
        "question": given.question,
        "left": given.left,
        "milliseconds": given.milliseconds,
        # Repeats and checks are not new feedback.
        "weight": 0.0 if given.source in (REPEAT, CHECK) else 1.0,
    }
    both = [given.left, given.right]
    match given.answer:
        case "left":
            return Triplet(better=given.left, worse=given.right, **common)
        case "right":
            return Triplet(better=given.right, worse=given.left, **common)
        case "alike":
            return Tie(items=(given.left, given.right), **common)
        case "none":
            return NoneOfThese(shown=both, **common)
        case _:
            return Skip(shown=both, **common)


def _progress(tenant: Tenant) -> Progress:
    figures = tenant.champions.evaluate()
    calibration = tenant.champions.calibration()
    bins = []
    if calibration is not None:
        rows = zip(calibration.confidence, calibration.accuracy, calibration.count, strict=True)
        bins = [_confidence(float(sure), float(right), int(n)) for sure, right, n in rows if n]
    return Progress(
        figures.curve,
        [Day(day, n) for day, n in sorted(figures.days.items())],
        bins,
        tenant.judges.agreement(),
        tenant.judges.standings(),
        figures.note,
    )


def _confidence(sure: float, right: float, n: int) -> Confidence:
    """With Wilson's interval."""
    z = 1.96
    middle, spread = (
        right + z * z / (2 * n),
        z * (right * (1 - right) / n + (z / (2 * n)) ** 2) ** 0.5,
    )
    share = 1 + z * z / n
    ends = (middle - spread) / share, (middle + spread) / share
    return Confidence(sure, right, max(0.0, ends[0]), min(1.0, ends[1]), n)
