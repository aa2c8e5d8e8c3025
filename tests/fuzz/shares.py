"""Attacks on work in shares: its files, its arguments, and the folder that it leaves."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import cache

import fsspec
import numpy as np
from scipy import sparse

import similia
from similia.distributed.indexing import SHARDS
from similia.files import write_vectors
from tests.fuzz import hostile
from tests.fuzz.targets import MODELS, Broken, check_finite, forge, refused


@cache
def executor():
    """One thread of this process, so that workers are attacked with it."""
    return ThreadPoolExecutor(1)


def count(rng, good):
    """A number of parts or of items; seldom an odd one."""
    return good if rng.random() < 0.8 else hostile.pick(rng, [*hostile.NUMBERS[:11], None, "x"])


def files(rng, folder):
    """Vectors, judgements and a model; often one of them is damaged."""
    X = rng.normal(size=(12, 4)).astype(hostile.pick(rng, ["float32", "float64"]))
    vectors = folder / f"X{hostile.pick(rng, ['.npy', '.npy', '.npz', '.parquet', '.jsonl'])}"
    write_vectors(vectors, sparse.csr_array(X) if rng.random() < 0.1 else X)
    rows = rng.integers(12, size=(40, 3))
    judged = folder / "judged.csv"
    lines = "".join(",".join(map(str, row)) + "\n" for row in rows.tolist())
    judged.write_text("query,better,worse\n" + lines)
    model = folder / "m.safetensors"
    similia.save(similia.OASIS().learn(X, rows), model)
    way = rng.integers(6)
    if way < 2:
        victim = [vectors, judged][way]
        victim.write_bytes(hostile.damaged_bytes(rng, victim.read_bytes()))
    elif way == 2:
        forge(rng, hostile.pick(rng, [model, *MODELS]), model)
    return placed(vectors), placed(judged), model


def placed(path):
    """The path, or of one file in three a URL with its contents."""
    content = path.read_bytes()
    if sum(content) % 3:
        return path
    url = f"memory://{path}"
    with fsspec.open(url, "wb") as file:
        file.write(content)
    return url


def calls(rng, folder):
    """Each public call, which can be made twice in the same folder of work."""
    vectors, judged, model = files(rng, folder)
    work, built = folder / "work", folder / "built"
    known = hostile.pick(rng, ["OASIS", "FactoredAROMA", "LEGO", "POLA", "AROW", "Blend"])
    k = count(rng, 3)
    own = {"executor": executor(), "work": work}
    scorer = hostile.pick(rng, [model, "cosine", "x", None])
    shares, size = count(rng, 2), count(rng, 5)
    backend = hostile.pick(rng, ["faiss", "usearch", "exact", "x"])
    to = f"{hostile.pick(rng, ['qdrant:', 'qdrant:', 'x:'])}{folder / 'database'}"
    moved = hostile.pick(rng, [None, model])

    def learn():
        learner = similia.registry.learner_class(known)()
        found = similia.learn_shares(learner, vectors, judged, shares=shares, **own)
        check_finite("learn_shares", found.model.get_state())
        return found.model.get_state()

    def measured():
        given = {"a": scorer}
        found = similia.evaluate_parts(given, vectors, judged, parts=shares, k=(k,), **own)
        return {name: evaluation.per_query for name, evaluation in found.items()}

    def searched():
        options = {**own, "range_size": size}
        return dict(enumerate(similia.search_ranges(scorer, vectors, vectors, k, **options)))

    def indexed():
        options = {"backend": backend, "executor": executor(), "shard_size": size}
        report = asdict(similia.index_shards(vectors, built, moved, **options))
        found = similia.search_shards(built, vectors, k, model=moved, **own)
        return {**dict(enumerate(found)), "recall": report["recall"]}

    def exported():
        options = {**own, "batch": size, "range_size": size}
        return {"n": similia.export_items(vectors, to, "items", moved, **options)}

    return hostile.pick(
        rng, [learn, learn, measured, measured, searched, indexed, indexed, exported]
    )


def equal(first, second):
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(equal(v, second[n]) for n, v in first.items())
    if isinstance(first, tuple | list):
        return len(first) == len(second) and all(map(equal, first, second))
    return np.array_equal(first, second, equal_nan=np.asarray(first).dtype.kind == "f")


def damage(rng, folder):
    """Change a file of the work or of the index."""
    found = [p for name in ("work", "built") for p in (folder / name).rglob("*") if p.is_file()]
    if not found:
        return
    victim = hostile.pick(rng, sorted(found))
    if rng.random() < 0.2:
        victim.unlink()
    elif victim.suffix == ".json" and rng.random() < 0.5:
        victim.write_text(json.dumps(hostile.damaged_tree(rng, json.loads(victim.read_text()))))
    elif victim.suffix == ".safetensors" and rng.random() < 0.5:
        forge(rng, victim, victim)
    else:
        victim.write_bytes(hostile.damaged_bytes(rng, victim.read_bytes()))


def damaged_shards(rng, folder):
    """A finished index whose list, or one of whose files, comes from elsewhere."""
    vectors, built = folder / "X.npy", folder / "built"
    np.save(vectors, rng.normal(size=(12, 4)))
    backend = hostile.pick(rng, ["exact", "faiss", "usearch"])
    similia.index_shards(vectors, built, backend=backend, shard_size=5, executor=executor())
    victim = hostile.pick(rng, [built / SHARDS, *sorted(built.glob("shard-*.safetensors"))])
    if victim.suffix == ".safetensors":
        forge(rng, victim, victim)
    elif rng.random() < 0.3:
        victim.write_bytes(hostile.damaged_bytes(rng, victim.read_bytes()))
    else:
        victim.write_text(json.dumps(hostile.damaged_tree(rng, json.loads(victim.read_text()))))
    options = {"work": folder / "work", "executor": executor()}
    refused(lambda: similia.search_shards(built, vectors, count(rng, 3), **options))


def shares(rng, folder):
    try:
        attack(rng, folder)
    finally:  # other parts go on where one has failed
        executor().submit(int).result()


def attack(rng, folder):
    if rng.random() < 0.3:
        damaged_shards(rng, folder)
        return
    call = calls(rng, folder)
    first = refused(call)
    if first is None:
        refused(call)
        return
    damage(rng, folder)
    again = refused(call)
    if again is not None and not equal(first, again):
        raise Broken(f"{call.__name__}: damaged work was taken for whole")
