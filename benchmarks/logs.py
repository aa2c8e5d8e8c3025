"""Speed of reading logs against plain pyarrow, which parses the same columns and does no more."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv
from pyarrow import json as arrow_json

from benchmarks.timing import seconds, table
from similia.feedback import ImpressionsFile, UbiLog
from similia.files import Ids

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
            contenders = {
                "pyarrow": lambda path=path: csv.read_csv(path),
                "pyarrow, in batches": lambda path=path: read_plainly(path, COLUMNS),
                "similia": lambda path=path, ids=ids: read_all(ImpressionsFile(path, *ids)),
            }
            rows.append([f"CSV, {'texts' if texts else 'numbers'} as ids", *_rates(contenders, n)])
        n_searches = 10**5
        write_ubi(folder, n_searches)
        paths = [folder / f"{name}.jsonl" for name in ("queries", "events")]
        contenders = {
            "pyarrow": lambda: [arrow_json.read_json(path) for path in paths],
            "pyarrow, in batches": lambda: [_read_json_plainly(path) for path in paths],
            "similia": lambda: read_all(UbiLog(*paths, QUERIES, ITEMS)),
        }
        rows.append(["UBI 1.3.0", *_rates(contenders, n_searches * DEPTH)])
    header = [
        "log",
        "pyarrow, whole file",
        "pyarrow, in batches",
        "similia",
        "share of the batches",
        "by processor time",
    ]
    table("Reading logs: millions of rows (items shown) a second", header, rows)


def _read_json_plainly(path):
    with arrow_json.open_json(path) as reader:
        for _ in reader:
            pass


def _rates(contenders, n):
    times = seconds(contenders, 5)
    rates = [n / times[name] / 1e6 for name in ("pyarrow", "pyarrow, in batches", "similia")]
    del contenders["pyarrow"]
    spent = seconds(contenders, 5, time.process_time)
    share = spent["pyarrow, in batches"] / spent["similia"]
    return [*rates, f"{100 * rates[2] / rates[1]:.0f} %", f"{100 * share:.0f} %"]


def write_shown(folder, n_rows):
    """UBI whose lists are impression events, ten a search, in no order, one in ten also clicked."""
    rng = np.random.default_rng(0)
    n_searches = n_rows // DEPTH
    with open(folder / "queries.jsonl", "w") as file:
        for i in range(n_searches):
            file.write(f'{{"query_id": "{i:012x}", "user_query": "query {i % N_QUERIES}"}}\n')
    with open(folder / "events.jsonl", "w") as file:
        for start in range(0, n_rows, 10**6):
            n = min(10**6, n_rows - start)
            searches = (rng.integers(n_searches) + np.arange(n) * 7_368_787) % n_searches
            items, places = rng.integers(N_ITEMS, size=n), rng.integers(1, DEPTH + 1, size=n)
            actions = np.array(["impression", "click"])[(rng.random(n) < 0.1).astype(int)]
            columns = (x.tolist() for x in (actions, searches, items, places))
            file.writelines(
                f'{{"action_name": "{action}", "query_id": "{search:012x}", "event_attributes": '
                f'{{"object": {{"object_id": "item-{item}"}}, '
                f'"position": {{"ordinal": {place}}}}}}}\n'
                for action, search, item, place in zip(*columns, strict=True)
            )


#: peak memory after as many rows, in MB
PROGRAM = """
import sys
from benchmarks.logs import ITEMS, QUERIES
from similia.feedback import ImpressionsFile, UbiLog
kind = UbiLog if len(sys.argv) > 2 else ImpressionsFile
n = 0
for lists in kind(*sys.argv[1:], QUERIES, ITEMS):
    n += len(lists.items)
with open("/proc/self/status") as file:
    print([int(line.split()[1]) // 1024 for line in file if line.startswith("VmHWM")][0], n)
"""


def log_memory():
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for n in (10**5, 10**6, 10**7):
            write_log(folder / "log.csv", n)
            rows.append(["CSV", n, *_read_apart(folder / "log.csv")])
        for n in (10**5, 10**6, 10**7):
            write_shown(folder, n)
            rows.append(
                ["UBI", n, *_read_apart(*(folder / f"{x}.jsonl" for x in ("queries", "events")))]
            )
    header = ["log", "rows", "read", "files", "peak memory", "seconds"]
    table("Memory of reading a log", header, rows)


def _read_apart(*paths):
    """Rows read, size of the files, peak memory and time of a process that reads them."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *paths], capture_output=True, text=True, check=True
    )
    peak, read = done.stdout.split()
    size = sum(path.stat().st_size for path in paths)
    return int(read), f"{size / 1e6:.0f} MB", f"{peak} MB", time.perf_counter() - start


ALL = [logs, log_memory]
