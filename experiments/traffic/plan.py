"""Which runs there are: what chooses settings, what judges, and what is looked at besides."""

from typing import NamedTuple

from experiments.traffic.contenders import CONTENDERS, Setting, chosen_setting
from experiments.traffic.loop import Cell
from experiments.traffic.people import People
from experiments.traffic.searches import Law

#: sets and seeds that choose settings never judge
CHOOSING, CHOOSING_SEEDS = ("cisi", "nfcorpus"), range(100, 105)
JUDGING, JUDGING_SEEDS = ("cranfield", "scifact"), range(10)
#: fresh seeds for all four sets
SETS, FRESH_SEEDS = (*JUDGING, *CHOOSING), range(200, 210)

PEOPLE = ("position", "cascade", "own", "steep", "thin", "mixture")
CELLS = {
    **{kind: Cell(people=People(kind)) for kind in PEOPLE},
    "noise .3": Cell(people=People(noise=0.3)),
    "noise .5": Cell(people=People(noise=0.5)),
    "Zipf .6": Cell(law=Law(zipf=0.6)),
    "Zipf 1.2": Cell(law=Law(zipf=1.2)),
    "drift": Cell(drift=True),
    "paraphrases": Cell(law=Law(paraphrased=0.5), paraphrases=3),
    "mixture, 3,000": Cell(law=Law(searches=3000), people=People("mixture")),
    "position, 3,000": Cell(law=Law(searches=3000)),
    "own, 3,000": Cell(law=Law(searches=3000), people=People("own")),
}
LONG = tuple(name for name, cell in CELLS.items() if cell.law.searches > 1000)
#: cells of each stage
STAGES = {
    "choose": ("mixture",),
    "judge": tuple(CELLS),
    "fresh": ("mixture",),
    # Every run of a hundred must not end below its own start.
    "robust": ("mixture", "own"),
}
ROBUST, ROBUST_SEEDS = ("click table", "LinUCB", "Blend"), range(300, 400)
#: searches after which rows are written
STEPS = (300, 1000, 3000)


class Task(NamedTuple):
    stage: str
    world: str
    cell: str
    contender: str
    setting: Setting
    seed: int

    @property
    def key(self) -> tuple[str, ...]:
        return (self.stage, self.world, self.cell, self.contender, as_text(self.setting))


def tasks(stage: str) -> list[Task]:
    """Runs of a stage, those of one seed in all cells before those of the next."""
    sets = {"choose": CHOOSING, "judge": JUDGING}.get(stage, SETS)
    seeds = {"choose": CHOOSING_SEEDS, "judge": JUDGING_SEEDS, "fresh": FRESH_SEEDS}
    names = ROBUST if stage == "robust" else tuple(CONTENDERS)
    return [
        Task(stage, world, cell, name, setting, seed)
        for seed in seeds.get(stage, ROBUST_SEEDS)
        for world in sets
        for cell in STAGES[stage]
        for name in names
        for setting in _settings(stage, name)
    ]


def _settings(stage: str, name: str) -> list[Setting]:
    if stage != "choose":
        return [chosen_setting(name)]
    settings = CONTENDERS[name][1]
    return settings if len(settings) > 1 else []


def as_text(setting: Setting) -> str:
    return " ".join(f"{name}={value}" for name, value in setting.items())
