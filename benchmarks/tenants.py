"""Many tenants over one catalogue: what they hold in memory, with items shared and not."""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.service import put, triplets
from benchmarks.timing import table
from similia.service.log.records import TenantSettings
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
    tenants.open_all()
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


ALL = (shared_items,)

if __name__ == "__main__":
    measure(sys.argv[1])
