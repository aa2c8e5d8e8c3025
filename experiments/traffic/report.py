"""results/traffic -> reports/traffic.md: a conclusion, a figure and one table; the rest behind."""

from pathlib import Path

import numpy as np

from experiments.rows import HERE, versions
from experiments.summary import markdown_table
from experiments.traffic import opened
from experiments.traffic.conclusion import (
    BAD,
    Place,
    clicks_gaps,
    conclusion,
    last_step,
    places,
    robust_counts,
)
from experiments.traffic.contenders import CONTENDERS, chosen_setting
from experiments.traffic.figure import TITLES, draw
from experiments.traffic.plan import (
    CHOOSING,
    LONG,
    PEOPLE,
    as_text,
)
from experiments.traffic.results import FOLDER, read_rows
from experiments.traffic.searches import BANDS
from experiments.traffic.table import RIVALS, START, Gap, Table

REPORT = HERE / "reports" / "traffic.md"
FIGURE = "figures/traffic.png"


def write(path: Path = REPORT, folder: Path = FOLDER) -> Path:
    table = Table(read_rows(folder))
    judged = places(table, "judge")
    mixed = [where for where in judged if where[2].startswith("mixture")]
    longest = max(map(last_step, mixed))
    draw(path.parent / FIGURE, table, [w for w in mixed if last_step(w) == longest], longest)
    parts = [
        "# Live search traffic",
        conclusion(table),
        f"![What is shown beyond the base, contenders beside]({FIGURE})",
        "*People of five kinds mixed, noise .15, Zipf .9; each 200 searches minus the base, mean "
        "over seeds; grey: 95 % of Blend. Dotted: Blend without learning.*",
        "## The main table",
        main_table(table, judged),
        "## How it was done",
        _prose("protocol"),
        settings(),
        "## Contenders, kind by kind",
        *contender_tables(table, judged),
        "## Start and learnt",
        start_table(table, judged),
        "## Head, torso and tail",
        bands_table(table, judged),
        "## Regret",
        regret_table(table, judged),
        "## All four sets, further seeds",
        fresh_table(table),
        "## Many seeds",
        robust_table(table),
        "## Real clicks",
        clicks_section(),
        provenance(table),
    ]
    path.write_text("\n\n".join(part for part in parts if part) + "\n")
    return path


def main_table(table: Table, judged: list[Place]) -> str:
    lines = []
    for where in judged:
        step = last_step(where)
        cells = [TITLES[where[1]], where[2], f"{table.mean(where, 'base', 'seen', step):.3f}"]
        cells.append(_text(table.gap(where, "Blend", "base", "seen", step)))
        for what in ("seen", "held"):
            rival = table.best_rival(where, what, step)
            cells.append(_text(table.gap(where, "Blend", START, what, step)))
            gap = table.gap(where, "Blend", rival, what, step) if rival else None
            cells.append(f"{_text(gap)} {rival}")
        lines.append(cells)
    head = ["set", "traffic", "base", "seen: − base", "− start", "− best contender"]
    head += ["held: − start", "− best contender"]
    return (
        "nDCG@10 of what was shown over all searches of a run (1,000, or 3,000 where it says so). "
        "*Seen*: the query had been learnt from; *held*: a quarter of the queries, never searched "
        "for. ± is half of a 95 % interval over seeds, paired. **Bold**: behind beyond chance. "
        "The best contender is that of the cell, known only afterwards.\n\n"
        + markdown_table(head, lines)
    )


def _text(gap: Gap | None) -> str:
    if gap is None:
        return "–"
    return f"**{gap}**" if gap.sign < 0 else str(gap)


def contender_tables(table: Table, judged: list[Place]) -> list[str]:
    """Blend minus each contender, for seen, new and held queries."""
    parts = []
    for name in dict.fromkeys(where[1] for where in judged):
        for what in ("seen", "new", "held"):
            cells = [where for where in judged if where[1] == name]
            lines = [
                [where[2], f"{table.mean(where, 'Blend', what, last_step(where)):.3f}"]
                + [
                    _text(table.gap(where, "Blend", rival, what, last_step(where)))
                    for rival in RIVALS
                ]
                for where in cells
            ]
            parts.append(f"### {TITLES[name]}, {what}: Blend minus each")
            parts.append(markdown_table(["traffic", "Blend", *RIVALS], lines))
    return parts


def start_table(table: Table, judged: list[Place]) -> str:
    """What a search shows unlearnt, and what is learnt after 300, 1,000 and 3,000 searches."""
    lines = []
    for where in judged:
        if where[2] not in (*PEOPLE, *LONG):
            continue
        steps = [s for s in (300, 1000, 3000) if s <= last_step(where)]
        for what in ("last", "held"):
            start = table.gap(where, START, "base", what, steps[-1])
            learnt = [_text(table.gap(where, "Blend", START, what, step)) for step in steps]
            name = {"last": "seen, last 200", "held": "held"}[what]
            cells = [TITLES[where[1]], where[2], name, _text(start)]
            lines.append([*cells, *learnt, *["–"] * (3 - len(steps))])
    return (
        "Start: what combining the views brings before any click, minus the base. Learnt: Blend "
        "minus its own start after so many searches.\n\n"
        + markdown_table(["set", "traffic", "queries", "start", "300", "1,000", "3,000"], lines)
    )


def bands_table(table: Table, judged: list[Place]) -> str:
    lines = []
    for where in judged:
        if where[2] in ("mixture", "Zipf .6", "Zipf 1.2"):
            for name in ("Blend", "click table", "LinUCB", "LambdaMART"):
                gaps = [table.gap(where, name, "base", band, 1000) for band in BANDS]
                lines.append([TITLES[where[1]], where[2], name, *map(_text, gaps)])
    return (
        "A third of all demand each, by popularity; nDCG@10 of what was shown, minus the base.\n\n"
        + markdown_table(["set", "traffic", "contender", *BANDS], lines)
    )


def regret_table(table: Table, judged: list[Place]) -> str:
    lines = [
        [TITLES[where[1]], where[2]]
        + [
            f"{table.mean(where, name, 'regret', last_step(where)):+.3f}"
            for name in (START, "Blend", *RIVALS)
        ]
        for where in judged
    ]
    return (
        "Mean nDCG@10 of the fixed blend (of 24) that is best in hindsight on the very searches of "
        "the run, minus that of the contender; below zero it shows more than any fixed blend "
        "could.\n\n" + markdown_table(["set", "traffic", START, "Blend", *RIVALS], lines)
    )


def fresh_table(table: Table) -> str:
    lines = []
    for where in places(table, "fresh"):
        for what in ("seen", "held"):
            rival = table.best_rival(where, what, 1000)
            gaps = [table.gap(where, "Blend", name, what, 1000) for name in ("base", START, rival)]
            n = len(table.values(where, "Blend", what, 1000))
            cells = [TITLES[where[1]], what, str(n), *map(_text, gaps)]
            lines.append([*cells[:-1], f"{cells[-1]} {rival}"])
    if not lines:
        return "Not run."
    head = ["set", "queries", "seeds", "− base", "− start", "− best contender"]
    return (
        f"A mixture of people, 1,000 searches, seeds from 200 on. Settings of the contenders were "
        f"chosen on {' and '.join(TITLES[name] for name in CHOOSING)}, which favors them there."
        "\n\n" + markdown_table(head, lines)
    )


def robust_table(table: Table) -> str:
    counts = robust_counts(table)
    lines = [
        [TITLES[where[1]], where[2], name, str(n), str(bad), f"{worst:+.3f}"]
        for (where, name), (n, bad, worst) in sorted(counts.items())
    ]
    if not lines:
        return "Not run."
    head = ["set", "traffic", "contender", "runs", f"below start by {BAD}", "worst"]
    return (
        "Queries asked before in the last 200 of 1,000 searches, minus what the contender would "
        "have shown unlearnt.\n\n" + markdown_table(head, lines)
    )


def clicks_section() -> str:
    gaps = {what: clicks_gaps(what) for what in ("ndcg", "ndcg weighted")}
    if not gaps["ndcg"]:
        return "Not run."
    lines = [
        [name, _text(gap), _text(gaps["ndcg weighted"][name])] for name, gap in gaps["ndcg"].items()
    ]
    people = len({row["person"] for row in opened.read()})
    logged = [row["ndcg"] for row in opened.read() if row["contender"] == "logged order"]
    head = ["contender", "− logged order", "the same, weighted by place"]
    return (
        f"{_prose('real_clicks')} {people} people have saved something; the logged order has an "
        f"nDCG@10 of {np.mean(logged):.3f}.\n\n" + markdown_table(head, lines)
    )


def settings() -> str:
    lines = [
        [name, str(len(CONTENDERS[name][1])), as_text(chosen_setting(name)) or "nothing to set"]
        for name in CONTENDERS
    ]
    return markdown_table(["contender", "settings tried", "chosen"], lines)


def provenance(table: Table) -> str:
    stages = {
        stage: sorted({s for key, rows in table.rows.items() if key[0] == stage for s in rows})
        for stage in ("choose", "judge", "fresh", "robust")
    }
    said = [f"{stage} {_ranges(seeds)}" for stage, seeds in stages.items() if seeds]
    counts = {
        where: len(table.values(where, "Blend", "shown", last_step(where)))
        for where in places(table, "judge")
    }
    fewest = min(counts.values(), default=0)
    most = max(counts.values(), default=0)
    return (
        f"## Provenance\n\nSeeds: {'; '.join(said)}. Runs of Blend in a judging cell: {fewest} to "
        f"{most}. {versions()}.\n\n    make peers            # once, for LambdaMART\n"
        "    python -m experiments.traffic"
    )


def _ranges(seeds: list[int]) -> str:
    return f"{seeds[0]}–{seeds[-1]}" if len(seeds) > 1 else str(seeds[0])


def _prose(name: str) -> str:
    return Path(__file__).with_name(f"{name}.md").read_text().strip()
