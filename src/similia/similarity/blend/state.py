"""What a blend consists of: its parts, how they start, are saved and checked."""

import copy
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, ClassVar, Self, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse

from similia.base import Learner, validated, writable
from similia.contract import Array, Geometry, Matrix, Side, State
from similia.feedback.impressions import SHOWN_COLUMNS, Impressions
from similia.safety.bounds import check_entries, check_room
from similia.similarity.blend.clicks import ClickModel
from similia.similarity.blend.comparing import (
    check_widths,
    common_directions,
    compared_widths,
    measured,
    names_of,
    start_shapes,
)
from similia.similarity.blend.matrix import MatrixPart
from similia.similarity.blend.memory import Memory
from similia.updates.blend_matrix import COUNT
from similia.validation import check_magnitude, check_tuples, column_names
from similia.views import FLOATS, VECTORS, Views, as_views, checked_views

#: judgements: triplets, or lists that were shown
Feedback: TypeAlias = ArrayLike | Impressions

#: features of the base above which there is no W, which would need this many squared, and memory
#: has no vectors
WIDEST = 4096

#: the nuisance that is a place
POSITION = "position"

PARTS: dict[str, Any] = {"clicks": ClickModel, "matrix": MatrixPart, "memory": Memory}


class BlendState(Learner):
    """The click model, W and memory: everything but learning and ranking."""

    #: posterior means rank, so there are no states to average
    average: ClassVar[bool] = False  # type: ignore[misc]
    learns_from = "triplets"
    learns_lists = True
    geometry: ClassVar[Geometry] = "inner_product"
    _averaged: ClassVar = "units_"
    _state: ClassVar = (
        *Learner._state,
        *("n_item_features_", "names_", "widths_", "units_", "lengths_", "middle_", "mean_"),
        *("nuisances_", "clicks_part_", "matrix_part_", "memory_part_"),
    )

    def _init_state(self, X: Views, Z: Views) -> None:
        """Measure what is typical, and start every part."""
        self.widths_ = compared_widths(self._owner, X, Z)
        widest = max(max(view[1:]) for view in self.widths_)
        check_room(self._owner, widest, np.float64, *start_shapes(self.widths_, X, Z))
        self.names_ = names_of(self.widths_)
        self.nuisances_: list[str] = []
        self.n_features_in_, self.n_item_features_ = X.shape[1], Z.shape[1]
        self.n_seen_ = self.n_updates_ = 0
        measures = measured(self.widths_, X, Z)
        self.units_, self.lengths_, self.middle_, self.mean_ = measures[:4]
        self.clicks_part_ = ClickModel.begin(measures.start)
        base = self.widths_[0][0]
        m, n, dtype = X[base].shape[1], Z[base].shape[1], Z[base].dtype
        wide = max(m, n) > WIDEST
        if wide:
            m = n = 0
        self.matrix_part_ = MatrixPart.start(m, n, dtype)
        stretch, common = (1.0, np.zeros((0, 0), dtype)) if wide else common_directions(Z[base])
        self.memory_part_ = Memory.start(n, stretch, common, len(self.names_))
        self._init_moment()

    # -- state ---------------------------------------------------------------------------------

    def get_state(self) -> State:
        """Return the learnt attributes by name; arrays are not copied."""
        state = super().get_state()
        for name in PARTS:
            part = state.pop(f"{name}_part_")
            state |= {f"{name}_{field}_": value for field, value in vars(part).items()}
        return state

    def set_state(self, state: State) -> Self:
        """Replace the learnt attributes by those of a learner with the same parameters."""
        plain = dict(state)
        if "published_weights_" in plain:
            raise ValueError(
                f"{self._owner}.set_state: state must be of the click model, got one of version "
                "0.2.0 or before; learn its log again."
            )
        for name, kind in PARTS.items():
            names = [field.name for field in fields(kind)]
            found = {field: plain.pop(f"{name}_{field}_", None) for field in names}
            missing = [field for field, value in found.items() if value is None]
            if missing:
                raise ValueError(
                    f"{self._owner}.set_state: state must have the names of this learner, but "
                    f"'{name}_{missing[0]}_' is missing."
                )
            plain[f"{name}_part_"] = kind(**{f: writable(value) for f, value in found.items()})
        self._check_names(plain)
        return super().set_state(plain)

    def _check_names(self, state: State) -> None:
        """Refuse a state whose views, widths and nuisances contradict each other."""
        wanted = "names_", "widths_", "nuisances_", "n_features_in_", "n_item_features_"
        if not set(wanted) <= set(state):
            return  # missing names are told apart later
        names, widths, nuisances, *counts = (state[name] for name in wanted)
        try:
            sides = [sum(view[side] for view in widths) for side in (1, 2)]
            right = (
                names == names_of(widths)
                and sides == counts
                and all(m in (0, n) and n > 0 for _, m, n in widths)
                and widths[0][1] > 0
                and all(isinstance(name, str) for name in nuisances)
            )
        except (TypeError, ValueError, LookupError):
            right = False
        if not right:
            raise ValueError(
                f"{self._owner}.set_state: widths_ must be [name, query features, item features] "
                f"of each view, and names_ and the numbers of features what follows from them, "
                f"got {widths!s:.60}."
            )

    def _merged_state(self, parts: Sequence[Self]) -> State:
        """Evidence about all queries adds up; what is remembered of a query is one part's.

        So the judgements of a query belong into one share, as `learn_shares` sorts them.
        """
        if len(parts) == 1:
            return {name: copy.deepcopy(vars(parts[0])[name]) for name in self._state}
        named = [part.nuisances_ for part in (self, *parts) if part.nuisances_]
        if any(names != named[0] for names in named):
            raise ValueError(
                f"{self._owner}.merge: parts must have the same nuisances, got {named}; name them "
                "in the same order in all feedback."
            )
        gained = [part.n_seen_ - self.n_seen_ for part in parts]
        later = [sum(gained) - own for own in gained]
        clicks, matrices, memories = (
            [getattr(part, f"{name}_part_") for part in parts] for name in PARTS
        )
        return {
            "nuisances_": list(named[0]) if named else [],
            "clicks_part_": self.clicks_part_.merged(clicks),
            "matrix_part_": self.matrix_part_.merged(matrices),
            "memory_part_": self.memory_part_.merged(memories, later, self.memory),
        }

    def __setstate__(self, state: State) -> None:
        super().__setstate__(state)
        if self.__sklearn_is_fitted__():
            for name in PARTS:
                part = vars(getattr(self, f"{name}_part_"))
                part |= {field: writable(value) for field, value in part.items()}

    @property
    def _n_nuisances(self) -> int:
        """Number of nuisances but for places, of which the click model knows by itself."""
        return len([name for name in self.nuisances_ if name != POSITION])

    def _init_moment(self) -> None:
        self.moment_ = np.zeros((0, 0), self.matrix_part_.W.dtype)

    def _example(self, m: int, n: int, dtype: DTypeLike) -> tuple[Views, Views]:
        sides: list[dict[str, Matrix]] = [{}, {}]
        for name, *widths in self.widths_:
            for side, width in zip(sides, widths, strict=True):
                if width:
                    side[name] = sparse.csr_array((1, width), dtype=dtype)
        return Views(**sides[0]), Views(**sides[1])

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        twin = type(self)(**self.get_params(deep=False))
        twin.begin(*self._example(0, 0, self.matrix_part_.W.dtype))
        twin.clicks_part_.widen(self._n_nuisances)
        twin.memory_part_.reserve(len(self.memory_part_.keys), len(self.memory_part_.decided))
        state = twin.get_state().items()
        return {name: value.shape for name, value in state if isinstance(value, np.ndarray)}

    def _check_values(self) -> None:
        """Refuse counts beyond the arrays, which compiled code would follow."""
        memory, matrix = self.memory_part_, self.matrix_part_
        n, n_decided, room = memory.counts.tolist()
        waiting = matrix.numbers[COUNT]
        if not (
            0 <= n <= len(memory.keys)
            and 0 <= min(n_decided, room) <= len(memory.decided)
            and 0 <= waiting <= len(matrix.margins)
        ):
            raise ValueError(f"{self._owner}: counts must fit the arrays, got {n}, {n_decided}.")

    # -- checks --------------------------------------------------------------------------------

    def _checked_feedback(self, where: str, feedback: Feedback, X: Views, Z: Views) -> Impressions:
        if set(column_names(feedback) or ()).issuperset(SHOWN_COLUMNS):
            feedback = Impressions.from_table(feedback)
        if not isinstance(feedback, Impressions):
            sizes = (X.shape[0], Z.shape[0], Z.shape[0])
            triplets = check_tuples(where, "feedback", feedback, sizes)
            return Impressions.from_triplets(triplets, trusted=self.obey)
        for name, rows, side in (("queries", feedback.queries, X), ("items", feedback.items, Z)):
            if len(rows) and not 0 <= rows.min() <= rows.max() < side.shape[0]:
                raise ValueError(
                    f"{where}: {name} of the feedback must be row indices between 0 and "
                    f"{side.shape[0] - 1}, got {rows.max() if rows.min() >= 0 else rows.min()}."
                )
        return feedback

    def _check_nuisances(self, where: str, lists: Impressions) -> None:
        unknown = [name for name in lists.nuisance if name not in self.nuisances_]
        if self.nuisances_ and unknown:
            raise ValueError(
                f"{where}: nuisances must be among {', '.join(self.nuisances_)}, as in the first "
                f"feedback, got {unknown[0]}."
            )

    def _checked_sides(
        self,
        X: Side,
        items: Side | None,
        *,
        finite: bool = False,
        queries_only: bool = False,
    ) -> tuple[Views, Views]:
        fitted = self.__sklearn_is_fitted__()
        if fitted and self._is_plain(X, 1):
            queries = checked_views({VECTORS: X})
        else:
            if not isinstance(X, Views) and fitted:
                X = validated(self, X, reset=False, ensure_all_finite=finite)
            queries = self._checked_views("X", X)
            if fitted:
                check_widths(self._owner, "queries", queries, self.widths_, 1)
        if finite:
            check_magnitude(self._owner, "X", queries)
            if fitted and queries.base.dtype != (kind := self.matrix_part_.W.dtype):
                check_magnitude(self._owner, "X", queries.base, dtype=kind)  # W is of that kind
        if queries_only or items is None:
            if not queries_only and fitted:
                check_widths(self._owner, "items", queries, self.widths_, 2)
            return queries, queries
        return queries, self._checked_items(items, finite=finite)

    def _is_plain(self, X: Side, side: int) -> TypeGuard[Array]:
        """Whether queries (1) or items (2) need no conversion.

        All that is left to check is how large their entries are.
        """
        width = self.n_features_in_ if side == 1 else self.n_item_features_
        return (
            type(X) is np.ndarray
            and X.ndim == 2
            and X.dtype.type in FLOATS
            and X.dtype.isnative
            and X.shape[0] > 0
            and X.shape[1] == width == self.widths_[0][side]
            and self.widths_[0][0] == VECTORS
            and not (side == 1 and hasattr(self, "feature_names_in_"))
        )

    def _checked_views(self, name: str, X: Side) -> Views:
        """Views whose sparse matrices name no places outside of themselves."""
        for view in X if isinstance(X, Views) else ():
            check_entries(self._owner, view, X[view])
        if not isinstance(X, Views):
            check_entries(self._owner, name, X)
        return as_views(X)

    def _checked_items(self, Z: Side, *, finite: bool) -> Views:
        fitted = self.__sklearn_is_fitted__()
        if fitted and self._is_plain(Z, 2):
            items = checked_views({VECTORS: Z})
        else:
            items = self._checked_views("items", Z)
            if fitted:
                check_widths(self._owner, "items", items, self.widths_, 2)
        if finite:
            check_magnitude(self._owner, "items", items)
        return items

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags
