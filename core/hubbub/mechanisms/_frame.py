"""The frame that a mechanism fills: one object holds the randomizer and everything that is claimed of it.

A mechanism cannot be built without its privacy claim: the constructor takes the *integers that run*
and refuses them when the likelihood ratio they realise is above e^epsilon. `calibrate` finds the best
integers for an epsilon. Everything else (law, estimator, variance, interval, amplification, influence
of fakes) is a method beside the randomizer, and registering the class puts it under the conformance
suite in tests/conformance.

Only the estimating half loads numpy, inside its methods: the device half is plain Python.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar, cast

from hubbub.mechanisms._exact import decimal_text, exact_number, float_above
from hubbub.problems import InvalidParameter, MalformedReport, MalformedTally

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from hubbub.mechanisms._crowds import CrowdRandomness
    from hubbub.randomness import BulkRandomness, Randomness

Report = TypeVar("Report")
Kind: TypeAlias = Literal["frequency", "mean"]
Population: TypeAlias = Literal["reports", "superpopulation"]
Json: TypeAlias = "str | int | list[Json] | dict[str, Json]"

LARGEST_DOMAIN = 65_536
MOST_TALLIED = 2**40
"""Reports in one tally: sums over a whole domain of counts as large as this stay far within 64 bits."""
_SMALLEST_SIZE, _LARGEST_SIZE = Fraction(1, 10**100), Fraction(10**100)


@dataclass(frozen=True, slots=True)
class Categories:
    """A closed list of `size` values, known by their index."""

    size: int

    def __post_init__(self) -> None:
        if isinstance(self.size, bool) or not isinstance(self.size, int):
            raise InvalidParameter(f"size must be a whole number, got {self.size!r}")
        if not 2 <= self.size <= LARGEST_DOMAIN:
            raise InvalidParameter(f"size must be between 2 and {LARGEST_DOMAIN}, got {self.size}")


@dataclass(frozen=True, slots=True)
class Bounds:
    """Numbers from `lower` to `upper`; what lies outside is clamped."""

    lower: Fraction
    upper: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower", exact_number(self.lower, "the lower bound"))
        object.__setattr__(self, "upper", exact_number(self.upper, "the upper bound"))
        for number in (self.lower, self.upper, self.width):
            if number and not _SMALLEST_SIZE <= abs(number) <= _LARGEST_SIZE:
                raise InvalidParameter(
                    f"bounds and their distance must be zero or from 1e-100 to 1e100 in size, got {float(number):g}: "
                    "their squares must fit a float"
                )
        if not self.lower < self.upper:
            raise InvalidParameter(
                f"the lower bound must be below the upper bound, got [{float(self.lower):g}, {float(self.upper):g}]"
            )

    @property
    def width(self) -> Fraction:
        return self.upper - self.lower


Domain: TypeAlias = Categories | Bounds


@dataclass(frozen=True, slots=True)
class Atom:
    """One class of outputs y that a pair of inputs makes equally likely or unlikely.

    `mass` is the blanket's, min over inputs x of R_x(y), summed over the class; `first` and `second`
    are R_x0(y) and R_x1(y) divided by the blanket. What the atoms lack to mass 1 is the blanket's gap.
    (Balle, Bell, Gascón, Nissim, CRYPTO 2019, arXiv 1903.02837, section 5: G = first - e^eps second.)
    """

    mass: Fraction
    first: Fraction
    second: Fraction


@dataclass(frozen=True, slots=True)
class Pair:
    """The atoms of one pair of inputs; both directions are meant."""

    atoms: tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Many pairs of inputs over the same classes of outputs.

    `masses[y]` is the blanket's; `ratios[x][y]` is R_x(y) divided by it; `pairs` are rows x0, x1 of `ratios`.
    """

    masses: tuple[Fraction, ...]
    ratios: tuple[tuple[Fraction, ...], ...]
    pairs: tuple[tuple[int, int], ...]

    def __len__(self) -> int:
        return len(self.pairs)

    def __iter__(self) -> Iterator[Pair]:
        """Each pair written out."""
        for a, b in self.pairs:
            yield Pair(tuple(map(Atom, self.masses, self.ratios[a], self.ratios[b])))


