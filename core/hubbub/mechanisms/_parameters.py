"""Readers of the parameters that a mechanism is built from. Their errors say what to do."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from hubbub.errors import InvalidParameter
from hubbub.mechanisms._registry import fitting
from hubbub.mechanisms.domains import Bins, Bounds, Categories

if TYPE_CHECKING:
    from hubbub.mechanisms.base import Mechanism
    from hubbub.mechanisms.domains import Domain


def refuse_unfit(cls: type[Mechanism[Any]], domain: Domain, options: Mapping[str, Any] | None = None) -> None:
    """Raise InvalidParameter for a domain that does not fit the mechanism, or an option that it does not have."""
    if not cls.fits(domain):
        raise InvalidParameter(f"{cls.name} does not fit {domain.in_words}", f"use one of {', '.join(fitting(domain))}")
    if options:
        raise InvalidParameter(f"{cls.name} has no option {', '.join(sorted(options))}", "leave it out")


def bounds_of(cls: type[Mechanism[Any]], domain: Domain) -> Bounds:
    """The domain as bounds, or InvalidParameter."""
    refuse_unfit(cls, domain)
    assert isinstance(domain, Bounds)  # noqa: S101  `fits` has just established this; for the type checker
    return domain


def categories_of(cls: type[Mechanism[Any]], domain: Domain) -> Categories:
    """The domain as categories, or InvalidParameter."""
    refuse_unfit(cls, domain)
    assert isinstance(domain, Categories)  # noqa: S101  as above
    return domain


def bins_of(cls: type[Mechanism[Any]], domain: Domain) -> Bins:
    """The domain as bins, or InvalidParameter."""
    refuse_unfit(cls, domain)
    assert isinstance(domain, Bins)  # noqa: S101  as above
    return domain


def is_list(domain: Domain) -> bool:
    """Whether the domain is a list of values without an order, so that only the share of each is asked for."""
    return isinstance(domain, Categories) and not isinstance(domain, Bins)


def integers(name: str, parameters: Mapping[str, Any], keys: Collection[str]) -> list[int]:
    """The integers under `keys`. No other key may be there. Big integers may be decimal strings."""
    if not isinstance(parameters, Mapping):
        raise InvalidParameter(f"{name} takes the parameters {', '.join(keys)}; got {parameters!r}")
    if set(parameters) != set(keys):
        raise InvalidParameter(
            f"{name} takes the parameters {', '.join(keys)}; got {', '.join(map(str, parameters)) or 'nothing'}"
        )
    return [integer(name, key, parameters[key]) for key in keys]


def integer(name: str, key: str, value: object) -> int:
    """One non-negative integer, given as a number or as a decimal string."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 40:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise InvalidParameter(f"{name}: {key} must be a whole number, got {value!r}")


def chosen(cls: type[Mechanism[Any]], name: str, value: object, least: int, most: int) -> int:
    """An option that is a whole number in a range, or InvalidParameter that names both."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidParameter(
            f"{cls.name}: {name} must be a whole number from {least} to {most}, got {value!r}",
            "correct it, or leave it out",
        )
    return value
