"""What is attacked: each target runs one case, and raises `Broken` if a promise is broken.

An attack may end in success or in an error of a documented type. Anything else is a finding.
"""

import copy
import json
import os
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import load_file, save_file
from scipy import sparse
from typer.testing import CliRunner

from similia.adapters import Adapters, load_adapters
from similia.cli.main import app
from similia.constraints.pairs import DistanceConstraints
from similia.feedback import FeedbackFile, Judgements, UbiLog
from similia.files import BadRows, Ids, VectorFile, read_vectors, write_vectors
from similia.index import build_index, open_index
from similia.persistence import describe, load, reading, saving
from similia.registry import LEARNERS, learner_class
from similia.retrieval import evaluate, top_k
from similia.safety.whole import document_sha256
from similia.stream import Checkpoint
from similia.stream.checkpoint import PROGRESS
from similia.stream.lessons import learn_stream, lessons_for
from similia.trust.generations import HISTORY, Generations
from tests.cases import case_of
from tests.fixtures.make import FOLDER, data
from tests.fuzz import hostile
from tests.fuzz.crashes import crash_case, kill_case

DOCUMENTED = (ValueError, TypeError, OSError)
MODELS = sorted(FOLDER.glob("*.safetensors"))


class Broken(AssertionError):
    """A promise was broken."""


