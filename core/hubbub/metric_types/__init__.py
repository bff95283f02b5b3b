"""Metric types, one file each: all that is particular to a type stands there and nowhere else.

    metric_type("category")                     # the class, or InvalidParameter that suggests the nearest name
    registered()                                # every type by name

A type is loaded when it is first asked for. A device loads all of them before its first pass
(`hubbub_client._process.preload_modules`).
"""

from __future__ import annotations

from importlib import import_module

from hubbub.errors import InvalidParameter, did_you_mean
from hubbub.metric_types._registry import REGISTRY, register
from hubbub.metric_types.base import Declared, Key, MetricType

__all__ = ["LATER", "Declared", "Key", "MetricType", "metric_type", "names", "register", "registered"]

_SHIPPED = ("boolean", "category", "mean")
"""Each is a module here of the same name."""
LATER = ("distribution", "strings")
"""Promised, and refused with a word of their own until they come."""


def names() -> tuple[str, ...]:
    """Every type there is, without loading one."""
    return (*_SHIPPED, *(name for name in REGISTRY if name not in _SHIPPED))


def metric_type(name: str) -> type[MetricType]:
    """The type of this name."""
    if name not in REGISTRY and name in _SHIPPED:
        import_module(f"{__name__}.{name}")
    if name not in REGISTRY:
        hint = did_you_mean(name, names()) or f"use one of {', '.join(names())}"
        raise InvalidParameter(f"no metric type is named {name!r}: {hint}")
    return REGISTRY[name]


def registered() -> dict[str, type[MetricType]]:
    """Every type by name."""
    return {name: metric_type(name) for name in names()}
