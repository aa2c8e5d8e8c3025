"""Which settings of f-AROMA gain on new queries and spare a base that is right: a study.

    python -m experiments.aroma_study

No test query is ranked: each part learns from its training queries and ranks those kept for
validation. Runs that have their rows are not run again. Writes reports/aroma_study.md.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from experiments.contenders.adapters import QueryMap
from experiments.problems import PROBLEMS
from experiments.rows import COLUMNS, HERE, Row, append_rows, as_text, read_rows, versions
from experiments.summary import markdown_table
from similia import evaluate
from similia.linalg.blocks import triplet_rows
from similia.similarity.prior import typical_gap, typical_lengths
from similia.updates.aroma import factored_pass

SEEDS = range(5)
LONG, SHORT = (100, 300, 1_000, 3_000, 10_000), (300, 1_000, 3_000)
SETS: dict[str, tuple[str, dict[str, Any], tuple[int, ...]]] = {
    "CISI": ("search", {"name": "cisi"}, LONG),
    "20 Newsgroups": ("newsgroups_search", {"as_many_items": True}, LONG),
    "Cranfield": ("search", {"name": "cranfield"}, LONG),
    "CISI, perfect base": ("search", {"name": "cisi", "perfect": True}, LONG),
    "Cranfield, perfect base": ("search", {"name": "cranfield", "perfect": True}, LONG),
    "CISI, shown items": ("search", {"name": "cisi", "worse": "shown"}, SHORT),
    "Cranfield, shown items": ("search", {"name": "cranfield", "worse": "shown"}, SHORT),
    "CISI, five queries": ("search", {"name": "cisi", "n_queries": 5}, SHORT[:2]),
    "CISI, 20 % wrong": ("search", {"name": "cisi", "noise": 0.2}, SHORT),
    "CISI, 40 % wrong": ("search", {"name": "cisi", "noise": 0.4}, SHORT),
    "CISI, perfect base, 10 % wrong": (
        "search",
        {"name": "cisi", "perfect": True, "noise": 0.1},
        SHORT,
    ),
}
#: tried after a look at the others, and only where those differed
LATER = ((0.0, 1.0, 1.0), (0.0, 2.0, 1.0), (0.0, 1.5, 0.5), (0.0, 2.0, 0.25), (1.0, 1.0, 1.0))
#: score below which is learnt from, typical gap of the prior, r over E|q|² E|p|²
GRID = (
    *((0.0, scale, r) for scale in (1.0, 2.0) for r in (0.1, 0.5, 2.5)),
    *((0.0, scale, 0.5) for scale in (0.5, 4.0)),
    *((1.0, 1.0, r) for r in (0.1, 0.5, 2.5)),
    *((1.0, scale, 0.5) for scale in (0.5, 2.0, 4.0)),
    *((0.5, 1.0, r) for r in (0.1, 0.5, 2.5)),
    *((0.5, 2.0, r) for r in (0.1, 0.5)),
    (0.25, 1.0, 0.5),
    *LATER,
)
FOLDER = HERE / "results" / "aroma_study"
GAIN, SQUARE = "ndcg@10 gain", "ndcg@10 gain, squared"
Setting = tuple[float, float, float]


def main() -> None:
    done = {(row["options"], row["parameters"], row["seed"]) for row in read_rows(FOLDER)}
    for name, (_, options, _) in SETS.items():
        for seed in SEEDS:
            for setting in GRID:
                key = as_text(options), _parameters(setting), seed
                if key not in done and _wanted(name, setting):
                    append_rows(FOLDER / "rows.csv", _rows(name, seed, setting))
    (HERE / "reports" / "aroma_study.md").write_text(report(read_rows(FOLDER)))


def _wanted(name: str, setting: Setting) -> bool:
    return setting not in LATER or not ("perfect" in name or "five" in name)


def _parameters(setting: Setting) -> str:
    return as_text(dict(zip(("threshold", "scale", "r"), setting, strict=True)))


def _rows(name: str, seed: int, setting: Setting) -> list[Row]:
    kind, options, _ = SETS[name]
    key = ("tune", kind, as_text(options), "f-AROMA", _parameters(setting), seed)
    return [
        dict(
            zip(
                COLUMNS, (*key, n, queries, state, measure, value, 0, versions(), note), strict=True
            )
        )
        for n, state, note, queries, *values in _measured(name, seed, setting)
        for measure, value in zip((GAIN, SQUARE), values, strict=True)
    ]


def _measured(name: str, seed: int, setting: Setting) -> Iterator[tuple[Any, ...]]:
    """Learn once, and give what was gained with the last state and with the average at each n."""
    kind, options, counts = SETS[name]
    threshold, scale, r = setting
    problem = PROBLEMS[kind](seed, n=counts[-1], **options)
    (Q, Z, triplets), ranking = problem.X_train, problem.context
    lengths = typical_lengths(Q, Z)
    d = Q.shape[1]
    W = np.eye(d, dtype=Q.dtype) * Q.dtype.type(scale / typical_gap("identity", Q, Z))
    Lambda, Omega, moment = np.eye(d, dtype=Q.dtype), np.eye(d, dtype=Q.dtype), np.zeros_like(W)
    base, t, updates = _ndcg(None, ranking), 0, 0
    below = threshold or float(np.nextafter(0.0, 1.0))
    with threadpool_limits(1):
        for n in counts:
            for _, rows, gaps in triplet_rows(Q, Z, triplets[t:n], W.dtype, 128):
                updates += factored_pass(
                    W, Lambda, Omega, moment, t, rows, gaps, r * math.prod(lengths) ** 2, below
                )
                t += len(rows)
            for state, matrix in (("last", W), ("average", W - moment / (t + 1))):
                gains = _ndcg(matrix, ranking) - base
                yield (
                    n,
                    state,
                    f"{updates} updates",
                    len(gains),
                    f"{gains.mean():.7f}",
                    f"{np.mean(gains**2):.7f}",
                )


def _ndcg(W: Any, ranking: Any) -> Any:
    found = evaluate(
        QueryMap(W), ranking.Q, ranking.Z, **ranking.relevant, k=10, measures=("ndcg",)
    )
    return found.judged("ndcg@10")


# -- report --------------------------------------------------------------------------------------


def report(rows: list[Row]) -> str:
    """Tables, one for each set."""
    parts = [
        "# Defaults of f-AROMA: a study on validation queries",
        "Made by `python -m experiments.aroma_study`. The sets are those of [search that learns "
        "from feedback](adapters.md); each of five parts learns from its training queries and "
        "ranks those kept for validation, so that no part's test query was looked at for it. (A "
        "query that one part validates on is another's test query, as in any cross-validation; 20 "
        "Newsgroups validates on training messages only, among as many items as the test has.) A "
        'triplet is learnt from if it scores below *threshold*; 0 is `update_on="mistake"`, 1 '
        '`update_on="margin"`. *Scale* is the typical gap of the prior in margins, 1 with '
        '`prior_scale="auto"`; *r* is in units of E|q|² E|p|², so that 1 is `r="auto"`. Gains in '
        "nDCG@10 over the base in thousandths, ± half of a 95 % interval over all validation "
        f"queries. {versions()}.",
    ]
    cells: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        place = (row["options"], row["parameters"], row["score"], row["step"], row["measure"])
        cells.setdefault(place, []).append(row)
    for name, (_, options, counts) in SETS.items():
        lines = []
        for state in ("average", "last"):
            for setting in GRID:
                keys = [(as_text(options), _parameters(setting), state, n) for n in counts]
                if (*keys[0], GAIN) in cells:
                    given = [f"{value:g}" for value in setting]
                    lines.append([*given, state, *(_gain_text(cells, key) for key in keys)])
        header = ["threshold", "scale", "r", "state", *(f"n = {n:,}" for n in counts)]
        parts += [f"## {name}", markdown_table(header, lines)]
    return "\n\n".join(parts) + "\n"


def _gain_text(cells: dict[tuple[Any, ...], list[Row]], key: tuple[Any, ...]) -> str:
    mean, square = (_pooled(cells[*key, measure]) for measure in (GAIN, SQUARE))
    queries = sum(row["queries"] for row in cells[*key, GAIN])
    half = 1.96 * math.sqrt(max(square - mean**2, 0.0) / queries)
    return f"{1000 * mean:+.1f} ± {1000 * half:.1f}"


def _pooled(rows: list[Row]) -> float:
    """Mean over the queries of all parts."""
    return sum(row["queries"] * row["value"] for row in rows) / sum(row["queries"] for row in rows)


if __name__ == "__main__":
    main()
