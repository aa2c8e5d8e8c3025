"""Speed of reading logs against plain pyarrow, which parses the same columns and does no more."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv
from pyarrow import json as arrow_json

from benchmarks.timing import seconds, table
from similia.files import Ids, ImpressionsFile, UbiLog

N_QUERIES, N_ITEMS, DEPTH = 5_000, 20_000, 10
QUERIES = Ids(np.array([f"query {i}" for i in range(N_QUERIES)], object), N_QUERIES)
ITEMS = Ids(np.array([f"item-{i}" for i in range(N_ITEMS)], object), N_ITEMS)
COLUMNS = ("impression", "query", "item", "click", "position", "weight")


def write_log(path, n_rows, texts=True):
    """A CSV of impressions of ten items each."""
    rng = np.random.default_rng(0)
    kinds = [pa.string() if texts else pa.int64()] * 2
    with open(path, "wb") as file:
        file.write((",".join(COLUMNS) + "\n").encode())
        for start in range(0, n_rows, 10**6):
            n = min(10**6, n_rows - start)
            number = (start + np.arange(n)) // DEPTH
            query = np.random.default_rng(1).integers(N_QUERIES, size=n // DEPTH).repeat(DEPTH)
            item = rng.integers(N_ITEMS, size=n)
            names = [query, item]
            if texts:
                names = [np.array(ids.values)[x] for ids, x in ((QUERIES, query), (ITEMS, item))]
            columns = [
                number,
                *(pa.array(x, kind) for x, kind in zip(names, kinds, strict=True)),
                (rng.random(n) < 0.1).astype(int),
                np.tile(np.arange(1, DEPTH + 1), n // DEPTH),
                np.ones(n),
            ]
            part = pa.table(dict(zip(COLUMNS, columns, strict=True)))
            options = csv.WriteOptions(include_header=False, quoting_style="none")
            csv.write_csv(part, file, options)


def write_ubi(folder, n_searches):
    """Queries with ten hits each, and a click for one in two."""
    rng = np.random.default_rng(0)
    with (
        open(folder / "queries.jsonl", "w") as queries,
        open(folder / "events.jsonl", "w") as events,
    ):
        for number in range(n_searches):
            hits = [f"item-{i}" for i in rng.integers(N_ITEMS, size=DEPTH)]
            search = f"{number:08x}-0000-4000-8000-000000000000"
            found = {
                "query_id": search,
                "user_query": f"query {number % N_QUERIES}",
                "client_id": "c1",
                "timestamp": "2026-01-01T00:00:00Z",
                "query_response_hit_ids": hits,
            }
            queries.write(json.dumps(found) + "\n")
            if number % 2:
                place = int(rng.integers(DEPTH))
                event = {
                    "action_name": "click",
                    "query_id": search,
                    "client_id": "c1",
                    "timestamp": "2026-01-01T00:00:05Z",
                    "event_attributes": {
                        "object": {"object_id": hits[place], "object_id_field": "sku"},
                        "position": {"ordinal": place + 1},
                    },
                }
                events.write(json.dumps(event) + "\n")


def read_plainly(path, names):
    """Parse some columns of a CSV with pyarrow, and let them go."""
    options = csv.ConvertOptions(include_columns=names)
    with csv.open_csv(path, convert_options=options) as reader:
        for _ in reader:
            pass


def read_all(lists):
    return sum(len(part.items) for part in lists)


def logs():
    rows, n = [], 2 * 10**6
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for texts in (False, True):
            path = folder / "log.csv"
            write_log(path, n, texts)
            ids = (QUERIES, ITEMS) if texts else (Ids(None, N_QUERIES), Ids(None, N_ITEMS))
            times = seconds(
                {
                    "pyarrow": lambda path=path: csv.read_csv(path),
                    "pyarrow, in batches": lambda path=path: read_plainly(path, COLUMNS),
                    "similia": lambda path=path, ids=ids: read_all(ImpressionsFile(path, *ids)),
                },
                3,
            )
            rows.append([f"CSV, {'texts' if texts else 'numbers'} as ids", *_rates(times, n)])
        n_searches = 10**5
        write_ubi(folder, n_searches)
        paths = [folder / f"{name}.jsonl" for name in ("queries", "events")]
        times = seconds(
            {
                "pyarrow": lambda: [arrow_json.read_json(path) for path in paths],
                "pyarrow, in batches": lambda: [_read_json_plainly(path) for path in paths],
                "similia": lambda: read_all(UbiLog(*paths, QUERIES, ITEMS)),
            },
            3,
        )
        rows.append(["UBI 1.3.0", *_rates(times, n_searches * DEPTH)])
    header = [
        "log",
        "pyarrow, whole file",
        "pyarrow, in batches",
        "similia",
        "share of the batches",
    ]
    table("Reading logs: millions of rows (items shown) a second", header, rows)


def _read_json_plainly(path):
    with arrow_json.open_json(path) as reader:
        for _ in reader:
            pass


def _rates(times, n):
    rates = [n / times[name] / 1e6 for name in ("pyarrow", "pyarrow, in batches", "similia")]
    return [*rates, f"{100 * rates[2] / rates[1]:.0f} %"]


#: peak memory after as many rows, in MB
PROGRAM = """
import sys
from benchmarks.logs import ITEMS, QUERIES
from similia.files import ImpressionsFile
n = 0
for lists in ImpressionsFile(sys.argv[1], QUERIES, ITEMS):
    n += len(lists.items)
with open("/proc/self/status") as file:
    print([int(line.split()[1]) // 1024 for line in file if line.startswith("VmHWM")][0], n)
"""


def log_memory():
    rows = []
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "log.csv"
        for n in (10**5, 10**6, 10**7):
            write_log(path, n)
            done = subprocess.run(
                [sys.executable, "-c", PROGRAM, path], capture_output=True, text=True, check=True
            )
            peak, read = done.stdout.split()
            rows.append([n, int(read), f"{path.stat().st_size / 1e6:.0f} MB", f"{peak} MB"])
    table("Memory of reading a log", ["rows", "read", "file", "peak memory"], rows)


ALL = [logs, log_memory]
