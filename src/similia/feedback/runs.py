"""Rankings in the form of TREC's runs."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from similia.contract import Indices
from similia.files import BadRows, FeedbackLike, Ids, Source
from similia.files.columns import NUMBER, Columns


class Run(NamedTuple):
    """A ranking of items for each query: sorted by query, best first."""

    query: Indices
    item: Indices
    score: NDArray[np.float64]
    #: from 1, within each query
    position: Indices


def read_run(
    path: FeedbackLike, ids: Ids, items: Ids | None = None, *, bad_rows: BadRows | None = None
) -> Run:
    """Read a run: lines ``query Q0 item rank score name``, or a table with query, item and score.

    As in trec_eval, items are ordered by their scores, and the ranks in the file do not matter;
    scores that are equal keep the order of the file. A run says what was ranked and not what was
    right: together with clicks or qrels its lists become `Impressions`.
    """
    source, bad_rows = Source(path), bad_rows or BadRows()

    def choose(names: Sequence[str]) -> Columns:
        if not {"query", "item", "score"}.issubset(names):
            raise ValueError(
                f"{source}: a run must have the columns query,item,score, "
                f"got {','.join(names)!r:.120}."
            )
        return {"query": ids, "item": items or ids, "score": NUMBER}

    parts = [tuple(found.values()) for found, _ in source.batches(choose, (), bad_rows)]
    if not parts:
        raise ValueError(f"{source}: a run must have at least one line, got none.")
    query, item, score = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((-score, query))
    query = query[order]
    starts = np.flatnonzero(np.diff(query, prepend=-1))
    lengths = np.diff(np.append(starts, len(query)))
    position = np.arange(len(query)) - np.repeat(starts, lengths) + 1
    return Run(query, item[order], score[order], position)
