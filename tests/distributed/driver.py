"""A driver that one of its workers ends: ``python -m tests.distributed.driver ENGINE FOLDER``."""

import os
import sys
from pathlib import Path

from similia import OASIS
from similia.distributed import learn_shares, learning
from tests.distributed.hostile import KillingTheDriver


def main(engine, folder):
    learning.LearnShare = KillingTheDriver
    (folder / "driver.pid").write_text(str(os.getpid()))
    learn_shares(
        OASIS(), folder / "vectors.npy", folder / "feedback.npy",
        executor=engine, shares=4, output=folder / "again.safetensors", work=folder / "work",
    )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
