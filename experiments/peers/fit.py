"""Run by the Python of the peers: fit learners of metric-learn, one order a line.

An order is JSON with the files `given` (X, y) and `found` (components), the name of the learner,
its parameters and the seed. A first line says that the process is ready, then one answers each
order: JSON with what went wrong, or with nothing.
"""

import json
import sys
import warnings

import metric_learn
import numpy as np


def fit(order):
    data = np.load(order["given"])
    learner = getattr(metric_learn, order["name"])(
        random_state=order["seed"], **order["parameters"]
    )
    learner.fit(data["X"], data["y"])
    np.savez(order["found"], components=learner.components_)


def main():
    warnings.simplefilter("ignore")  # a budget of iterations is meant to end before convergence
    answers, sys.stdout = sys.stdout, sys.stderr  # what a learner prints is no answer
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        failure = ""
        try:
            fit(json.loads(line))
        except Exception as reason:
            failure = f"{type(reason).__name__}: {reason}".splitlines()[0]
        print(json.dumps({"failure": failure}), file=answers, flush=True)


if __name__ == "__main__":
    main()
