"""Cases of one target in this process, each from its own seed: python -m tests.fuzz.batch."""

import faulthandler
import resource
import signal
import sys
import tempfile
import traceback
from pathlib import Path

import numpy as np

#: processor seconds of one case, compilation included, and bytes that it may take above what the
#: process had before; one that waits for ever is ended with its process
PATIENCE, ROOM = 120, 1_500_000_000


def peak():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def run(name, seed):
    """Run one case; the traceback if a promise was broken."""
    from tests.fuzz.everything import TARGETS

    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    before = peak()
    try:
        with tempfile.TemporaryDirectory() as folder:
            TARGETS[name](np.random.default_rng([seed, len(name)]), Path(folder))
    except Exception:
        return traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    if peak() > before + ROOM:
        return f"{(peak() - before) / 1e9:.1f} GB of memory"
    return None


def main(name, first, count):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.register(signal.SIGPROF, chain=True)  # say where, then end
    resource.setrlimit(resource.RLIMIT_AS, (12 * 2**30, 12 * 2**30))
    for seed in range(first, first + count):
        print(f"case {seed}", flush=True)
        problem = run(name, seed)
        if problem:
            print(f"finding {seed} {problem!r}", flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
