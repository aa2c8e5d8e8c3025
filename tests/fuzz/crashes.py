"""A file system that stops at any change, and forgets what was not flushed to it.

A child process saves or promotes; at its k-th change of the disk it ends at once. Then the power
is cut: of every file that was written and not flushed only a part remains, and a rename whose
folder was not flushed may not have happened.
"""

import os
import shutil
from pathlib import Path

import numpy as np

from similia.persistence import load, save
from similia.registry import learner_class
from similia.trust.generations import Generations

ENDED = 99


class Disk:
    """Counts changes, ends the process at one of them, and knows what is not safe yet."""

    def __init__(self, rng, last):
        self.rng, self.left = rng, last
        self.flushed, self.renamed, self.unsafe = set(), [], set()
        self._replace, self._fsync = os.replace, os.fsync

    def install(self):
        os.replace, os.fsync = self.replace, self.fsync

    def _count(self):
        self.left -= 1
        if self.left <= 0:
            self.cut_power()
            os._exit(ENDED)

    def fsync(self, descriptor):
        self._count()
        self._fsync(descriptor)
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        self.flushed.add(str(path))
        self.renamed = [change for change in self.renamed if Path(change[0]).parent != path]
        self._count()

    def replace(self, source, target):
        self._count()
        old = Path(f"{target}.before")
        if os.path.exists(target):
            shutil.copy(target, old)
        else:
            old = None
        self._replace(source, target)
        self.renamed.append((str(target), old))
        self.unsafe.discard(str(target))
        if str(source) not in self.flushed:
            self.unsafe.add(str(target))
        self._count()

    def cut_power(self):
        for target, old in self.renamed:
            if self.rng.random() < 0.5:  # the rename did not reach the disk
                self.unsafe.discard(target)
                if old is None:
                    os.unlink(target)
                else:
                    self._replace(old, target)
        for target in self.unsafe:  # the name did, the contents did not
            os.truncate(target, int(self.rng.integers(os.path.getsize(target) + 1)))


def learner_of(n):
    return learner_class("OASIS")(average=False).learn(np.eye(3), [[0, 1, 2]] * n)


def in_a_child(rng, last, work):
    """Run the work in a process that ends at change `last`; its exit code."""
    child = os.fork()
    if child == 0:
        try:
            disk = Disk(rng, last)
            disk.install()
            work()
            disk.cut_power()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def crash_case(rng, folder):
    """What is wrong after one crash, if anything."""
    last = int(rng.integers(1, 14))
    if rng.random() < 0.5:
        path = folder / "model.safetensors"
        save(learner_of(1), path)
        code = in_a_child(rng, last, lambda: save(learner_of(2), path))
        seen = load(path).n_seen_
        expected = {2} if code == 0 else {1, 2}
    else:
        with (first := Generations(folder / "home")).changing():
            first.promote(learner_of(1), {})

        def promote():
            with (again := Generations(folder / "home")).changing():
                again.promote(learner_of(2), {})

        code = in_a_child(rng, last, promote)
        now = Generations(folder / "home")
        seen, expected = now.current, {2} if code == 0 else {1, 2}
        if now.load(now.current).n_seen_ != now.current:
            return f"generation {now.current} is another model after a crash at change {last}"
    if code not in (0, ENDED):
        return f"the child failed with {code} before change {last}"
    return None if seen in expected else f"an acknowledged write was lost at change {last}"
