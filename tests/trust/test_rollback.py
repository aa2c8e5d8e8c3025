"""What a rollback puts to use can be loaded, whoever wrote it."""

import json

import numpy as np
import pytest

from similia import OASIS
from similia.exceptions import ModelFileError
from similia.persistence import saving
from similia.safety.whole import document_sha256, file_sha256
from similia.trust.generations import HISTORY, Generations


@pytest.fixture
def folder(tmp_path):
    """Two generations, and the base."""
    generations = Generations(tmp_path)
    with generations.changing():
        for C in (0.1, 1.0):
            generations.promote(OASIS(C=C).learn(np.eye(3), [[0, 1, 2]]), {})
    return tmp_path


def path_of(folder, generation):
    return folder / f"generation-{generation:06d}.safetensors"


def as_promoted(folder):
    """Record the files as they are now, as if each had been promoted so."""
    history = folder / HISTORY
    document = json.loads(history.read_text())
    document.pop("sha256")
    for event in document["events"]:
        event["sha256"] = file_sha256(path_of(folder, event["to"]))
    history.write_text(json.dumps({**document, "sha256": document_sha256(document)}))


def refused(folder, match):
    before = (folder / HISTORY).read_bytes()
    with pytest.raises(ModelFileError, match=match):
        Generations(folder).roll_back(None)
    assert (folder / HISTORY).read_bytes() == before
    assert Generations(folder).current == 2


@pytest.mark.parametrize("change", [lambda raw: raw[:-3], lambda raw: raw[:-1] + b"\x7f"])
@pytest.mark.parametrize("recorded", [False, True], ids=["later", "before its promotion"])
def test_a_damaged_file_is_not_put_to_use(change, recorded, folder):
    path = path_of(folder, 1)
    path.write_bytes(change(path.read_bytes()))
    if recorded:
        as_promoted(folder)
    refused(folder, "is damaged" if recorded else "not the file that was promoted")


def test_a_file_of_another_version_is_loaded_first(folder, monkeypatch):
    learner = Generations(folder).load(1)
    monkeypatch.setattr(saving, "__version__", "0.0.1")
    saving.write(path_of(folder, 1), "OASIS", learner.get_params(), learner.get_state())
    as_promoted(folder)
    assert Generations(folder).roll_back(None) == 1
    assert Generations(folder).roll_back(2) == 2
    state = learner.get_state()
    state["of_old_"] = state.pop("W_")
    saving.write(path_of(folder, 1), "OASIS", learner.get_params(), state)
    as_promoted(folder)
    refused(folder, "W_")


def test_a_learner_that_this_version_lacks_is_not_put_to_use(folder):
    saving.write(path_of(folder, 1), "Unknown", {}, {"W_": np.eye(2)})
    as_promoted(folder)
    refused(folder, "is of class 'Unknown'")
