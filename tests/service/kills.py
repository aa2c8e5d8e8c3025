"""Kill a service at random moments under load, again and again, and see what is left.

A process without threads forks the ones that are killed, so that each starts in milliseconds. They
open the tenants that the last one left, of which one shares the items of the other, and send
feedback, changes of items and retractions from several threads, and one thread has a model of a
third tenant promoted, which is granted, and rolled back, over and over; each acknowledgement goes
through a pipe before the next request is sent. After each kill, all acknowledged rows must be there
once, with their numbers, the generation in use must be that of the last decision and load, and from
time to time the states must have the bits that folds of the whole logs without snapshots have.

    python -m tests.service.kills 1000 [seed] [URL of a database]
"""

import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from copy import deepcopy
from pathlib import Path

import numpy as np

from similia import Blend, Impressions, Views
from similia.service.catalogue import items, shared
from similia.service.engine import fold, snapshots
from similia.service.log.records import TenantSettings, decoded
from similia.service.tenants.tenants import Tenants
from tests.service.problems import (
    bits,
    filled,
    folded,
    folded_sharing,
    item,
    judgement,
    learner,
    taught,
    triplet,
)

CLIENTS = 6
OWNER, TEAM = NAMES = "acme", "team"
#: a tenant whose model is promoted and rolled back
JUDGED = "judged"
#: written when a promotion or a rollback begins, which its acknowledgement ends
DECIDING = b"[]\n"
#: rounds after which the bits are compared
COMPARED = 5


def serve(folder, place, number, pipe):
    """Open the tenants and send as much as possible until killed."""
    tenants = Tenants(place, cache=folder)
    owner, judged = tenants.get(OWNER), tenants.get(JUDGED)

    def client(own):
        tenant = tenants.get(NAMES[own % len(NAMES)])
        for i in range(10**9):
            base = 1_000_000 * number + 100_000 * own + i
            told = judgement(base) if base % 2 else triplet(base)
            kind = i % 7
            if kind == 5:
                seq = owner.put_items([item(i % 30, seed=base)]).seq
                acknowledged = [[OWNER, "", seq]]
            elif kind == 3:
                back = base - 1
                made = judgement(back) if back % 2 else triplet(back)
                acknowledged = [[tenant.name, "", tenant.retract(made.id).seq]]
            else:
                acknowledged = [[tenant.name, r.id, r.seq] for r in tenant.feedback([told])]
            os.write(pipe, (json.dumps(acknowledged) + "\n").encode())

    def promoter():
        while True:
            os.write(pipe, DECIDING)
            if judged.status().generation:
                judged.champions.rollback(0)
                done = 0
            else:
                verdict = judged.champions.promote()
                assert verdict.promoted, verdict.reason
                done = verdict.generation
            seq = judged.champions._generations.events[-1]["seq"]
            os.write(pipe, (json.dumps([[JUDGED, f"generation {done}", seq]]) + "\n").encode())
            time.sleep(0.02)

    threading.Thread(target=promoter, daemon=True).start()
    for own in range(CLIENTS):
        threading.Thread(target=client, args=(own,), daemon=True).start()
    threading.Event().wait()


def verify(folder, place, acknowledged, compare):
    """Raise unless everything acknowledged is there, once."""
    tenants = Tenants(place, cache=folder)
    logs = {name: tenants.get(name).log for name in (*NAMES, JUDGED)}
    for log in logs.values():
        ids = [row.id for row in log.rows() if row.id is not None]
        assert len(ids) == len(set(ids)), "a judgement is there twice"
        assert log.check().rows == log.last
    for name, id, seq in acknowledged:
        row = logs[name].row(seq)
        assert row is not None, f"row {seq} of {name} ({id}) was acknowledged and is lost"
        if name == JUDGED:
            assert id == f"generation {decoded(row.body).record.after}"
        else:
            assert not id or row.id == id, f"row {seq} of {name} was {id} and is {row.id}"
    verify_decisions(tenants.get(JUDGED))
    if compare:
        expected = {
            OWNER: folded(logs[OWNER].rows(), logs[OWNER].retracted()),
            TEAM: folded_sharing(logs[TEAM].rows(), logs[OWNER].rows(), logs[TEAM].retracted()),
        }
        for name, found in expected.items():
            assert bits(learner(tenants.get(name))) == bits(found), f"the bits of {name} differ"
    tenants.close()


