"""Columns of numbers, dates and categories as views; what was measured of the first items stays."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from similia.tabular.columns import as_number, as_text, as_years, is_missing

#: rows and features of a matrix
Places: TypeAlias = tuple[NDArray[np.intp], NDArray[np.intp]]

#: how much longer than its median a column of numbers may reach before its logarithm is taken
SKEWED = 20.0


@dataclass(frozen=True)
class ColumnView:
    """How a column of numbers, dates or categories becomes a view.

    A number, or a date in years, is one feature of items alone; a missing one counts as the median
    of the first items. A category is a one in the feature of its value, and zeros if it is missing
    or was not among the first items.
    """

    name: str
    #: number, date or category
    kind: str
    #: values of a category, a feature each
    values: tuple[str, ...] = ()
    #: median of numbers, and whether their logarithms are taken
    middle: float = 0.0
    logarithm: bool = False

    @classmethod
    def measured(cls, name: str, kind: str, given: Sequence[Any]) -> Self:
        """The view that some values make."""
        if kind == "category":
            return cls(name, kind, tuple(sorted({as_text(value) for value in given} - {""})))
        found = cls(name, kind).numbers(given)
        found = found[~np.isnan(found)]
        if not len(found):
            return cls(name, kind)
        middle = float(np.median(found))
        skewed = bool(found.min() >= 0 and found.max() > SKEWED * middle > 0)
        return cls(name, kind, middle=middle, logarithm=skewed and kind == "number")

    @property
    def is_category(self) -> bool:
        """Whether queries have the view, too."""
        return self.kind == "category"

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.values) if self.is_category else 1

    def features(self, given: Sequence[Any]) -> NDArray[np.float32]:
        """The feature of each item, by its number or date."""
        found = self.numbers(given)
        found[np.isnan(found)] = self.middle
        if self.logarithm:
            found = np.log1p(np.maximum(found, 0.0))
        return found.astype(np.float32)

    def ones(self, given: Sequence[Any]) -> Places:
        """Where the ones of items are, by their categories."""
        found = [self._of_values.get(as_text(value), -1) for value in given]
        rows = np.flatnonzero(np.array(found, np.intp) >= 0)
        return rows, np.array(found, np.intp)[rows]

    def numbers(self, given: Sequence[Any]) -> NDArray[np.float64]:
        """Numbers, of dates years since 1970, and NaN where they are missing.

        ValueError for what is there and no number or date.
        """
        found = np.array([self.number(value) for value in given], np.float64)  # NaN of None
        for row in np.flatnonzero(np.isnan(found)).tolist():
            if not is_missing(given[row]):
                raise ValueError(
                    f"{self.name} must be a {self.kind} in every row, got {given[row]!r:.80} in "
                    f"row {row + 1}."
                )
        return found

    def number(self, value: Any) -> float | None:
        """A number, of a date years since 1970; None for anything else."""
        return as_years(value) if self.kind == "date" else as_number(value)

    def named(self, text: str) -> list[int]:
        """Features of the values all of whose words a typed query has."""
        asked = set(text.lower().split())
        return [place for place, some in enumerate(self._words) if some and some <= asked]

    def ones_named(self, texts: Sequence[str]) -> Places:
        """Where the ones of typed queries are, by the categories that they name."""
        named = [self.named(text) for text in texts]
        rows = np.repeat(np.arange(len(texts)), [len(places) for places in named])
        return rows, np.array([place for places in named for place in places], np.intp)

    @cached_property
    def _of_values(self) -> dict[str, int]:
        return {value: place for place, value in enumerate(self.values)}

    @cached_property
    def _words(self) -> list[set[str]]:
        return [set(value.lower().split()) for value in self.values]
