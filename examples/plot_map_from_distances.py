"""
A map from distances
====================

Of 60 places nothing is known but distances between some of them. MEG learns a kernel matrix from
one distance after another, and its leading directions are a map.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import procrustes

import similia

rng = np.random.default_rng(1)
angle = np.linspace(0, 4 * np.pi, 60)
places = np.c_[angle * np.cos(angle), angle * np.sin(angle)] / 8
places -= places.mean(axis=0)
pairs = rng.integers(60, size=(30_000, 2))
pairs = pairs[pairs[:, 0] != pairs[:, 1]]
distances = np.linalg.norm(places[pairs[:, 0]] - places[pairs[:, 1]], axis=1)

# %%
# After 300, 3,000 and all distances, turned and scaled to lie on the places.

meg = similia.MEG(n_objects=60, trace=np.sum(places**2))
fig, panels = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
begin = 0
for axes, end in zip(panels, (300, 3000, len(pairs)), strict=True):
    meg.learn(None, pairs[begin:end], distances[begin:end])
    begin = end
    target, found, error = procrustes(places, meg.embedding(2))
    axes.plot(*target.T, ".", color="lightgray")
    axes.plot(*found.T, "-", linewidth=1)
    axes.set(title=f"{end:,} distances\nloss {meg.total_loss_:.0f}", xticks=[], yticks=[], aspect=1)
plt.show()
