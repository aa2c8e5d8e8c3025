"""Whether to trust what was learnt: exams, promotion, rollback, and what ranked when."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import structs

from similia.contract import Searchable
from similia.service.answers import Figures, Model, Point, Then, Verdict
from similia.service.engine.engine import Engine
from similia.service.engine.exams import Exam, exam_of, figures, interval, mark
from similia.service.engine.fold import State
from similia.service.engine.generations import Base, LoggedGenerations
from similia.service.engine.ranking import revision
from similia.service.errors import Invalid, NotFound
from similia.service.log.log import Log
from similia.similarity.blend import Blend
from similia.trust.agreement import ACCURACY
from similia.trust.calibrating import Calibration, calibration_of
from similia.trust.promotion import Promotion


class Champions:
    """The generations of a tenant and the exams that they must pass."""

    def __init__(self, log: Log, folder: Path, engine: Engine) -> None:
        self._log = log
        self._engine = engine
        self._generations = LoggedGenerations(folder, log, engine.state_at)
        self._champion: tuple[int, Blend | None] = (0, None)

    @property
    def current(self) -> int:
        """The generation in use."""
        return self._generations.current

    def state(self) -> State:
        """The champion's learner with the items as they are now."""
        number, learner = self._champion
        if number != self.current:
            number = self.current
            learner = self._generations.load(number) if number else None
            self._champion = number, learner
        return self._engine.live._replace(learner=learner)

    def models(self) -> list[Model]:
        """All generations, the base first."""
        return self._generations.models()

    def evaluate(self) -> Figures:
        """Figures of base, champion and live on the queries that were kept apart."""
        state, exam = self._exam()
        rankers: dict[str, Searchable] = {}
        if state.layout is not None:
            base = Base(state.layout.base)
            champion = self.state().learner
            rankers = {"base": base, "champion": champion or base, "live": state.learner or base}
        found = figures(exam, rankers)
        curve = [] if exam is None else self._curve(exam, rankers["base"])
        return structs.replace(found, curve=curve, days=self._log.days())

    def _exam(self) -> tuple[State, Exam | None]:
        state, rows = self._engine.exams()
        return state, exam_of(rows, state, self._log)

    def _curve(self, exam: Exam, base: Searchable) -> list[Point]:
        """Marks of the snapshots that are kept, and of now: how learning went."""
        before = float(mark(exam, base).judged(ACCURACY).mean())
        learners = {
            len(sealed.lists): sealed.learner
            for sealed in self._engine.snapshots.all(self._log.last)
        }
        live = self._engine.live.learner
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
            raise Invalid("promote: something must have been learnt, got nothing yet.")
        if exam is None:
            raise Invalid(
                "promote: there must be judgements of held-out queries, got none; ask random "
                "questions first."
            )
        generations = self._generations
        with generations.changing():
            generations.learnt = state.seq
            promotion = Promotion(generations, base=Base(state.layout.base))
            outcome = promotion.challenge(
                state.learner,
                exam.queries,
                exam.triplets,
                items=exam.items,
                queries=exam.names,
                n_learnt=state.learner.n_seen_,
            )
        plain: dict[str, Any] = outcome.to_dict()
        return Verdict(outcome.promoted, outcome.generation, outcome.reason, plain)

    def rollback(self, to: int | None = None) -> Model:
        """Return to an earlier generation, by default the one that the current replaced."""
        try:
            number = self._generations.roll_back(to)
        except ValueError as error:
            raise Invalid(str(error)) from error
        return next(model for model in self.models() if model.generation == number)

    def history(self, at: datetime) -> Then:
        """Which models ranked at that time: times of rows never step back, whatever the clock."""
        if at.tzinfo is None:
            raise Invalid(f"history: at must have a time zone, got {at.isoformat()}.")
        seq = self._log.at(int(at.timestamp() * 1e6))
        row = self._log.row(seq) if seq else None
        if row is None:
            raise NotFound(f"history: at must be after the first row, got {at.isoformat()}.")
        live = self._engine.live._replace(seq=seq)
        moment = row.moment.astimezone(UTC)
        return Then(moment, self._generations.at(seq), seq, revision(live, "live"))
