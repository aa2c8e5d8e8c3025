"""Names of measures: ours, those of ir-measures, and what was probably meant."""

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from similia.retrieval.measures import AT_K, MEASURES

#: other names, in lower case; ir-measures writes P@5, R@5, nDCG@10, AP, RR and Rprec
_ALIASES = {
    "p": "precision",
    "r": "recall",
    "ap": "map",
    "rr": "mrr",
    "rprec": "r_precision",
    "r-precision": "r_precision",
}
_KNOWN = {**dict(zip(MEASURES, MEASURES, strict=True)), **_ALIASES}


class Measure(NamedTuple):
    """A measure and its cut-off, 0 if there is none."""

    base: str
    k: int

    @property
    def name(self) -> str:
        """Name under which the values are found, such as "ndcg@10"."""
        return f"{self.base}@{self.k}" if self.k else self.base

    @property
    def code(self) -> tuple[int, int]:
        """Place in MEASURES, and the cut-off."""
        return MEASURES.index(self.base), self.k


def measure_named(owner: str, text: object) -> Measure:
    """Measure of that name, in upper or lower case; raise ValueError if there is none."""
    base, at, cut = str(text).strip().lower().partition("@")
    known = _KNOWN.get(base)
    right = cut.isdecimal() and 0 < int(cut) < 2**63 and known != "r_precision" if at else True
    if isinstance(text, str) and known and right:
        return Measure(known, int(cut or 0))
    rule = f"one of {', '.join(map(repr, MEASURES))}, with a cut-off or without"
    close = get_close_matches(base, _KNOWN, n=1, cutoff=0.5) if isinstance(text, str) else []
    hint = ""
    if close and not known:
        hint = f"; did you mean {Measure(_KNOWN[close[0]], int(cut) if right and cut else 0).name}?"
    elif known == "r_precision":
        hint = "; it has no cut-off"
    raise ValueError(f"{owner}: measures must be {rule}, got {text!r}{hint or '.'}")


def names_among(owner: str, asked: Sequence[str] | None, known: Collection[str]) -> list[str]:
    """Names of the requested measures, all by default; raise ValueError for an unknown one."""
    names = [n if n in known else measure_named(owner, n).name for n in asked or known]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"{owner} must be one of {', '.join(known)}, got {unknown[0]}.")
    return names


def cut_offs(owner: str, asked: Sequence[str] | None, k: Sequence[int]) -> list[int]:
    """Cut-offs, including those in the names of the requested measures."""
    return sorted({*k, *(measure_named(owner, name).k for name in asked or () if "@" in name)})


def with_cut_offs(measure: Measure, cuts: list[int]) -> list[Measure]:
    """The measure itself, or at every cut-off if it needs one and has none."""
    if measure.k or measure.base not in AT_K:
        return [measure]
    return [Measure(measure.base, int(cut)) for cut in cuts]
