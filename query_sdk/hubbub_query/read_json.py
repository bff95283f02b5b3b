"""Reader of the API's JSON into frozen dataclasses.

Members that a class does not have are ignored, so that a client can read a newer aggregator. A missing member without
a default is an error that names it.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from hubbub_query.errors import UnreadableAnswer

__all__ = ["alias", "read"]

T = TypeVar("T")
_ALIASES = {"start": "from", "end": "to"}
"""Python has a keyword `from`."""


def alias(name: str) -> str:
    """The API's name for a field."""
    return _ALIASES.get(name, name)


def read(kind: type[T], document: Any) -> T:
    """An object of this class from its JSON."""
    try:
        found: T = _reader(kind)(document)  # type: ignore[arg-type]  # a class is hashable
    except (KeyError, TypeError, AttributeError) as error:
        said = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise UnreadableAnswer(
            f"the aggregator's answer is not what this version reads as {kind.__name__} ({said}): "
            "use a client of the aggregator's version"
        ) from error
    return found


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    """The function that reads one kind. It is made once, since an answer may have 65,536 values."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType) and type(None) in inner:
        return _optional([one for one in inner if one is not type(None)])
    if origin is tuple:
        return _tuple(inner)
    if origin is not None and _is_mapping(origin):
        return dict
    if is_dataclass(kind):
        return _object(kind)
    return _as_it_is


def _is_mapping(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _as_it_is(value: Any) -> Any:
    return value


def _optional(inner: list[Any]) -> Callable[[Any], Any]:
    made = _reader(inner[0]) if len(inner) == 1 else _as_it_is
    return made if made is _as_it_is else lambda value: None if value is None else made(value)


def _tuple(inner: tuple[Any, ...]) -> Callable[[Any], Any]:
    made = _reader(inner[0])
    return tuple if made is _as_it_is else lambda value: tuple(map(made, value))


def _object(kind: Any) -> Callable[[Any], Any]:
    hints = get_type_hints(kind)
    needed = [(one.name, alias(one.name), _reader(hints[one.name])) for one in fields(kind) if one.default is MISSING]
    others = [
        (one.name, alias(one.name), _reader(hints[one.name])) for one in fields(kind) if one.default is not MISSING
    ]

    def made(document: Mapping[str, Any]) -> Any:
        given = {name: reads(document[known]) for name, known, reads in needed}
        given |= {name: reads(document[known]) for name, known, reads in others if known in document}
        return kind(**given)

    return made
