"""One tenant: a log, the learner and items that follow from it, and what they are asked."""

import threading
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from msgspec import structs

from similia.service import ranking
from similia.service.answers import (
    Figures,
    Logged,
    Model,
    Question,
    Ranked,
    Ranking,
    Receipt,
    Status,
    Then,
    Verdict,
)
from similia.service.approximate import Approximate
from similia.service.asking import questions
from similia.service.champions import Champions
from similia.service.checking import check_items, check_query, check_settings
from similia.service.elsewhere import Store
from similia.service.engine import Engine
from similia.service.entries import Behind, entry, judged_entries, plain_entries, receipts
from similia.service.errors import Invalid, UnknownJudgement
from similia.service.items import Layout
from similia.service.log import Entry, Log
from similia.service.opening import opened_log
from similia.service.records import (
    Configured,
    Delete,
    Item,
    Judgement,
    Put,
    Query,
    Retraction,
    Settings,
    View,
    query_key,
    whole,
)
from similia.service.texts import Texts
from similia.trust.calibrating import Calibration

#: seconds that anybody waits by default
PATIENCE = 10.0
#: rows of one page
PAGE = 1000


class Tenant:
    """Feedback in, rankings out; safe to use from many threads.

    Whatever returns a `Receipt` returns once it is on the disk. What follows from it is learnt at
    once, beside the searches; `rank` with `min_seq` waits for that.
    """

    def __init__(self, log: Log, cache: Path, name: str) -> None:
        self.name = name
        self.log = log
        self.cache = cache
        self._changing = threading.Lock()
        self._engine = Engine(log, cache, name)
        self._champions = Champions(log, cache / "generations", self._engine)
        self._texts = Texts()
        search = self._engine.settings.search
        self._approximate = None if search == "exact" else Approximate(search)

    @classmethod
    def create(
        cls,
        where: str | Path,
        name: str,
        settings: Settings | None = None,
        *,
        cache: str | Path | None = None,
    ) -> "Tenant":
        """Make a new tenant in a folder, or in the PostgreSQL database of a URL.

        `cache` is the folder for what is computed from a log in a database.
        """
        settings = settings or Settings()
        check_settings(settings)
        log, folder = opened_log(where, name, new=True, cache=cache)
        try:
            log.append([entry(Configured(settings=settings))])
            return cls(log, folder, name)
        except BaseException:
            log.close()
            raise

    @classmethod
    def open(cls, where: str | Path, name: str, *, cache: str | Path | None = None) -> "Tenant":
        """Open a tenant; returns once everything in its log is learnt again."""
        log, folder = opened_log(where, name, new=False, cache=cache)
        try:
            return cls(log, folder, name)
        except BaseException:
            log.close()
            raise

    def close(self) -> None:
        """Write and learn what waits, leave a snapshot, and close."""
        self.log.stop()
        self._engine.close()
        self.log.close()

    # -- items ---------------------------------------------------------------------------------

    def put_items(self, items: Sequence[Item]) -> Receipt:
        """Add items, or put them in place of those with the same ids: all of them or none."""
        if not items:
            raise Invalid("items: there must be at least one, got none.")
        with self._changing:
            entries, layout = [], self._layout()
            if layout is None:
                settings = self._settings_of(items[0])
                layout = Layout(settings.views or [], settings.fields)
                entries.append(entry(Configured(settings=settings)))
            check_items(layout, items)
            entries.append(entry(Put(items=list(items))))
            seq = self.log.append(entries)[-1].seq
            if len(entries) > 1:
                self._engine.wait(seq, PATIENCE)
        return Receipt(items[0].id, seq)

    def delete_items(self, ids: Sequence[str]) -> Receipt:
        """Take items away; those that are not there are passed over."""
        if not ids:
            raise Invalid("items: there must be at least one id, got none.")
        seq = self.log.append([entry(Delete(items=list(ids)))])[0].seq
        return Receipt(ids[0], seq)

    def item(self, id: str) -> Item | None:
        """An item, with what was put by now."""
        self._engine.wait(self.log.last, PATIENCE)
        items = self._engine.items
        return None if items is None else items.get(id)

    def contents(self, ids: Sequence[str]) -> list[Item]:
        """Items as people see them, without vectors; unknown ones are passed over."""
        items = self._engine.items
        found = [] if items is None else [items.get(id) for id in ids]
        return [structs.replace(item, vectors={}) for item in found if item is not None]

    def calibration(self) -> Calibration | None:
        """How sure the live model is of held-out judgements, against how often it is right."""
        return self._champions.calibration()

    @property
    def n_items(self) -> int:
        """Number of items."""
        items = self._engine.items
        return 0 if items is None else len(items)

    @property
    def base(self) -> str | None:
        """Name of the base view; None as long as there are no items."""
        layout = self._layout()
        return None if layout is None else layout.base

    def _layout(self) -> Layout | None:
        items = self._engine.items
        return None if items is None else items.layout

    def _settings_of(self, item: Item) -> Settings:
        """Settings with the views of a first item."""
        settings = self._engine.settings
        if not item.vectors:
            raise Invalid(f"item {item.id!r:.80}: vectors must be at least one view, got none.")
        views = [View(name, len(vector)) for name, vector in item.vectors.items()]
        return structs.replace(settings, views=views)

    # -- feedback ------------------------------------------------------------------------------

    def feedback(self, judgements: Sequence[Judgement]) -> list[Receipt]:
        """Store judgements, all of them or none; return once they are on the disk."""
        entries = self.entries(judgements)
        return receipts(entries, self.log.append(entries))

    def entries(self, judgements: Sequence[Judgement]) -> list[Entry]:
        """Judgements, checked, as they are appended to the log."""
        return judged_entries(self._layout(), judgements, self.has)

    def entries_at_once(self, judgements: Sequence[Judgement]) -> list[Entry] | None:
        """The same without waiting for anything; None if the items they name may be to come."""
        try:
            return judged_entries(self._layout(), judgements, self._knows_now)
        except Behind:
            return None

    def plain_entries(self, judgements: Sequence[Judgement]) -> list[Entry] | None:
        """Entries of judgements that pass all checks at a glance; None if any does not."""
        items = self._engine.items
        return None if items is None else plain_entries(judgements, items.__contains__)

    def _knows_now(self, id: str) -> bool:
        items = self._engine.items
        if items is not None and id in items:
            return True
        if self._engine.seq < self.log.last:
            raise Behind
        return False

    def has(self, id: str) -> bool:
        """Whether there is such an item, also if it was put just now."""
        items = self._engine.items
        if items is not None and id in items:
            return True
        if self._engine.seq < self.log.last:
            self._engine.wait(self.log.last, PATIENCE)
            items = self._engine.items
        return items is not None and id in items

    def retract(self, id: str, by: str | None = None) -> Receipt:
        """Take a judgement back: from now on it is as if it had never been made."""
        row = self.log.find(id)
        if row is None or row.query is None:
            raise UnknownJudgement(f"retract: id must be that of a judgement, got {id!r:.80}.")
        with self._changing:
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
        timeout: float = PATIENCE,
        store: Store | None = None,
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
            approximate=self._approximate,
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
        state, known = self._waited(min_seq, timeout), self._engine.items
        if known is None:
            raise Invalid("query: there must be items before anything is asked, got none.")
        ranking.check_k(k)
        wanted = None if items is None else set(items)
        found = self._texts.best(known, text, k if wanted is None else len(known))
        kept = [(id, score) for id, score in found if wanted is None or id in wanted]
        results = [Ranked(id=id, score=score) for id, score in kept[:k]]
        return Ranking(ranking.revision(state, "text"), state.seq, "text", results)

    def query_vectors(
        self,
        query: Query,
        model: str = "live",
        *,
        min_seq: int | None = None,
        timeout: float = PATIENCE,
    ) -> tuple[dict[str, list[float]], str]:
        """Vectors by view to search elsewhere with, by inner products, and their revision."""
        state = self._state(query, model, min_seq, timeout)
        return ranking.vectors(state, query, model)

    def _state(
        self, query: Query, model: str, min_seq: int | None, timeout: float
    ) -> ranking.State:
        self._waited(min_seq, timeout)
        state = self._model(model)
        check_query(state.layout, query, self.has)
        return state

    def _waited(self, min_seq: int | None, timeout: float) -> ranking.State:
        """The live state, with that row in it."""
        if min_seq is not None:
            if min_seq > self.log.last:
                raise Invalid(f"rank: min_seq must be at most {self.log.last}, got {min_seq}.")
            self._engine.wait(min_seq, timeout)
        return self._engine.live

    def _model(self, name: str) -> ranking.State:
        match name:
            case "live":
                return self._engine.live
            case "champion":
                return self._champions.state()
            case "base":
                return self._engine.live._replace(learner=None)
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
        share = self._engine.settings.held_out
        return questions(self._engine.live, self.log, n, judge, pool, share)

    # -- trust ---------------------------------------------------------------------------------

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

    def history(self, at: datetime) -> Then:
        """Which models ranked at that time."""
        return self._champions.history(at)

    def snapshot(self) -> int:
        """Write a snapshot; return the last row in it."""
        return self._engine.snapshot()

    def status(self) -> Status:
        """Where the tenant stands."""
        state, seq = self._engine.live, self.log.last
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
            snapshot_seq=self._engine.snapshot_seq,
        )
