"""What passed through a stream: accuracy before learning, and counts of judgements."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from similia.files import Judgements
from similia.sampling import feedback_report

#: maximum number of points of a curve
POINTS = 128
#: judgements among which duplicates and contradictions are counted
LIMIT = 1_000_000


@dataclass
class Tally:
    """Test-then-train accuracy, as totals and as a curve of bounded length.

    Attributes
    ----------
    n : int
        Judgements learnt.
    n_scored : int
        Judgements scored before they were learnt.
    at_start, progressive : float
        How many of these the initial and the current model had right.
    n_updates : int
        Judgements that changed the model.
    width : int
        Chunks per point of the curve.
    chunks : int
        Chunks so far.
    curve : list
        Points [n, n_scored, at_start, progressive], each for its own stretch of the stream.
    """

    n: int = 0
    n_scored: int = 0
    at_start: float = 0.0
    progressive: float = 0.0
    n_updates: int = 0
    width: int = 1
    chunks: int = 0
    curve: list[list[Any]] = field(default_factory=list)

    def add(self, n: int, n_scored: int, at_start: float, progressive: float) -> None:
        """Count one chunk."""
        self.n += n
        self.n_scored += n_scored
        self.at_start += at_start
        self.progressive += progressive
        if self.chunks % self.width == 0:
            if len(self.curve) == POINTS:
                self._halve()
            self.curve.append([0, 0, 0.0, 0.0])
        self.chunks += 1
        for place, value in enumerate((n, n_scored, at_start, progressive)):
            self.curve[-1][place] += value

    def _halve(self) -> None:
        """Join neighboring points, so that the curve stays short."""
        pairs = zip(self.curve[::2], self.curve[1::2], strict=True)
        self.curve = [[a + b for a, b in zip(*pair, strict=True)] for pair in pairs]
        self.width *= 2

    def accuracies(self) -> dict[str, float]:
        """Both accuracies by name; empty if nothing was scored."""
        if not self.n_scored:
            return {}
        return {
            "accuracy_at_start": self.at_start / self.n_scored,
            "progressive_accuracy": self.progressive / self.n_scored,
            "n_scored": self.n_scored,
        }

    def points(self) -> list[dict[str, float]]:
        """Curve as judgements learnt so far and both accuracies since the previous point."""
        found, n = [], 0
        for size, n_scored, at_start, progressive in self.curve:
            n += size
            if n_scored:
                shares = {"at_start": at_start / n_scored, "progressive": progressive / n_scored}
                found.append({"n": n, **shares})
        return found


class Witness:
    """Passes judgements on, and reports afterwards what they were.

    Parameters
    ----------
    batches : iterable of Judgements
    limit : int
        Number of judgements kept, to count repeats and contradictions among.
    """

    def __init__(self, batches: Iterable[Judgements], limit: int = LIMIT) -> None:
        self.batches = batches
        self.limit = limit
        self.n = 0
        self._kept: list[Judgements] = []
        self._n_kept = 0

    def __iter__(self) -> Iterator[Judgements]:
        for batch in self.batches:
            self.n += len(batch)
            if self._n_kept < self.limit:
                part = batch.part(slice(0, self.limit - self._n_kept))
                self._n_kept += len(part)
                # A copy: views would keep everything alive that was read together with them.
                self._kept.append(replace(part, tuples=part.tuples.astype(np.int32)))
            yield batch

    def report(self) -> dict[str, int]:
        """Counts of `feedback_report`; for labels, the number of classes."""
        if not self._kept:
            return {"n": 0}
        tuples = np.concatenate([part.tuples for part in self._kept])
        if tuples.shape[1] == 1:
            classes = {int(v) for part in self._kept for v in np.unique(np.asarray(part.values))}
            return {"n": self.n, "n_classes": len(classes)}
        signs = None
        if tuples.shape[1] == 2:
            values = np.concatenate([np.asarray(part.values) for part in self._kept])
            known = np.isin(values, (-1, 1)).all()
            signs = values.astype(np.int8) if known else np.ones(len(values), np.int8)
        counts = {**feedback_report(tuples, signs).to_dict(), "n": self.n}
        return counts if self.n == self._n_kept else {**counts, "n_examined": self._n_kept}
