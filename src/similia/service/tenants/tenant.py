"""One tenant: its log, and the learner and items that follow from it."""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from msgspec import structs

from similia.service.answers import Logged, Question, Ranking, Receipt, Status
from similia.service.catalogue.approximate import Approximate
from similia.service.catalogue.external import ExternalItems
from similia.service.catalogue.items import Items, Layout, check_query
from similia.service.catalogue.shared import Follower, shares, unfindable
from similia.service.catalogue.texts import ItemTexts
from similia.service.engine import ranking
from similia.service.engine.champions import Champions
from similia.service.engine.fold import FrozenState
from similia.service.engine.learner import WAIT_SECONDS, LiveLearner
from similia.service.errors import Invalid, NotFound, Unavailable
from similia.service.judging.judges import JudgeFigures
from similia.service.judging.questions import questions, signed
from similia.service.log.limits import MAX_LOGGED, MAX_QUESTIONS, MAX_RANKED
from similia.service.log.log import Log
from similia.service.log.opening import ALONE, Access, opened_log
from similia.service.log.provenance import new_secret
from similia.service.log.records import (
    Delete,
    Item,
    Judgement,
    Query,
    Retraction,
    TenantSettings,
    View,
    query_key,
    readable,
)
from similia.service.log.rows import Entry
from similia.service.tenants.checks import (
    check_text,
    checked_settings,
    entry,
    item_entry,
    judged_entries,
    receipts,
)
from similia.tabular.column_views import ColumnView


