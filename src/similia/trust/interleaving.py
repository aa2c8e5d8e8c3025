"""Team-draft interleaving: two rankings in one list, and whose items are clicked [Radlinski2008].

For rankings that can only be compared online. Position bias affects both teams alike, so clicks on
an interleaved list are evidence where clicks on a single ranking are not.

[Radlinski2008] Radlinski, Kurup and Joachims, How does clickthrough data reflect retrieval
quality?, CIKM 2008.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binomtest

from similia.contract import Array, Searchable
from similia.feedback.rankings import (
    NO_GENERATION,
    TEAMS,
    read_drafts,
    write_drafts,
)
from similia.files import BadRows, FeedbackLike, Source, VectorFile
from similia.files.columns import TEXT
from similia.files.ids import key
from similia.retrieval import top_k
from similia.safety.whole import file_sha256
from similia.trust.evidence import log_e_value, log_wealth
from similia.validation import (
    check_parameters,
    non_negative_integer,
    positive_integer,
    seed,
)

if TYPE_CHECKING:
    from similia.trust.agreement import RankingLearner
    from similia.trust.outcome import Outcome
    from similia.trust.promotion import Promotion

Item = TypeVar("Item", bound=Hashable)


class Drafted(NamedTuple):
    """Items in the order to show them, and whether the challenger's team brought each."""

    items: list[Any]
    challenger: list[bool]


def team_draft(
    challenger: Iterable[Item], champion: Iterable[Item], length: int, rng: np.random.Generator
) -> Drafted:
    """Interleave two rankings: teams take turns to pick their best item that is still free.

    A coin decides who goes first in each round. If a ranking ends, the other one continues.
    """
    rankings = [list(dict.fromkeys(champion)), list(dict.fromkeys(challenger))]
    drafted, taken = Drafted([], []), set[Item]()
    while len(drafted.items) < length:
        first = int(rng.integers(2))
        for team in (first, 1 - first):
            pick = next((item for item in rankings[team] if item not in taken), None)
            if pick is not None and len(drafted.items) < length:
                taken.add(pick)
                drafted.items.append(pick)
                drafted.challenger.append(bool(team))
        if all(taken.issuperset(ranking) for ranking in rankings):
            break
    return drafted


@dataclass(frozen=True)
class Preference:
    """In how many searches the challenger's items were clicked more often, as often, or less."""

    wins: int
    ties: int
    losses: int
    #: of the exact two-sided sign test over searches; valid for a single look
    p_value: float
    #: evidence for the challenger, 1 at first; valid however often one looks
    evidence: float

    def __str__(self) -> str:
        n = self.wins + self.ties + self.losses
        return (
            f"The challenger wins {self.wins} and loses {self.losses} of {n} searches with clicks; "
            f"evidence {self.evidence:.3g}, sign test p = {self.p_value:.2g}."
        )


