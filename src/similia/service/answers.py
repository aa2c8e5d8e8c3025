"""What the service answers: receipts, rankings, questions, models and figures."""

from datetime import datetime
from typing import Any

from msgspec import Struct

from similia.service.log.records import Query, Record, View


class Receipt(Struct, frozen=True):
    """The row of the log that something became; it is on the disk."""

    id: str
    seq: int
    duplicate: bool = False


class Ranked(Struct, frozen=True, omit_defaults=True):
    """An item found, its score and how sure that is; why, if asked for."""

    id: str
    score: float
    #: standard deviation of the score's distance to the best item's
    std: float | None = None
    parts: dict[str, float] | None = None
    #: ids of judgements behind the score, and what they add
    judgements: list[tuple[str, float]] | None = None


class Ranking(Struct, frozen=True):
    """Items, best first, and the state that ranked them."""

    revision: str
    #: last row of the log in that state
    seq: int
    model: str
    results: list[Ranked]


class Question(Struct, frozen=True):
    """A comparison to ask a person."""

    id: str
    query: Query
    left: str
    right: str
    source: str


class Logged(Struct, frozen=True):
    """A row of the log as people see it."""

    seq: int
    time: datetime
    record: Record
    retracted: bool = False


class Model(Struct, frozen=True):
    """A generation: the base (0), or one that was promoted."""

    generation: int
    time: datetime
    #: row of its promotion, and the last row that it had learnt
    seq: int
    learnt: int
    figures: dict[str, Any]
    current: bool


class Verdict(Struct, frozen=True):
    """Whether the learner was promoted, and why."""

    promoted: bool
    generation: int
    reason: str
    figures: dict[str, Any]


class ModelAt(Struct, frozen=True):
    """The models at some time: the champion's generation, and the last row of the live model."""

    time: datetime
    generation: int
    seq: int
    revision: str


class Point(Struct, frozen=True):
    """A point of the learning curve: the mean over held-out queries, and its 95 % interval."""

    #: lists learnt by then
    judgements: int
    live: float
    low: float
    high: float
    base: float


class Figures(Struct, frozen=True, kw_only=True):
    """How the models do on queries that were kept apart."""

    measure: str
    n_queries: int = 0
    n_judgements: int = 0
    #: mean over queries, of base, champion and live
    means: dict[str, float] = {}
    #: live against base: difference, and an interval that holds however often one looks
    difference: float | None = None
    interval: tuple[float, float] | None = None
    curve: list[Point] = []
    #: judgements by day (UTC)
    days: dict[str, int] = {}
    note: str = ""


class Status(Struct, frozen=True):
    """Where a tenant stands."""

    seq: int
    learnt_seq: int
    items: int
    judgements: int
    queries: int
    learner: str
    trust: dict[str, float]
    weights: dict[str, float]
    generation: int
    views: list[View]
    replaying: bool = False
    snapshot_seq: int = 0
    #: tenant whose items these are, if they are shared
    shares: str | None = None
