"""Registry of mechanisms. The conformance suite tests every registered mechanism, and every choice considers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from hubbub.errors import InvalidParameter, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable

    from hubbub.mechanisms.base import Mechanism
    from hubbub.mechanisms.domains import Domain

    AnyMechanism = Mechanism[Any]
    M = TypeVar("M", bound=type[Mechanism[Any]])

_REGISTRY: dict[str, type[AnyMechanism]] = {}


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


def fitting(domain: Domain) -> list[str]:
    """Names of the mechanisms that can randomize values of this domain and need no options."""
    return [name for name, cls in _REGISTRY.items() if cls.fits(domain) and not cls.needs_options]


def mechanism(name: str, domain: Domain | None = None) -> type[AnyMechanism]:
    """The mechanism of this name, or InvalidParameter that suggests the nearest one that fits the domain."""
    if name in _REGISTRY:
        return _REGISTRY[name]
    near = [known for known, cls in _REGISTRY.items() if domain is None or cls.fits(domain)]
    hint = did_you_mean(name, near) or f"use one of {', '.join(near if domain is None else fitting(domain))}"
    raise InvalidParameter(f"no mechanism is named {name!r}", hint)