class Interleaving:
    """Searches answered by a challenger and a champion together, and the clicks on them.

    Parameters
    ----------
    champion : int
        Generation that the challenger is interleaved with (`Promotion.current`); 0 is the base.
    length : int
        Length of the lists.
    random_state : int, RandomState or None
        Seed of the coins.

    Examples
    --------
    >>> test = Interleaving(random_state=0)
    >>> test.draft("search 1", challenger=[3, 1, 2], champion=[1, 2, 3])
    [3, 1, 2]
    >>> test.click("search 1", 3)
    >>> print(test.preference())
    The challenger wins 1 and loses 0 of 1 searches with clicks; evidence 1.72, sign test p = 1.
    """

    def __init__(
        self,
        *,
        champion: int = 0,
        length: int = 10,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        rules = {"champion": non_negative_integer, "length": positive_integer}
        given = {"champion": champion, "length": length, "random_state": random_state}
        check_parameters("Interleaving", {**rules, "random_state": seed}, given)
        self.champion = champion
        self.length = length
        drawn = random_state
        if isinstance(random_state, np.random.RandomState):
            drawn = random_state.randint(2**31)
        self._rng = np.random.default_rng(drawn)
        #: team of each item shown, and the items clicked, by search
        self._shown: dict[Hashable, dict[Any, bool]] = {}
        self._clicked: dict[Hashable, set[Any]] = {}

    @classmethod
    def from_rows(
        cls,
        search: ArrayLike,
        challenger: ArrayLike,
        clicked: ArrayLike,
        *,
        champion: int = 0,
    ) -> Self:
        """Searches from a log with a row for each item shown.

        Parameters
        ----------
        search : array of shape (n_shown,)
            Rows with the same value are one search.
        challenger : boolean array of shape (n_shown,)
            Whether the challenger's team brought the item.
        clicked : boolean array of shape (n_shown,)
        champion : int
            Generation that the challenger was interleaved with.
        """
        names = np.asarray(search)
        teams, marks = (
            _marks(n, v, names) for n, v in (("challenger", challenger), ("clicked", clicked))
        )
        test = cls(champion=champion)
        for row, (name, team) in enumerate(zip(names.tolist(), teams.tolist(), strict=True)):
            test._shown.setdefault(name, {})[row] = bool(team)
            if marks[row]:
                test._clicked.setdefault(name, set()).add(row)
        return test

    def draft(
        self, search: Hashable, challenger: Sequence[Item], champion: Sequence[Item]
    ) -> list[Item]:
        """Interleave two rankings for a search, and return the items in the order to show them.

        Parameters
        ----------
        search : hashable
            Name of the search, which later clicks refer to; new each time.
        challenger, champion : sequences
            Items by the two rankings, best first.
        """
        return [item for item, _ in self.drafted(search, challenger, champion)]

    def drafted(
        self, search: Hashable, challenger: Sequence[Item], champion: Sequence[Item]
    ) -> list[tuple[Item, bool]]:
        """Draft, and return each item with whether the challenger brought it.

        Parameters
        ----------
        search, challenger, champion
            As in `draft`.
        """
        if search in self._shown:
            raise ValueError(f"Interleaving.draft: search must be a new one, got {search!r} again.")
        found = team_draft(challenger, champion, self.length, self._rng)
        self._shown[search] = dict(zip(found.items, found.challenger, strict=True))
        return list(self._shown[search].items())

    def click(self, search: Hashable, item: Hashable) -> None:
        """Record a click; repeated clicks on an item in one search count once."""
        if item not in self._shown.get(search, {}):
            raise ValueError(
                f"Interleaving.click: item must be one that was shown for search {search!r}, "
                f"got {item!r}."
            )
        self._clicked.setdefault(search, set()).add(item)

    @property
    def searches(self) -> list[Hashable]:
        """Names of the searches with clicks, in their order; others decide nothing."""
        return [search for search in self._shown if search in self._clicked]

    def signs(self) -> Array:
        """Winner of each search with clicks: 1 for the challenger, -1 for the champion, or 0."""
        gains = [
            sum(1 if self._shown[search][item] else -1 for item in self._clicked[search])
            for search in self.searches
        ]
        return np.sign(np.array(gains, dtype=float))

    def preference(self) -> Preference:
        """Whose items are preferred, so far."""
        signs = self.signs()
        wins, ties, losses = (int(np.count_nonzero(signs == s)) for s in (1, 0, -1))
        p = float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0
        evidence = float(np.exp(min(log_e_value(log_wealth(signs)), 700.0)))
        return Preference(wins, ties, losses, p, evidence)


def _marks(name: str, given: ArrayLike, names: Array) -> Array:
    """Column of true and false, or of 1 and 0, as booleans."""
    values = np.asarray(given)
    if names.ndim != 1 or values.shape != names.shape or not np.isin(values, (0, 1)).all():
        raise ValueError(
            f"Interleaving.from_rows: {name} must be true or false for each row, as many as "
            f"search, got shapes {values.shape} and {names.shape}."
        )
    return values.astype(bool)


# -- lists in files -----------------------------------------------------------------------------

#: items of each query, best first
Rankings: TypeAlias = Mapping[Any, Sequence[Any]]


class DraftReport(NamedTuple):
    """How many lists were written, and for how many searches a ranking was missing."""

    n_lists: int
    n_rows: int
    n_missing: int


def rankings_of(
    scorer: Searchable | str, vectors: VectorFile, items: VectorFile | None = None, *, length: int
) -> dict[str, list[Any]]:
    """Ids of the best items of every query, enough for drafts of this length."""
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
) -> DraftReport:
    """Draft a list for each search from two rankings of its query, and write them.

    Parameters
    ----------
    output : path
        A CSV with a row for each item to show, and a column click to be filled in; see
        `similia.feedback.rankings`.
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
        columns: list[Array] = Source(searches).read({"search": TEXT, "query": TEXT}, bad_rows)
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
    return DraftReport(len(known), n_rows, len(asked) - len(known))


def model_name(path: Path | str) -> str:
    """Name of a saved model by its content."""
    return file_sha256(Path(path))[:16]


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
    promotion: "Promotion",
    model: "RankingLearner",
    test: Interleaving,
    generation: int | None,
) -> "Outcome":
    """Challenge with the model of interleaved lists; see `Promotion.challenge_by_interleaving`."""
    if generation is None:
        raise ValueError(
            "judge_drafts: the champion of the lists must be a generation of the folder, got "
            "another ranking; draft them with the folder as the champion."
        )
    return promotion.challenge_by_interleaving(model, test, n_learnt=model.n_seen_)
