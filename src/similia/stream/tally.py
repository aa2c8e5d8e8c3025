"""Test-then-train accuracy over a stream, as totals and as a curve of bounded length."""

from dataclasses import dataclass, field
from typing import Any

#: points of a curve, at most
POINTS = 128


@dataclass
class Tally:
    """How many judgements there were, and how many of those that were scored were right.

    Attributes
    ----------
    n : int
        Judgements learnt.
    n_scored : int
        Those of them that were scored before they were learnt.
    at_start, progressive : float
        How many of these the model at the start, and the model as it was then, had right.
    n_updates : int
        Judgements that changed the model.
    width : int
        Chunks in each point of the curve.
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
        """Join neighboring points: the curve stays short however long the stream."""
        pairs = zip(self.curve[::2], self.curve[1::2], strict=True)
        self.curve = [[a + b for a, b in zip(*pair, strict=True)] for pair in pairs]
        self.width *= 2

    def accuracies(self) -> dict[str, Any]:
        """Give the two shares of right judgements, if any were scored."""
        if not self.n_scored:
            return {}
        return {
            "accuracy_at_start": self.at_start / self.n_scored,
            "progressive_accuracy": self.progressive / self.n_scored,
            "n_scored": self.n_scored,
        }

    def points(self) -> list[dict[str, Any]]:
        """Give the curve: after how many judgements, and the two shares since the point before."""
        found, n = [], 0
        for size, n_scored, at_start, progressive in self.curve:
            n += size
            if n_scored:
                found.append(
                    {
                        "n": n,
                        "at_start": at_start / n_scored,
                        "progressive": progressive / n_scored,
                    }
                )
        return found
