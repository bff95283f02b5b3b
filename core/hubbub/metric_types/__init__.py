"""Metric types, one file each. Everything that depends on a metric's type is in that file.

    metric_type("category")                     # the class, or InvalidParameter that suggests the nearest name
    registered()                                # every type by name

A type is loaded on first use. A device loads all of them before its first cycle
(`hubbub_client._process.preload_modules`).
"""

from __future__ import annotations

from importlib import import_module

from hubbub.errors import InvalidParameter, did_you_mean
from hubbub.metric_types._registry import REGISTRY, register
from hubbub.metric_types.base import Declared, Key, MetricType

__all__ = ["LATER", "Declared", "Key", "MetricType", "metric_type", "names", "register", "registered"]

_SHIPPED = ("boolean", "category", "mean", "distribution", "count")
"""Each is defined in the module of the same name here."""
LATER = ("strings",)
"""Planned types. Until they exist, the codebook reader refuses them with a message of their own."""


def names() -> tuple[str, ...]:
    """The name of every type, without loading any."""
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
