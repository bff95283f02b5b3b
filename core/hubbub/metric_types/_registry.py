"""Registry of the metric types that are loaded. Codebooks, the SDK and both services know every registered type."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from hubbub.metric_types.base import MetricType

    T = TypeVar("T", bound=type[MetricType])

REGISTRY: dict[str, type[MetricType]] = {}

_FOLLOW_ESTIMATE = ("interval", "influence", "truth", "expected_error")
"""Methods whose version in the base class is wrong for a type that has its own `estimate`."""


def register(name: str) -> Callable[[T], T]:
    """Class decorator: make a metric type known by name everywhere."""

    def enter(cls: T) -> T:
        if name in REGISTRY:
            raise ValueError(f"a metric type named {name!r} is registered already")
        if missing := left_to_the_mechanism(cls):
            raise ValueError(f"{cls.__name__} has its own estimate, so it also needs its own {', '.join(missing)}")
        cls.type = name
        REGISTRY[name] = cls
        return cls

    return enter


def left_to_the_mechanism(cls: type[MetricType]) -> list[str]:
    """The methods that a type with its own `estimate` should define but does not.

    The base class's versions describe the mechanism's values, not those of the type's estimate.
    """
    from hubbub.metric_types.base import MetricType

    if cls.publishes_as_estimated():
        return []
    return [method for method in _FOLLOW_ESTIMATE if getattr(cls, method) is getattr(MetricType, method)]
