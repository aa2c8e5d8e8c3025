"""Contenders: name -> factory(problem, seed, **parameters).

A contender learns up to a step (or at once, if it knows no steps) and hands over what the problem's
measure asks for: scorers, the predictions of a filter, a matrix. It never measures itself. All
learners of triplets meet the same triplets for a seed, in the same order; so do all learners of
pairs.
"""

from functools import partial

from experiments.contenders.adapters import Adapter, Online, Recent, Reweighting, Ridge, Torch
from experiments.contenders.batch import FDA, NCA, PCA, FittedPOLA, Peer
from experiments.contenders.classifiers import Classifier, Spectrum
from experiments.contenders.filters import ByDistance, ByNeighbor, ByPAUM, ByPerceptron
from experiments.contenders.gerrymandering import ClassRegression, Gerrymander
from experiments.contenders.kernels import BoundedKernel, OnlineKernel, TargetKernel
from experiments.contenders.nearest_metric import NearestMetric
from experiments.contenders.ordinal import ByDefiniteBoost, ByFeatures, ByMDS, ByMEG, ByTSTE
from experiments.contenders.states import LinearInversion, OnlineState
from experiments.contenders.tuples import RCA, FromPairs, FromTriplets, PseudoMetric, RepeatedPairs
from experiments.contenders.vectors import Identity

CONTENDERS = {
    "identity": Identity,
    **{name: partial(FromTriplets, name) for name in ("DiagonalAROMA", "FactoredAROMA", "OASIS")},
    "LEGO": partial(FromPairs, "LEGO"),
    "POLA": partial(PseudoMetric, "POLA"),
    "POLA fit": FittedPOLA,
    "POLA batch": RepeatedPairs,
    "POLA solved": NearestMetric,
    "RCA": RCA,
    "PCA": PCA,
    "FDA": FDA,
    "NCA": NCA,
    **{name: partial(Peer, name) for name in ("LMNN", "ITML_Supervised", "SCML_Supervised")},
    "gerrymandering": Gerrymander,
    "class regression": ClassRegression,
    "POLA filter": ByDistance,
    "1-NN filter": ByNeighbor,
    "Perceptron filter": ByPerceptron,
    "PAUM filter": ByPAUM,
    "target kernel": TargetKernel,
    "MEG kernel": OnlineKernel,
    "DefiniteBoost kernel": BoundedKernel,
    "cosine triplets": ByFeatures,
    "MEG triplets": ByMEG,
    "DefiniteBoost triplets": ByDefiniteBoost,
    "t-STE triplets": ByTSTE,
    "MDS triplets": ByMDS,
    "MEG state": OnlineState,
    "linear inversion": LinearInversion,
    "classifier": Classifier,
    "spectrum": Spectrum,
    "base adapter": Adapter,
    **{
        f"{name} adapter": partial(Online, name)
        for name in ("DiagonalAROMA", "FactoredAROMA", "OASIS")
    },
    "FactoredAROMA adapter, recent": partial(Recent, "FactoredAROMA"),
    "ridge adapter": Ridge,
    "reweighting adapter": Reweighting,
    "torch adapter": Torch,
}
