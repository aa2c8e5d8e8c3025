"""Texts to vectors: by a /v1/embeddings endpoint, or by a model on this machine."""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import httpx
import msgspec

from similia.exceptions import MissingExtraError
from similia.service.errors import Unavailable
from similia.service.settings import Settings
from similia.tabular.embedding import embedded
from similia.tabular.words import WordVectors

LOCAL = "sentence-transformers:"
#: any model of this machine, and the words of a file that `serve` has made of its items
MODEL, WORDS = "local:", "words:"
#: setting of words by which they become no view of a new tenant
NONE = "none"
#: texts whose vectors are cached
REMEMBERED = 10_000
#: bytes of an endpoint's answer
MAX_ANSWER_BYTES = 4 * 2**20


class TextEmbedder(Protocol):
    """Turns a text into a vector."""

    async def embed(self, text: str) -> list[float]:
        """Vector of a text."""


class Embedder(TextEmbedder, Protocol):
    """Makes the vectors of typed queries, and of items."""

    async def embed_item(self, text: str, categories: Sequence[str]) -> list[float]:
        """Vector of an item by its text, and by its categories where words are compared."""


def open_words(settings: Settings, beside: str | Path = "") -> "WordEmbedder | None":
    """What makes a view of words, from the file of the settings or that beside the items."""
    given = "" if settings.words == NONE else settings.words
    return WordEmbedder(given or beside) if given or beside else None


def open_embedder(settings: Settings) -> Embedder | None:
    """The embedder of the settings, or None; nothing is ever downloaded."""
    source = settings.embedder
    if not source:
        return None
    if source.startswith(LOCAL):
        return Remembering(LocalEmbedder(source.removeprefix(LOCAL)))
    if source.startswith(WORDS):
        return WordEmbedder(source.removeprefix(WORDS))
    if source.startswith(MODEL):
        return Remembering(ModelEmbedder(source.removeprefix(MODEL)))
    if source.startswith(("http://", "https://")):
        key = settings.embedder_key
        return Remembering(HttpEmbedder(source, settings.embedder_model, key, settings.timeout / 2))
    raise ValueError(
        f"settings: embedder must be a URL, {LOCAL}FOLDER, {MODEL}MODEL or {WORDS}FILE, "
        f"got {source!r:.80}; texts are ranked by the text views without one."
    )


class Remembering:
    """An embedder that keeps the vectors of the last texts."""

    def __init__(self, inner: TextEmbedder) -> None:
        self.inner = inner
        self._known: OrderedDict[str, list[float]] = OrderedDict()

    async def embed(self, text: str) -> list[float]:
        """Vector of a text."""
        found = self._known.pop(text, None)
        if found is None:
            found = await self.inner.embed(text)
        self._known[text] = found
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return found

    async def embed_item(self, text: str, categories: Sequence[str]) -> list[float]:
        """Vector of an item by its text."""
        return await self.embed(text)


class _Embedding(msgspec.Struct):
    embedding: list[float]


class _Embeddings(msgspec.Struct):
    data: list[_Embedding]


class HttpEmbedder:
    """An endpoint that takes ``{"input": [text], "model": name}``."""

    def __init__(self, url: str, model: str, key: str = "", timeout: float = 10.0) -> None:
        self.url, self.model = url, model
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._client = httpx.AsyncClient(headers=headers, timeout=timeout)

    async def embed(self, text: str) -> list[float]:
        """Vector of a text."""
        body = {"input": [text], **({"model": self.model} if self.model else {})}
        try:
            async with self._client.stream("POST", self.url, json=body) as response:
                content = b""
                async for part in response.aiter_bytes():
                    content += part
                    if len(content) > MAX_ANSWER_BYTES:
                        raise Unavailable("the embedder's answer is too long.")
                response.raise_for_status()
            found = msgspec.json.decode(content, type=_Embeddings).data[0].embedding
        except (httpx.HTTPError, msgspec.DecodeError, IndexError) as error:
            raise Unavailable(
                f"the embedder failed ({type(error).__name__}); send vectors, or try again later."
            ) from error
        return _checked(found)


class LocalEmbedder:
    """A model of sentence-transformers, from a folder."""

    def __init__(self, folder: str) -> None:
        if not Path(folder).is_dir():
            raise ValueError(
                f"settings: embedder must name a folder with a model, got {folder!r:.80}; "
                "nothing is downloaded, so save the model there first."
            )
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise MissingExtraError(
                "similia.service.catalogue.embedder", "sentence-transformers", "embed"
            ) from error
        self._model = SentenceTransformer(folder, local_files_only=True)
        self._one = asyncio.Lock()

    async def embed(self, text: str) -> list[float]:
        """Vector of a text."""
        async with self._one:
            found = await asyncio.to_thread(self._model.encode, [text], show_progress_bar=False)
        return _checked(found[0].tolist())


class ModelEmbedder:
    """A model that made the vectors of the items (`--embed`)."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._one = asyncio.Lock()

    async def embed(self, text: str) -> list[float]:
        """Vector of a text."""
        async with self._one:
            found = await asyncio.to_thread(embedded, self._model, [text])
        return _checked(found[0].tolist())


class WordEmbedder:
    """Short vectors from the words of the items."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._words: WordVectors | None = None

    def query(self, text: str) -> list[float]:
        """Vector of a typed query; zeros if the items have none of its words."""
        return _checked(self.load().queries([text])[0].tolist())

    async def embed(self, text: str) -> list[float]:
        """Vector of a typed query."""
        return self.query(text)

    async def embed_item(self, text: str, categories: Sequence[str]) -> list[float]:
        """Vector of an item by its text and its categories."""
        known, words = self.load(), "\n".join([text, *categories])
        found = await asyncio.to_thread(known.items, [words])
        return _checked(found[0].tolist())

    def load(self) -> WordVectors:
        """The words of the file, read once."""
        if self._words is None:  # the file is made when the items are read
            self._words = WordVectors.load(self._path)
        return self._words


def _checked(vector: list[float]) -> list[float]:
    if not vector or not all(math.isfinite(value) for value in vector):
        raise Unavailable("the embedder returned no vector of finite numbers.")
    return vector
