"""The device's own limits, which no codebook can raise."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from hubbub.errors import InvalidParameter
from hubbub.period import duration_seconds

if TYPE_CHECKING:
    from hubbub.codebook import Codebook

__all__ = ["NO_LIMITS", "Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What this device allows; None means that it sets no limit of that kind."""

    max_epsilon: Fraction | None = None
    """The most that is spent in one UTC day, over everything."""
    lifetime_epsilon: Fraction | None = None
    """The most that is ever spent, over everything."""
    min_period: int = 0
    """Seconds of the shortest period."""
    pinned: frozenset[str] | None = None
    """Ids (hex) of the only codebooks that are used."""

    @classmethod
    def of(
        cls,
        max_epsilon: float | None,
        lifetime_epsilon: float | None,
        min_period: str | None,
        pin: str | Sequence[str] | None,
    ) -> Limits:
        """Limits from an app's settings. Raises InvalidParameter if one is wrong."""
        return cls(
            _epsilon("max_epsilon", max_epsilon),
            _epsilon("lifetime_epsilon", lifetime_epsilon),
            0 if min_period is None else duration_seconds(min_period),
            None if pin is None else frozenset(_id(text) for text in ([pin] if isinstance(pin, str) else pin)),
        )

    def refusal(self, codebook: Codebook) -> str | None:
        """Why a codebook may not be used at all; None if it may."""
        if self.pinned is not None and codebook.id.hex() not in self.pinned:
            return "not_pinned"
        if codebook.collection.calendar.seconds < self.min_period:
            return "short_period"
        limits = [limit for limit in (self.max_epsilon, self.lifetime_epsilon) if limit is not None]
        return "over_budget" if any(codebook.spent > limit for limit in limits) else None


NO_LIMITS = Limits()


def _epsilon(name: str, written: float | None) -> Fraction | None:
    """A limit exactly as written: 0.3 means three tenths."""
    if written is None:
        return None
    number = isinstance(written, int | float) and not isinstance(written, bool)
    limit = Decimal(str(written)) if number else Decimal("nan")
    if not limit.is_finite() or limit <= 0:
        raise InvalidParameter(f"{name} is a number above 0, such as 4.0, or None for no limit; got {written!r}")
    return Fraction(limit)


def _id(text: object) -> str:
    if not isinstance(text, str) or not re.fullmatch("[0-9a-f]{32}", text):
        raise InvalidParameter(
            f"pin is the id of a codebook, 32 hexadecimal digits as `hubbub codebook` shows it, got {text!r}"
        )
    return text
