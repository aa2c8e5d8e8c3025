"""One tenant: a log, the learner and items that follow from it, and what they are asked."""

import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from msgspec import structs

from similia.service.answers import (
    Figures,
    Logged,
    Model,
    ModelAt,
    Question,
    Ranked,
    Ranking,
    Receipt,
    Status,
    Verdict,
)
from similia.service.catalogue.external import ExternalItems
from similia.service.catalogue.shared import Follower, shares, unfindable
from similia.service.engine import ranking
from similia.service.engine.champions import Champions
from similia.service.engine.fold import State
from similia.service.engine.learner import WAIT_SECONDS, LiveLearner
from similia.service.errors import Invalid, UnknownJudgement
from similia.service.judging.judges import JudgeFigures
from similia.service.judging.questions import questions, signed
from similia.service.log.log import Entry, Log
from similia.service.log.opening import opened_log
from similia.service.log.provenance import new_secret
from similia.service.log.records import (
    JUDGEMENTS,
    Configured,
    Item,
    Judgement,
    Query,
    Retraction,
    TenantSettings,
    query_key,
    whole,
)
from similia.service.tenants.catalogue import Catalogue
from similia.service.tenants.checks import check_query, check_settings, entry, receipts
from similia.service.tenants.intake import Intake
from similia.trust.calibrating import Calibration

#: rows of one page
PAGE = 1000


