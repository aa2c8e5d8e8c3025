"""Tasks whose workers die, hang or lie, once; workers find them by import."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from similia.distributed.learning import LearnShare


def first_time(folder, what):
    """Whether this is the first call, over all processes."""
    try:
        (Path(folder) / f"{what}.happened").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@dataclass(frozen=True)
class Dying(LearnShare):
    """Killed after its first chunk, like a worker that runs out of memory."""

    def run(self, folder, report):
        def die(n):
            report(n)
            if self.number == 1 and first_time(folder, "death"):
                os.kill(os.getpid(), signal.SIGKILL)

        return super().run(folder, die)


@dataclass(frozen=True)
class KillingTheDriver(LearnShare):
    """Ends the driver before the third share is finished."""

    def run(self, folder, report):
        if self.number == 2 and first_time(folder, "murder"):
            os.kill(os.getppid(), signal.SIGKILL)
        return super().run(folder, report)


@dataclass(frozen=True)
class Writing:
    """Writes its name; the one named `victim` first meets its fate."""

    name: str
    fate: str = ""

    def run(self, folder, report):
        if self.fate == "hang" and first_time(folder, self.name):
            time.sleep(10_000)
        if self.fate == "die" and first_time(folder, self.name):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fate == "always die":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fate == "fail":
            raise ValueError("the task itself is wrong.")
        (folder / f"{self.name}.txt").write_text(self.name)
        return {"n": 1, "wrote": self.name}, [f"{self.name}.txt"]
