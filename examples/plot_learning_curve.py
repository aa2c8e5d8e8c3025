"""
Search before and after feedback
================================

A search by cosine looks at all 64 numbers of a vector, people only at the first 16. How many
judgements "this one rather than that one" does it take to learn that, and how sure is the learner?
"""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np

import similia

rng = np.random.default_rng(0)
items = rng.normal(size=(1000, 64)).astype("float32")
items /= np.linalg.norm(items, axis=1, keepdims=True)
seen = np.arange(64) < 16


def judgements(n):
    query, a, b = rng.integers(1000, size=(3, n))
    closer = ((items[query] * (items[a] - items[b]))[:, seen]).sum(axis=1) > 0
    return np.column_stack([query, np.where(closer, a, b), np.where(closer, b, a)])


# %%
# Each judgement is learnt once, in order. On new ones we count how often the order is right.

stream, held_out = judgements(3000), judgements(2000)
steps = [0, 30, 100, 300, 1000, 3000]
curves = {}
for name in ("FactoredAROMA", "DiagonalAROMA", "OASIS"):
    learner = getattr(similia, name)().learn(items, held_out[:0])
    curve = []
    for before, after in pairwise([0, *steps]):
        learner.learn(items, stream[before:after])
        curve.append(np.mean(learner.triplet_scores(items, held_out) > 0))
    curves[name] = curve

fig, axes = plt.subplots(layout="constrained")
for name, curve in curves.items():
    axes.plot(np.maximum(steps, 10), curve, "o-", label=name)
axes.set(xscale="log", xlabel="judgements", ylabel="right order of new pairs")
axes.axhline(curves["OASIS"][0], color="gray", linestyle="--", label="cosine")
axes.legend()
plt.show()