class Tenant:
    """Feedback in, rankings out; safe to use from many threads.

    Whatever returns a `Receipt` returns once it is on the disk. What follows from it is learnt at
    once, beside the searches; `rank` with `min_seq` waits for that.
    """

    def __init__(self, log: Log, cache: Path, name: str, owner: "Tenant | None" = None) -> None:
        self.name = name
        self.log = log
        self.cache = cache
        #: whose items are ranked; None for its own
        self.owner = owner
        self._retracting = threading.Lock()
        shared: LiveLearner | None = None if owner is None else owner._learner
        self._learner: LiveLearner = LiveLearner(log, cache, name, shared)
        self._champions = Champions(log, cache / "generations", self._learner)
        if owner is None:
            self._catalogue = Catalogue(log, self._learner)
            follower = None
        else:
            self._catalogue = owner._catalogue
            follower = Follower(log, owner.log, self._learner.mark)
        #: what people have answered
        self.judges = JudgeFigures(log, lambda: self._learner.settings)
        self._intake = Intake(self._catalogue, lambda: self._learner.settings, follower)

    @classmethod
    def create(
        cls,
        where: str | Path,
        name: str,
        settings: TenantSettings | None = None,
        *,
        cache: str | Path | None = None,
        owner: "Tenant | None" = None,
    ) -> "Tenant":
        """Make a new tenant in a folder, or in the PostgreSQL database of a URL.

        `cache` is the folder for what is computed from a log in a database. With an `owner`, the
        tenant shares the items of that one, which must stay open for as long; the settings say so.
        """
        settings = settings or TenantSettings()
        check_settings(settings)
        settings = structs.replace(settings, secret=settings.secret or new_secret())
        log, folder = opened_log(where, name, new=True, cache=cache)
        try:
            log.append([entry(Configured(settings=settings))])
            return cls(log, folder, name, owner)
        except BaseException:
            log.close()
            raise

    @classmethod
    def open(
        cls,
        where: str | Path,
        name: str,
        *,
        cache: str | Path | None = None,
        find: "Callable[[str], Tenant]" = unfindable,
    ) -> "Tenant":
        """Open a tenant; returns once everything in its log is learnt again.

        `find` is asked for the owner of items that are shared.
        """
        log, folder = opened_log(where, name, new=False, cache=cache)
        try:
            shared = shares(log.row(1))
            return cls(log, folder, name, None if shared is None else find(shared))
        except BaseException:
            log.close()
            raise

    def close(self) -> None:
        """Write and learn what waits, leave a snapshot, and close."""
        self.log.stop()
        self._learner.close()
        self.log.close()

    @property
    def shares(self) -> str | None:
        """Name of the tenant whose items these are; None for its own."""
        return None if self.owner is None else self.owner.name

    # -- items ---------------------------------------------------------------------------------

    def put_items(self, items: Sequence[Item]) -> Receipt:
        """Add items, or put them in place of those with the same ids: all of them or none."""
        return self._own_items().put(items)

    def delete_items(self, ids: Sequence[str]) -> Receipt:
        """Take items away; those that are not there are passed over."""
        return self._own_items().delete(ids)

    def _own_items(self) -> Catalogue:
        if self.owner is not None:
            raise Invalid(
                f"items: they must be changed at {self.owner.name!r}, whose items "
                f"{self.name!r} shares, got a change here."
            )
        return self._catalogue

    def item(self, id: str) -> Item | None:
        """An item, with what was put by now."""
        return self._catalogue.item(id)

    def contents(self, ids: Sequence[str]) -> list[Item]:
        """Items as people see them, without vectors; unknown ones are passed over."""
        return self._catalogue.contents(ids)

    def has(self, id: str) -> bool:
        """Whether there is such an item, also if it was put just now."""
        return self._catalogue.has(id)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self._catalogue)

    @property
    def base(self) -> str | None:
        """Name of the base view; None as long as there are no items."""
        layout = self._catalogue.layout
        return None if layout is None else layout.base

    @property
    def search(self) -> str:
        """How items are searched: exactly, or proposed by a library."""
        return self._catalogue.search

    # -- feedback ------------------------------------------------------------------------------

    def feedback(self, judgements: Sequence[Judgement], *, uploaded: bool = True) -> list[Receipt]:
        """Store judgements, all of them or none; return once they are on the disk.

        Those that are `uploaded` come from an administrator: their `source` is believed.
        """
        entries = self.entries(judgements, uploaded=uploaded)
        return receipts(entries, self.log.append(entries))

    def entries(self, judgements: Sequence[Judgement], *, uploaded: bool = False) -> list[Entry]:
        """Judgements, checked, as they are appended to the log."""
        return self._intake.entries(judgements, uploaded=uploaded)

    def entries_at_once(
        self, judgements: Sequence[Judgement], *, uploaded: bool = False
    ) -> list[Entry] | None:
        """The same without waiting for anything; None if there is something to wait for."""
        return self._intake.at_once(judgements, uploaded=uploaded)

    def retract(self, id: str, by: str | None = None) -> Receipt:
        """Take a judgement back: from now on it is as if it had never been made."""
        row = self.log.find(id)
        if row is None or row.query is None:
            raise UnknownJudgement(f"retract: id must be that of a judgement, got {id!r:.80}.")
        with self._retracting:
            earlier = self.log.retracted().get(row.seq)
            if earlier is not None:
                return Receipt(id, earlier, True)
            taken_back = entry(Retraction(judgement=id, by=by))._replace(target=row.seq)
            return Receipt(id, self.log.append([taken_back])[0].seq)

    def judgements(
        self,
        after: int = 0,
        limit: int = 100,
        query: str | Query | None = None,
        judge: str | None = None,
    ) -> list[Logged]:
        """Judgements in the order of the log; of a query (or its id), or of a judge."""
        if not 1 <= limit <= PAGE:
            raise Invalid(f"judgements: limit must be from 1 to {PAGE}, got {limit}.")
        key = None
        if query is not None:
            key = query_key(Query(id=query) if isinstance(query, str) else query)
        found = self.log.search(after, limit, query=key, judge=judge)
        return [Logged(row.seq, row.moment, whole(row.body), gone) for row, gone in found]

    # -- ranking -------------------------------------------------------------------------------

    def rank(
        self,
        query: Query,
        k: int = 10,
        *,
        items: Sequence[str] | None = None,
        min_seq: int | None = None,
        explain: bool = False,
        model: str = "live",
        timeout: float = WAIT_SECONDS,
        store: ExternalItems | None = None,
    ) -> Ranking:
        """Find the k best items, or put some `items` in order.

        With `min_seq`, a number from a receipt, what that row says is known to the ranking. A
        query that is only a text is ranked by the words of the items, whatever the model. A
        `store` elsewhere proposes items instead of those in the log.
        """
        if query.text and not query.vectors and query.item is None:
            return self._rank_text(query.text, k, items, min_seq, timeout)
        state = self._state(query, model, min_seq, timeout)
        return ranking.ranked(
            state,
            query,
            k,
            model,
            items=items,
            explain=explain,
            row_of=self.log.row,
            approximate=self._catalogue.approximate,
            store=store,
        )

    def _rank_text(
        self,
        text: str,
        k: int,
        items: Sequence[str] | None,
        min_seq: int | None,
        timeout: float,
    ) -> Ranking:
        state, known = self._waited(min_seq, timeout), self._catalogue.items
        if known is None:
            raise Invalid("query: there must be items before anything is asked, got none.")
        ranking.check_k(k)
        wanted = None if items is None else set(items)
        found = self._catalogue.texts.best(known, text, k if wanted is None else len(known))
        kept = [(id, score) for id, score in found if wanted is None or id in wanted]
        results = [Ranked(id=id, score=score) for id, score in kept[:k]]
        return Ranking(ranking.revision(state, "text"), state.seq, "text", results)

    def query_vectors(
        self,
        query: Query,
        model: str = "live",
        *,
        min_seq: int | None = None,
        timeout: float = WAIT_SECONDS,
    ) -> tuple[dict[str, list[float]], str]:
        """Vectors by view to search elsewhere with, by inner products, and their revision."""
        state = self._state(query, model, min_seq, timeout)
        return ranking.vectors(state, query, model)

    def _state(self, query: Query, model: str, min_seq: int | None, timeout: float) -> State:
        self._waited(min_seq, timeout)
        state = self._model(model)
        check_query(state.layout, query, self.has)
        return state

    def _waited(self, min_seq: int | None, timeout: float) -> State:
        """The live state, with that row in it."""
        if min_seq is not None:
            if min_seq > self.log.last:
                raise Invalid(f"rank: min_seq must be at most {self.log.last}, got {min_seq}.")
            self._learner.wait(min_seq, timeout)
        return self._learner.live

    def when_learnt(self, seq: int, done: Callable[[], None]) -> None:
        """Call `done`, from any thread, once a row is known to rankings or never will be.

        Raises Invalid for a row that is not in the log.
        """
        if seq > self.log.last:
            raise Invalid(f"rank: min_seq must be at most {self.log.last}, got {seq}.")
        self._learner.when_learnt(seq, done)

    def _model(self, name: str) -> State:
        match name:
            case "live":
                return self._learner.live
            case "champion":
                return self._champions.state()
            case "base":
                return self._learner.live._replace(learner=None)
            case _:
                raise Invalid(
                    f"rank: model must be 'live', 'champion' or 'base', got {name!r:.80}."
                )

    # -- people --------------------------------------------------------------------------------

    def next(
        self, n: int = 1, judge: str | None = None, pool: Sequence[Query] = ()
    ) -> list[Question]:
        """Comparisons to ask a person: some that would teach most, some at random for exams.

        They are about queries of the pool, and about those met before.
        """
        if not 1 <= n <= 100:
            raise Invalid(f"next: n must be from 1 to 100, got {n}.")
        return questions(self._learner.live, self.log, n, judge, pool, self._learner.settings)

    def signed(self, question: Question, judge: str | None) -> Question:
        """The question, with an id that proves to whom it was asked."""
        return signed(question, judge, self._learner.settings)

    def judgement(self, seq: int) -> Judgement:
        """The judgement in a row of the log."""
        row = self.log.row(seq)
        record = None if row is None else whole(row.body)
        if not isinstance(record, JUDGEMENTS):
            raise UnknownJudgement(f"judgement: seq must be that of a judgement, got {seq}.")
        return record

    # -- trust ---------------------------------------------------------------------------------

    def calibration(self) -> Calibration | None:
        """How sure the live model is of held-out judgements, against how often it is right."""
        return self._champions.calibration()

    def evaluate(self) -> Figures:
        """Figures on the queries that were kept apart."""
        return self._champions.evaluate()

    def models(self) -> list[Model]:
        """All generations, the base first."""
        return self._champions.models()

    def promote(self) -> Verdict:
        """Put what was learnt to use as the champion, if the exam shows that it is better."""
        return self._champions.promote()

    def rollback(self, to: int | None = None) -> Model:
        """Return to an earlier generation, by default the one that the current replaced."""
        return self._champions.rollback(to)

    def history(self, at: datetime) -> ModelAt:
        """Which models ranked at that time."""
        return self._champions.history(at)

    def snapshot(self) -> int:
        """Write a snapshot; return the last row in it."""
        return self._learner.snapshot()

    def status(self) -> Status:
        """Where the tenant stands."""
        state, seq = self._learner.live, self.log.last
        judgements, queries = self.log.counts()
        learner = state.learner
        weights = (
            {}
            if learner is None
            else dict(zip(learner.names_, learner.weights_.tolist(), strict=True))
        )
        return Status(
            seq=seq,
            learnt_seq=state.seq,
            items=self.n_items,
            judgements=judgements,
            queries=queries,
            learner="Blend" if learner is None else repr(learner),
            trust={} if learner is None else learner.trust_,
            weights=weights,
            generation=self._champions.current,
            views=[] if state.layout is None else state.layout.views,
            replaying=state.seq < seq,
            snapshot_seq=self._learner.snapshot_seq,
            shares=self.shares,
        )
