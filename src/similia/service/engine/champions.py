"""Champions: the generation in use, decided by exams and recorded in the log."""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import structs

from similia.contract import Geometry, Matrix, Searchable, Side, Stateful
from similia.exceptions import ModelFileError
from similia.persistence import save
from similia.safety.whole import file_sha256, make_folder
from similia.service.answers import Figures, Model, ModelAt, Point, Verdict
from similia.service.engine.exams import (
    HeldOutExam,
    exam_of,
    figures,
    interval,
    mark,
    spoke,
    voices,
    without_favourers,
)
from similia.service.engine.fold import FrozenState
from similia.service.engine.learner import WAIT_SECONDS, LiveLearner
from similia.service.engine.ranking import revision
from similia.service.errors import Invalid, NotFound, ServiceError
from similia.service.log.log import Log
from similia.service.log.records import Decision, decoded, encoded
from similia.service.log.rows import Entry, Row
from similia.similarity.blend import Blend
from similia.trust.agreement import ACCURACY
from similia.trust.calibrating import Calibration, calibration_of
from similia.trust.evidence import Evidence
from similia.trust.generations import Event, Generations
from similia.trust.promotion import Promotion
from similia.views import Views

logger = logging.getLogger("similia.service")

#: note on exams of logs from version 0.2
PUBLIC_RULE = (
    "This log has no secret: whoever judges can tell which queries are held out, and say that an "
    "answer is one to a random question."
)


class Champions:
    """A tenant's generations, and the exams that challengers must pass."""

    def __init__(self, log: Log, folder: Path, learner: LiveLearner) -> None:
        self._log = log
        self._learner = learner
        self._generations = LoggedGenerations(folder, log, learner.state_at)
        self._champion: tuple[int, Blend | None] = (0, None)

    @property
    def current(self) -> int:
        """The generation in use."""
        return self._generations.current

    def state(self) -> FrozenState:
        """The champion as of the last row learnt, with the present items."""
        live = self._learner.live
        return live._replace(learner=self._of(self._generations.at(live.seq)))

    def _of(self, generation: int) -> Blend | None:
        """The learner of a generation; the last one that was asked for is kept."""
        number, learner = self._champion
        if number != generation:
            learner = self._generations.load(generation) if generation else None
            self._champion = generation, learner
        return learner

    def _wait(self) -> None:
        """Wait until rankings know the last decision; it is on the disk, so never for long."""
        with contextlib.suppress(ServiceError):
            self._learner.wait(self._generations.events[-1]["seq"], WAIT_SECONDS)

    def models(self) -> list[Model]:
        """All generations, the base first."""
        return self._generations.models()

    def evaluate(self) -> Figures:
        """Figures of base, champion and live on the queries that were kept apart."""
        state, exam = self._exam()
        rankers: dict[str, Searchable] = {}
        if state.layout is not None:
            base = Base(state.layout.base)
            champion = self._of(self.current)
            rankers = {"base": base, "champion": champion or base, "live": state.learner or base}
        found = figures(exam, rankers)
        curve = [] if exam is None else self._curve(exam, rankers["base"])
        note = (
            found.note if self._learner.settings.secret else f"{found.note} {PUBLIC_RULE}".strip()
        )
        return structs.replace(found, curve=curve, days=self._log.days(), note=note)

    def _exam(self) -> tuple[FrozenState, HeldOutExam | None]:
        state, rows = self._learner.exams()
        return state, exam_of(rows, state, self._log)

    def _curve(self, exam: HeldOutExam, base: Searchable) -> list[Point]:
        """Learning curve: marks of the kept snapshots and of the live model."""
        before = float(mark(exam, base).judged(ACCURACY).mean())
        learners = {
            len(sealed.lists): sealed.learner
            for sealed in self._learner.snapshots.all(self._log.last)
        }
        live = self._learner.live.learner
        if live is not None:
            learners.setdefault(live.n_seen_, live)
        return [
            Point(n, *interval(mark(exam, learner).judged(ACCURACY)), before)
            for n, learner in sorted(learners.items())
        ]

    def calibration(self) -> Calibration | None:
        """Confidence of the live model on the queries that were kept apart."""
        state, exam = self._exam()
        if exam is None or state.learner is None:
            return None
        return calibration_of(state.learner, exam.queries, exam.triplets, items=exam.items)

    def promote(self) -> Verdict:
        """Put the live model to use as the champion, if the exam shows that it is better."""
        state, exam = self._exam()
        if state.learner is None or state.layout is None:
            raise Invalid("promote: nothing has been learnt yet.")
        if exam is None:
            raise Invalid(
                "promote: there are no judgements of held-out queries; upload judged queries "
                "whose items differ in grade (similia evaluate judged.csv --url URL), or answer "
                "questions on the page."
            )
        generations = self._generations
        base = Base(state.layout.base)
        with generations.changing():
            spoken = voices(exam, state.learner, self._of(self.current) or base)
            exam = without_favourers(exam, spoken)
            generations.learnt, generations.judges = state.seq, spoke(spoken)
            outcome = Promotion(generations, base=base).challenge(
                state.learner,
                exam.queries,
                exam.triplets,
                items=exam.items,
                queries=exam.names,
                n_learnt=state.learner.n_seen_,
            )
        self._wait()
        plain: dict[str, Any] = {**outcome.to_dict(), "judges": spoke(spoken)}
        return Verdict(outcome.promoted, outcome.generation, outcome.reason, plain)

    def rollback(self, to: int | None = None) -> Model:
        """Return to an earlier generation, by default the one that the current replaced."""
        try:
            number = self._generations.roll_back(to)
        except ValueError as error:
            raise Invalid(str(error)) from error
        self._wait()
        return next(model for model in self.models() if model.generation == number)

    def history(self, at: datetime) -> ModelAt:
        """Which models ranked at that time; times of rows never decrease, whatever the clock."""
        if at.tzinfo is None:
            raise Invalid(f"history: at must have a time zone, got {at.isoformat()}.")
        seq = self._log.at(int(at.timestamp() * 1e6))
        row = self._log.row(seq) if seq else None
        if row is None:
            raise NotFound(f"history: at must be after the first row, got {at.isoformat()}.")
        live = self._learner.live._replace(seq=seq)
        moment = row.moment.astimezone(UTC)
        return ModelAt(moment, self._generations.at(seq), seq, revision(live, "live"))