@dataclass(frozen=True, slots=True)
class Amplification:
    """What shuffling needs to know of a mechanism, as data.

    `pairs` holds every pair of inputs that may be the worst one, up to symmetry. `binary` is
    (P[1 | 0], P[1 | 1]) where a report is one bit and every input acts as a mixture of the inputs 0 and 1.
    """

    pairs: tuple[Pair, ...] | Table
    binary: tuple[Fraction, Fraction] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """Unbiased values with the variance of each; not post-processed, so a frequency may be negative.

    `variances` is for the devices that reported (noise is the only randomness). Where the variance
    depends on what the reports cannot show, it is the largest value that fits them.
    """

    reports: int
    values: NDArray[np.float64]
    variances: NDArray[np.float64]

    @property
    def stderr(self) -> NDArray[np.float64]:
        import numpy as np

        return np.sqrt(np.maximum(self.variances, 0))


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """Confidence limits for each value; `kind` says how they were made and for which population."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    confidence: float
    kind: str


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """Mergeable counts of one mechanism's reports. Adding tallies is adding reports."""

    fingerprint: bytes
    reports: int
    cells: NDArray[np.int64]

    def __add__(self, other: Tally) -> Tally:
        if self.fingerprint != other.fingerprint:
            raise MalformedTally("these tallies count reports of different mechanisms and cannot be merged")
        largest = sum(max(int(cells.max()), -int(cells.min())) for cells in (self.cells, other.cells))
        if largest >= 2**63:
            raise MalformedTally("the merged counts would exceed 64 bits; merge fewer tallies")
        return Tally(self.fingerprint, self.reports + other.reports, self.cells + other.cells)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    def to_bytes(self) -> bytes:
        """Fingerprint, number of reports and cells, each as eight big-endian bytes."""
        return self.fingerprint + self.reports.to_bytes(8) + self.cells.astype(">i8").tobytes()


