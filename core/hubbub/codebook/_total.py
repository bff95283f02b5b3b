"""The cap over time: the most that all releases within any window of a given length may reveal of one device.

    [collection]
    total = { epsilon = 3.0, delta = 1e-6, over = "365d" }

It is kept under the collection's `notes`, so that devices of every version read the codebook. Who enforces it is the
aggregator: it publishes nothing for periods that no longer fit (`hubbub.accounting.total_cap`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from hubbub.codebook._toml_keys import TOTAL
from hubbub.codebook._toml_table import Table, a_table
from hubbub.codebook._toml_values import above_zero, below_one
from hubbub.errors import InvalidParameter
from hubbub.metric_types._exact_numbers import decimal_text
from hubbub.period import LONGEST_DURATION, duration_seconds, duration_text

if TYPE_CHECKING:
    from hubbub.canonical import Json
    from hubbub.period import Calendar

__all__ = ["Total", "noted_total", "read_total"]

MEMBER = "total"
"""Its name in metrics.toml, and in the collection's `notes`."""


@dataclass(frozen=True, slots=True)
class Total:
    """(ε, δ) that no device may lose in more than, in any window of `over` seconds."""

    epsilon: Fraction
    delta: Fraction
    over: int

    def __str__(self) -> str:
        return f"epsilon {decimal_text(self.epsilon)} at delta {float(self.delta):g} over {duration_text(self.over)}"

    def window(self, calendar: Calendar) -> int:
        """Periods that count together: as many as `over` has, rounded up."""
        return -(-self.over // calendar.seconds)

    def document(self) -> dict[str, Json]:
        return {"epsilon": decimal_text(self.epsilon), "delta": decimal_text(self.delta), "over": self.over}


def read_total(table: Table) -> Total | None:
    """The key `total` of the collection. None if it is left out, or faulty: then there is a finding."""
    written = table.take(MEMBER, a_table, None)
    if written is None:
        return None
    inner = Table(written, f"{table.path}.{MEMBER}", table.findings, TOTAL)
    epsilon, delta = inner.need("epsilon", above_zero), inner.need("delta", below_one)
    over = inner.need("over", duration_seconds)
    return None if epsilon is None or delta is None or over is None else Total(epsilon, delta, over)


def noted_total(notes: object) -> Total | None:
    """The cap in the `notes` of a compiled collection, or InvalidParameter: a cap that cannot be read must not be
    passed over."""
    found = notes.get(MEMBER) if isinstance(notes, Mapping) else None
    if found is None:
        return None
    try:
        if not isinstance(found, Mapping) or set(found) != {"epsilon", "delta", "over"}:
            raise InvalidParameter("expected epsilon, delta and over")
        made = Total(above_zero(Decimal(found["epsilon"])), below_one(Decimal(found["delta"])), found["over"])
        is_length = (
            isinstance(made.over, int) and not isinstance(made.over, bool) and 1 <= made.over <= LONGEST_DURATION
        )
        if not is_length or made.document() != found:
            raise InvalidParameter("it is not written as this software compiles it")
    except (ValueError, TypeError, ArithmeticError, InvalidParameter) as error:
        raise InvalidParameter(f"notes.total is not a cap over time: {error}", "compile metrics.toml again") from error
    return made
