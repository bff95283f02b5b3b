r"""Mixtures: the device draws one of several components by a private coin and sends that component's report.

All components have the same two levels, low and high, so that the loss is ln(high / low), exactly. Which component
was drawn is part of the report, which is sealed and equally long for all components; so the shuffled crowd is all the
devices, and the masses of the components add up, weighted by their chances.

Amplification. By one component, the blanket holds every report at its low level, and of two inputs a report is near
both, one or none. Moving a unit of overlap (near both, and near none) into two reports that are near one each replaces
the gains {z (1 - E), 1 - E} by {z - E, 1 - zE}, z = high / low and E = e^eps: the same sum, wider apart. So the gain of
a pair with less overlap is above in convex order, and with it the blanket's bound: the first and the last bin are the
worst pair. All kinds of pairs are listed nonetheless; the accountant finds the worst among them by comparison.

A report's bits, lowest first: 0 for the first component; for another a 1 and its number, less one. Then its own bits.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, combinations, pairwise
from typing import TYPE_CHECKING, Any, Self

from hubbub.errors import InvalidParameter, MalformedTally
from hubbub.mechanisms._answers_ranges import AnswersRanges
from hubbub.mechanisms._bit_reports import PackedMechanism, bits_of
from hubbub.mechanisms._channel_component import Component
from hubbub.mechanisms._exact_arithmetic import exact_epsilon, exp_below, log_above
from hubbub.mechanisms._parameters import bins_of, integer
from hubbub.mechanisms._random_sets import AT_ONCE
from hubbub.mechanisms._set_component import Sets
from hubbub.mechanisms._symbols import index, whole_numbers
from hubbub.mechanisms._weighted_sums import Channel, Part
from hubbub.mechanisms._window_component import Window
from hubbub.mechanisms.amplification_data import Amplification, Atom, Pair
from hubbub.mechanisms.base import Json
from hubbub.mechanisms.domains import Bins, Domain
from hubbub.mechanisms.tallies_and_estimates import Tally
from hubbub.number_format import probability

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from hubbub.mechanisms._crowd_simulation import CrowdRandomness
    from hubbub.mechanisms.base import Face
    from hubbub.randomness import BulkRandomness, Randomness

WHOLE = 2**16
"""What the weights of the components sum to."""
MOST_COMPONENTS = 32
LARGEST_TOTAL = 2**63
"""Most that near * high + far * low may be: what `BulkRandomness.below` draws from."""

SetRow = tuple[int, int, int]
WindowRow = tuple[int, int]


@dataclass(frozen=True)
class Mixture(PackedMechanism, AnswersRanges[bytes]):
    """`sets` are rows of width, count and weight, `windows` are rows of width and weight."""

    epsilon: Fraction
    size: int
    low: int
    high: int
    sets: tuple[SetRow, ...]
    windows: tuple[WindowRow, ...]

    def __post_init__(self) -> None:
        Bins(self.size)
        weights = [row[-1] for row in (*self.sets, *self.windows)]
        if not 1 <= len(weights) <= MOST_COMPONENTS or min(weights) < 1 or sum(weights) != WHOLE:
            raise InvalidParameter(
                f"{self.name}: give 1 to {MOST_COMPONENTS} components whose weights are positive and sum to {WHOLE}"
            )
        for rows in (self.sets, self.windows):
            if any(one[0] >= other[0] for one, other in pairwise(rows)):
                raise InvalidParameter(f"{self.name}: components of one kind are in order of width, each width once")
        if not 1 <= self.low < self.high:
            raise InvalidParameter(f"{self.name}: low must be positive, and high above it")
        if not self.windows and self.sets[0][0] != 1:
            raise InvalidParameter(f"{self.name}: without sets of single bins or a window, bins cannot be told apart")
        if any(one.near * self.high + one.far * self.low > LARGEST_TOTAL for one in self.components):
            raise InvalidParameter(f"{self.name}: low and high are too large; make both smaller")
        self._refuse_if_not_private()

    @classmethod
    def fits(cls, domain: Domain) -> bool:
        return isinstance(domain, Bins)

    @classmethod
    def usual_domain(cls, size: int = 4) -> Bins:
        return Bins(size)

    @classmethod
    def of_components(
        cls, epsilon: Fraction, size: int, sets: Iterable[SetRow], windows: Iterable[WindowRow] = ()
    ) -> Self:
        """With these components, and the levels that use all of epsilon."""
        odds = exp_below(epsilon)
        low = int(LARGEST_TOTAL / (2 * size * odds))
        return cls(epsilon, size, low, int(low * odds), tuple(sets), tuple(windows))

    @classmethod
    def from_parameters(cls, epsilon: object, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        keys = cls._keys()
        if not isinstance(parameters, Mapping) or set(parameters) != keys:
            raise InvalidParameter(f"{cls.name} takes the parameters {', '.join(sorted(keys))}")
        low, high = (integer(cls.name, key, parameters[key]) for key in ("low", "high"))
        sets, windows = set_rows(cls.name, parameters["sets"]), window_rows(cls.name, parameters.get("windows", []))
        return cls(exact_epsilon(epsilon), bins_of(cls, domain).size, low, high, sets, windows)

    @classmethod
    @abstractmethod
    def _keys(cls) -> set[str]:
        """The parameters of this mechanism."""

    def parameters(self) -> dict[str, Json]:
        listed: dict[str, Json] = {"sets": _lists(self.sets), "windows": _lists(self.windows)}
        given: dict[str, Json] = {"low": str(self.low), "high": str(self.high)}
        return given | {key: rows for key, rows in listed.items() if key in self._keys()}

    @property
    def domain(self) -> Bins:
        return Bins(self.size)

    @cached_property
    def components(self) -> tuple[Component, ...]:
        sets = (Sets(self.size, width, count) for width, count, _ in self.sets)
        return (*sets, *(Window(self.size, width) for width, _ in self.windows))

    @cached_property
    def _weights(self) -> tuple[int, ...]:
        return tuple(row[-1] for row in (*self.sets, *self.windows))

    @cached_property
    def _cumulative(self) -> list[int]:
        return list(accumulate(self._weights))

    @cached_property
    def _number_bits(self) -> int:
        """Bits of the number of a component behind the first one."""
        return max(len(self.components) - 2, 0).bit_length()

    def _prefix_bits(self, which: int) -> int:
        if len(self.components) == 1:
            return 0
        return 1 + self._number_bits if which else 1

    @cached_property
    def _bits(self) -> int:
        return max(self._prefix_bits(which) + one.bits for which, one in enumerate(self.components))

    @property
    def report_bits(self) -> int:
        return self._bits

    @property
    def cells(self) -> int:
        return sum(one.cells for one in self.components)

    def channel(self) -> Channel:
        return self._channel

    @cached_property
    def _channel(self) -> Channel:
        return Channel(
            self.size,
            tuple(
                Part(one, weight / WHOLE, float(one.chance(self.high, self.low)))
                for one, weight in zip(self.components, self._weights, strict=True)
            ),
        )

    # -- on the device --------------------------------------------------------------------------

    def randomize(self, value: object, rng: Randomness) -> bytes:
        held = index(value, self.size, self.name)
        which = rng.pick(self._cumulative)
        return self._report(which, self.components[which].draw(held, self.high, self.low, rng))

    def _report(self, which: int, number: int) -> bytes:
        prefix = 1 | which - 1 << 1 if which else 0
        return self.packed(prefix | number << self._prefix_bits(which))

    def _read(self, number: int) -> tuple[int, int]:
        """The component of a report, which may not exist, and the component's own number."""
        if len(self.components) == 1:
            return 0, number
        which = 1 + (number >> 1) % (1 << self._number_bits) if number & 1 else 0
        return which, number >> self._prefix_bits(which)

    def _no(self, number: int) -> bool:
        which, own = self._read(number)
        if which >= len(self.components):
            return True
        one = self.components[which]
        return bool(own >> one.bits) or not one.is_report(own)

    def _outputs(self) -> int:
        return sum(one.reports for one in self.components)

    def _numbers(self) -> Iterable[int]:
        for which, one in enumerate(self.components):
            yield from (self.number(self._report(which, number)) for number in one.numbers())

    def in_words(self) -> str:
        ways = [
            f"with probability {probability(weight / WHOLE)} {one.in_words()}, more often "
            f"({probability(float(one.chance(self.high, self.low)))}) some with its own"
            for one, weight in zip(self.components, self._weights, strict=True)
        ]
        return f"Each device sends, by a private coin, {'; '.join(ways)}."

    def face(self, report: bytes) -> Face:
        which, own = self._read(self.number(report))
        return self.components[which].named(own)

    def inputs(self) -> range:
        return range(self.size)

    def loss(self) -> Fraction:
        """Every component has reports at both levels for any two bins that it tells apart."""
        return log_above(Fraction(self.high, self.low))

    def likelihood(self, report: bytes, value: int) -> float:
        which, own = self._read(self.number(report))
        one = self.components[which]
        level = self.high if value in one.named(own) else self.low
        unit = Fraction(one.near, one.near_reports) / (one.near * self.high + one.far * self.low)
        return float(Fraction(self._weights[which], WHOLE) * level * unit)

    def amplification(self) -> Amplification:
        return self._amplification

    @cached_property
    def _amplification(self) -> Amplification:
        kinds = {tuple(one.overlap(a, b) for one in self.components) for a, b in combinations(range(self.size), 2)}
        return Amplification(tuple(self._pair(overlaps) for overlaps in sorted(kinds)))

    def _pair(self, overlaps: tuple[Fraction, ...]) -> Pair:
        ratio, one = Fraction(self.high, self.low), Fraction(1)
        both = single = none = Fraction(0)
        for part, weight, overlap in zip(self.components, self._weights, overlaps, strict=True):
            unit = Fraction(weight, WHOLE) * self.low / (part.near * self.high + part.far * self.low)
            both += unit * overlap
            single += unit * (part.near - overlap)
            none += unit * (part.far - part.near + overlap)
        atoms = (Atom(single, ratio, one), Atom(single, one, ratio), Atom(none, one, one), Atom(both, ratio, ratio))
        return Pair(tuple(atom for atom in atoms if atom.mass))

    # -- at the aggregator ----------------------------------------------------------------------

    def randomize_many(self, values: ArrayLike, rng: BulkRandomness) -> NDArray[np.void]:
        import numpy as np

        held = whole_numbers(values, self.size, f"a value of {self.name}")
        step = max(1, AT_ONCE // max(self.size, self.report_bits))
        parts = [self._some(held[start : start + step], rng) for start in range(0, len(held), step)]
        return np.concatenate([*parts, np.zeros(0, f"V{self.report_bytes}")])

    def _some(self, held: NDArray[np.int64], rng: BulkRandomness) -> NDArray[np.void]:
        import numpy as np

        drawn = np.searchsorted(self._cumulative, rng.below(WHOLE, len(held)), side="right")
        bits = np.zeros((len(held), self.report_bits), np.uint8)
        for which, one in enumerate(self.components):
            mine, start = np.flatnonzero(drawn == which), self._prefix_bits(which)
            if which:
                bits[mine, 0] = 1
                bits[mine, 1:start] = bits_of(np.array([which - 1]), self._number_bits)
            bits[mine, start : start + one.bits] = one.draw_many(held[mine], self.high, self.low, rng)
        return self._joined_bits(bits)

    def simulate(self, values: ArrayLike, counts: ArrayLike, rng: CrowdRandomness) -> Tally:
        """Which component each device draws, and then each component's counts at once."""
        import numpy as np

        from hubbub.mechanisms._crowd_simulation import per_item

        every = per_item(values, counts, self.size, self.name)
        drawn = np.stack([rng.multinomial(int(many), self._weights) for many in every], axis=1)
        cells = [
            one.counts(one.draw_many(np.repeat(np.arange(self.size), held), self.high, self.low, rng))
            if (found := one.simulate(held, self.high, self.low, rng)) is None
            else found
            for one, held in zip(self.components, drawn, strict=True)
        ]
        return Tally(self.fingerprint, int(every.sum()), np.concatenate(cells))

    def _possible(self, rows: NDArray[np.uint8]) -> NDArray[np.bool_]:
        import numpy as np

        within = PackedMechanism._possible(self, rows)
        for mine, one, bits in self._by_component(rows):
            after = bits[:, one.bits :]
            within[mine] &= one.are_reports(bits[:, : one.bits]) & ~after.any(axis=1)
        return np.asarray(within & (self._drawn(rows) < len(self.components)))

    def _counts(self, rows: NDArray[np.uint8]) -> NDArray[np.int64]:
        import numpy as np

        parts = [np.zeros(one.cells, np.int64) for one in self.components]
        places = {one: place for place, one in enumerate(self.components)}
        for _, one, bits in self._by_component(rows):
            parts[places[one]] += one.counts(bits[:, : one.bits])
        return np.concatenate(parts)

    def _drawn(self, rows: NDArray[np.uint8]) -> NDArray[np.int64]:
        """The component of each report."""
        import numpy as np

        if len(self.components) == 1:
            return np.zeros(len(rows), np.int64)
        first = rows[:, 0].astype(np.int64)
        return np.where(first & 1, 1 + (first >> 1) % (1 << self._number_bits), 0)

    def _by_component(
        self, rows: NDArray[np.uint8]
    ) -> Iterable[tuple[NDArray[np.int64], Component, NDArray[np.uint8]]]:
        """For some reports of one component at a time: their places, the component, and their bits behind the
        component's number."""
        import numpy as np

        drawn, step = self._drawn(rows), max(1, AT_ONCE // self.report_bits)
        for which, one in enumerate(self.components):
            mine = np.flatnonzero(drawn == which)
            for start in range(0, len(mine), step):
                some = mine[start : start + step]
                bits = np.unpackbits(rows[some], axis=1, count=self.report_bits, bitorder="little")
                yield some, one, bits[:, self._prefix_bits(which) :]

    def _refuse_impossible(self, tally: Tally) -> None:
        import numpy as np

        ends = np.cumsum([one.cells for one in self.components])[:-1]
        found = [one.reports_in(cells) for one, cells in zip(self.components, np.split(tally.cells, ends), strict=True)]
        if None in found or sum(many for many in found if many is not None) != tally.reports:
            raise MalformedTally(
                f"the counts of a {self.name} tally must be those of its components' reports, and sum to all reports"
            )


def set_rows(name: str, given: object) -> tuple[SetRow, ...]:
    """Components that are sets, as a codebook lists them: width, count and weight of each."""
    return tuple((width, count, weight) for width, count, weight in _rows(name, given, 3))


def window_rows(name: str, given: object) -> tuple[WindowRow, ...]:
    """Components that are windows, as a codebook lists them: width and weight of each."""
    return tuple((width, weight) for width, weight in _rows(name, given, 2))


def _rows(name: str, given: object, width: int) -> tuple[tuple[int, ...], ...]:
    if not isinstance(given, list) or not all(
        isinstance(row, list) and len(row) == width and all(type(entry) is int and 0 < entry <= WHOLE for entry in row)
        for row in given
    ):
        raise InvalidParameter(f"{name}: give components as lists of {width} positive whole numbers")
    return tuple(tuple(row) for row in given)


def _lists(rows: Iterable[tuple[int, ...]]) -> list[Json]:
    return [list(row) for row in rows]
