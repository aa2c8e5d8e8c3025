"""Lists for clicks logged without what was shown, assuming today's ranking."""

from typing import Any

import numpy as np

from similia.feedback.feedback_file import LOG_DETAILS
from similia.files import BadRows, Source, VectorFile
from similia.files.columns import WantedColumns
from similia.index import build_index
from similia.retrieval.scorers import PLAIN_SCORERS


def shown_by_base(
    source: Source,
    vectors: VectorFile,
    items: VectorFile | None = None,
    *,
    length: int = 10,
    bad_rows: BadRows | None = None,
) -> dict[str, Any]:
    """Turn a log of clicks alone into one of query, item, click and position.

    Successive clicks of one query, in one visit or impression if the log has them, are one list:
    the best `length` items by the first view as it is, then what was clicked beyond them.
    """
    Z = vectors if items is None else items
    parts: list[dict[str, Any]] = []

    required = {"query": vectors.ids, "item": Z.ids}
    wanted = [
        WantedColumns(required | {name: LOG_DETAILS[name] for name in group})
        for group in (("impression",), ("visit",), ())
    ]
    parts += (found for found, _ in source.batches(wanted, bad_rows or BadRows()))
    if not parts:
        raise ValueError(f"{source}: feedback must be at least one click, got none.")
    query, item, *group = (np.concatenate([part[n] for part in parts]) for n in parts[0])
    changed = np.append(True, query[1:] != query[:-1])
    for key in group:
        changed[1:] |= key[1:] != key[:-1]
    starts = np.flatnonzero(changed)
    base = PLAIN_SCORERS["inner_product"]
    asked, place = np.unique(query[starts], return_inverse=True)
    k = min(length, Z.ids.n)
    best = build_index(Z.X, base).search(vectors.X[asked], k, model=base).ids
    columns: dict[str, list[Any]] = {name: [] for name in ("list", "item", "click", "position")}
    for number, clicked in enumerate(np.split(item, starts[1:])):
        shown = best[place[number]]
        shown = np.concatenate([shown, np.setdiff1d(clicked, shown)])
        columns["list"].append(np.full(len(shown), number))
        columns["item"].append(shown)
        columns["click"].append(np.isin(shown, clicked))
        columns["position"].append(np.arange(1, len(shown) + 1))
    whole = {name: np.concatenate(values) for name, values in columns.items()}
    lists = whole.pop("list")
    names = vectors.ids.names(query[starts][lists]), Z.ids.names(whole["item"])
    ids = [np.array(some, object if isinstance(some[0], str) else np.int64) for some in names]
    whole["click"] = whole["click"].astype(np.int64)
    return {**whole, "query": ids[0], "item": ids[1], "impression": lists}
