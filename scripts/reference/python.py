"""Public names of a package with signatures and docstrings."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from enum import Enum

__all__ = ["python", "undocumented"]

MODULES = ("hubbub_client", "hubbub_client.testing", "hubbub_query")


def python(module: str) -> str:
    """A section for each name in `__all__`."""
    return "\n\n".join(_section(module, name, found) for name, found in _public(module))


def undocumented() -> list[str]:
    """Public names, and public methods of classes, without a docstring."""
    found = []
    for module in MODULES:
        for name, value in _public(module):
            if not _own_doc(value):
                found.append(f"{module}.{name}")
            if inspect.isclass(value):
                found += [f"{module}.{name}.{m}" for m, method in _methods(value) if not method.__doc__]
    return found


def _public(module: str) -> list[tuple[str, object]]:
    loaded = importlib.import_module(module)
    return [(name, getattr(loaded, name)) for name in loaded.__all__]


def _own_doc(value: object) -> str:
    """The docstring, unless it is the constructor line that a dataclass generates."""
    text = inspect.getdoc(value) or ""
    return "" if text.startswith(f"{getattr(value, '__name__', '')}(") else text


def _methods(cls: type) -> Iterator[tuple[str, object]]:
    for name, found in vars(cls).items():
        known = any(name in vars(base) for base in cls.__mro__[1:]) and not found.__doc__  # described where it is from
        if name.startswith("_") or known:
            continue
        if inspect.isfunction(found) or isinstance(found, (property, classmethod)):
            yield name, found


def _section(module: str, name: str, value: object) -> str:
    parts = [f"### `{module}.{name}`"]
    if inspect.isclass(value):
        plain = not issubclass(value, (Enum, Exception))
        if plain:
            parts.append(_block(f"class {name}{_signature(value)}"))
        parts.append(_own_doc(value))
        if issubclass(value, Enum):
            parts.append(", ".join(f"`{member.value}`" for member in value))
        parts += [_method(name, m, f) for m, f in (_methods(value) if plain else ())]
    else:
        parts += [_block(f"{name}{_signature(value)}"), _own_doc(value)]
    return "\n\n".join(part for part in parts if part)


def _method(cls: str, name: str, found: object) -> str:
    if isinstance(found, property):
        said = inspect.getdoc(found) or ""
        return f"`{cls.lower()}.{name}`\n: {_indented(said)}"
    inner = found.__func__ if isinstance(found, classmethod) else found
    owner = cls if isinstance(found, classmethod) else cls.lower()
    head = f"{'await ' * inspect.iscoroutinefunction(inner)}{owner}.{name}"
    return f"`{head}{_signature(inner, bound=True)}`\n: {_indented(inspect.getdoc(inner) or '')}"


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


def _signature(value: object, *, bound: bool = False) -> str:
    made = inspect.signature(value)  # type: ignore[arg-type]  # classes and functions only
    parameters = list(made.parameters.values())[int(bound) :]
    # a function as a default would show its address in memory
    shown = [re.sub(r"<.*>", "...", str(p.replace(annotation=p.empty))) for p in parameters]
    kinds = [p.kind for p in parameters]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        shown.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    return f"({', '.join(shown)})"


def _block(text: str) -> str:
    return f"```text\n{text}\n```"
