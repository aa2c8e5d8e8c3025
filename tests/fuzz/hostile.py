"""Hostile values, arrays and bytes, all from one generator of random numbers."""

import numpy as np
from scipy import sparse

NUMBERS = [0, -1, 1, 2**31, -(2**31), 2**53, 2**63 - 1, 2**63, 10**30, 0.5, -0.0, 1e-320, 1e308]
NUMBERS += [float("nan"), float("inf"), float("-inf")]
VALUES = [*NUMBERS, None, True, "", "x" * 70_000, "\x1b[2J", "../../x", [], [[]], {}, [1], "NaN"]
VALUES += [{"tensor": "W_"}, {"strings": [""] * 9000, "dtype": "U65536"}, {"tuple": [[]]}]
VALUES += [{"number": 1e300, "dtype": "float32"}, {"dict": {"dict": {}}}, {"list": 3}]
DTYPES = ["float64", "float32", "float16", "int64", "int8", "uint8", "bool", "complex128", "object"]
SCALES = [0.0, 1e-320, 1e-160, 1e-38, 1e-20, 1e-8, 1.0, 1e8, 1e20, 1e38, 1e160, 1e300]


def pick(rng, values):
    return values[rng.integers(len(values))]


def damaged_bytes(rng, raw):
    """The bytes with some changed, cut, repeated or inserted."""
    raw = bytearray(raw)
    for _ in range(rng.integers(1, 6)):
        if not raw:
            break
        start = int(rng.integers(len(raw)))
        stop = min(len(raw), start + int(rng.integers(1, 64)))
        way = rng.integers(5)
        if way == 0:
            raw[start] = int(rng.integers(256))
        elif way == 1:
            del raw[start:stop]
        elif way == 2:
            raw[start:start] = raw[start:stop]
        elif way == 3:
            raw[start:stop] = rng.bytes(stop - start)
        else:
            del raw[start:]
    return bytes(raw)


def damaged_tree(rng, tree):
    """A JSON value with one place in it replaced, removed or repeated."""
    if isinstance(tree, dict) and tree and rng.random() < 0.85:
        key = pick(rng, list(tree))
        if rng.random() < 0.08:
            return {name: value for name, value in tree.items() if name != key}
        return {**tree, key: damaged_tree(rng, tree[key])}
    if isinstance(tree, list) and tree and rng.random() < 0.7:
        place = int(rng.integers(len(tree)))
        return [*tree[:place], damaged_tree(rng, tree[place]), *tree[place + 1 :]]
    return pick(rng, VALUES)


def damaged_array(rng, array):
    """An array of another shape, type or contents."""
    array = np.array(array)
    way = rng.integers(6)
    if way == 0 and array.ndim:
        return array[: rng.integers(len(array) + 1)]
    if way == 1:
        return array.reshape(-1)
    if way == 2:
        return array.astype(pick(rng, ["float32", "float64", "int64", "int32", "uint8"]))
    if way == 3 and array.size:
        array.reshape(-1)[rng.integers(array.size)] = pick(rng, [0, 1, 127])
        return array
    if way == 4 and array.dtype.kind == "f":
        return (array * pick(rng, [1e-30, 1e30, 0.0])).astype(array.dtype)
    return np.zeros(tuple(rng.integers(0, 4, size=rng.integers(0, 4))), array.dtype)


def matrix(rng, n, d):
    """A matrix of about that shape; often of odd type, size, scale or structure."""
    if rng.random() < 0.3:
        n, d = int(rng.integers(0, 2 * n)), int(rng.integers(0, 2 * d))
    X = rng.normal(size=(n, d)) * pick(rng, SCALES if rng.random() < 0.5 else [1.0])
    if X.size and rng.random() < 0.2:
        X.reshape(-1)[rng.integers(X.size)] = pick(rng, NUMBERS)
    form = rng.integers(8)
    with np.errstate(all="ignore"):
        if form == 0:
            X = X.astype(pick(rng, DTYPES))
        elif form == 1:
            X = X.astype(np.float32)
    if form == 2:
        return pick(rng, [X.reshape(-1), X[None], X.tolist(), None, "abc", 3, X[:, ::-1], X.T])
    if form in (3, 4, 5):
        return sparse_matrix(rng, X)
    return X


def sparse_matrix(rng, X):
    """A sparse form of X, of which one array may be wrong."""
    kind = pick(rng, ["csr", "csr", "csr", "csc", "coo", "bsr", "lil", "dia", "dok"])
    S = sparse.csr_array(np.where(rng.random(X.shape) < 0.5, X, 0.0)).asformat(kind)
    if kind in ("csr", "csc", "bsr") and rng.random() < 0.6:
        name = pick(rng, ["indices", "indptr", "data"])
        array = getattr(S, name).copy()
        if array.size and array.ndim == 1 and name != "data":
            way = rng.integers(4)
            if way == 0:
                array[rng.integers(array.size)] = pick(rng, [-1, 7, 2**20, 2**31 - 1])
            elif way == 1:
                array = array[: rng.integers(array.size)]
            elif way == 2:
                array = array[::-1]
            else:
                array = array + pick(rng, [1, -1, 10_000_000])
        else:
            array = array[: len(array) // 2]
        setattr(S, name, array)
    return S


def tuples(rng, n, width, rows):
    """Judgements; often of odd type, shape or range."""
    T = rng.integers(rows, size=(n, width))
    way = rng.integers(8)
    if way == 0 and n:
        T[rng.integers(n), rng.integers(width)] = pick(rng, [-1, rows, 2**40])
    if way == 1:
        return pick(
            rng, [T.astype(float), T[:, :1], T.reshape(-1), [], None, "x", T.astype(object)]
        )
    return T
