"""Runs of the click protocol: contenders at checkpoints, on new queries and on seen ones."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from experiments.blend.clicks import Collection, Log, collection, ndcg, split
from experiments.blend.today import TODAY, Scorer, tuned
from experiments.rows import HERE, Row, append_rows, as_text, read_rows, versions
from similia import Blend, FactoredAROMA
from similia.contract import Array, Indices

FOLDER = HERE / "results" / "blend"
#: other seeds than any that decided something; the first five had been seen with earlier forms
SEEDS = (*range(4000, 4005), *range(6000, 6005))
#: those that nobody had looked at before
FRESH = range(6000, 6005)
#: seeds on which today's methods were run
COMPARED = range(1000, 1005)
STEPS = (10, 30, 100, 300, 1000)
#: share of flipped relevance; "grades" are honest and about every item that was shown
FEEDBACK: dict[str, float | None] = {
    "clicks": 0.15,
    "noise": 0.5,
    "clean clicks": 0.0,
    "grades": None,
}
#: what the log of a set goes on to
LONGER = {"cranfield": (3000,), "cisi": (3000,)}


class Ours:
    """Blend, its views alone, and these without their trust; f-AROMA with its defaults."""

    def __init__(self, data: Collection, seed: int) -> None:
        self.data, self.blend, self.aroma = data, Blend(), FactoredAROMA()
        self.rng = np.random.default_rng([seed, 2])
        self.seconds = {"Blend": 0.0, "f-AROMA": 0.0}

    def learn(self, log: Log, *, trusted: bool = False) -> None:
        data, begun = self.data, time.perf_counter()
        lists = log.impressions(trusted=trusted)
        self.blend.learn(data.queries, lists, items=data.items)
        self.seconds["Blend"] += time.perf_counter() - begun
        triplets, begun = log.triplets(self.rng), time.perf_counter()
        self.aroma.learn(data.queries["meaning"], triplets, items=data.items["meaning"])
        self.seconds["f-AROMA"] += time.perf_counter() - begun

    def scorers(self) -> dict[str, Scorer]:
        data, weights = self.data, self.blend.weights_
        start, trust = self.blend.start_weights_, self.blend.trust_["clicks"]
        believed = start + (weights - start) / max(trust, 1e-12)
        return {
            "Blend": lambda rows: self.blend.pairwise_score(data.queries[rows], data.items),
            "views": lambda rows: self._weighed(rows, weights),
            "views, fully trusted": lambda rows: self._weighed(rows, believed),
            "f-AROMA": lambda rows: self.aroma.pairwise_score(
                data.queries["meaning"][rows], data.items["meaning"]
            ),
        }

    def _weighed(self, rows: Indices, weights: Array) -> Array:
        pairs = zip(self.blend.names_, weights / self.blend.units_, strict=True)
        return sum(np.float32(weight) * self.data.scores[name][rows] for name, weight in pairs)

    def note(self) -> str:
        return as_text({name: round(value, 3) for name, value in self.blend.trust_.items()})


def run(sets: list[str], feedback: list[str], groups: list[str], seeds: Any = SEEDS) -> None:
    """Append the rows of runs that have none; `groups` are "ours" and names of `TODAY`."""
    done = {
        (row["problem"], row["options"], row["contender"], row["seed"]) for row in read_rows(FOLDER)
    }
    for name in sets:
        for kind in feedback:
            for seed in seeds:
                key = name, as_text({"feedback": kind})
                wanted = [g for g in groups if (*key, _first_of(g), seed) not in done]
                if wanted:
                    with threadpool_limits(1):
                        rows = list(_rows(name, kind, seed, wanted))
                    append_rows(FOLDER / f"{name}.csv", rows)
                    print(name, kind, seed, *wanted, flush=True)


def _first_of(group: str) -> str:
    return "Blend" if group == "ours" else group


def _rows(name: str, kind: str, seed: int, groups: list[str]) -> Iterator[Row]:
    data = collection(name)
    steps = STEPS + (LONGER.get(name, ()) if kind == "clicks" else ())
    given = split(data, seed, max(steps), FEEDBACK[kind])
    ours, before = Ours(data, seed) if "ours" in groups else None, 0
    for step in steps:
        if ours is not None:
            # Grades are people's own judgements, so they are decisions.
            ours.learn(given.log.part(slice(before, step)), trusted=kind == "grades")
            scorers: dict[str, Scorer] = {"base": lambda rows: data.base[rows], **ours.scorers()}
            for contender, scorer in scorers.items():
                seconds = ours.seconds.get(contender, 0.0)
                note = ours.note() if contender == "Blend" else ""
                yield from _measured(
                    data, given, kind, seed, step, contender, scorer, seconds, note
                )
        for contender in groups:
            if contender in TODAY:
                begun = time.perf_counter()
                scorer, chosen = tuned(contender, data, given.log.part(slice(0, step)), seed)
                seconds, note = time.perf_counter() - begun, as_text(chosen or {})
                yield from _measured(
                    data, given, kind, seed, step, contender, scorer, seconds, note
                )
        before = step


def _measured(
    data: Collection,
    given: Any,
    kind: str,
    seed: int,
    step: int,
    contender: str,
    scorer: Scorer,
    seconds: float,
    note: str,
) -> Iterator[Row]:
    for which, rows in (("new", given.new), ("seen", given.seen(step))):
        yield {
            "stage": "run",
            "problem": data.name,
            "options": as_text({"feedback": kind}),
            "contender": contender,
            "parameters": "{}",
            "seed": seed,
            "step": step,
            "queries": len(rows),
            "score": "inner_product",
            "measure": f"ndcg@10 {which}",
            "value": f"{ndcg(scorer(rows), data.relevant[rows]).mean():.6f}",
            "seconds": f"{seconds:.3f}",
            "versions": versions(),
            "note": note,
        }
