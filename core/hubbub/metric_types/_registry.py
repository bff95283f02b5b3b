"""Which metric types are loaded. Registering one makes a codebook, the SDK and both services know it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from hubbub.metric_types.base import MetricType

    T = TypeVar("T", bound=type[MetricType])

REGISTRY: dict[str, type[MetricType]] = {}

_FOLLOW_ESTIMATE = ("interval", "influence", "truth", "expected_error")
"""What is wrong as it stands in the base class once a type has an `estimate` of its own."""


def register(name: str) -> Callable[[T], T]:
    """Class decorator: make a metric type known by name everywhere."""

    def enter(cls: T) -> T:
        if name in REGISTRY:
            raise ValueError(f"a metric type named {name!r} is registered already")
        if missing := left_to_the_mechanism(cls):
            raise ValueError(f"{cls.__name__} has an estimate of its own: it also needs {', '.join(missing)}")
        cls.type = name
        REGISTRY[name] = cls
        return cls

    return enter


def left_to_the_mechanism(cls: type[MetricType]) -> list[str]:
    """What a type with an `estimate` of its own must say itself, and does not: it would be about other values."""
    from hubbub.metric_types.base import MetricType

    if cls.publishes_as_estimated():
        return []
    return [method for method in _FOLLOW_ESTIMATE if getattr(cls, method) is getattr(MetricType, method)]
