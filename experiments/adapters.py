"""Feedback over a search with frozen vectors: what it gains on unseen queries, and how fast."""

import json
import math
from pathlib import Path
from statistics import fmean
from typing import Any

from experiments.figures import Bars, draw_bars
from experiments.report import Claim
from experiments.rows import Row, select
from experiments.summary import interval, markdown_table

TITLES = {"cisi": "CISI", "cranfield": "Cranfield", "newsgroups": "20 Newsgroups"}
BASE, RIVAL = "base", "torch, tuned"
VARIANTS = ("f-AROMA, on the margin", "f-AROMA, last state", "f-AROMA, late states")
OURS = ("f-AROMA", "d-AROMA", "OASIS", *VARIANTS)  # the defaults first
#: what is drawn; the tables have all
DRAWN = (
    *OURS[:4],
    RIVAL,
    "torch, lr = 1e-4",
    "ridge, tuned",
    "reweighting, tuned",
)
MEASURES = {"ndcg@10": "nDCG@10", "precision@10": "P@10"}
NORMAL = 1.96  # half of a 95 % interval, in standard errors
TERRAIN = {
    '{"worse":"shown"}': "both items among the first 50 that were shown",
    '{"n_queries":5}': "judgements of five queries only",
    '{"noise":0.2}': "20 % of judgements turned round",
    '{"noise":0.4}': "40 % of judgements turned round",
    '{"as_many_items":true}': "usual; validation has as many items as the test (three parts)",
    '{"perfect":true}': "the base is perfect: its first ten are what is relevant",
}


def report(rows: list[Row], exhibits: dict[str, Any], figures: Path) -> list[str]:
    """Paragraphs of the report."""
    done = [row for row in rows if not math.isnan(row["value"])]
    run, tune = select(done, stage="run"), select(done, stage="tune")
    main = [row for row in run if not _terrain(row)]
    parts = [
        "## How it was measured",
        "Sentence vectors (all-MiniLM-L6-v2) are frozen; n judgements (query, better, worse) of "
        "some queries train a map of queries; other queries are ranked. All learners meet the "
        "same judgements and start from the identity. *f-AROMA*, *d-AROMA* and *OASIS* are our "
        "defaults, with nothing chosen. Three forms of f-AROMA differ from them in one thing: *on "
        'the margin* has `update_on="margin"`, *last state* `average=False`; *late states* is not '
        "in the library: a mean of its states in which a state counts as often as it is late "
        "(t-weighted, over 50 states). Tuned f-AROMA and d-AROMA learn on the margin. Every "
        "*tuned* contender took, for each n and part, the best of eight settings by nDCG@10 on "
        "validation queries, all of whose judgements it was given for that, which are more "
        "than the n that it learnt from. CISI and Cranfield: queries in five parts, each "
        "tested once, three learnt from, one for validation; a worse item is any that is "
        "not relevant. 20 Newsgroups: a class is what is relevant, judgements are drawn from "
        "labels, test messages are queries in five parts, ranked among 7,532, but validation "
        "queries among 2,000 only, which flatters bold settings: see *other feedback* for a "
        "validation among as many. Gains are over the base, query by query; ± is half of a 95 % "
        "interval, 1.96 standard errors that the bootstrap over the queries of each part gives.",
        "## The goals, by form",
        goals_table(main, tune),
    ]
    for name in TITLES:
        parts += _set_part(_of_set(main, name), name, figures)
    return [*parts, *_time_part(main, tune, figures), *_settings_part(tune), *_terrain_part(run)]


# -- gains ---------------------------------------------------------------------------------------


def pooled_gain(rows: list[Row], measure: str) -> tuple[float, float]:
    """Mean gain over all parts and half of its 95 % interval; parts share no query."""
    gains = {row["seed"]: row for row in select(rows, measure=f"{measure} gain")}
    errors = {row["seed"]: row for row in select(rows, measure=f"{measure} gain error")}
    total = sum(row["queries"] for row in gains.values())
    if not total:
        return math.nan, math.nan
    mean = sum(row["queries"] * row["value"] for row in gains.values()) / total
    square = sum((row["queries"] * row["value"]) ** 2 for row in errors.values())
    return mean, NORMAL * math.sqrt(square) / total


def lead(rows: list[Row], ours: str, rival: str, measure: str) -> tuple[float, float]:
    """Mean difference of two contenders over parts, and half of its 95 % interval."""
    a, b = (
        {row["seed"]: row["value"] for row in select(rows, contender=name, measure=measure)}
        for name in (ours, rival)
    )
    return interval(a[seed] - b[seed] for seed in a if seed in b)