class Mechanism(ABC, Generic[Report]):
    """A local randomizer with everything that is claimed of it. Subclasses are frozen dataclasses."""

    __slots__ = ()

    name: ClassVar[str]
    """As written in a codebook; set by `register`."""
    kind: ClassVar[Kind]
    regime: ClassVar[str]
    """When to choose it, in half a line."""
    automatic: ClassVar[bool] = True
    """Whether it can be made for a domain alone; False for one that needs options only a person can give."""
    reserved: ClassVar[str] = ""
    """Why `select` never takes it though it could, such as its cost to the server; a person may name it."""

    complementary: ClassVar[bool] = False
    """Whether two estimated shares always sum to one, so that an interval for one is an interval for both."""

    epsilon: Fraction
    """The local epsilon that was asked for; what is realised is never above."""

    # -- making one -----------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def fits(cls, domain: Domain) -> bool:
        """Whether it can randomize values of this domain."""

    @classmethod
    @abstractmethod
    def calibrate(cls, epsilon: object, domain: Domain, **options: Any) -> Self:
        """The most accurate integers that keep epsilon over the domain."""

    @classmethod
    @abstractmethod
    def from_parameters(cls, epsilon: object, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        """Rebuild from `parameters`, checking the privacy claim again: a device trusts no codebook."""

    @classmethod
    @abstractmethod
    def examples(cls, epsilon: float) -> list[Self]:
        """Small instances whose output law can be enumerated; the conformance suite runs on them."""

    @abstractmethod
    def parameters(self) -> dict[str, Json]:
        """The integers that run; big ones as decimal strings. With epsilon and domain this is all there is."""

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """What may be randomized."""

    # -- on the device --------------------------------------------------------------------------

    @abstractmethod
    def randomize(self, value: Any, rng: Randomness) -> Report:
        """One private report. Integers decide; raises InvalidValue for what the domain does not hold."""

    @property
    @abstractmethod
    def report_bytes(self) -> int:
        """Length of every encoded report."""

    @abstractmethod
    def encode(self, report: Report) -> bytes:
        """Exactly `report_bytes` bytes."""

    @abstractmethod
    def decode(self, payload: bytes) -> Report:
        """The report, or MalformedReport. Each report has one encoding."""

    # -- the claim ------------------------------------------------------------------------------

    @abstractmethod
    def loss(self) -> Fraction:
        """The realised epsilon, from the integers that run: ln of the largest P[y | x] / P[y | x'], or just above."""

    @property
    def realised_epsilon(self) -> float:
        """`loss` as a float, rounded up: for an asked 0.3 it may be the float next above 0.3."""
        return float_above(self.loss())

    def _refuse_if_not_private(self) -> None:
        loss = self.loss()
        if loss > self.epsilon:
            raise InvalidParameter(
                f"{self.name}: these parameters realise epsilon {float_above(loss):.9g}, above the stated "
                f"{float(self.epsilon):g}; use calibrate() or state the larger epsilon"
            )

    @abstractmethod
    def likelihood(self, report: Report, value: Any) -> float:
        """P[report | value] of the code that runs. Tests hold the randomizer to it."""

    @abstractmethod
    def outputs(self) -> Sequence[Report]:
        """Every report that can occur, in a fixed order (of an example; may be long otherwise)."""

    @abstractmethod
    def inputs(self) -> Sequence[Any]:
        """The extreme inputs: every other one is a mixture of them."""

    @abstractmethod
    def amplification(self) -> Amplification:
        """What the shuffle accountant needs."""

    @abstractmethod
    def influence(self) -> float:
        """Largest change of any estimated value when one report of n is replaced, times n."""

    def manipulation(self, fakes: int, reports: int) -> float:
        """Largest shift of any estimated value that `fakes` of `reports` can cause together."""
        if not 0 <= fakes <= reports or reports < 1:
            raise InvalidParameter(f"fakes must be between 0 and the number of reports, got {fakes} of {reports}")
        return self.influence() * fakes / reports

    # -- at the aggregator ----------------------------------------------------------------------

    @abstractmethod
    def randomize_many(self, values: ArrayLike, rng: BulkRandomness) -> NDArray[Any]:
        """One report for each value, with the law of `randomize`."""

    @abstractmethod
    def tally(self, reports: ArrayLike) -> Tally:
        """Counts of many reports (the first axis runs over reports)."""

    def simulate(self, values: ArrayLike, counts: ArrayLike, rng: CrowdRandomness) -> Tally:
        """A tally with the law of randomizing every value of a crowd: `counts[i]` devices hold `values[i]`.

        Default: the reports themselves, in parts that fit into memory. A mechanism whose counts have a law that can be
        drawn at once overrides it; tests/simulation holds either to `likelihood`.
        """
        from hubbub.mechanisms._crowds import AT_ONCE, in_parts

        total = self.tally([])
        for part in in_parts(values, counts, max(1, AT_ONCE // (8 * self.report_bytes))):
            total += self.tally(self.randomize_many(part, rng))
        return total

    def decode_many(self, payloads: NDArray[np.uint8]) -> tuple[ArrayLike, NDArray[np.bool_]]:
        """The reports among many payloads, one a row, as `tally` takes them, and which rows those are.

        What `decode` takes and nothing else. By default each different payload is decoded once.
        """
        import numpy as np

        kinds, of = np.unique(payloads.view(f"V{payloads.shape[1]}").ravel(), return_inverse=True)
        decoded: list[Any] = []
        possible = np.zeros(len(kinds), np.bool_)
        for place, kind in enumerate(kinds.tolist()):
            try:
                decoded.append(self.decode(kind))
                possible[place] = True
            except MalformedReport:
                continue
        place_of = np.cumsum(possible) - 1
        mask = possible[of]
        return np.asarray(decoded)[place_of[of[mask]]] if decoded else [], mask

    def add(self, tally: Tally, report: Report) -> Tally:
        """The tally with one more report."""
        return tally + self.tally(cast("ArrayLike", [report]))

    @property
    @abstractmethod
    def cells(self) -> int:
        """How many counts a tally holds."""

    @property
    def fingerprint(self) -> bytes:
        """Eight bytes that tell this mechanism with these parameters from any other."""
        domain = self.domain
        shape: list[Json] = (
            [domain.size]
            if isinstance(domain, Categories)
            else [decimal_text(domain.lower), decimal_text(domain.upper)]
        )
        text = json.dumps([self.name, decimal_text(self.epsilon), shape, self.parameters()], sort_keys=True)
        return hashlib.sha256(text.encode()).digest()[:8]

    def tally_from_bytes(self, data: bytes) -> Tally:
        """Read `Tally.to_bytes` back; MalformedTally when it is not one of this mechanism's."""
        import numpy as np

        if len(data) != 16 + 8 * self.cells:
            raise MalformedTally(f"a {self.name} tally has {16 + 8 * self.cells} bytes, got {len(data)}")
        if data[:8] != self.fingerprint:
            raise MalformedTally(f"this tally belongs to another mechanism or other parameters than this {self.name}")
        tally = Tally(data[:8], int.from_bytes(data[8:16]), np.frombuffer(data[16:], ">i8").astype(np.int64))
        if tally.reports > MOST_TALLIED:
            raise MalformedTally(f"a tally has at most {MOST_TALLIED} reports, got {tally.reports}")
        self._refuse_impossible(tally)
        return tally

    def _refuse_impossible(self, tally: Tally) -> None:
        """Raise MalformedTally for counts that no set of reports can give. Default: one cell per report."""
        # none above the reports first: a sum of larger ones could wrap around to them
        low, high = int(tally.cells.min()), int(tally.cells.max())
        if low < 0 or high > tally.reports or int(tally.cells.sum()) != tally.reports:
            raise MalformedTally(f"the counts of a {self.name} tally must be non-negative and sum to its reports")

    @abstractmethod
    def estimate(self, tally: Tally) -> Estimate:
        """Unbiased value(s) of the devices that reported, with variance."""

    @abstractmethod
    def interval(
        self,
        tally: Tally,
        confidence: float = 0.95,
        *,
        population: Population = "reports",
        simultaneous: bool = False,
    ) -> Interval:
        """Limits that hold each value (all values together if `simultaneous`) with `confidence`.

        `population="reports"` is about the devices that reported; `"superpopulation"` about the larger
        one that they are a random sample of.
        """

    @abstractmethod
    def variance(self, truth: ArrayLike) -> NDArray[np.float64]:
        """Reports times the exact variance of each estimated value, given the truth.

        Truth is the vector of frequencies, or for a mean the values of all devices.
        """

    @abstractmethod
    def typical_variance(self) -> float:
        """The figure by which mechanisms are compared: reports times variance, averaged over the items
        of a uniform population (frequency), or the worst case with the bounds scaled to [-1, 1] (mean)."""
