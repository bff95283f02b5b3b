"""Which mechanisms exist. Registering one puts it under the conformance suite and into every choice."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar

from hubbub.mechanisms._frame import Categories
from hubbub.problems import InvalidParameter

if TYPE_CHECKING:
    from collections.abc import Callable

    from hubbub.mechanisms._frame import Domain, Mechanism

    AnyMechanism = Mechanism[Any]
    M = TypeVar("M", bound=type[Mechanism[Any]])

_REGISTRY: dict[str, type[AnyMechanism]] = {}

TIE = 1.02
"""Variances within two per cent count as equal; then the smaller report wins (math: Hubbub selection rule)."""


def register(name: str) -> Callable[[M], M]:
    """Class decorator: make a mechanism selectable by name everywhere."""

    def enter(cls: M) -> M:
        if name in _REGISTRY:
            raise ValueError(f"a mechanism named {name!r} is registered already")
        cls.name = name
        _REGISTRY[name] = cls
        return cls

    return enter


def registered() -> dict[str, type[AnyMechanism]]:
    """Every mechanism by name, in order of registration."""
    return dict(_REGISTRY)


def mechanism(name: str) -> type[AnyMechanism]:
    """The mechanism of that name, or InvalidParameter that suggests the nearest one."""
    if name in _REGISTRY:
        return _REGISTRY[name]
    near = get_close_matches(name, _REGISTRY, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise InvalidParameter(f"no mechanism is named {name!r}{hint} Known: {', '.join(_REGISTRY)}")


def choose(domain: Domain, epsilon: object, report_bytes: int | None = None) -> AnyMechanism:
    """The mechanism of lowest variance that fits the domain and the report limit; near-ties to the smaller report."""
    fitting = [cls.calibrate(epsilon, domain) for cls in _REGISTRY.values() if cls.automatic and cls.fits(domain)]
    if not fitting:
        raise InvalidParameter(f"no mechanism fits {domain}")
    small = [m for m in fitting if report_bytes is None or m.report_bytes <= report_bytes]
    if not small:
        least = min(fitting, key=lambda m: m.report_bytes)
        what = f"{domain.size} values" if isinstance(domain, Categories) else "this range"
        raise InvalidParameter(
            f"no mechanism sends {what} in {report_bytes} bytes; {least.name} needs {least.report_bytes}: "
            "raise report_bytes, or shorten the list of values"
        )
    best = min(m.typical_variance() for m in small)
    return min((m for m in small if m.typical_variance() <= TIE * best), key=lambda m: m.report_bytes)