def _gain_text(rows: list[Row], measure: str) -> str:
    mean, half = pooled_gain(rows, measure)
    if math.isnan(mean):
        return "–"
    sign = "" if abs(mean) <= half else "**"
    return f"{sign}{mean:+.3f}{sign} ± {half:.3f}"


# -- goals ---------------------------------------------------------------------------------------


def claims(rows: list[Row], exhibits: dict[str, Any]) -> list[Claim]:
    """Our three defaults against the goals that they were built for."""
    rows = select(rows, stage="run", value=lambda value: not math.isnan(value))
    main = [row for row in rows if not _terrain(row)]
    perfect = [row for row in rows if _terrain(row) == '{"perfect":true}']
    cells = {
        ours: [
            (name, n, _at(_of_set(main, name), n))
            for name in TITLES
            for n in _counts(_of_set(main, name))
            if select(_at(_of_set(main, name), n), contender=ours)
        ]
        for ours in OURS[:3]
    }
    cells = {ours: found for ours, found in cells.items() if found}
    judged = (_level_claim(cells), _base_claim(cells), _time_claim(cells), _perfect_claim(perfect))
    return [claim for claim in judged if claim is not None]


Cells = dict[str, list[tuple[str, int, list[Row]]]]  # ours -> (set, judgements, rows)


def _level_claim(cells: Cells) -> Claim:
    shown, behind = [], 0
    for ours, found in cells.items():
        words = []
        for name, n, rows in found:
            mean, half = lead(rows, ours, RIVAL, "ndcg@10")
            if mean < -half:
                words.append(f"{TITLES[name]} at {n:,} ({mean:+.3f} ± {half:.3f})")
        behind += len(words)
        shown.append(f"{ours} behind at {', '.join(words) if words else 'none'}")
    total = sum(len(found) for found in cells.values())
    text = "level with a tuned torch adapter, nothing tuned (nDCG@10)"
    verdict = "yes" if not behind else f"partly: behind in {behind} of {total}"
    return Claim(text, "goal", f"{'; '.join(shown)} ({total} cells)", verdict)


def _base_claim(cells: Cells) -> Claim:
    shown, worse = [], False
    for ours, found in cells.items():
        words = [
            f"{TITLES[name]}, {text}"
            for name, _, rows in found
            if (text := _below_base(rows, ours)).startswith("worse")
        ]
        shown.append(f"{ours} {'; '.join(words) or 'never'}")
        worse |= bool(words)
    text = "never worse than the base beyond chance"
    return Claim(text, "goal", f"worse: {'; '.join(shown)}", "no" if worse else "yes")


def _time_claim(cells: Cells) -> Claim:
    """Seconds of the most judgements of each set, in epochs of torch."""
    epochs = {ours: [] for ours in cells}
    for ours, found in cells.items():
        for name in dict.fromkeys(name for name, *_ in found):
            rows = max((n, rows) for one, n, rows in found if one == name)[1]
            epoch = _values(select(rows, contender=RIVAL, measure="epoch seconds"))
            epochs[ours].append(_seconds(select(rows, contender=ours)) / epoch)
    shown = "; ".join(
        f"{ours} {min(found):.1f} to {max(found):.1f}" for ours, found in epochs.items()
    )
    slow = [ours for ours, found in epochs.items() if max(found) > 1.0]
    verdict = f"partly: not {' and '.join(slow)}" if slow else "yes"
    text = "as fast as one epoch of torch, most judgements (epochs; not run together)"
    return Claim(text, "goal", shown, verdict)


def _perfect_claim(rows: list[Row]) -> Claim | None:
    if not rows:
        return None
    n = max(_counts(rows))
    gains = {
        ours: _gain_text(select(_at(rows, n), contender=ours), "ndcg@10").replace("*", "")
        for ours in (*OURS[:1], VARIANTS[0], RIVAL)
    }
    shown = "; ".join(f"{ours} {gain}" for ours, gain in gains.items())
    mean, half = pooled_gain(select(_at(rows, n), contender=OURS[0]), "ndcg@10")
    verdict = "yes" if mean >= -half else "no"
    return Claim(f"a perfect base loses nothing (nDCG@10 after {n:,})", "goal", shown, verdict)


def goals_table(rows: list[Row], tune: list[Row]) -> str:
    """Say for each of our defaults whether it keeps up with torch, and never falls behind base."""
    lines = []
    for name in TITLES:
        here = _of_set(rows, name)
        for ours in OURS:
            if not select(here, contender=ours):
                continue
            level, worst = _against_rival(here, ours), _below_base(here, ours)
            lines.append([TITLES[name], ours, level, worst, _time_goal(here, ours)])
    header = ["set", "ours, nothing tuned", "against torch, tuned", "against the base", "time"]
    return markdown_table(header, lines)


