import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import chisquare

seeds = st.integers(0, 2**32 - 1)


@st.composite
def labels(draw):
    """Label vectors of many types, often with classes of one point or one giant class."""
    codes = draw(hnp.arrays(np.int64, st.integers(0, 40), elements=st.integers(0, 6)))
    codes = np.concatenate([[0, 0, 1], codes])  # always usable
    if draw(st.booleans()):
        codes = np.concatenate([codes, np.full(200, draw(st.integers(0, 6)))])
    codes = np.random.default_rng(draw(seeds)).permutation(codes)
    kind = draw(st.sampled_from(["int", "negative", "float", "str", "bytes", "object", "bool"]))
    return {
        "int": codes,
        "negative": (-7 * codes).astype(np.int16),
        "float": codes / 4.0,
        "str": np.char.add("class ", codes.astype(str)),
        "bytes": codes.astype("S3"),
        "object": np.array([f"c{c}" for c in codes], dtype=object),
        "bool": codes > 0,
    }[kind]


def chi_square_p(rows, probability_of):
    """Give the p-value of drawn rows under a dictionary from tuple to probability."""
    found, counts = np.unique(rows, axis=0, return_counts=True)
    counts = dict(zip(map(tuple, found.tolist()), counts.tolist(), strict=True))
    assert counts.keys() <= probability_of.keys()
    observed = [counts.get(row, 0) for row in probability_of]
    expected = [p * len(rows) for p in probability_of.values()]
    return chisquare(observed, expected).pvalue