class Base:
    """The base as a ranker: inner products of its view alone."""

    geometry: Geometry = "inner_product"

    def __init__(self, name: str) -> None:
        self._name = name

    def query_vectors(self, Q: Side) -> Matrix:
        """The base view of queries."""
        assert isinstance(Q, Views)
        return Q[self._name]

    def item_vectors(self, Z: Side) -> Matrix:
        """The base view of items."""
        assert isinstance(Z, Views)
        return Z[self._name]


class LoggedGenerations(Generations):
    """Generations whose history is the log; files of models are a cache.

    A generation is the state after the row that its promotion names, so a file that is lost or
    damaged is made again from the log.
    """

    def __init__(self, folder: Path, log: Log, state_at: Callable[[int], FrozenState]) -> None:
        self.folder = folder
        self.current = 0
        self.events: list[Event] = []
        self._evidence: dict[str, dict[str, Any]] = {}
        self._log = log
        self._state_at = state_at
        self._lock = threading.RLock()
        #: last row that the present challenger has learnt, and who judged it
        self.learnt = 0
        self.judges: list[dict[str, Any]] = []
        log.writer.subscribe_to_others(self._receive)
        aside = log.set_aside()
        self._receive([row for row in log.rows(others=True) if row.seq not in aside])

    def _receive(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.feed(row)

    def feed(self, row: Row) -> None:
        """Take a row of the log; one that was taken before changes nothing."""
        if row.kind != "decision" or (self.events and row.seq <= self.events[-1]["seq"]):
            return
        decision = decoded(row.body).record
        assert isinstance(decision, Decision)
        self.current = decision.after
        self._evidence = decision.evidence
        entry = {
            "event": decision.event,
            "time": row.moment.isoformat(),
            "from": decision.before,
            "to": decision.after,
            "seq": row.seq,
            "learnt": decision.learnt,
            **decision.figures,
        }
        self.events = [*self.events, entry]

    def refresh(self) -> None:
        """Nothing to do: this process alone decides, or is told by the log."""

    @contextmanager
    def changing(self) -> Iterator[None]:
        """One change at a time."""
        with self._lock:
            yield

    def load(self, generation: int) -> Any:
        """The learner of a generation, from its file or else from the log."""
        promoted = self._promotions()
        if generation not in promoted:
            return super().load(generation)  # whose error lists what there is
        try:
            return super().load(generation)
        except (ModelFileError, OSError) as error:
            logger.warning("Generation %d is learnt again from the log: %s", generation, error)
        learner = self._state_at(promoted[generation]["learnt"]).learner
        assert learner is not None
        self._save(generation, learner)
        return learner

    def check(self, generation: int) -> None:
        """Refuse a generation that can be neither loaded nor learnt again from the log."""
        self.load(generation)

    def promote(self, learner: Stateful, figures: Event) -> int:
        """Save a learner as the next generation and put it to use; only while `changing`."""
        assert isinstance(learner, Blend)
        number = max(self._promotions(), default=0) + 1
        sha = self._save(number, learner)
        self.record("promotion", {"sha256": sha, "learner": "Blend", **figures}, number)
        return number

    def _save(self, number: int, learner: Blend) -> str:
        make_folder(self.folder)
        save(learner, self._path(number))
        return file_sha256(self._path(number))

    def roll_back(self, to: int | None) -> int:
        """Put an earlier generation to use, by default the one that the current replaced."""
        make_folder(self.folder)
        return super().roll_back(to)

    def record(
        self,
        event: str,
        figures: Event,
        to: int | None = None,
        evidence: Mapping[str, Evidence] | None = None,
    ) -> None:
        """Append a decision to the log; only while `changing`."""
        after = self.current if to is None else to
        kept = self._evidence if after == self.current else {}
        kept = kept | {kind: found.to_dict() for kind, found in (evidence or {}).items()}
        decision = Decision(
            event=event,
            before=self.current,
            after=after,
            learnt=self.learnt if event != "rollback" else 0,
            figures={**figures, "judges": self.judges} if event != "rollback" else figures,
            evidence=kept,
        )
        seq = self._log.append([Entry("decision", encoded(decision))])[0].seq
        row = self._log.row(seq)
        assert row is not None
        self.feed(row)

    def models(self) -> list[Model]:
        """All generations, the base first."""
        first = self._log.row(1)
        assert first is not None
        found = [Model(0, first.moment, first.seq, 0, {}, self.current == 0)]
        hidden = ("event", "time", "from", "to", "seq", "learnt", "sha256", "learner")
        for number, event in self._promotions().items():
            row = self._log.row(event["seq"])
            assert row is not None
            figures = {name: value for name, value in event.items() if name not in hidden}
            current = number == self.current
            found.append(Model(number, row.moment, row.seq, event["learnt"], figures, current))
        return found

    def at(self, seq: int) -> int:
        """The generation in use when the log had so many rows."""
        earlier = (event["to"] for event in reversed(self.events) if event["seq"] <= seq)
        return int(next(earlier, 0))
