"""Name -> contender, with the eight settings or fewer that it was chosen from."""

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

from experiments.traffic.clicks import ClickTable
from experiments.traffic.fusion import (
    Contender,
    Fixed,
    base,
    distribution_based,
    min_max_sum,
    reciprocal_ranks,
    weighted,
)
from experiments.traffic.ours import Ours
from experiments.traffic.rankers import LambdaMART, LinUCB
from experiments.traffic.vectors import Qdrant, Rocchio
from experiments.traffic.world import World

Setting = dict[str, Any]
#: settings chosen by `python -m experiments.traffic choose`, by contender
CHOSEN = Path(__file__).with_name("chosen.json")


def _grid(**values: tuple[Any, ...]) -> list[Setting]:
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]


CONTENDERS: dict[str, tuple[Callable[..., Contender], list[Setting]]] = {
    "base": (base, [{}]),
    "RRF": (lambda world: Fixed(world, reciprocal_ranks(world)), [{}]),
    "DBSF": (lambda world: Fixed(world, distribution_based(world)), [{}]),
    "min-max sum": (lambda world: Fixed(world, min_max_sum(world)), [{}]),
    "fixed weights": (
        lambda world, **setting: Fixed(world, weighted(world, **setting)),
        _grid(words=(0.25, 0.5, 1.0, 2.0), length=(0.0, 0.15)),
    ),
    "click table": (
        ClickTable,
        _grid(fusion=("rrf", "sum"), boost=(0.25, 0.5, 1.0, 2.0), prior=(1.0,)),
    ),
    "Rocchio": (Rocchio, _grid(clicked=(0.5, 1.0, 3.0, 10.0), passed=(0.0, 0.5))),
    "Qdrant": (
        Qdrant,
        _grid(strategy=("average_vector", "best_score"), negatives=(False, True)),
    ),
    "LambdaMART": (
        LambdaMART,
        _grid(num_leaves=(3, 7), rounds=(30, 100), learning_rate=(0.03, 0.1)),
    ),
    "LinUCB": (LinUCB, _grid(alpha=(0.0, 0.05, 0.1, 0.3), ridge=(3.0, 30.0))),
    "Blend": (Ours, [{}]),
}


def make(name: str, world: World, setting: Setting) -> Contender:
    return CONTENDERS[name][0](world, **setting)


def chosen_setting(name: str) -> Setting:
    """The setting of a contender that was best where it does not judge."""
    settings = CONTENDERS[name][1]
    if len(settings) == 1:
        return settings[0]
    return json.loads(CHOSEN.read_text())[name]
