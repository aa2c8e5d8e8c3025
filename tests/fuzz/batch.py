"""Cases of one target in this process: python -m tests.fuzz.batch TARGET SEED [SEED …]."""

import faulthandler
import resource
import signal
import sys
import tempfile
import traceback
from contextlib import suppress
from pathlib import Path

import numpy as np

#: processor seconds of one case, compilation included, and bytes that it may take above what the
#: process had before; one that waits for ever is ended with its process
PATIENCE, ROOM = 120, 1_500_000_000
PROCESS = Path("/proc/self")


def resident():
    """Bytes of this process: now, and at most since the last `forget_peak`."""
    lines = (PROCESS / "status").read_text().splitlines()
    sizes = {line.split()[0]: int(line.split()[1]) for line in lines if line.startswith("Vm")}
    return 1024 * sizes["VmRSS:"], 1024 * sizes["VmHWM:"]


def forget_peak():
    with suppress(OSError):  # not allowed everywhere; then the peak is that of all cases so far
        (PROCESS / "clear_refs").write_text("5")


def run(name, seed):
    """Run one case; the traceback if a promise was broken."""
    from tests.fuzz.everything import TARGETS

    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    forget_peak()
    before, _ = resident()
    try:
        with tempfile.TemporaryDirectory() as folder:
            TARGETS[name](np.random.default_rng([seed, len(name)]), Path(folder))
    except Exception:
        return traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    _, peak = resident()
    if peak > before + ROOM:
        return f"{(peak - before) / 1e9:.1f} GB of memory"
    return None


def main(name, seeds):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.register(signal.SIGPROF, chain=True)  # say where, then end
    resource.setrlimit(resource.RLIMIT_AS, (12 * 2**30, 12 * 2**30))
    for seed in seeds:
        print(f"case {seed}", flush=True)
        problem = run(name, seed)
        if problem:
            print(f"finding {seed} {problem!r}", flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], list(map(int, sys.argv[2:])))
