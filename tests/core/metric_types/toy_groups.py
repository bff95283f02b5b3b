"""A metric type that the product does not know: minutes of an average device by group, shown as numbers by group."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

from hubbub.errors import InvalidParameter, InvalidValue
from hubbub.mechanisms import Categories
from hubbub.metric_types import Key
from hubbub.metric_types._exact_numbers import UNIT, a_unit, decimal_text, exact
from hubbub.result_shapes import Axis, NumbersByGroup
from tests.core.metric_types.toy_sums import SumsOfShares

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hubbub.canonical import Json
    from hubbub.codebook._toml_table import Table
    from hubbub.metric_types import Declared


@dataclass(frozen=True, slots=True)
class AmountByGroup(SumsOfShares):
    """A group and an amount, recorded as a mapping; what an average device has of it in each group."""

    meaning: ClassVar[str] = "an amount in a group; the mean amount of all devices, by group"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("groups", "a name and a list of strings", "required for by_group", "What is told apart."),
        Key("amounts", "rising numbers from 0", "required for by_group", "What an amount is rounded down to."),
        UNIT,
    )
    reducers: ClassVar[tuple[str, ...]] = ("last", "first")

    name: str
    groups: tuple[str, ...]
    amounts: tuple[Fraction, ...]
    unit: str = ""

    @classmethod
    def read(cls, table: Table) -> Self | None:
        named = table.need("groups", _groups)
        amounts = table.need("amounts", lambda value: tuple(map(exact, value if isinstance(value, list) else [])))
        unit = table.take("unit", a_unit, "")
        return None if named is None or amounts is None else cls(*named, amounts, unit)

    @classmethod
    def of_size(cls, size: int | None) -> Self:
        return cls("group", tuple(f"g{place}" for place in range((size or 4) // 2)), (Fraction(0), Fraction(1)))

    @classmethod
    def restored(cls, table: dict[str, Any]) -> dict[str, Any]:
        table["amounts"] = [Decimal(text) for text in table["amounts"]]
        return table

    def document(self) -> dict[str, Json]:
        return {"groups": [self.name, list(self.groups)], "amounts": [decimal_text(one) for one in self.amounts]}

    def remarks(self) -> dict[str, Json]:
        return {"unit": self.unit} if self.unit else {}

    @property
    def domain(self) -> Categories:
        return Categories(len(self.groups) * len(self.amounts))

    def _found(self, value: object) -> tuple[str, float] | None:
        if isinstance(value, Mapping):
            value = [value.get(self.name), value.get("amount")]
        match value:
            case [str(group), (int() | float() | Fraction()) as amount] if group in self.groups and amount >= 0:
                return group, float(amount)
        return None

    def recorded(self, value: object) -> list[Any]:
        found = self._found(value)
        if found is None:
            raise InvalidValue(f"a by_group metric takes {self.takes_in_words()}")
        return list(found)

    def takes(self, value: object) -> bool:
        return self._found(value) is not None

    def input_of(self, value: object) -> int:
        group, amount = self.recorded(value)
        return self.groups.index(group) * len(self.amounts) + bisect_right(self.amounts, amount) - 1

    def declared(self, value: object) -> Declared:
        group, amount = self.recorded(value)
        return [group, Fraction(amount)]

    def value_for(self, held: int | Fraction) -> dict[str, object]:
        group, amount = divmod(int(held), len(self.amounts))
        return {self.name: self.groups[group], "amount": float(self.amounts[amount])}

    def example(self) -> dict[str, object]:
        return self.value_for(1)

    def made_up(self, part: float, age: int) -> dict[str, object]:  # noqa: ARG002  the same at any time
        return self.value_for(int(part * self.domain.size))

    def from_text(self, cell: str) -> dict[str, object]:
        group, amount = cell.split(":")
        return {self.name: group, "amount": float(amount)}

    def takes_in_words(self) -> str:
        return f"a mapping with {self.name} and amount"

    def holds_in_words(self) -> str:
        return f"an amount by {self.name}"

    def to_the_person(self) -> str:
        return f"An amount, and your {self.name}."

    def in_words(self, value: object) -> str:
        group, amount = self.recorded(value)
        return f"{amount:g} in {group}"

    @property
    def shape(self) -> NumbersByGroup:
        return NumbersByGroup(Axis(self.name, self.groups), (0.0, float(self.amounts[-1])), self.unit)

    def weights(self) -> NDArray[np.float64]:
        import numpy as np

        return np.asarray(np.kron(np.eye(len(self.groups)), [float(amount) for amount in self.amounts]), np.float64)


def _groups(value: object) -> tuple[str, tuple[str, ...]]:
    match value:
        case [str(name), [*groups]]:
            return name, tuple(map(str, groups))
    raise InvalidParameter(f"expected a name and a list of groups, got {value!r}")
