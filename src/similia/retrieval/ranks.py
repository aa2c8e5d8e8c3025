"""Ranks of the relevant items in one row of scores: all that a ranking measure needs."""

import numpy as np

from similia.linalg.compiled import compiled_in_order
from similia.retrieval.grid import TILE, Floats, Integers, best_first, fill_cells, grid_of

FEW = 20  # relevant items up to which one vectorized comparison of the row for each is fastest
SOME = 0.2  # share of relevant items beyond which sorting the whole row is fastest


@compiled_in_order
def relevant_ranks(scores: Floats, items: Integers, excluded: int) -> tuple[Integers, Integers]:
    """Return the ranks of `items`, best first, and the corresponding order of `items`.

    Ranking is by decreasing score, and by index among equal scores, so item j has rank

        rank_j = 1 + #{i < j : s_i >= s_j} + #{i > j : s_i > s_j}.

    Item `excluded` (-1 for none) is not ranked. `scores` (n_items,) are finite; `items` increase.
    Cost for n scores and R relevant items: about n + R operations if the scores spread evenly, and
    (n + R) log R at worst.
    """
    order = best_first(scores[items])
    if len(items) <= FEW:
        all_ranks = _ranks_by_comparison(scores, items)
    elif len(items) <= SOME * len(scores):
        all_ranks = _ranks_by_grid(scores, items, order)
    else:
        all_ranks = _ranks_by_sorting(scores, items)
    ranks = np.empty(len(items), np.int64)
    kept = 0
    for r in order:
        j = items[r]
        if j != excluded:
            ranks[kept] = all_ranks[r] - (excluded >= 0 and _is_before(scores, excluded, j))
            order[kept] = r
            kept += 1
    return ranks[:kept], order[:kept]


@compiled_in_order
def all_finite(scores: Floats) -> bool:
    """Whether no score is infinite or NaN."""
    finite = np.int32(0)  # narrow, as in `count_band`
    for i in range(len(scores)):
        finite += np.int32(scores[i] - scores[i] == 0)
    return finite == len(scores)


@compiled_in_order
def _is_before(scores: Floats, i: int, j: int) -> bool:
    return scores[i] > scores[j] or (scores[i] == scores[j] and i < j)


@compiled_in_order
def _ranks_by_comparison(scores: Floats, items: Integers) -> Integers:
    """Compare each relevant score with every score, a tile of the row at a time."""
    ranks = np.ones(len(items), np.int64)
    for start in range(0, len(scores), TILE):
        tile = scores[start : start + TILE]
        for r, j in enumerate(items):
            own = min(max(j - start, 0), len(tile))
            ranks[r] += count_band(tile[:own], scores[j], scores[j])[1]
            ranks[r] += count_band(tile[own:], scores[j], scores[j])[0]
    return ranks


@compiled_in_order
def count_band(scores: Floats, low: float, high: float) -> tuple[np.int32, np.int32]:
    """Count the scores above the band from low to high, and those above or in it."""
    # A narrow counter lets the compiler compare as many scores at once as fit into a register.
    beyond, reaching = np.int32(0), np.int32(0)
    for i in range(len(scores)):
        beyond += np.int32(scores[i] > high)
        reaching += np.int32(scores[i] >= low)
    return beyond, reaching


@compiled_in_order
def _ranks_by_grid(scores: Floats, items: Integers, order: Integers) -> Integers:
    """Count the scores in each cell between and at the distinct relevant scores.

    Scores are visited in order of index, so the count in the cell of item j, when j is reached, is
    the number of equal scores with a lower index.
    """
    values, place = _distinct_values(scores[items], order)
    grid = grid_of(values)
    counts = np.zeros(2 * len(values) + 1, np.int64)
    cells = np.empty(TILE, np.int32)
    ranks = np.empty(len(items), np.int64)
    arrived = 0
    for start in range(0, len(scores), TILE):
        tile = scores[start : start + TILE]
        fill_cells(cells, grid, tile)
        for i in range(len(tile)):
            cell = cells[i]
            if cell & 1 and arrived < len(items) and items[arrived] == start + i:
                ranks[arrived] = 1 + counts[cell]
                arrived += 1
            counts[cell] += 1
    above = len(scores) - np.cumsum(counts)
    for r in range(len(items)):
        ranks[r] += above[2 * place[r] + 1]
    return ranks


@compiled_in_order
def _distinct_values(relevant: Floats, order: Integers) -> tuple[Floats, Integers]:
    """Distinct relevant scores, increasing, and the place of each item's score among them."""
    values = np.empty_like(relevant)
    place = np.empty(len(relevant), np.int64)
    n_values = 0
    for r in order[::-1]:
        if n_values == 0 or relevant[r] != values[n_values - 1]:
            values[n_values] = relevant[r]
            n_values += 1
        place[r] = n_values - 1
    return values[:n_values], place


@compiled_in_order
def _ranks_by_sorting(scores: Floats, items: Integers) -> Integers:
    """Sort the whole row."""
    ranks = np.empty(len(scores), np.int64)
    for place, i in enumerate(best_first(scores)):
        ranks[i] = place + 1
    return ranks[items]
