"""Searches of people: what they were shown, opened and saved."""

import csv
import gzip
import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.datasets.fetch import fetch_first
from similia.contract import Indices

PREPARED = "clicks/lisp/clicks.csv.gz"
ARCHIVE = "clicks/lisp/anonymized_logfiles.zip"
#: items of a page of results
PAGE = 10
#: who searched, and in which of two tasks, by the name of a file of the archive
SESSION = re.compile(r"/(Participant\d+)_task(\d)_.*\.log$")


@dataclass(frozen=True)
class SearchLog:
    """Lists of results, one row for each item of each list, in the order of the lists.

    user, topic, query and doc (n,) are names; list (n,) numbers the lists from 0, rank (n,) counts
    from 1 over all pages of a list. bm25 (n,) is the score that ranked. seen (n,) says whether the
    page with the item was looked at, opened and saved (n,) what was done with it.
    """

    user: NDArray[np.str_]
    topic: NDArray[np.str_]
    query: NDArray[np.str_]
    doc: NDArray[np.str_]
    list: Indices
    rank: Indices
    bm25: NDArray[np.float64]
    seen: NDArray[np.bool_]
    opened: NDArray[np.bool_]
    saved: NDArray[np.bool_]


def load_lisp() -> SearchLog:
    """Load what 61 people did who searched for arguments about two topics each.

    410 lists of up to 100 items, ten on a page: 40,753 rows, of which 8,048 were on a page that was
    looked at, 2,610 were opened and 1,456 saved as arguments for or against. Saving is a judgement
    of its own, though of what was opened. There are no texts of the items. Without the prepared
    file the log files of the study are downloaded.
    """
    path, found = fetch_first(PREPARED, ARCHIVE)
    if path == PREPARED:
        with gzip.open(found, "rt", encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
    else:
        with zipfile.ZipFile(found) as archive:
            rows = list(_archived(archive))
    text, whole = (
        {name: np.array([row[name] for row in rows]) for name in names}
        for names in (("user", "topic", "query", "doc"), ("list", "rank"))
    )
    said = {name: _flags(rows, given) for name, given in SAID.items()}
    bm25 = np.array([row["bm25"] for row in rows], dtype=np.float64)
    numbers = {name: given.astype(np.intp) for name, given in whole.items()}
    numbers["list"] -= 1
    return SearchLog(**text, **numbers, bm25=bm25, **said)


#: field -> column
SAID = {"seen": "page_seen", "opened": "expanded", "saved": "saved"}


def _flags(rows: list[dict[str, Any]], name: str) -> NDArray[np.bool_]:
    return np.array([int(row[name]) > 0 for row in rows])


def _archived(archive: zipfile.ZipFile) -> Iterator[dict[str, Any]]:
    """Rows of all sessions, with lists numbered through from 1."""
    lists = 0
    for name in archive.namelist():
        if session := SESSION.search(name):
            lines = io.TextIOWrapper(archive.open(name), encoding="utf-8")
            for found in _lists(map(json.loads, filter(str.strip, lines))):
                lists += 1
                for row in found:
                    yield {**row, "user": session[1], "list": lists}


def _lists(events: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Lists of one session: results follow their query as events without a type."""
    found: list[list[dict[str, Any]]] = []
    topic = query = ""
    shown: list[dict[str, Any]] = []
    for event in events:
        kind = event.get("type")
        if kind == "TaskStarted":
            topic = event["topic"]
        elif kind == "querySubmitted":
            query, shown = event["query"], []
        elif kind is None:
            if not shown:
                found.append(shown)
            row = {"topic": topic, "query": query, "doc": event["docno"], "rank": len(shown) + 1}
            row |= {"bm25": round(event["score"], 4), "page_seen": len(shown) < PAGE}
            shown.append({**row, "expanded": False, "saved": False})
        elif kind == "pageNavigationClicked":
            _page(shown, int(event["toPage"]))
        elif kind in ACTIONS:
            for row in shown:
                if row["doc"] == event["doc"]:
                    _act(row, event["action"])
    return found


ACTIONS = ("toggleArgument", "StanceClicked")


def _page(shown: list[dict[str, Any]], page: int) -> None:
    for row in shown[(page - 1) * PAGE : page * PAGE]:
        row["page_seen"] = True


def _act(row: dict[str, Any], action: str) -> None:
    if action == "expand":
        row["expanded"] = True
    elif action in ("chooseStance", "removeStance"):
        row["saved"] = action == "chooseStance"
