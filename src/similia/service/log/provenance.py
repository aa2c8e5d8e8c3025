"""What a tenant's secret decides: held-out queries, and signatures of questions."""

import hashlib
import hmac
import secrets

import numpy as np

from similia.service.log.records import (
    ASKED,
    UPLOADED,
    Judgement,
    Query,
    TenantSettings,
    named_items,
    query_key,
)
from similia.trust.exam import held_out

#: between the id of a question and the key that asked for it
KEY_MARK = "."


def new_secret() -> str:
    """A secret for a new tenant."""
    return secrets.token_hex(16)


def is_held_out(key: str, settings: TenantSettings) -> bool:
    """Whether a query is held out for exams; without a secret, anybody can tell."""
    if not settings.secret:
        return bool(held_out(np.array([key], object), settings.held_out)[0])
    digest = _digest(settings, 8, "held out", key)
    return int.from_bytes(digest, "big") < settings.held_out * 2**64


def question_id(
    settings: TenantSettings,
    judge: str | None,
    query: Query,
    items: tuple[str, str],
    source: str,
    key: str = "",
) -> str:
    """Id of a new question, signed for this tenant and judge.

    A `key` asked for judges of its choice: in exams it speaks with one voice, whoever they are.
    """
    nonce = secrets.token_hex(8)
    signature = _signature(settings, nonce, judge, query, items, source, key)
    return f"{nonce}{signature}{KEY_MARK}{key}" if key else f"{nonce}{signature}"


def asking_key(judgement: Judgement) -> str:
    """Key that asked for the question of a judgement, if it chose the judge; else ""."""
    return (judgement.question or "").partition(KEY_MARK)[2]


def provenance(settings: TenantSettings, judgement: Judgement, *, uploaded: bool) -> str:
    """Whether a judgement answers a question of this tenant, or comes from an administrator."""
    if judgement.source is None and "*" not in settings.exam_sources:
        return ""
    if uploaded:
        return UPLOADED
    given, items = judgement.question, named_items(judgement)
    if given is None or judgement.source is None or len(items) != 2 or not settings.secret:
        return ""
    pair = (items[0], items[1])
    id, _, key = given.partition(KEY_MARK)
    nonce = id[:16]
    signature = _signature(
        settings, nonce, judgement.judge, judgement.query, pair, judgement.source, key
    )
    return ASKED if hmac.compare_digest(id[16:].encode(), signature.encode()) else ""


def _signature(
    settings: TenantSettings,
    nonce: str,
    judge: str | None,
    query: Query,
    items: tuple[str, str],
    source: str,
    key: str,
) -> str:
    parts = (nonce, judge or "", query_key(query), *sorted(items), source)
    parts = (*parts, key) if key else parts
    return _digest(settings, 12, "question", *parts).hex()


def _digest(settings: TenantSettings, size: int, *parts: str) -> bytes:
    joined = "\0".join(parts).encode("utf-8", "replace")
    return hashlib.blake2b(joined, digest_size=size, key=settings.secret.encode()[:64]).digest()