def refused(call):
    """Result of a call, or None if it raised an error of a documented type."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return call()
    except DOCUMENTED:
        return None


def check_finite(what, state):
    for name, value in state.items():
        array = np.asarray(value) if not isinstance(value, dict | tuple) else np.zeros(0)
        if array.dtype.kind in "fc" and not np.isfinite(array).all():
            raise Broken(f"{what}: {name} is not finite")


def same(before, after):
    return before.keys() == after.keys() and all(
        isinstance(v, dict | tuple) or np.array_equal(v, after[n]) for n, v in before.items()
    )


# -- files ---------------------------------------------------------------------------------------


def forge(rng, source, path):
    """Write a damaged copy: of any bytes, or with right checksums and other contents."""
    if rng.random() < 0.3:
        path.write_bytes(hostile.damaged_bytes(rng, source.read_bytes()))
        return
    tensors, document = load_file(source), reading.read_document(source)
    for _ in range(rng.integers(1, 3)):
        part = hostile.pick(rng, ["parameters", "attributes", "attributes", "tensors"])
        if part == "tensors" and tensors:
            name = hostile.pick(rng, list(tensors))
            tensors[name] = np.ascontiguousarray(hostile.damaged_array(rng, tensors[name]))
        elif part != "tensors":
            document[part] = hostile.damaged_tree(rng, document[part])
    for name, tensor in tensors.items():
        if name in document["tensors"]:
            document["tensors"][name] = saving.stored(tensor)[1]
    text = json.dumps({**document, "header_sha256": saving.UNSEALED}, separators=(",", ":"))
    save_file(tensors, path, metadata={saving.METADATA_KEY: text})
    with open(path, "r+b") as opened:
        saving.seal(opened)


def model_file(rng, folder):
    path = folder / "model.safetensors"
    forge(rng, hostile.pick(rng, MODELS), path)
    refused(lambda: describe(path))
    learner = refused(lambda: load(path))
    if learner is None:
        return
    check_finite("load", learner.get_state())
    X, y = data(hostile.pick(rng, ["float32", "float64"]))
    before = copy.deepcopy(learner.get_state())
    if refused(lambda: learner.partial_fit(X, y)) is None and not same(before, learner.get_state()):
        raise Broken("a failed partial_fit changed a loaded learner")


def index_file(rng, folder):
    source, path = folder / "source", folder / "items.index"
    Z = rng.normal(size=(30, 4)).astype(np.float32)
    backend = hostile.pick(rng, ["exact", "exact", "faiss", "usearch"])
    ids = hostile.pick(rng, [None, [f"item {i}" for i in range(30)]])
    items = sparse.csr_array(Z) if backend == "exact" and rng.random() < 0.4 else Z
    options = {"factory": "IVF4,Flat"} if backend == "faiss" and rng.random() < 0.5 else {}
    build_index(items, backend=backend, ids=ids, **options).save(source)
    forge(rng, source, path)
    index = refused(lambda: open_index(path))
    if index is not None:
        refused(lambda: index.search(Z[:3], 2))
        refused(lambda: index.add(Z[:2]))


def adapter_file(rng, folder):
    source, path = folder / "source", folder / "adapters"
    X, triplets = rng.normal(size=(20, 3)), rng.integers(20, size=(40, 3))
    Adapters(rank=4).learn("me", X, triplets).learn("you", X, triplets[:9]).save(source)
    forge(rng, source, path)
    adapters = refused(lambda: load_adapters(path))
    if adapters is not None:
        refused(lambda: adapters.learn("me", X, triplets))
        refused(lambda: adapters.pairwise_score("me", X))


def history_file(rng, folder):
    generations = Generations(folder)
    learner = learner_class("OASIS")().learn(np.eye(3), [[0, 1, 2]])
    with generations.changing():
        generations.promote(learner, {"reason": "better"})
    path = folder / HISTORY
    document = json.loads(path.read_text())
    document.pop("sha256")
    changed = hostile.damaged_tree(rng, document)
    if rng.random() < 0.3 or not isinstance(changed, dict):
        path.write_bytes(hostile.damaged_bytes(rng, path.read_bytes()))
    else:
        seal = refused(lambda: document_sha256(changed)) or ""
        path.write_text(json.dumps({**changed, "sha256": seal}))
    again = refused(lambda: Generations(folder))
    if again is not None:
        refused(lambda: again.load(again.current))
        refused(lambda: again.roll_back(None))
    output = CliRunner().invoke(app, ["info", str(folder)])
    check_command("info", output)


def vector_file(rng, folder):
    suffix = hostile.pick(
        rng, [".npy", ".npz", ".safetensors", ".parquet", ".arrow", ".jsonl", ".svmlight", "sparse"]
    )
    X = rng.normal(size=(12, 5)).astype(hostile.pick(rng, ["float32", "float64"]))
    path = folder / f"vectors{'.npz' if suffix == 'sparse' else suffix}"
    if suffix == "sparse" and rng.random() < 0.6:
        S = hostile.sparse_matrix(rng, X).tocsr() if rng.random() < 0.1 else sparse.csr_array(X)
        parts = {name: getattr(S, name) for name in ("data", "indices", "indptr")}
        name = hostile.pick(rng, list(parts))
        parts[name] = hostile.damaged_array(rng, parts[name])
        shape = hostile.pick(rng, [X.shape, (12, 2**40), (2**40, 5), (-1, 5), (12,), (12, 4)])
        np.savez_compressed(path, format=np.array(b"csr"), shape=np.array(shape), **parts)
    else:
        write_vectors(path, sparse.csr_array(X) if suffix == "sparse" else X)
        path.write_bytes(hostile.damaged_bytes(rng, path.read_bytes()))
    found = refused(lambda: read_vectors(path))
    if found is not None:
        refused(lambda: learner_class("OASIS")().learn(found.X, [[0, 1, 2]]))


def feedback_file(rng, folder):
    path = folder / f"feedback{hostile.pick(rng, ['.csv', '.jsonl'])}"
    rows = rng.integers(10, size=(30, 3)).tolist()
    if path.suffix == ".csv":
        text = "query,better,worse\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)
    else:
        named = [dict(zip(("query", "better", "worse"), row, strict=True)) for row in rows]
        text = "".join(json.dumps(row) + "\n" for row in named)
    path.write_bytes(hostile.damaged_bytes(rng, text.encode()))
    vectors = folder / "X.npy"
    np.save(vectors, np.eye(10))
    ids = read_vectors(vectors).ids
    refused(lambda: list(FeedbackFile(path, "triplets", ids)))
    words = ["learn", vectors, path, "-o", folder / "m.safetensors", "--bad-rows", "skip"]
    check_command("learn", CliRunner().invoke(app, list(map(str, words))))


def checkpoint_folder(rng, folder):
    kept, X = folder / "kept", rng.normal(size=(10, 3))
    vectors = VectorFile(X, Ids(None, 10))
    rows = rng.integers(10, size=(60, 3))
    batches = [Judgements(part, None, np.arange(20)) for part in np.split(rows, 3)]
    learner, task = learner_class("OASIS")(), {"vectors": "X"}
    lessons = lessons_for(learner, vectors.X)
    options = {"chunk": 20, "every": 20, "checkpoint": Checkpoint(kept, task)}
    learn_stream(learner, lessons, batches, **options)
    path = kept / PROGRESS
    way = rng.integers(4)
    if way == 0:
        victim = hostile.pick(rng, sorted(kept.iterdir()))
        victim.write_bytes(hostile.damaged_bytes(rng, victim.read_bytes()))
    elif way == 1:
        hostile.pick(rng, sorted(kept.iterdir())).unlink()
    elif way == 2:
        forge(rng, next(kept.glob("model-*")), next(kept.glob("model-*")))
    else:
        document = json.loads(path.read_text())
        document.pop("sha256")
        changed = hostile.damaged_tree(rng, document)
        seal = refused(lambda: document_sha256(changed)) or ""
        sealed = {**changed, "sha256": seal} if isinstance(changed, dict) else changed
        path.write_text(json.dumps(sealed))
    again = learner_class("OASIS")()
    found = refused(lambda: learn_stream(again, lessons, batches, **options))
    if found is not None:
        check_finite("resumed", found[0].get_state())
    refused(Checkpoint(kept, task).remove)


def log_files(rng, folder):
    ids, items = Ids(["red shoe", "blue hat"], 2), Ids([f"i{n}" for n in range(6)], 6)
    shown = [f"i{n}" for n in range(6)]
    queries = [
        {"query_id": f"s{n}", "user_query": "red shoe", "query_response_hit_ids": shown}
        for n in range(5)
    ]
    events = [
        {
            "action_name": "click",
            "query_id": f"s{n}",
            "timestamp": "2026-01-01T00:00:00Z",
            "event_attributes": {
                "object": {"object_id": f"i{n}"},
                "position": {"ordinal": n},
            },
        }
        for n in range(5)
    ]
    texts = []
    for rows in (queries, events):
        rows = [hostile.damaged_tree(rng, r) if rng.random() < 0.3 else r for r in rows]
        text = "".join(json.dumps(row) + "\n" for row in rows).encode()
        texts.append(hostile.damaged_bytes(rng, text) if rng.random() < 0.5 else text)
    for name, text in zip(("queries", "events"), texts, strict=True):
        (folder / f"{name}.jsonl").write_bytes(text)
    policy = hostile.pick(rng, ["skip", "stop"])
    log = UbiLog(
        folder / "queries.jsonl", folder / "events.jsonl", ids, items, bad_rows=BadRows(policy)
    )
    refused(lambda: list(log))
    lists = "query,item,position,clicked\n" + "".join(
        f"red shoe,i{n},{n},{n % 2}\n" for n in range(6)
    )
    qrels = "".join(f"0 0 {n} {n % 3}\n" for n in range(6))
    (folder / "lists.csv").write_bytes(hostile.damaged_bytes(rng, lists.encode()))
    (folder / "judged.qrels").write_bytes(hostile.damaged_bytes(rng, qrels.encode()))
    both = Ids([*["red shoe", "blue hat"], *shown], 8)
    for name in ("lists.csv", "judged.qrels"):
        kind = hostile.pick(rng, ["triplets", "lists", "pairs"])
        refused(lambda name=name, kind=kind: list(FeedbackFile(folder / name, kind, both)))


def commands(rng, folder):
    vectors, feedback = folder / "X.npy", folder / "f.parquet"
    np.save(vectors, rng.normal(size=(10, 4)))
    columns = dict(zip(("query", "better", "worse"), rng.integers(10, size=(3, 20)), strict=True))
    table = pa.table(columns)
    pq.write_table(table, feedback)
    arrow = folder / "f.arrow"
    with pa.ipc.new_file(arrow, table.schema) as writer:
        writer.write_table(table)
    model = folder / "m.safetensors"
    model.write_bytes(hostile.pick(rng, MODELS).read_bytes())
    victim = hostile.pick(rng, [vectors, feedback, arrow, model])
    victim.write_bytes(hostile.damaged_bytes(rng, victim.read_bytes()))
    judged = hostile.pick(rng, [feedback, arrow])
    option = hostile.pick(rng, ["--chunk", "--every", "--set", "--learner", "--query-view", "-o"])
    value = str(hostile.pick(rng, hostile.VALUES))[:100].replace("\0", "").replace("/", "_")
    given = folder / value if option == "-o" else value  # files stay in the folder
    words = hostile.pick(
        rng,
        [
            ["learn", vectors, judged, "-o", folder / "out", "--learner", "OASIS"],
            ["learn", vectors, judged, "-o", folder / "out", "--from", model],
            ["learn", vectors, judged, "-o", folder / "out", option, given],
            ["info", victim],
            ["evaluate", model, vectors, judged],
            ["suggest", model, vectors],
            ["apply", model, vectors, "-o", folder / "out.npy"],
            ["index", vectors, "-o", folder / "out.index"],
        ],
    )
    check_command(words[0], CliRunner().invoke(app, list(map(str, words))))


def check_command(name, result):
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise Broken(f"{name} raised {result.exception!r:.300}") from result.exception
    if "\x1b" in result.output:
        raise Broken(f"{name} printed an escape sequence")


# -- calls ---------------------------------------------------------------------------------------


def learner_calls(rng, folder):
    name = hostile.pick(rng, list(LEARNERS))
    dtype = hostile.pick(rng, ["float32", "float64"])
    case = case_of(learner_class(name), seed=int(rng.integers(9)), dtype=dtype, n=40)
    learner = case.learner
    if rng.random() < 0.7:
        case.learn()
    started = learner.__sklearn_is_fitted__()
    before = copy.deepcopy(learner.get_state()) if started else {}
    X, n = hostile.matrix(rng, 80, 6), 30
    kind = learner.learns_from
    judgements = hostile.tuples(rng, n, 3 if kind == "triplets" else 2, 80)
    y = hostile.pick(
        rng, [np.ones(n), -np.ones(n), rng.choice([-1, 1], n), np.full(n, np.nan), [2]]
    )
    calls = {
        "fit": lambda: learner.fit(X, rng.integers(3, size=80)),
        "partial_fit": lambda: learner.partial_fit(X, rng.integers(3, size=80)),
    }
    if kind == "triplets":
        items = hostile.matrix(rng, 80, 6)
        calls["learn"] = lambda: learner.learn(X, judgements)
        calls["items"] = lambda: learner.learn(X, judgements, items=items)
    elif kind == "pairs":
        calls["learn"] = lambda: learner.learn(X, judgements, y)
    called = hostile.pick(rng, list(calls))
    done = refused(calls[called])
    fitted = learner.__sklearn_is_fitted__()
    after = learner.get_state() if fitted else {}
    if done is None and (fitted != started or not same(before, after)):
        raise Broken(f"a failed {name}.{called} changed the state")
    check_finite(f"{name}.{called}", after)
    if fitted:
        scores = refused(lambda: case.output(X=X))
        if scores is not None and not np.isfinite(scores).all():
            raise Broken(f"{name} gave scores that are not finite")


def function_calls(rng, folder):
    X, Z = hostile.matrix(rng, 20, 5), hostile.matrix(rng, 20, 5)
    k = hostile.pick(rng, [1, 3, 20, 21, 0, -1, 2**40, None, 1.5])
    scorer = hostile.pick(rng, ["cosine", "inner_product", "euclidean", "x"])
    refused(lambda: top_k(scorer, X, Z, k))
    refused(lambda: evaluate(scorer, X, labels=np.arange(20) % 2))
    refused(lambda: evaluate(scorer, X, Z, relevance=hostile.matrix(rng, 20, 20)))
    refused(lambda: build_index(Z).search(X, k))
    refused(lambda: DistanceConstraints(hostile.tuples(rng, 5, 2, 20), np.ones(5), X=X))
    path = folder / f"X{hostile.pick(rng, ['.npy', '.npz', '.jsonl', '.svmlight', '.parquet'])}"
    if refused(lambda: write_vectors(path, X)) is None and path.exists():
        refused(lambda: read_vectors(path))


def crashes(rng, folder):
    problem = crash_case(rng, folder)
    if problem:
        raise Broken(problem)


def kills(rng, folder):
    problem = kill_case(rng, folder)
    if problem:
        raise Broken(problem)


TARGETS = {
    "models": model_file,
    "indexes": index_file,
    "adapters": adapter_file,
    "histories": history_file,
    "vectors": vector_file,
    "feedback": feedback_file,
    "checkpoints": checkpoint_folder,
    "logs": log_files,
    "commands": commands,
    "learners": learner_calls,
    "functions": function_calls,
    "crashes": crashes,
    "kills": kills,
}

os.environ.setdefault("COLUMNS", "100")
