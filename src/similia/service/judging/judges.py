"""Judges: what each has answered, how well they agree with themselves, and with each other.

Some questions are asked again with the sides swapped (source "repeat"), and some have an answer
that an owner gave (source "gold"; a judge's answer to it has the source "check"). Neither counts as
feedback again: such answers have the weight 0.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from similia.service.log.records import Judgement, NoneOfThese, Tie, Triplet, query_key
from similia.service.tenants.tenant import Tenant

#: a query, and two items in order of their ids
Comparison: TypeAlias = tuple[str, str, str]

REPEAT, CHECK, GOLD = "repeat", "check", "gold"
PAGE = 1000


class Count(Struct, frozen=True):
    """How often something was asked, and how often the answer was right, or the same."""

    asked: int = 0
    right: int = 0


class Standing(Struct, frozen=True):
    """What a judge has answered."""

    name: str
    answers: int = 0
    repeats: Count = Count()
    gold: Count = Count()


class Agreement(Struct, frozen=True):
    """Krippendorff's alpha over comparisons that several judges answered; None without any."""

    alpha: float | None = None
    questions: int = 0


class Answered(NamedTuple):
    """A comparison, the item that was preferred ("" if none was), and where it came from."""

    comparison: Comparison
    choice: str
    source: str | None
    judgement: Judgement


def answers(tenant: Tenant, judge: str | None = None) -> Iterator[tuple[str, Answered]]:
    """Judges and their comparisons in the order of the log, but for what was retracted."""
    after = 0
    while found := tenant.judgements(after, PAGE, judge=judge):
        after = found[-1].seq
        for logged in found:
            record = logged.record
            if logged.retracted or not isinstance(record, Triplet | Tie | NoneOfThese):
                continue
            answered = _answered(record)
            if answered is not None:
                yield record.judge or "", answered


def _answered(record: Triplet | Tie | NoneOfThese) -> Answered | None:
    if isinstance(record, Triplet):
        items, choice = [record.better, record.worse], record.better
    else:
        items = list(record.items if isinstance(record, Tie) else record.shown)
        choice = "" if isinstance(record, Tie) else "none"
    if len(items) != 2:
        return None
    one, other = sorted(items)
    return Answered((query_key(record.query), one, other), choice, record.source, record)


def standings(tenant: Tenant) -> list[Standing]:
    """All judges, the busiest first."""
    known: dict[str, list[Answered]] = defaultdict(list)
    for judge, answered in answers(tenant):
        known[judge].append(answered)
    gold = golden(tenant)
    found = [_standing(judge, given, gold) for judge, given in known.items() if judge]
    return sorted(found, key=lambda standing: -standing.answers)


def standing(tenant: Tenant, judge: str) -> Standing:
    """One judge."""
    given = [answered for _, answered in answers(tenant, judge)]
    return _standing(judge, given, golden(tenant))


def _standing(judge: str, given: list[Answered], gold: dict[Comparison, Answered]) -> Standing:
    first: dict[Comparison, str] = {}
    repeats, checks = [], []
    for answered in given:
        if answered.source == REPEAT and answered.comparison in first:
            repeats.append(answered.choice == first[answered.comparison])
        elif answered.source == CHECK and answered.comparison in gold:
            checks.append(answered.choice == gold[answered.comparison].choice)
        first.setdefault(answered.comparison, answered.choice)
    return Standing(
        judge,
        len(given),
        Count(len(repeats), sum(repeats)),
        Count(len(checks), sum(checks)),
    )


def golden(tenant: Tenant) -> dict[Comparison, Answered]:
    """Comparisons with an owner's answer, the last one."""
    found = (answered for _, answered in answers(tenant))
    return {answered.comparison: answered for answered in found if answered.source == GOLD}


def agreement(tenant: Tenant) -> Agreement:
    """Agreement between judges on the comparisons that at least two of them answered."""
    said: dict[Comparison, dict[str, str]] = defaultdict(dict)
    for judge, answered in answers(tenant):
        if judge and answered.source != REPEAT:
            said[answered.comparison][judge] = answered.choice
    shared = {comparison: given for comparison, given in said.items() if len(given) > 1}
    if not shared:
        return Agreement()
    alpha = krippendorff_alpha([list(given.values()) for given in shared.values()])
    return Agreement(alpha, len(shared))


def krippendorff_alpha(units: Sequence[Sequence[str]]) -> float | None:
    """Krippendorff's alpha of nominal values; a unit holds the values that several judges gave it.

    1 - observed / expected disagreement, as in K. Krippendorff, "Computing Krippendorff's
    Alpha-Reliability", 2011: 1 if all agree, about 0 if they guess. None if only one value occurs.
    """
    totals: Counter[str] = Counter()
    differing = 0.0
    for unit in units:
        if len(unit) < 2:
            continue
        counts = Counter(unit)
        same = sum(n * (n - 1) for n in counts.values())
        differing += (len(unit) * (len(unit) - 1) - same) / (len(unit) - 1)
        totals += counts
    n = totals.total()
    expected = n * n - sum(count * count for count in totals.values())
    return 1.0 - (n - 1) * differing / expected if expected else None
