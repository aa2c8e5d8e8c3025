"""What a stream of feedback contained, without keeping all of it."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from similia.files import Judgements
from similia.sampling import feedback_report

#: judgements among which duplicates and contradictions are looked for
LIMIT = 1_000_000


class Witness:
    """Passes judgements on, and can say afterwards what they were.

    Parameters
    ----------
    batches : iterable of Judgements
    limit : int
        Repeats and contradictions are counted among the first so many.
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
                # Views would keep alive all that was read together with them.
                self._kept.append(replace(part, tuples=part.tuples.astype(np.int32)))
            yield batch

    def report(self) -> dict[str, Any]:
        """Give the counts of `feedback_report`, of labels the number of classes."""
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
