"""A report on a log of clicks, place by place, and the log in our columns."""

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from similia.feedback.clicks import Propensities, estimate_propensities
from similia.feedback.impressions import Impressions
from similia.files import Ids
from similia.files.rows import csv_text
from similia.safety.whole import replacing
from similia.validation import between, check_parameters


@dataclass(frozen=True)
class LogReport:
    """Lists, clicks and places of a log, and the effect of correcting for position."""

    n_lists: int
    n_shown: int
    n_clicks: int
    #: clicks and items shown at each place, from the first; empty without places
    clicks: NDArray[np.float64]
    shown: NDArray[np.float64]
    #: what each place does to clicks, if there are places
    propensities: Propensities | None
    #: clicks of equal weight that corrected ones are worth, and clicks below the clip
    effective_sample_size: float
    n_clipped: int

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, ready for JSON."""
        found: dict[str, Any] = {
            "n_lists": self.n_lists,
            "n_shown": self.n_shown,
            "n_clicks": self.n_clicks,
            "effective_sample_size": self.effective_sample_size,
            "n_clipped": self.n_clipped,
            "places": [],
        }
        if self.propensities is not None:
            p = self.propensities
            found["places"] = [
                {
                    "place": place + 1,
                    "shown": float(self.shown[place]),
                    "rate": float(self.clicks[place] / max(self.shown[place], 1)),
                    "propensity": float(p.values[place]) if p.known[place] else None,
                    "error": float(p.errors[place]) if p.known[place] else None,
                }
                for place in range(len(p.values))
            ]
        return found


def report_log(lists: Iterable[Impressions], *, clip: float = 0.1) -> LogReport:
    """Report on a log in two passes: position bias, then the effect of a correction.

    Parameters
    ----------
    lists : iterable of Impressions, such as ImpressionsFile or UbiLog
        It must be possible to iterate over it again.
    clip : float between 0 and 1
        Least propensity that a gain is divided by.
    """
    check_parameters("report_log", {"clip": between(0, 1)}, {"clip": clip})
    n_lists = n_shown = n_clicks = n_clipped = 0
    with_places = True
    for part in lists:
        n_lists, n_shown = n_lists + len(part), n_shown + len(part.items)
        n_clicks += int(np.count_nonzero(part.gains > 0))
        with_places &= "position" in part.nuisance
    if not n_lists:
        raise ValueError("report_log: lists must be at least one, got none.")
    if not with_places:
        nothing = np.zeros(0)
        return LogReport(n_lists, n_shown, n_clicks, nothing, nothing, None, float(n_clicks), 0)
    found = estimate_propensities(lists)
    clicks, shown, sums = np.zeros(len(found.values)), np.zeros(len(found.values)), np.zeros(2)
    for part in lists:
        place = np.rint(np.exp(part.nuisance["position"])).astype(np.intp) - 1
        clicked = part.gains > 0
        shown += np.bincount(place, minlength=len(shown))
        clicks += np.bincount(place[clicked], minlength=len(shown))
        looks = found.at(place[clicked] + 1)
        weights = 1 / np.maximum(looks, clip)
        sums += weights.sum(), (weights**2).sum()
        n_clipped += int(np.count_nonzero(looks < clip))
    worth = float(sums[0] ** 2 / sums[1]) if sums[1] else 0.0
    return LogReport(n_lists, n_shown, n_clicks, clicks, shown, found, worth, n_clipped)


def write_log(
    path: Path | str,
    lists: Iterable[Impressions],
    ids: Ids,
    items: Ids,
    propensities: Propensities | None = None,
    *,
    clip: float = 0.1,
) -> int:
    """Write a log as CSV with the columns of `ImpressionsFile`; return the number of rows.

    With propensities the column click holds gains divided by them, without places.
    """
    n, names = 0, []
    with replacing(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        for given in lists:
            part = given
            if propensities is not None:
                part = propensities.correct(given, clip=clip).impressions
            columns = _columns(part, n, ids, items)
            if n == 0:
                names = list(columns)
                writer.writerow(names)
            writer.writerows(zip(*(columns[name] for name in names), strict=True))
            n += len(part)
    return n


def _columns(part: Impressions, first: int, ids: Ids, items: Ids) -> dict[str, list[Any]]:
    """Columns of a log, with lists numbered from `first`; places if there are any."""

    def cells(names: list[Any]) -> list[Any]:
        return [csv_text(name) if isinstance(name, str) else name for name in names]

    lengths = np.diff(part.starts)
    columns = {
        "impression": np.repeat(np.arange(first, first + len(part)), lengths).tolist(),
        "query": cells(ids.names(np.repeat(part.queries, lengths))),
        "item": cells(items.names(part.items)),
    }
    if "position" in part.nuisance:
        places = np.rint(np.exp(part.nuisance["position"]))
        columns["position"] = places.astype(int).tolist()
    return columns | {"click": [f"{gain:g}" for gain in part.gains.tolist()]}
