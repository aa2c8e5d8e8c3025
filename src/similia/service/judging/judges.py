"""Judges: their answers, and how well they agree with themselves and each other.

Some questions are asked again with the sides swapped (source "repeat"), and some have an answer
that an administrator gave (source "gold"; a judge's answer to it has the source "check"). Neither
counts as feedback again: such answers have the weight 0. A source counts as such if the service
asked, or an administrator said so; in logs without a secret, whoever says so.
"""

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from msgspec import Struct

from similia.service.errors import Damaged
from similia.service.log.log import Log
from similia.service.log.records import (
    UPLOADED,
    JudgedBody,
    NoneOfThese,
    TenantSettings,
    Tie,
    Triplet,
    decoded,
    query_key,
)
from similia.service.log.rows import LearnerRow

#: a query, and two items in order of their ids
JudgedPair: TypeAlias = tuple[str, str, str]

K = TypeVar("K")

REPEAT, CHECK, GOLD = "repeat", "check", "gold"
#: latest answers kept for figures, and rows of the log read to find them
MAX_ANSWERS, MAX_ROWS_READ = 20_000, 50_000


class Count(Struct, frozen=True):
    """Questions asked, and answers that were right, or the same as before."""

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

    seq: int
    comparison: JudgedPair
    choice: str
    source: str | None
    judge: str


class JudgeFigures:
    """Figures of a tenant's judges, from their last answers; updated as rows arrive."""

    def __init__(self, log: Log, settings: Callable[[], TenantSettings]) -> None:
        self._log = log
        self._settings = settings
        self._lock = threading.Lock()
        self._seq: int | None = None
        self._answers: dict[int, Answered] = {}
        self._by_judge: dict[str, dict[int, Answered]] = defaultdict(dict)
        self._gold: dict[JudgedPair, dict[int, Answered]] = defaultdict(dict)

    def answers(self, judge: str) -> list[Answered]:
        """Answers of a judge, oldest first."""
        with self._lock:
            self._read_on()
            return list(self._by_judge.get(judge, {}).values())

    def standings(self) -> list[Standing]:
        """All judges, the busiest first."""
        with self._lock:
            self._read_on()
            found = [
                self._standing(judge) for judge, own in self._by_judge.items() if judge and own
            ]
        return sorted(found, key=lambda standing: -standing.answers)

    def standing(self, judge: str) -> Standing:
        """One judge."""
        with self._lock:
            self._read_on()
            return self._standing(judge)

    def golden(self) -> dict[JudgedPair, Answered]:
        """Comparisons with an administrator's answer, the last one."""
        with self._lock:
            self._read_on()
            return {comparison: self._last(own) for comparison, own in self._gold.items()}

    def agreement(self) -> Agreement:
        """Agreement between judges on the comparisons that at least two of them answered."""
        said: dict[JudgedPair, dict[str, str]] = defaultdict(dict)
        with self._lock:
            self._read_on()
            for answered in self._answers.values():
                if answered.judge and answered.source != REPEAT:
                    said[answered.comparison][answered.judge] = answered.choice
        shared = [list(given.values()) for given in said.values() if len(given) > 1]
        return Agreement(krippendorff_alpha(shared), len(shared)) if shared else Agreement()

    def _standing(self, judge: str) -> Standing:
        first: dict[JudgedPair, str] = {}
        repeats, checks = [], []
        counted: set[tuple[str | None, JudgedPair]] = set()
        given = list(self._by_judge.get(judge, {}).values())
        for answered in given:
            gold, once = self._gold.get(answered.comparison), (answered.source, answered.comparison)
            if once in counted:  # a question is asked once, however often it is answered
                continue
            if answered.source == REPEAT and answered.comparison in first:
                repeats.append(answered.choice == first[answered.comparison])
                counted.add(once)
            elif answered.source == CHECK and gold:
                checks.append(answered.choice == self._last(gold).choice)
                counted.add(once)
            first.setdefault(answered.comparison, answered.choice)
        return Standing(
            judge,
            len(given),
            Count(len(repeats), sum(repeats)),
            Count(len(checks), sum(checks)),
        )

    @staticmethod
    def _last(own: dict[int, Answered]) -> Answered:
        return own[max(own)]

    # -- rows ----------------------------------------------------------------------------------

    def _read_on(self) -> None:
        """Take the rows that have come since."""
        last = self._log.last
        if self._seq is None:
            self._seq = max(0, last - MAX_ROWS_READ)
            retracted = self._log.retracted()
        else:
            retracted = {}
        for row in self._log.learner_rows(self._seq, last) if last > self._seq else ():
            if row.target is not None:
                self._forget(row.target)
            elif row.query is not None and row.seq not in retracted:
                self._take(row)
        self._seq = last

    def _take(self, row: LearnerRow) -> None:
        try:
            answered = _answered(row.seq, decoded(row.body), self._settings())
        except Damaged:  # it holds no answer
            return
        if answered is None:
            return
        self._answers[row.seq] = self._by_judge[answered.judge][row.seq] = answered
        if answered.source == GOLD:
            self._gold[answered.comparison][row.seq] = answered
        if len(self._answers) > MAX_ANSWERS:
            self._forget(next(iter(self._answers)))

    def _forget(self, seq: int) -> None:
        answered = self._answers.pop(seq, None)
        if answered is None:
            return
        _drop(self._by_judge, answered.judge, seq)
        _drop(self._gold, answered.comparison, seq)


def _drop(groups: dict[K, dict[int, Answered]], key: K, seq: int) -> None:
    own = groups.get(key, {})
    own.pop(seq, None)
    if not own:
        groups.pop(key, None)


def _answered(seq: int, body: JudgedBody, settings: TenantSettings) -> Answered | None:
    record = body.record
    if isinstance(record, Triplet):
        items, choice = [record.better, record.worse], record.better
    elif isinstance(record, Tie | NoneOfThese):
        items = list(record.items if isinstance(record, Tie) else record.shown)
        choice = "" if isinstance(record, Tie) else "none"
    else:
        return None
    if len(items) != 2:
        return None
    source = record.source
    proven = body.provenance == UPLOADED if source == GOLD else bool(body.provenance)
    if source in (REPEAT, CHECK, GOLD) and settings.secret and not proven:
        source = None
    one, other = sorted(items)
    key = query_key(record.query, body.vectors[0] if body.vectors else None)
    return Answered(seq, (key, one, other), choice, source, record.judge or "")


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
