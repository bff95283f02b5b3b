"""Which metric types are loaded. Registering one makes a codebook, the SDK and both services know it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from hubbub.metric_types.base import MetricType

    T = TypeVar("T", bound=type[MetricType])

REGISTRY: dict[str, type[MetricType]] = {}


def register(name: str) -> Callable[[T], T]:
    """Class decorator: make a metric type known by name everywhere."""

    def enter(cls: T) -> T:
        if name in REGISTRY:
            raise ValueError(f"a metric type named {name!r} is registered already")
        cls.type = name
        REGISTRY[name] = cls
        return cls

    return enter