def verify_decisions(tenant):
    """Raise unless the decisions lead from one to the next, and the last one's model is there."""
    current = 0
    for row in tenant.log.rows(others=True):
        if row.kind == "decision":
            decision = decoded(row.body).record
            assert decision.before == current
            assert decision.event in ("promotion", "rollback")
            current = decision.after
    assert tenant.status().generation == current
    assert (tenant.champions.state().learner is None) == (current == 0)


def forked(task):
    """Run a task in a process of its own; returns its id."""
    pid = os.fork()
    if pid:
        return pid
    try:
        task()
        os._exit(0)
    except BaseException as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
        os._exit(1)


def warm_up():
    """Load what is compiled, so that the processes to come need not."""
    rng = np.random.default_rng(0)
    sides = [Views(a=rng.normal(size=(20, 4)).astype(np.float32)) for _ in range(2)]
    lists = Impressions.from_rows([0, 0, 1, 1], [1, 2, 3, 4], [1, 0, 0, 1], position=[1, 2, 1, 2])
    learner = Blend().learn(sides[0], lists, items=sides[1])
    learner.learn(sides[0], [[0, 1, 2], [0, 1, 2]], items=sides[1])
    bits(deepcopy(learner))


def rounds(folder, n, seed=0, place=None, show=lambda *_: None):
    """Kill n times; return the number of acknowledgements, and of kills while a model changed."""
    snapshots.BLOCKS_BETWEEN, fold.LISTS_PER_BLOCK = 2, 16  # many snapshots, and many blocks
    items.MIN_COMPACTED, shared.MAX_COPIED = 60, 32  # and items that move
    warm_up()
    place = place or str(folder)
    rng = random.Random(seed)

    def begin():
        filled(place, OWNER, cache=folder).close()
        tenants = Tenants(place, cache=folder)
        tenants.create(TEAM, TenantSettings(shares=OWNER))
        tenants.close()
        taught(place, name=JUDGED, cache=folder).close()

    assert os.waitpid(forked(begin), 0)[1] == 0
    everything, changing = [], 0
    for number in range(1, n + 1):
        reading, writing = os.pipe()
        pid = forked(lambda: serve(folder, place, number, writing))  # noqa: B023
        os.close(writing)
        found = os.read(reading, 65536)  # the first acknowledgement: it is under way
        assert found, "the service did not start"
        time.sleep(rng.expovariate(1 / 0.05))
        os.kill(pid, signal.SIGKILL)
        while more := os.read(reading, 1 << 20):
            found += more
        os.waitpid(pid, 0)
        os.close(reading)
        whole = b"\n" + found[: found.rfind(b"\n") + 1]
        decided = whole.rfind(f'"{JUDGED}"'.encode())
        changing += whole.rfind(b"\n" + DECIDING) > decided
        lines = whole.decode().splitlines()[1:]
        new = [tuple(pair) for line in lines for pair in json.loads(line)]
        everything += new
        compare = number % COMPARED == 0 or number == n
        known = everything if compare else new

        def check():
            verify(folder, place, known, compare)  # noqa: B023

        assert os.waitpid(forked(check), 0)[1] == 0, f"round {number} failed"
        show(number, len(everything), changing)
    return len(everything), changing


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    place = sys.argv[3] if len(sys.argv) > 3 else None

    def show(number, acknowledged, changing):
        if number % 50 == 0:
            sys.stdout.write(
                f"{number} kills, {changing} while a model changed, {acknowledged} acknowledged, "
                "none lost\n"
            )
            sys.stdout.flush()

    with tempfile.TemporaryDirectory() as folder:
        acknowledged, changing = rounds(Path(folder), n, seed, place, show)
    told = (
        f"{n} kills, {changing} while a model changed, {acknowledged} acknowledged, none lost or "
        "doubled, same bits"
    )
    sys.stdout.write(f"{told}\n")


if __name__ == "__main__":
    main()
