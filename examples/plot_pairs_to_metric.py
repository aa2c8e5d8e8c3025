"""
A distance from pairs
=====================

The classes of wine differ in few of thirteen measurements, which have different units. From pairs
"the same" and "not the same", POLA learns a distance in which a picture shows them apart.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import similia

X, y = load_wine(return_X_y=True)
maps = {
    "PCA": make_pipeline(StandardScaler(), PCA(2)),
    "POLA": make_pipeline(StandardScaler(), similia.POLA(n_components=2, random_state=0)),
}

# %%
# Both keep two directions; errors are those of 3-NN on wines that were held out.

fig, panels = plt.subplots(1, 2, figsize=(8, 3.5), layout="constrained")
for axes, (name, mapped) in zip(panels, maps.items(), strict=True):
    error = 1 - cross_val_score(make_pipeline(mapped, KNeighborsClassifier(3)), X, y, cv=5).mean()
    axes.scatter(*mapped.fit(X, y).transform(X).T, c=y, s=12, cmap="viridis")
    axes.set(title=f"{name}: error {error:.1%}", xticks=[], yticks=[])
plt.show()