class Tenant:
    """Feedback in, rankings out; safe to use from many threads.

    Methods that return a `Receipt` do so once their row is on the disk. It is learnt right after,
    while searches go on; `rank` with `min_seq` waits for that.
    """

    def __init__(self, log: Log, cache: Path, owner: "Tenant | None" = None) -> None:
        self.name = log.name
        self.log = log
        self.cache = cache
        #: tenant whose items are ranked; None for its own
        self.owner = owner
        self._changing, self._retracting = threading.Lock(), threading.Lock()
        home: LiveLearner | None = None if owner is None else owner.learner
        self.learner: LiveLearner = LiveLearner(log, cache, home)
        #: generations, and the exams that they must pass
        self.champions = Champions(log, cache / "generations", self.learner)
        #: figures of judges
        self.judges = JudgeFigures(log, lambda: self.learner.settings)
        if owner is None:
            library = self.learner.settings.search
            self._follower = None
            self._texts = ItemTexts()
            self._approximate = None if library == "exact" else Approximate(library)
        else:
            self._follower = Follower(log, owner.log, self.learner.mark)
            self._texts, self._approximate = owner._texts, owner._approximate
        log.writer.begin()

    @classmethod
    def create(
        cls,
        where: str | Path,
        name: str,
        settings: TenantSettings | None = None,
        *,
        cache: str | Path | None = None,
        owner: "Tenant | None" = None,
        access: Access = ALONE,
    ) -> "Tenant":
        """Make a new tenant in a folder, or in the PostgreSQL database of a URL.

        `cache` is the folder for what is computed from a log in a database. With an `owner`, the
        tenant shares the items of that one, which must stay open for as long; the settings say so.
        """
        settings = settings or TenantSettings()
        first = checked_settings(structs.replace(settings, secret=settings.secret or new_secret()))
        log, folder = opened_log(where, name, new=True, cache=cache, access=access)
        try:
            log.append([first])
            return cls(log, folder, owner)
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
        access: Access = ALONE,
    ) -> "Tenant":
        """Open a tenant; returns once everything in its log is learnt again.

        `find` is asked for the owner of items that are shared.
        """
        log, folder = opened_log(where, name, new=False, cache=cache, access=access)
        try:
            shared = shares(log)
            return cls(log, folder, None if shared is None else find(shared))
        except BaseException:
            log.close()
            raise

    def close(self) -> None:
        """Write what waits, leave a snapshot of what is learnt, and close."""
        self.log.stop()
        self.learner.close()
        self.log.close()

    @property
    def shares(self) -> str | None:
        """Name of the tenant whose items these are; None for its own."""
        return None if self.owner is None else self.owner.name

    # -- items ---------------------------------------------------------------------------------

    def put_items(self, items: Sequence[Item], columns: Sequence[ColumnView] = ()) -> Receipt:
        """Add or replace items, all of them or none.

        With the first ones, `columns` of their table become views.
        """
        self._check_own()
        if not items:
            raise Invalid("items: there must be at least one.")
        with self._changing:
            entries, known = [], self.learner.items
            if known is None:
                settings = self._settings_of(items[0], columns)
                entries.append(checked_settings(settings))
                layout = Layout.of(settings)
            else:
                layout = known.layout
            entries.append(item_entry(layout, items))
            seq = self.log.append(entries)[-1].seq
            if known is None:
                self.learner.wait(seq, WAIT_SECONDS)
        return Receipt(items[0].id, seq)

    def delete_items(self, ids: Sequence[str]) -> Receipt:
        """Delete items; unknown ones are ignored."""
        self._check_own()
        if not ids:
            raise Invalid("items: there must be at least one id.")
        for id in ids:
            check_text("item: id", id)
        seq = self.log.append([entry(Delete(items=list(ids)))])[0].seq
        return Receipt(ids[0], seq)

    def check_prompt(self) -> None:
        """Refuse to write while too much waits to be learnt."""
        if self.learner.is_far_behind:
            raise Unavailable("log: too many rows wait to be learnt; try again later.")

    def _check_own(self) -> None:
        if self.owner is not None:
            raise Invalid(
                f"items: they must be changed at {self.owner.name!r}, whose items "
                f"{self.name!r} shares, got a change here."
            )

    def _settings_of(self, item: Item, columns: Sequence[ColumnView]) -> TenantSettings:
        """TenantSettings with the views of a first item, and of columns."""
        if not item.vectors:
            raise Invalid(f"item {item.id!r:.80}: vectors must be at least one view, got none.")
        views = [View(name, int(np.size(vector))) for name, vector in item.vectors.items()]
        known = self.learner.settings
        return structs.replace(known, views=views, columns=[*known.columns, *columns])

    @property
    def home(self) -> "Tenant":
        """The tenant whose items these are."""
        return self.owner or self

    def _caught_up(self, timeout: float) -> Items | None:
        """Items, including those put just now, unless the timeout is 0."""
        if timeout > 0:
            self.home.learner.wait(self.home.log.newest(), timeout)
        return self.learner.items

    def has(self, id: str, timeout: float = WAIT_SECONDS) -> bool:
        """Whether there is such an item, even if it was put just now."""
        items = self.learner.items
        if items is None or id not in items:
            items = self._caught_up(timeout)
        return items is not None and id in items

    def item(self, id: str, timeout: float = WAIT_SECONDS) -> Item | None:
        """An item, even if it was put just now."""
        items = self._caught_up(timeout)
        return None if items is None else items.get(id)

    def contents(self, ids: Sequence[str]) -> list[Item]:
        """Items as people see them, without vectors; unknown ones are left out."""
        items = self.learner.items
        found = [] if items is None else [items.get(id) for id in ids]
        return [structs.replace(item, vectors={}) for item in found if item is not None]

    @property
    def n_items(self) -> int:
        """Number of items."""
        items = self.learner.items
        return 0 if items is None else len(items)

    @property
    def base(self) -> str | None:
        """Name of the base view; None as long as there are no items."""
        items = self.learner.items
        return None if items is None else items.layout.base

    @property
    def columns(self) -> list[ColumnView] | None:
        """Fields of items that are views; None as long as there are no items."""
        items = self.learner.items
        return None if items is None else items.layout.columns

    @property
    def has_words(self) -> bool:
        """Whether the words of texts are a view beside vectors."""
        items = self.learner.items
        return items is not None and items.layout.has_words

    def named(self, text: str) -> dict[str, list[float]]:
        """Views of the categories that a typed query names."""
        items = self.learner.items
        return {} if items is None else items.layout.named(text)

    # -- feedback ------------------------------------------------------------------------------

    def feedback(self, judgements: Sequence[Judgement], *, uploaded: bool = True) -> list[Receipt]:
        """Store judgements, all of them or none; return once they are on the disk.

        Those `uploaded` come from an administrator, and their `source` is believed.
        """
        try:
            entries, mark = self.checked(judgements, uploaded=uploaded)
        except Invalid:  # perhaps an item was put just now
            self._caught_up(WAIT_SECONDS)
            entries, mark = self.checked(judgements, uploaded=uploaded)
        self.follow(mark)
        return receipts(entries, self.log.append(entries))

    def checked(
        self, judgements: Sequence[Judgement], *, uploaded: bool = False
    ) -> tuple[list[Entry], int]:
        """Entries of judgements, and the row of shared items to `follow` first; 0 if there is none.

        Raises Invalid with all that are wrong.
        """
        items, settings = self.learner.items, self.learner.settings
        if items is None:
            return judged_entries(judgements, settings, uploaded=uploaded), 0
        if self._follower is None:
            known: Callable[[str], bool] = items.__contains__
            mark = 0
        else:  # as of a row that is applied completely
            latest = items.latest()
            known, mark = latest.has, latest.seq if latest.seq > self._follower.mark else 0
        return judged_entries(judgements, settings, items.layout, known, uploaded=uploaded), mark

    def follow(self, mark: int) -> None:
        """Say in the log that what comes next is about shared items as of that row."""
        if mark and self._follower is not None:
            self._follower.follow(mark)

    def retract(self, id: str, by: str | None = None) -> Receipt:
        """Take a judgement back: from now on it is as if it had never been made."""
        row = self.log.find(id)
        if row is None or row.query is None:
            raise NotFound(f"retract: id must be that of a judgement, got {id!r:.80}.")
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
        if not 1 <= limit <= MAX_LOGGED:
            raise Invalid(f"judgements: limit must be from 1 to {MAX_LOGGED}, got {limit}.")
        key = None
        if query is not None:
            key = query_key(Query(id=query) if isinstance(query, str) else query)
        found = self.log.search(after, limit, query=key, judge=judge)
        records = [(readable(row.body), row, gone) for row, gone in found]
        return [Logged(row.seq, row.moment, known, gone) for known, row, gone in records if known]

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

        With `min_seq`, a number from a receipt, the ranking knows that row. With a `timeout` of 0
        nothing is waited for, not even an item that was put just now. A query with only a text is
        ranked by the words of the items, whatever the model. An external `store` proposes items
        instead of those in the log.
        """
        if not 1 <= k <= MAX_RANKED:
            raise Invalid(f"rank: k must be from 1 to {MAX_RANKED}, got {k}.")
        if min_seq is not None:
            self.expect(min_seq)
            self.learner.wait(min_seq, timeout)
        if query.text and not query.vectors and query.item is None:
            state, known = self.learner.live, self.learner.items
            return ranking.ranked_by_words(state, known, self._texts, query.text, k, items)
        state = self._state(query, model, timeout)
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

    def query_vectors(
        self, query: Query, model: str = "live", *, timeout: float = WAIT_SECONDS
    ) -> tuple[dict[str, list[float]], str]:
        """Vectors by view to search elsewhere with, by inner products, and their revision."""
        return ranking.vectors(self._state(query, model, timeout), query, model)

    def expect(self, seq: int) -> None:
        """Look for a row that another process wrote; raises Invalid if it is not in the log."""
        if seq <= self.log.last or seq <= self.log.newest():
            return
        if self.log.row(seq) is not None:
            raise Unavailable(
                f"rank: row {seq} was written by a process that has taken over; ask that one."
            )
        raise Invalid(f"rank: min_seq must be at most {self.log.last}, got {seq}.")

    def _state(self, query: Query, model: str, timeout: float) -> FrozenState:
        """The state of a model that ranks a query; raises Invalid if it cannot."""
        match model:
            case "live":
                state = self.learner.live
            case "champion":
                state = self.champions.state()
            case "base":
                state = self.learner.live._replace(learner=None)
            case _:
                raise Invalid(
                    f"rank: model must be 'live', 'champion' or 'base', got {model!r:.80}."
                )
        check_query(state.layout, query, partial(self.has, timeout=timeout))
        return state

    # -- people --------------------------------------------------------------------------------

    def next(
        self, n: int = 1, judge: str | None = None, pool: Sequence[Query] = (), key: str = ""
    ) -> list[Question]:
        """Comparisons to ask a person: the most instructive, and random ones for exams.

        They are about queries of the pool, and about those met before. In exams, answers that a
        `key` asked for count as those of one judge.
        """
        if not 1 <= n <= MAX_QUESTIONS:
            raise Invalid(f"next: n must be from 1 to {MAX_QUESTIONS}, got {n}.")
        return questions(self.learner.live, self.log, n, judge, pool, self.learner.settings, key)

    def signed(self, question: Question, judge: str | None) -> Question:
        """The question, with an id that proves to whom it was asked."""
        return signed(question, judge, self.learner.settings)

    def status(self) -> Status:
        """Status of the tenant."""
        state, seq = self.learner.live, self.log.last
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
            generation=self.champions.current,
            views=[] if state.layout is None else state.layout.views,
            replaying=state.seq < seq,
            snapshot_seq=self.learner.snapshot_seq,
            shares=self.shares,
        )
