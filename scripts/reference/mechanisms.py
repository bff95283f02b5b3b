"""Tables of the mechanisms: what each is for, its options, and what it costs."""

from __future__ import annotations

import inspect
from fractions import Fraction
from typing import Any

from hubbub.mechanisms import Bounds, Categories, Mechanism, registered
from scripts.reference.markdown import anchored, code, table

__all__ = ["mechanisms", "undocumented"]

EPSILONS = (0.5, 1.0, 2.0, 4.0)
SIZES = (2, 16, 1_024)
RANGE = Bounds(Fraction(-1), Fraction(1))


def mechanisms(part: str) -> str:
    """`list`: all mechanisms. `shares` and `means`: n × variance and bytes, computed from the integers that run."""
    if part == "list":
        return table(
            ["name", "estimates", "options", "for", "never chosen by itself"],
            [
                (
                    anchored(code(name), "mechanism", name),
                    "a mean" if cls.fits(RANGE) else "shares",
                    _options(cls),
                    cls.regime,
                    cls.reserved or (cls.needs_options and f"it needs {cls.needs_options}, which only you can give"),
                )
                for name, cls in registered().items()
            ],
        )
    if part == "means":
        rows = [[code(name), *(_cell(cls, e, RANGE) for e in EPSILONS)] for name, cls in _of(numbers=True)]
        return table(["on [−1, 1]", *(f"ε = {e:g}" for e in EPSILONS)], rows)
    return table(
        ["", *(f"{d:,} values, ε = {e:g}" for d in SIZES for e in (1.0, 4.0))],
        [
            [code(name), *(_cell(cls, e, Categories(d)) for d in SIZES for e in (1.0, 4.0))]
            for name, cls in _of(numbers=False)
        ],
    )


def undocumented() -> list[str]:
    """Mechanisms without a stated use or without a docstring."""
    return [name for name, cls in registered().items() if not getattr(cls, "regime", "") or not cls.__doc__]


def _of(*, numbers: bool) -> list[tuple[str, type[Mechanism[Any]]]]:
    """Mechanisms for numbers, or those for lists."""
    return [(name, cls) for name, cls in registered().items() if cls.fits(RANGE) is numbers]


def _options(cls: type[Mechanism[Any]]) -> str:
    given = inspect.signature(cls.calibrate).parameters.values()
    names = [p.name for p in given if p.kind is p.KEYWORD_ONLY and not p.name.startswith("_")]
    return ", ".join(map(code, names))


def _cell(cls: type[Mechanism[Any]], epsilon: float, domain: Categories | Bounds) -> str:
    if cls.needs_options or not cls.fits(domain):
        return ""
    made = cls.calibrate(epsilon, domain)
    bytes_ = made.report_bytes
    return f"{made.typical_variance():.3g} in {bytes_} byte{'s' * (bytes_ != 1)}"
