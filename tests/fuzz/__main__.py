"""Attack everything for FUZZ_SECONDS: python -m tests.fuzz [target …].

Cases run in batches in processes of their own, so that a crash is a finding like any other. A case
is its target and seed, and is run again by ``python -m tests.fuzz.batch TARGET SEED``. Findings
belong into tests/corpus/cases.json, which the test suite runs.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter

#: cases of a process
BATCH = 200
#: seconds of a process
LIMIT = 1200


def batch(target, seeds):
    """Findings of one process, by seed, and the number of cases."""
    command = [sys.executable, "-m", "tests.fuzz.batch", target, *map(str, seeds)]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT, env=environment
        )
        output, errors, code = ended.stdout, ended.stderr, ended.returncode
    except subprocess.TimeoutExpired as error:
        output, errors, code = (error.stdout or b"").decode(), "", "no end"
    findings, last, n = {}, seeds[0], 0
    for line in output.splitlines():
        word, _, rest = line.partition(" ")
        if word == "case":
            last, n = int(rest), n + 1
        elif word == "finding":
            seed, _, problem = rest.partition(" ")
            findings[int(seed)] = problem
    if not output.endswith("done\n"):
        findings[last] = f"process ended with {code}: {errors[-1500:]!r}"
    return findings, n


def main(targets):
    from tests.fuzz.everything import TARGETS

    seconds = float(os.environ.get("FUZZ_SECONDS", "60"))
    size = int(os.environ.get("FUZZ_BATCH", str(BATCH)))
    first = seed = int(os.environ.get("FUZZ_SEED", time.time()))
    print(f"FUZZ_SEED={first} FUZZ_SECONDS={seconds:g}", flush=True)
    targets = targets or list(TARGETS)
    cases, spent, found = Counter(), Counter(), []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for target in targets:
            if time.monotonic() >= end:
                break
            start = time.monotonic()
            findings, n = batch(target, range(seed, seed + size))
            cases[target] += n
            spent[target] += time.monotonic() - start
            for case, problem in findings.items():
                found.append((target, case))
                print(f"FINDING {target} {case}: {problem[-600:]}", flush=True)
        seed += size
    for target in targets:
        count = sum(name == target for name, _ in found)
        print(f"{target:<10} {cases[target]:>8} cases {spent[target]:>7.0f} s {count:>4} findings")
    print(json.dumps(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
