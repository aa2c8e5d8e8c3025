"""What tenants hold: memory with items shared and not, and as a log grows; handles and threads."""

import gc
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from benchmarks.service import put, triplets
from benchmarks.timing import table
from similia.service.log.records import Clicks, Query, TenantSettings, Triplet
from similia.service.tenants.tenants import Tenants

N_ITEMS, WIDTH = 20_000, 384
#: judgements of each tenant, fewer than a block, so that rows of items wait to be learnt
JUDGED = 100


def teams(n):
    return [f"team-{i}" for i in range(n)]


def prepare(folder, n, shared):
    """A store with n tenants over the same items, each with judgements."""
    tenants = Tenants(folder)
    first = tenants.create("owner")
    put(first, N_ITEMS, WIDTH)
    told = list(triplets(JUDGED, WIDTH, N_ITEMS, 20))
    if shared:
        for name in teams(n):
            tenants.create(name, TenantSettings(shares="owner")).feedback(told)
    else:
        first.feedback(told)
    tenants.close()
    if not shared:
        for name in teams(n)[1:]:
            shutil.copytree(folder / "owner", folder / name)


def measure(folder):
    """Open all tenants of a store; prints megabytes and seconds of the processor that it took."""
    before, start = resident(), time.process_time()
    tenants = Tenants(folder)
    tenants.open_some()
    seconds = time.process_time() - start
    held = resident() - before
    for name in tenants.names():
        assert tenants.get(name).n_items == N_ITEMS
    print(held, seconds)


def resident():
    """Megabytes that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def shared_items():
    """Memory of tenants over the same items, each in a new process that opens their logs."""
    rows = []
    for n in (1, 10, 50):
        row = [n]
        for shared in (False, True):
            with tempfile.TemporaryDirectory() as name:
                prepare(Path(name), n, shared)
                disk = sum(file.stat().st_size for file in Path(name).rglob("*")) / 2**20
                command = [sys.executable, "-m", "benchmarks.tenants", name]
                out = subprocess.run(command, capture_output=True, text=True, check=True)
                held, seconds = map(float, out.stdout.split())
                row += [f"{held:.0f}", f"{disk:.0f}", f"{seconds:.1f}"]
        rows.append([*row, f"{float(row[4]) / float(row[1]):.2f}"])
    header = ["tenants", "apart: MiB", "disk", "s", "shared: MiB", "disk", "s", "shared / apart"]
    table(f"tenants over {N_ITEMS:,} items of {WIDTH} features", header, rows)


# -- a log that grows ------------------------------------------------------------------------------

#: judgements after which memory is looked at
GROWN = (10_000, 100_000, 1_000_000)
BATCH, FEATURES, FEW_ITEMS = 1000, 8, 1000


def strangers(start, n, rng):
    """Judgements of new queries by new judges: choices, clicks, and answers to random questions."""
    for i in range(start, start + n):
        query = Query(id=f"query {i}", vectors={"vectors": rng.normal(size=FEATURES).tolist()})
        one, other = (f"i{place}" for place in rng.choice(FEW_ITEMS, 2, replace=False))
        common = {"id": f"judgement {i}", "query": query, "judge": f"judge {i}"}
        if i % 3 == 0:
            yield Clicks(shown=[one, other], clicked=[one], **common)
        else:
            source = "random" if i % 3 == 1 else None
            yield Triplet(better=one, worse=other, source=source, **common)


def at_rest():
    """Megabytes held while nothing is learnt or saved: the least of some moments."""
    found = []
    for _ in range(10):
        gc.collect()
        time.sleep(0.5)
        found.append(resident())
    return min(found)


def growth():
    """Memory as judgements of new queries and judges come, with all that is asked meanwhile."""
    rows, sent, rng = [], 0, np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        tenants = Tenants(folder)
        tenant = tenants.create("grows")
        put(tenant, FEW_ITEMS, FEATURES)
        start = time.perf_counter()
        for n in GROWN:
            while sent < n:
                told = tenant.feedback(list(strangers(sent, BATCH, rng)))
                sent += BATCH
            tenant.learner.wait(told[-1].seq, 3600)
            tenant.rank(Query(vectors={"vectors": [1.0] * FEATURES}), explain=True)
            tenant.next(10, judge="judge 5")
            counts = tenant.log.counts()
            tenant.judges.standings()
            tenant.judgements(query="query 7", judge="judge 7")
            seconds = time.perf_counter() - start
            held = at_rest()
            rows.append([n, counts[1], held, held - rows[0][2] if rows else 0.0, seconds])
            print(rows[-1], file=sys.stderr, flush=True)
        tenants.close()
    header = ["judgements", "queries", "MiB", "more than after the first", "seconds"]
    table("Memory of a tenant as its log grows", header, rows)


# -- many tenants ----------------------------------------------------------------------------------

#: tenants, those that are used, and clients at a time
N_TENANTS, N_ACTIVE, CLIENTS = 10_000, 1000, 4


def open_handles():
    """Files that this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def many_tenants():
    """Handles and threads while a thousand of ten thousand tenants are judged, in any order."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tenants = Tenants(folder)
        put(tenants.create("t0"), 30, FEATURES)
        tenants.close()
        for i in range(1, N_TENANTS):
            shutil.copytree(folder / "t0", folder / f"t{i}")
        tenants, peak, start = Tenants(folder), [0, 0, 0.0], time.perf_counter()
        tenants.open_some()

        def use(own):
            rng = np.random.default_rng(own)
            for place in rng.permutation(np.arange(own, N_ACTIVE, CLIENTS)).tolist() * 2:
                one, other = rng.choice(30, 2, replace=False)
                query = Query(vectors={"vectors": rng.normal(size=FEATURES).tolist()})
                told = Triplet(query=query, better=f"i{one}", worse=f"i{other}")
                with tenants.using(f"t{place}") as tenant:
                    seq = tenant.feedback([told])[0].seq
                    tenant.rank(query, min_seq=seq)

        users = [threading.Thread(target=use, args=(own,)) for own in range(CLIENTS)]
        for user in users:
            user.start()
        while any(user.is_alive() for user in users):
            now = [open_handles(), threading.active_count() - CLIENTS, resident()]
            peak = [max(pair) for pair in zip(peak, now, strict=True)]
            time.sleep(0.02)
        seconds = time.perf_counter() - start
        judged = sum(tenants.get(f"t{i}").status().judgements for i in range(0, N_ACTIVE, 97))
        assert judged == 2 * len(range(0, N_ACTIVE, 97))
        tenants.close()
    header = ["tenants", "active", "handles", "threads", "MiB", "seconds"]
    table("Many tenants: most at any time", header, [[N_TENANTS, N_ACTIVE, *peak, seconds]])


ALL = (shared_items, growth, many_tenants)

if __name__ == "__main__":
    measure(sys.argv[1])
