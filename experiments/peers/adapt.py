"""Run by the Python of the peers: train linear query adapters in torch, one order a line.

An order is JSON with the files `given` (Q, Z, triplets) and `found`, and the parameters. A line of
JSON answers each: seconds of training, and of one epoch.
"""

import json
import sys
import time

import numpy as np
import torch


def trained(Q, Z, triplets, *, lr, margin, epochs, seed, batch=64):
    """W with score qᵀWz: from the identity, Adam on mean(max(0, margin - qᵀW(z⁺ - z⁻)))."""
    Q, Z, triplets = (torch.from_numpy(given) for given in (Q, Z, triplets))
    adapter = torch.nn.Linear(Q.shape[1], Z.shape[1], bias=False)
    torch.nn.init.eye_(adapter.weight)
    optimizer = torch.optim.Adam(adapter.parameters(), lr=lr)
    order = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        for rows in torch.randperm(len(triplets), generator=order).split(batch):
            query, better, worse = triplets[rows].T
            scores = (adapter(Q[query]) * (Z[better] - Z[worse])).sum(dim=1)
            loss = torch.relu(margin - scores).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return adapter.weight.detach().numpy().T


def main():
    torch.set_num_threads(1)
    few = np.zeros((2, 3), dtype=np.float32), np.zeros((1, 3), dtype=np.int64)
    trained(few[0], *few, lr=0.1, margin=0.1, epochs=1, seed=0)  # what is slow once, off the clock
    for line in sys.stdin:
        order = json.loads(line)
        data = np.load(order["given"])
        given = [data[name] for name in ("Q", "Z", "triplets")]
        begun = time.perf_counter()
        W = trained(*given, **order["parameters"])
        seconds = time.perf_counter() - begun
        np.savez(order["found"], W=W)
        epoch = seconds / order["parameters"]["epochs"]
        print(json.dumps({"training": seconds, "epoch": epoch}), flush=True)


if __name__ == "__main__":
    main()
