"""A metric of each registered type, by each registered mechanism that fits it: for tests that must leave none out."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

from hubbub.errors import InvalidParameter
from hubbub.mechanisms import Categories, registered
from hubbub.metric_types import MetricType
from hubbub.metric_types import registered as registered_types

__all__ = ["a_metric", "every_metric", "typical"]


def typical(name: str, size: int = 8) -> MetricType:
    """An instance of the type, with a list of this many values if it has one."""
    cls = registered_types()[name]
    try:
        return cls.of_size(None)
    except InvalidParameter:
        return cls.of_size(size)


def every_metric(epsilon: float = 2, size: int = 8) -> dict[str, str]:
    """The sections of a metrics.toml by the metrics' names. The first metric of each type says what `missing` is."""
    found = {}
    for kind in registered_types():
        values = typical(kind, size)
        fitting = [name for name, cls in registered().items() if cls.fits(values.domain)]
        for name in sorted(fitting):
            metric = f"{kind}_by_{name.replace('-', '_')}"
            chosen: dict[str, Any] = {"mechanism": _options(name, values) if registered()[name].needs_options else name}
            if name == min(fitting):
                chosen["missing"] = values.example()
            found[metric] = a_metric(metric, kind, epsilon, size, **chosen)
    return found


def a_metric(metric: str, kind: str, epsilon: float = 1, size: int = 8, **more: Any) -> str:
    """The section of one metric of this type."""
    values = typical(kind, size)
    keys = {"type": kind, "epsilon": epsilon, **values.restored(dict(values.document())), **more}
    return f"[metrics.{metric}]\n" + "".join(
        f"{key} = {_toml(value)}\n" for key, value in keys.items() if value is not None
    )


def _options(name: str, values: MetricType) -> dict[str, Any]:
    """A mechanism that only a person can choose: the truth is five times as likely as any other value."""
    assert name == "matrix", f"say here how {name} is written"
    assert isinstance(values.domain, Categories)
    size = values.domain.size
    other = (Decimal(1) / (size + 4)).quantize(Decimal("1e-9"))
    rows = [[1 - (size - 1) * other if x == y else other for y in range(size)] for x in range(size)]
    return {"name": name, "matrix": rows}


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(inside)}" for key, inside in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, Decimal | Fraction):
        return str(Decimal(value.numerator) / value.denominator if isinstance(value, Fraction) else value)
    return json.dumps(value)
