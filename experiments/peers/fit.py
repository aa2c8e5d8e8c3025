"""Run by the Python of the peers: fit.py <order as JSON> <given.npz> <found.npz>."""

import json
import sys
import warnings

import metric_learn
import numpy as np


def main(order: str, given: str, found: str) -> None:
    order = json.loads(order)
    data = np.load(given)
    learner = getattr(metric_learn, order["name"])(
        random_state=order["seed"], **order["parameters"]
    )
    warnings.simplefilter("ignore")  # a budget of iterations is meant to end before convergence
    learner.fit(data["X"], data["y"])
    np.savez(found, components=learner.components_)


if __name__ == "__main__":
    main(*sys.argv[1:])
