"""Run by the Python of the peers: LambdaMART of lightgbm, one order a line.

An order is JSON with the files `given` (X, y, sizes, places to learn from; others to score) and
`found`, and the parameters. Without X the last model scores. An empty line of JSON answers each.
"""

import json
import sys

import lightgbm
import numpy as np


def trained(X, y, sizes, places, **parameters):
    """Trees that have learnt lists; the bias of places is learnt and left out."""
    fixed = {
        "objective": "lambdarank",
        "min_data_in_leaf": 5,
        "num_threads": 1,
        "verbose": -1,
        "deterministic": True,
        "label_gain": [2.0**grade - 1 for grade in range(8)],
    }
    rounds = parameters.pop("rounds")
    train = lightgbm.Dataset(X, y, group=sizes, position=places, free_raw_data=False)
    return lightgbm.train({**fixed, **parameters}, train, rounds)


def main():
    model = None
    for line in sys.stdin:
        order = json.loads(line)
        data = np.load(order["given"])
        if "X" in data:
            given = [data[name] for name in ("X", "y", "sizes", "places")]
            model = trained(*given, **order["parameters"])
        np.savez(order["found"], scores=model.predict(data["others"]))
        print("{}", flush=True)


if __name__ == "__main__":
    main()
