"""Interleaving with files: lists drafted from two rankings, and clicks on them judged."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from similia.contract import Array, Searchable
from similia.feedback.interleaved import (
    NO_GENERATION,
    TEAMS,
    read_drafts,
    read_named,
    write_drafts,
)
from similia.files import BadRows, FeedbackLike, VectorFile
from similia.files.columns import TEXT
from similia.files.keys import key
from similia.retrieval import top_k
from similia.trust import Interleaving, Outcome, Promotion
from similia.trust.judging import RankingLearner

#: items of each query, best first
Rankings = Mapping[Any, Sequence[Any]]


class Drafted(NamedTuple):
    """How many lists were written, and for how many searches a ranking was missing."""

    n_lists: int
    n_rows: int
    n_missing: int


def rankings_of(
    scorer: Searchable | str, vectors: VectorFile, items: VectorFile | None = None, *, length: int
) -> dict[str, list[Any]]:
    """Best items of every query by their ids, as far as a draft of this length can need them."""
    same, Z = vectors.are_the_rows_of(items), vectors if items is None else items
    length = min(length, Z.X.shape[0] - same)
    found, _ = top_k(scorer, vectors.X, Z.X, length, exclude_self=same)
    names = Z.ids.names()
    return {
        str(query): [names[row] for row in rows]
        for query, rows in zip(vectors.ids.names(), found.tolist(), strict=True)
    }


def draft_file(
    output: Path | str,
    challenger: Rankings,
    champion: Rankings,
    searches: "FeedbackLike | None" = None,
    *,
    length: int = 10,
    generation: int | None = None,
    name: str = "",
    seed: int | None = None,
    bad_rows: BadRows | None = None,
) -> Drafted:
    """Draft a list for each search from two rankings of its query, and write them.

    Parameters
    ----------
    output : path
        A CSV with a row for each item to show, and a column click to be filled in; see
        `similia.feedback.interleaved`.
    challenger, champion : dicts of sequences
        Items by query, best first.
    searches : path or table, optional
        Columns search,query; by default each query of the challenger is searched once, and gives
        the search its name.
    length : int
        Length of the lists.
    generation : int, optional
        The champion's, if it is one of a folder of generations.
    name : str
        Name of the challenger (`model_name`), for `judge_drafts` to recognize.
    seed : int, optional
        Seed of the coins.
    """
    test = Interleaving(length=length, random_state=seed)
    asked: list[tuple[str, str]] = [(str(query), str(query)) for query in challenger]
    if searches is not None:
        columns: list[Array] = read_named(searches, {"search": TEXT, "query": TEXT}, bad_rows)
        asked = list(zip(*(column.tolist() for column in columns), strict=True))
    known = [
        (search, query) for search, query in asked if query in challenger and query in champion
    ]
    if not known:
        raise ValueError(
            f"draft_file: queries of searches must be in both rankings, got none of {len(asked)}."
        )
    rows = (
        (search, query, item, place, TEAMS[team], "" if generation is None else generation, name)
        for search, query in known
        for place, (item, team) in enumerate(
            test.drafted(search, challenger[query], champion[query]), start=1
        )
    )
    n_rows = write_drafts(Path(output), rows)
    return Drafted(len(known), n_rows, len(asked) - len(known))


def model_name(path: Path | str) -> str:
    """Name of a saved model by its content."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]


def read_interleaving(
    path: FeedbackLike,
    clicks: "FeedbackLike | None" = None,
    *,
    name: str | None = None,
    bad_rows: BadRows | None = None,
) -> tuple[Interleaving, int | None, int]:
    """Lists and clicks from files, the champion's generation, and clicks on what was not shown.

    Parameters
    ----------
    path : path or table
        Lists as `draft_file` writes them.
    clicks : path or table, optional
        Columns search,item; by default the column click of the lists.
    name : str, optional
        Raise ValueError if the challenger of the lists has another name.
    """
    found = read_drafts(path, clicks, bad_rows=bad_rows)
    if name is not None and found.name != key(name):
        raise ValueError(
            f"{path}: the challenger of these lists must be the model, got lists of another one; "
            "judge the model that they were drafted with."
        )
    generation = None if found.champion == NO_GENERATION else found.champion
    test = Interleaving.from_rows(
        found.search, found.challenger, found.clicked, champion=generation or 0
    )
    return test, generation, found.n_strays


def judge_drafts(
    promotion: Promotion,
    model: RankingLearner,
    test: Interleaving,
    generation: int | None,
) -> Outcome:
    """Challenge with the model of interleaved lists; see `Promotion.challenge_by_interleaving`."""
    if generation is None:
        raise ValueError(
            "judge_drafts: the champion of the lists must be a generation of the folder, got "
            "another ranking; draft them with the folder as the champion."
        )
    return promotion.challenge_by_interleaving(model, test, n_learnt=model.n_seen_)
