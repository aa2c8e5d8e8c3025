"""Parameters declared once: default, rule and documentation in one field of the class.

    C: float = parameter(default=0.1, rule=positive, doc="Larger C follows each triplet closely.")

The constructor, the checks and the "Parameters" section of the class's documentation follow.
"""

import inspect
import textwrap
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

from similia.validation import Rule, check_parameters

ClassT = TypeVar("ClassT", bound=type)

SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY
#: columns of the generated documentation, which is indented by four
DOC_WIDTH = 92


def parameter(*, default: Any, rule: Rule, doc: str = "") -> Any:
    """Declare a parameter of a class marked with `parameterized`."""
    return field(default=default, metadata={"rule": rule, "doc": doc})


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(parameter,))
def parameterized(cls: ClassT) -> ClassT:
    """Add a keyword-only constructor and documentation of the declared parameters.

    A class's own parameters come first, then those of its parents, nearest first. Their rules are
    in `_rules`, by name.
    """
    dataclass(kw_only=True, eq=False, repr=False)(cls)
    origin = {name: i for i, base in enumerate(cls.__mro__) for name in _declared(base)}
    ordered = sorted(fields(cls), key=lambda f: origin[f.name])
    init: Any = cls.__init__  # type: ignore[misc]
    arguments = [inspect.Parameter(f.name, KEYWORD_ONLY, default=f.default) for f in ordered]
    init.__signature__ = inspect.Signature([SELF, *arguments])
    cls._rules = {f.name: f.metadata["rule"] for f in fields(cls)}  # type: ignore[attr-defined]
    cls.__doc__ = _documented(inspect.cleandoc(cls.__doc__ or ""), ordered)
    return cls


def check_declared(model: Any) -> None:
    """Raise ValueError for the first parameter of `model` that breaks its rule."""
    check_parameters(type(model).__name__, model._rules, vars(model))


def _declared(cls: type) -> list[str]:
    known = vars(cls).get("__dataclass_fields__", {})
    return [name for name in inspect.get_annotations(cls) if name in known]


def _documented(doc: str, parameters: list[Any]) -> str:
    """Insert the "Parameters" section before the first other section."""
    lines = ["Parameters", "----------"]
    for f in parameters:
        kind = f.metadata["rule"].words.removeprefix("a ").removeprefix("an ")
        lines.append(f"{f.name} : {kind}, default={f.default!r}")
        lines += textwrap.wrap(
            f.metadata["doc"], DOC_WIDTH, initial_indent="    ", subsequent_indent="    "
        )
    head, *sections = doc.split("\n\n")
    place = next((i for i, part in enumerate(sections) if _is_section(part)), len(sections))
    return "\n\n".join([head, *sections[:place], "\n".join(lines), *sections[place:]]) + "\n"


def _is_section(text: str) -> bool:
    first, *rest = text.splitlines()
    return bool(rest) and rest[0] == "-" * len(first)