def _against_rival(rows: list[Row], ours: str) -> str:
    words: dict[str, list[str]] = {}
    for n in _counts(rows):
        mean, half = lead(_at(rows, n), ours, RIVAL, "ndcg@10")
        if math.isnan(mean):
            continue
        verdict = "level" if abs(mean) <= half else "ahead" if mean > 0 else "behind"
        words.setdefault(verdict, []).append(f"{n:,} ({mean:+.3f})")
    return "; ".join(f"{verdict} at {', '.join(ns)}" for verdict, ns in words.items()) or "–"


def _below_base(rows: list[Row], ours: str) -> str:
    below = []
    for n in _counts(rows):
        for measure, title in MEASURES.items():
            mean, half = pooled_gain(select(_at(rows, n), contender=ours), measure)
            if mean < -half:
                below.append(f"{title} at {n:,} ({mean:+.4f})")
    return f"worse: {', '.join(below)}" if below else "never worse beyond chance"


def _time_goal(rows: list[Row], ours: str) -> str:
    n = max(_counts(rows))
    mine = _seconds(select(_at(rows, n), contender=ours))
    epoch = _values(select(_at(rows, n), contender=RIVAL, measure="epoch seconds"))
    if math.isnan(epoch):
        return f"{mine:.2f} s"
    return f"{mine:.2f} s, {mine / epoch:.1f} epochs of torch"


# -- parts ---------------------------------------------------------------------------------------


def _set_part(rows: list[Row], name: str, figures: Path) -> list[str]:
    if not rows:
        return []
    counts = _counts(rows)
    parts = [f"## {TITLES[name]}"]
    names = [one for one in dict.fromkeys(row["contender"] for row in rows) if one != BASE]
    for measure, title in MEASURES.items():
        base = select(rows, contender=BASE, measure=measure)
        shown = _weighted(base[: len({row["seed"] for row in base})])
        lines = []
        for one in names:
            cells = [_gain_text(select(_at(rows, n), contender=one), measure) for n in counts]
            lines.append([one, *cells])
        header = [f"{title}, base {shown:.3f}", *(f"n = {n:,}" for n in counts)]
        bars: Bars = {
            one: {n: pooled_gain(select(_at(rows, n), contender=one), measure) for n in counts}
            for one in names
            if one in DRAWN
        }
        path = figures / f"adapters_{name}_{measure.partition('@')[0]}.png"
        draw_bars(path, bars, "judgements", f"gain in {title}", logarithmic=True)
        picture = f"![{TITLES[name]}: gain in {title}]({figures.name}/{path.name})"
        parts += [markdown_table(header, lines), picture]
    return parts


def _time_part(rows: list[Row], tune: list[Row], figures: Path) -> list[str]:
    counts = _counts(rows)
    names = [one for one in dict.fromkeys(row["contender"] for row in rows) if one != BASE]
    spent = {one: [_learning_seconds(_at(rows, n), one) for n in counts] for one in names}
    tried = {
        one: [_tuning_seconds(select(_at(tune, n), contender=one)) for n in counts] for one in names
    }
    epochs = [
        _values(select(_at(rows, n), contender=RIVAL, measure="epoch seconds")) for n in counts
    ]
    lines = [
        [
            one,
            *(
                f"{a:.3f}" + (f" ({b:.2f})" if b else "")
                for a, b in zip(spent[one], tried[one], strict=True)
            ),
        ]
        for one in names
    ]
    lines.append(["one epoch of torch", *(f"{seconds:.3f}" for seconds in epochs)])
    curves = {one: spent[one] for one in OURS[:3] if one in spent}
    if RIVAL in spent:
        both = [a + b for a, b in zip(spent[RIVAL], tried[RIVAL], strict=True)]
        curves |= {"torch, one epoch": epochs, RIVAL: spent[RIVAL], "torch, with tuning": both}
    bars: Bars = {
        one: {
            n: (math.log10(max(value, 1e-3)), 0.0) for n, value in zip(counts, values, strict=True)
        }
        for one, values in curves.items()
    }
    path = figures / "adapters_time.png"
    draw_bars(path, bars, "judgements", "log10 of seconds", logarithmic=True)
    header = ["seconds", *(f"n = {n:,}" for n in counts)]
    return [
        "## Time",
        "Seconds of learning in one thread, means over sets and parts, in brackets those of all "
        "eight settings on the way to the choice. The machine was busy with other work, and more "
        "so when f-AROMA and d-AROMA ran with their present defaults than when torch did, so that "
        "ratios tell roughly at best; [when it helps](../../docs/when_it_helps.md) has some that "
        "were taken together.",
        markdown_table(header, lines),
        f"![seconds of learning]({figures.name}/{path.name})",
    ]


