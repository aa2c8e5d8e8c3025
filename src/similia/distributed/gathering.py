"""Lessons about vectors that stay in their file."""

from dataclasses import dataclass, replace
from typing import Any

from similia.contract import Array, StreamLearner
from similia.feedback import Judgements
from similia.stored import at_hand
from similia.stream import lessons_for
from similia.stream.lessons import Lessons


@dataclass
class GatheredLessons:
    """Each batch of judgements brings the rows that it names, and no others, into memory.

    For learners that have begun, which ask nothing of the other rows.
    """

    model: StreamLearner
    X: Any
    items: Any = None

    @property
    def scored(self) -> bool:
        """Whether judgements can be scored before they are learnt."""
        return lessons_for(self.model, *self._sides(slice(1))).scored

    def start(self, model: Any) -> None:
        """Check that the learner fits the vectors."""
        lessons_for(model, *self._sides(slice(1))).start(model)

    def teach(self, model: Any, part: Judgements) -> None:
        """Learn a batch, or raise ValueError and learn nothing of it."""
        lessons, own = self._at_hand(model, part)
        lessons.teach(model, own)

    def right(self, model: Any, part: Judgements) -> Array:
        """Whether the model agrees with each judgement of a batch."""
        lessons, own = self._at_hand(model, part)
        return lessons.right(model, own)

    def _sides(self, rows: slice) -> tuple[Any, Any]:
        return self.X[rows], None if self.items is None else self.items[rows]

    def _at_hand(self, model: Any, part: Judgements) -> tuple[Lessons, Judgements]:
        X, items, tuples = at_hand(self.X, self.items, part.tuples)
        lessons = lessons_for(model, X, items)
        lessons.start(model)
        return lessons, replace(part, tuples=tuples)
