"""A task of MTEB, evaluated by MTEB, with a real encoder of its own as the base."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import similia
from tests.integrations.small_models import saved

pytest.importorskip("mteb", "2", reason="needs mteb 2: make integrations")

import mteb
from mteb.models import SentenceTransformerEncoderWrapper
from mteb.models.models_protocols import EncoderProtocol
from mteb.types import PromptType

from similia.integrations.mteb import AdaptedEncoder

pytestmark = pytest.mark.filterwarnings("ignore")  # of the library's own making
TEXTS = ["a", "b", "c", "a b", "b c", "a c"]


@pytest.fixture
def base(tmp_path):
    library = saved("static", tmp_path / "base")
    model = library.SentenceTransformer(str(tmp_path / "base"), device="cpu")
    return SentenceTransformerEncoderWrapper(model)


@pytest.fixture
def learner(rng):
    X = rng.normal(size=(30, 5)).astype(np.float32)
    return similia.OASIS(C=10.0).learn(X, rng.integers(30, size=(80, 3)))


def task():
    """Queries that are texts of the corpus, each with one answer that is not its own text."""
    from datasets import Dataset
    from mteb.abstasks.retrieval import AbsTaskRetrieval
    from mteb.abstasks.task_metadata import TaskMetadata

    class Small(AbsTaskRetrieval):
        metadata = TaskMetadata(
            name="Small",
            description="Six texts.",
            dataset={"path": "none/none", "revision": "1"},
            type="Retrieval",
            category="t2t",
            eval_langs=["eng-Latn"],
            main_score="ndcg_at_10",
        )

        def load_data(self, **_):
            corpus = [{"id": f"d{i}", "text": text} for i, text in enumerate(TEXTS)]
            queries = [{"id": f"q{i}", "text": text} for i, text in enumerate(TEXTS)]
            part = {
                "corpus": Dataset.from_list([{**row, "title": ""} for row in corpus]),
                "queries": Dataset.from_list(queries),
                "relevant_docs": {f"q{i}": {f"d{(i + 1) % 6}": 1} for i in range(6)},
                "top_ranked": None,
            }
            self.dataset = {"default": {"test": part}}
            self.data_loaded = True

    return Small()


def vectors(encoder, kind):
    """Vectors of the texts, asked for as MTEB asks."""
    from datasets import Dataset
    from torch.utils.data import DataLoader

    about = task().metadata
    inputs = DataLoader(Dataset.from_list([{"text": text} for text in TEXTS]), batch_size=4)
    options = {"task_metadata": about, "hf_split": "test", "hf_subset": "default"}
    return np.asarray(encoder.encode(inputs, prompt_type=kind, **options))


def test_only_queries_change(base, learner):
    adapted = AdaptedEncoder(base, learner)
    assert isinstance(adapted, EncoderProtocol)
    plain = vectors(base, PromptType.document)
    assert_array_equal(vectors(adapted, PromptType.document), plain)
    assert_array_equal(vectors(adapted, None), plain)
    assert_array_equal(vectors(adapted, PromptType.query), learner.query_vectors(plain))


def test_scores_are_inner_products(base, learner, rng):
    adapted = AdaptedEncoder(base, learner)
    X, Z = rng.normal(size=(2, 4, 5))
    assert_allclose(adapted.similarity(X, Z).numpy(), X @ Z.T)
    assert_allclose(adapted.similarity_pairwise(X, Z).numpy(), np.diag(X @ Z.T))


def test_mteb_measures_what_we_measure(base, learner):
    adapted = AdaptedEncoder(base, learner, name="similia/small")
    result = mteb.evaluate(adapted, task(), cache=None, show_progress_bar=False)
    assert result.model_name == "similia/small"
    found = result.task_results[0].scores["test"][0]["ndcg_at_10"]
    X = vectors(base, None)
    relevance = np.roll(np.eye(6), 1, axis=1)
    expected = similia.evaluate(learner, X, X, relevance=relevance, k=10)
    assert found == pytest.approx(expected.means["ndcg@10"], abs=1e-4)
