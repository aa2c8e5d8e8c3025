"""Parameters declared once: default, rule and documentation in one field of the class.

    C: float = parameter(default=0.1, rule=positive, doc="Larger C follows each triplet closely.")

The constructor, the checks and the "Parameters" section of the class's documentation follow.
"""

import inspect
import textwrap
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

from similia.validation import Rule, check_parameters

C = TypeVar("C", bound=type)
WIDTH = 92


def parameter(*, default: Any, rule: Rule, doc: str = "") -> Any:
    """Declare a parameter of a class marked with `parameterized`."""
    return field(default=default, metadata={"rule": rule, "doc": doc})


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(parameter,))
def parameterized(cls: C) -> C:
    """Give a class a keyword-only constructor and documentation of its declared parameters.

    A class's own parameters come first, then those that it inherits.
    """
    inherited = {f.name for base in cls.__mro__[1:] for f in _fields(base)}
    dataclass(kw_only=True, eq=False, repr=False)(cls)
    ordered = sorted(fields(cls), key=lambda f: f.name in inherited)
    init: Any = cls.__init__  # type: ignore[misc]
    signature = inspect.signature(init)
    arguments = [signature.parameters[name] for name in ("self", *(f.name for f in ordered))]
    init.__signature__ = signature.replace(parameters=arguments)
    cls.__doc__ = _documented(inspect.cleandoc(cls.__doc__ or ""), ordered)
    return cls


def rules_of(cls: type) -> dict[str, Rule]:
    """Rules of a class's parameters, by name."""
    return {f.name: f.metadata["rule"] for f in fields(cls)}


def check_declared(model: Any) -> None:
    """Raise the house error for the first parameter of `model` that breaks its rule."""
    check_parameters(type(model).__name__, rules_of(type(model)), vars(model))


def _fields(cls: type) -> tuple[Any, ...]:
    return fields(cls) if "__dataclass_fields__" in vars(cls) else ()


def _documented(doc: str, parameters: list[Any]) -> str:
    """Insert the "Parameters" section before the first other section."""
    lines = ["Parameters", "----------"]
    for f in parameters:
        kind = f.metadata["rule"].words.removeprefix("a ").removeprefix("an ")
        lines.append(f"{f.name} : {kind}, default={f.default!r}")
        lines += textwrap.wrap(
            f.metadata["doc"], WIDTH, initial_indent="    ", subsequent_indent="    "
        )
    head, *sections = doc.split("\n\n")
    place = next((i for i, part in enumerate(sections) if _is_section(part)), len(sections))
    return "\n\n".join([head, *sections[:place], "\n".join(lines), *sections[place:]]) + "\n"


def _is_section(text: str) -> bool:
    first, *rest = text.splitlines()
    return bool(rest) and rest[0] == "-" * len(first)
