"""Save and load a learner."""

from functools import partial
from typing import Any

from similia.exceptions import ModelFileError
from similia.persistence import file, header
from similia.persistence.consistency import check_consistency
from similia.persistence.header import PathLike
from similia.registry import LEARNERS, learner_class


def save(learner: Any, path: PathLike) -> None:
    """Write a learner to one safetensors file, in place of any that is there.

    The file is complete or not there at all: it is written under another name in the same folder,
    flushed to the disk and renamed. After an error, an old file is as it was.

    Parameters
    ----------
    learner : fitted learner
        One of `similia.registry.LEARNERS`. A function as parameter (a sampler of your own) or a
        RandomState cannot be saved, which is said before anything is written.
    path : path
        By custom it ends in ``.safetensors``.
    """
    name = type(learner).__name__
    if name not in LEARNERS or type(learner) is not learner_class(name):
        raise ValueError(f"save: learner must be one of {', '.join(LEARNERS)}, got {name}.")
    file.write(path, name, learner.get_params(deep=False), learner.get_state())


def load(path: PathLike) -> Any:
    """Give the learner that was saved, which goes on as if it had never been saved.

    Everything is checked and nothing is executed: checksums of the header and of each tensor, the
    class against the list of public learners, parameters against their rules, shapes against each
    other.

    Raises
    ------
    ModelFileError
        If the file is damaged, foreign, or of a newer format.
    """
    document = header.read_document(path)
    name = document["class"]
    if name not in LEARNERS:
        raise ModelFileError(
            f"{path} holds a {name!r:.80}, which is none of {', '.join(LEARNERS)}; "
            "upgrade similia if a newer version has it."
        )
    return file.made(path, document, partial(_learner, learner_class(name)))


def _learner(cls: Any, parameters: dict[str, Any], state: dict[str, Any]) -> Any:
    learner = cls(**parameters).set_state(state)
    check_consistency(learner)
    return learner
