"""SLND against SGD in the paper's scheme: passes and seconds to 99 % of SGD's best."""

from statistics import median
from typing import NamedTuple

from experiments.rows import Row
from experiments.slnd_curves import (
    SETS,
    Run,
    better_schedule,
    first_at,
    median_and_interval,
    of_set,
    scheme_runs,
)

#: of SGD's best accuracy
SHARE = 0.99
Places = dict[tuple[str, str], str]
Arrival = tuple[float, float]  # passes, seconds; infinite where a run never arrives


class Race(NamedTuple):
    """One set: when each side arrives, and the best that it has in top-1 and top-5 accuracy."""

    name: str
    constant: list[Arrival]
    falling: list[Arrival]
    plain: list[Arrival]  # SGD with constant steps
    sgd: list[Arrival]  # with its better schedule
    best: list[tuple[float, float]]  # accuracy of SLND and of SGD, each with its better schedule

    @property
    def ratios(self) -> list[float]:
        """SGD's passes over SLND's; 0 where SLND never arrives."""
        return self._ratios(0)

    @property
    def speedups(self) -> list[float]:
        """SGD's seconds over SLND's; 0 where SLND never arrives."""
        return self._ratios(1)

    def _ratios(self, part: int) -> list[float]:
        pairs = zip(self.sgd, self.constant, strict=True)
        return [theirs[part] / ours[part] for theirs, ours in pairs]

    @property
    def ratio(self) -> float:
        return median(self.ratios)

    @property
    def speedup(self) -> float:
        return median(self.speedups)

    @property
    def seeds(self) -> str:
        return of_seeds(self.name, len(self.best))

    def told(self, ratios: list[float]) -> str:
        """The median and its interval, if SLND always arrives."""
        arrived = sum(ratio > 0 for ratio in ratios)
        if arrived < len(ratios):
            return f"– (SLND arrives for {arrived} of {len(ratios)} seeds)"
        return median_and_interval(ratios)


def races(rows: list[Row], places: Places = SETS, measure: str = "top1") -> list[Race]:
    """Races in top-1 or top-5 accuracy, on the sets where it is known."""
    found = []
    for place, name in places.items():
        here = of_set(rows, place)
        ours, theirs = (scheme_runs(here, contender, measure) for contender in ("SLND", "SGD"))
        race = Race(name, [], [], [], [], [])
        for seed in sorted(ours.keys() & theirs):
            slnd, sgd = better_schedule(ours[seed]), better_schedule(theirs[seed])
            race.best.append((best(slnd), best(sgd)))
            target = SHARE * best(sgd)
            race.constant.append(first_at(ours[seed]["constant"], target))
            race.falling.append(first_at(ours[seed]["linear"], target))
            race.plain.append(first_at(theirs[seed]["constant"], target))
            race.sgd.append(first_at(sgd, target))
        if race.best:
            found.append(race)
    return found


def best(curve: dict[int, Run]) -> float:
    return max(run.value for run in curve.values())


def of_seeds(name: str, n: int) -> str:
    """The name of a set with the number of seeds behind what is said of it."""
    return f"{name} ({n} seed{'s' * (n > 1)})"