def _settings_part(tune: list[Row]) -> list[str]:
    """Say how much hangs on the choice of settings, on validation queries."""
    lines = []
    found = [row for row in select(tune, measure="ndcg@10") if not _terrain(row)]
    for name in TITLES:
        here = _of_set(found, name)
        for one in dict.fromkeys(row["contender"] for row in here):
            means = sorted(
                fmean(row["value"] for row in select(here, contender=one, parameters=given))
                for given in {row["parameters"] for row in select(here, contender=one)}
            )
            cells = [f"{value:.3f}" for value in (means[0], means[len(means) // 2], means[-1])]
            lines.append([TITLES[name], one, *cells])
    if not lines:
        return []
    return [
        "## What hangs on a setting",
        "nDCG@10 on validation queries of the worst, the upper median and the best of the eight "
        "settings, each the mean over all n and parts: what somebody risks who does not tune.",
        markdown_table(["set", "contender", "worst", "median", "best"], lines),
    ]


def _terrain_part(rows: list[Row]) -> list[str]:
    parts = []
    for measure, title in MEASURES.items():
        lines = []
        for key, words in TERRAIN.items():
            here = [row for row in rows if _terrain(row) == key]
            lines += [
                [words, TITLES[name], *_terrain_cells(_of_set(here, name), n, measure)]
                for name in TITLES
                for n in _counts(_of_set(here, name))
            ]
        if lines:
            header = ["feedback", "set", "n", "base", *_TERRAIN_OF]
            parts += [f"Gain in {title}:", markdown_table(header, lines)]
    return ["## Other feedback", *parts] if parts else []


def _terrain_cells(rows: list[Row], n: int, measure: str) -> list[str]:
    some = _at(rows, n)
    base = _weighted(select(some, contender=BASE, measure=measure))
    gains = [_gain_text(select(some, contender=one), measure) for one in _TERRAIN_OF]
    return [f"{n:,}", f"{base:.3f}", *gains]


_TERRAIN_OF = ("f-AROMA", *VARIANTS, "OASIS", RIVAL)


# -- pieces --------------------------------------------------------------------------------------


def _options(row: Row) -> dict[str, Any]:
    return json.loads(row["options"])


def _terrain(row: Row) -> str:
    """Unusual settings of the feedback, as text; empty if there are none."""
    special = {key: value for key, value in _options(row).items() if key not in ("name", "n")}
    return json.dumps(special, separators=(",", ":")) if special else ""


def _of_set(rows: list[Row], name: str) -> list[Row]:
    return [row for row in rows if _options(row).get("name", "newsgroups") == name]


def _at(rows: list[Row], n: int) -> list[Row]:
    return [row for row in rows if _options(row)["n"] == n]


def _counts(rows: list[Row]) -> list[int]:
    return sorted({_options(row)["n"] for row in rows})


def _weighted(rows: list[Row]) -> float:
    total = sum(row["queries"] for row in rows)
    return sum(row["queries"] * row["value"] for row in rows) / total if total else math.nan


def _values(rows: list[Row]) -> float:
    return fmean(row["value"] for row in rows) if rows else math.nan


def _seconds(rows: list[Row]) -> float:
    return fmean(row["seconds"] for row in rows) if rows else math.nan


def _learning_seconds(rows: list[Row], name: str) -> float:
    """Seconds of learning; torch has its own clock, since orders to it take time too."""
    here = select(rows, contender=name)
    own = _values(select(here, measure="training seconds"))
    return _seconds(here) if math.isnan(own) else own


def _tuning_seconds(rows: list[Row]) -> float:
    """Seconds that all settings of one part took together, mean over sets and parts."""
    own = select(rows, measure="training seconds")
    found = [(row["problem"], row["options"], row["seed"], row["value"]) for row in own] or [
        (row["problem"], row["options"], row["seed"], row["seconds"])
        for row in select(rows, measure="ndcg@10")
    ]
    totals: dict[Any, float] = {}
    for *place, seconds in found:
        totals[tuple(place)] = totals.get(tuple(place), 0.0) + seconds
    return fmean(totals.values()) if totals else 0.0
