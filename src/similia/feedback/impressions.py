"""Feedback on lists: what people were shown, and what they chose."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from similia.contract import Array, Indices
from similia.validation import check_tuples, column_names, tuple_array

#: weight of a tie: items called alike differ by less than people care about
TIE_WEIGHT = 0.1
#: required and optional columns of a table of lists
SHOWN_COLUMNS = ("query", "item", "click")
OPTIONAL_COLUMNS = ("impression", "visit", "position", "weight")


@dataclass(frozen=True, eq=False)
class Impressions:
    """Lists of items, each shown for one query, and the gain of each item shown.

    Item j of the flat arrays belongs to list i if starts[i] <= j < starts[i + 1]. Clicks have gain
    1 and everything else 0; grades are gains too. Make one with `from_rows` or `from_triplets`.
    """

    #: row of the query of each list, of shape (n_lists,)
    queries: Indices
    #: where each list begins, and where the last one ends, of shape (n_lists + 1,)
    starts: Indices
    #: rows of the items shown, of shape (n_shown,)
    items: Indices
    #: of shape (n_shown,), at least 0
    gains: NDArray[np.float64]
    #: influences on the feedback other than the items, by name, each of shape (n_shown,)
    nuisance: dict[str, NDArray[np.float64]]
    #: weight of each list, of shape (n_lists,)
    weights: NDArray[np.float64]
    #: of shape (n_lists,): whether the list is a decision, which is obeyed at once
    trusted: NDArray[np.bool_]
    #: seconds at which each item was clicked or shown, of shape (n_shown,); empty if unknown
    times: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        for name in ("queries", "items"):
            rows = getattr(self, name)
            if not isinstance(rows, np.ndarray) or rows.ndim != 1:
                raise ValueError(
                    f"Impressions: {name} must be a one-dimensional array of rows, "
                    f"got {rows!r:.60}."
                )
        n, starts = len(self.queries), np.asarray(self.starts)
        if (
            starts.shape != (n + 1,)
            or starts[0] != 0
            or starts[-1] != len(self.items)
            or (np.diff(starts) < 1).any()
        ):
            raise ValueError(
                f"Impressions: starts must be {n + 1} increasing numbers from 0 to "
                f"{len(self.items)}, got {starts.tolist()!s:.60}."
            )
        for name, values in {"gains": self.gains, **self.nuisance}.items():
            _numbers(name, values, self.items.shape)
        _check_least("gains", self.gains, 0.0)
        _check_least("weights", _numbers("weights", self.weights, (n,)), 0.0)
        _numbers("trusted", self.trusted, (n,))

    @classmethod
    def from_rows(
        cls,
        query: ArrayLike,
        item: ArrayLike,
        gain: ArrayLike,
        *,
        impression: ArrayLike | None = None,
        position: ArrayLike | None = None,
        nuisance: Mapping[str, ArrayLike] | None = None,
        weight: ArrayLike | None = None,
        trusted: bool = False,
        timestamp: ArrayLike | None = None,
    ) -> Self:
        """Gather rows, one for each item shown.

        Parameters
        ----------
        query, item : integer arrays of shape (n_shown,)
            Rows of the query and item vectors.
        gain : array of shape (n_shown,)
            1 for a click and 0 for none, or a grade of at least 0.
        impression : array of shape (n_shown,), optional
            Rows with the same value are one list. By default successive rows of one query are.
        position : array of shape (n_shown,), optional
            Places from 1; the logarithm becomes a nuisance of that name.
        nuisance : dict of arrays of shape (n_shown,), optional
            Further influences to be learnt and left out when ranking.
        weight : array of shape (n_shown,), optional
            How much a list counts: the value of its first row.
        trusted : bool
            Whether these are judgements of a person who may decide, and not mere clicks.
        timestamp : array of shape (n_shown,), optional
            When each item was clicked or shown, in seconds.

        Examples
        --------
        >>> from similia import Impressions
        >>> Impressions.from_rows([0, 0, 0, 4, 4], [7, 8, 9, 7, 5], [0, 1, 0, 1, 0]).starts.tolist()
        [0, 3, 5]
        """
        size = np.asarray(query).shape
        if len(size) != 1:
            raise ValueError(f"Impressions: query must be a vector, got shape {size}.")
        columns = {"query": query, "item": item, "gain": gain}
        optional = {"impression": impression, "position": position, "weight": weight}
        optional["timestamp"] = timestamp
        columns |= {name: given for name, given in optional.items() if given is not None}
        others = {name: _numbers(name, given, size) for name, given in (nuisance or {}).items()}
        found = {
            name: np.asarray(given)
            if name in ("query", "item", "impression")
            else _numbers(name, given, size)
            for name, given in columns.items()
        }
        for name in ("item", "impression"):
            if name in found and found[name].shape != size:
                raise ValueError(
                    f"Impressions: {name} must be of shape {size}, as query is, "
                    f"got {found[name].shape}."
                )
        if "position" in found:
            if "position" in others:
                raise ValueError(
                    "Impressions: nuisance must not have a position beside `position`."
                )
            _check_least("position", found["position"], 1.0)
            others["position"] = np.log(found["position"])
        _check_least("gain", found["gain"], 0.0)
        order, starts = _grouped(found)
        highest = (np.iinfo(np.intp).max,) * 2
        pairs = check_tuples(
            "Impressions", "rows", np.column_stack([found["query"], found["item"]]), highest
        )
        queries, heads = pairs[order, 0], order[starts[:-1]]
        mixed = np.flatnonzero(queries != np.repeat(pairs[heads, 0], np.diff(starts)))
        if len(mixed):
            raise ValueError(
                f"Impressions: rows of one impression must have one query, got another in row "
                f"{order[mixed[0]]}."
            )
        weights = found.get("weight", np.ones(size))[heads]
        _check_least("weight", weights, 0.0)
        return cls(
            pairs[heads, 0],
            starts,
            pairs[order, 1],
            found["gain"][order],
            {name: values[order] for name, values in others.items()},
            weights,
            np.full(len(heads), trusted),
            found["timestamp"][order] if timestamp is not None else np.zeros(0),
        )

    @classmethod
    def from_table(cls, table: Any) -> Self:
        """Gather the rows of a table (pandas, polars, Arrow) by the names of its columns.

        These are query, item, click and, if there, impression, position and weight, as in
        `from_rows`, with rows of vectors as ids. Without impressions, successive rows of one query
        in one visit, if that is there, are a list. `similia.feedback.read_impressions` takes ids of
        any kind.
        """
        names = column_names(table) or ()
        if not set(names).issuperset(SHOWN_COLUMNS):
            raise ValueError(
                f"Impressions: a table of lists must have the columns {','.join(SHOWN_COLUMNS)}, "
                f"got {','.join(names)!r:.120}."
            )
        query, item, click = (np.asarray(table[name]) for name in SHOWN_COLUMNS)
        impression, visit, position, weight = (
            np.asarray(table[name]) if name in names else None for name in OPTIONAL_COLUMNS
        )
        if impression is None and visit is not None:
            changed = (visit[1:] != visit[:-1]) | (query[1:] != query[:-1])
            impression = np.cumsum(np.append(False, changed)[: len(visit)])
        return cls.from_rows(
            query, item, click, impression=impression, position=position, weight=weight
        )

    @classmethod
    def from_triplets(
        cls,
        triplets: Any,
        *,
        weights: ArrayLike | None = None,
        alike: ArrayLike | None = None,
        trusted: bool = True,
    ) -> Self:
        """Each triplet (query, better, worse) as a list of two items; also from such a table.

        Where `alike`, an array of shape (n_triplets,), is true, a person could not tell which of
        the two is better: such a triplet counts `TIE_WEIGHT` / 2 in each direction, and is no
        decision.
        """
        triplets = tuple_array("Impressions", "triplets", triplets)
        if triplets.shape[1:] != (3,) or triplets.dtype.kind not in "iu":
            raise ValueError(
                f"Impressions: triplets must be an integer array of shape (n_triplets, 3), "
                f"got {triplets!r:.60}."
            )
        n = len(triplets)
        given = np.ones(n) if weights is None else _numbers("weights", weights, (n,))
        _check_least("weights", given, 0.0)
        ties = np.zeros(n, bool) if alike is None else np.asarray(alike)
        if ties.shape != (n,) or ties.dtype != bool:
            raise ValueError(
                f"Impressions: alike must be truth values of shape {(n,)}, "
                f"got shape {ties.shape} and dtype {ties.dtype}."
            )
        rows = np.repeat(np.arange(n), 1 + ties)
        second = np.zeros(len(rows), bool)
        second[1:] = rows[1:] == rows[:-1]
        return cls(
            triplets[rows, 0],
            2 * np.arange(len(rows) + 1),
            triplets[rows, 1:].ravel(),
            np.where(second[:, None], [0.0, 1.0], [1.0, 0.0]).ravel(),
            {},
            given[rows] * np.where(ties[rows], TIE_WEIGHT / 2, 1.0),
            trusted & ~ties[rows],
        )

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Several batches with the same nuisances as one."""
        if not parts:
            empty = np.zeros(0, np.intp)
            none = np.zeros(0)
            return cls(empty, np.zeros(1, np.intp), empty, none, {}, none, none.astype(bool))
        ends = np.cumsum([0, *(len(part.items) for part in parts)])
        starts = [part.starts[:-1] + end for part, end in zip(parts, ends[:-1], strict=True)]
        return cls(
            np.concatenate([part.queries for part in parts]),
            np.concatenate([*starts, ends[-1:]]),
            np.concatenate([part.items for part in parts]),
            np.concatenate([part.gains for part in parts]),
            {
                name: np.concatenate([part.nuisance[name] for part in parts])
                for name in parts[0].nuisance
            },
            np.concatenate([part.weights for part in parts]),
            np.concatenate([part.trusted for part in parts]),
            np.concatenate([part.times for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.queries)

    def part(self, chosen: slice | Array) -> Self:
        """Some of the lists, by a slice, by their places or by truth values."""
        if isinstance(chosen, slice):
            lists = np.arange(*chosen.indices(len(self)))
        else:
            lists = np.arange(len(self))[chosen]
        sizes = self.starts[lists + 1] - self.starts[lists]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
        shown = np.arange(starts[-1]) + np.repeat(self.starts[lists] - starts[:-1], sizes)
        found = object.__new__(type(self))  # already checked
        vars(found).update(
            queries=self.queries[lists],
            starts=starts,
            items=self.items[shown],
            gains=self.gains[shown],
            nuisance={name: values[shown] for name, values in self.nuisance.items()},
            weights=self.weights[lists],
            trusted=self.trusted[lists],
            times=self.times[shown] if len(self.times) else self.times,
        )
        return found

    def without(self, retracted: ArrayLike) -> Self:
        """All lists but those at the given places.

        A learner that learns the rest anew is what it would be if they had never been given.
        """
        keep = np.ones(len(self), bool)
        keep[np.asarray(retracted, dtype=np.intp)] = False
        return self.part(np.flatnonzero(keep))


def _numbers(name: str, given: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.float64]:
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"Impressions: {name} must be numbers.") from None
    if values.shape != shape or not np.isfinite(values).all():
        raise ValueError(
            f"Impressions: {name} must be finite numbers of shape {shape}, got shape {values.shape}"
            f"{'' if np.isfinite(values).all() else ' with NaN or infinity'}."
        )
    return values


def _check_least(name: str, values: Array, least: float) -> None:
    if len(values) and values.min() < least:
        raise ValueError(f"Impressions: {name} must be at least {least:g}, got {values.min():g}.")


def _grouped(columns: dict[str, Array]) -> tuple[Indices, Indices]:
    """Row order that makes lists contiguous, and where lists start."""
    n = len(columns["query"])
    keys = columns.get("impression", columns["query"])
    order = np.arange(n)
    if "impression" in columns:
        _, first, codes = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(first[codes], kind="stable")  # lists keep the order of their first rows
    changed = np.flatnonzero(keys[order][1:] != keys[order][:-1]) + 1
    return order, np.concatenate([[0], changed, [n]] if n else [[0]]).astype(np.intp)


def check_impressions(owner: str, given: object) -> None:
    """Raise ValueError for anything else."""
    if not isinstance(given, Impressions):
        raise ValueError(
            f"{owner}: impressions must be Impressions, got {type(given).__name__}; make them "
            "with Impressions.from_rows."
        )
