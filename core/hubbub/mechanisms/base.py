"""The base class of every mechanism: one object holds the randomizer and everything that is claimed about it.

A mechanism cannot be built without its privacy claim: the constructor takes the *integers that run*
and refuses them if the likelihood ratio that they realise is above e^epsilon. `calibrate` finds the best
integers for an epsilon. Everything else (law, estimator, variance, interval, amplification, influence
of fakes) is a method beside the randomizer. Registering the class puts it under the conformance
suite in tests/core/conformance.

Only the estimating methods load numpy. The device half is plain Python.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar, cast

from hubbub.errors import InvalidParameter, MalformedReport, MalformedTally
from hubbub.mechanisms._exact_arithmetic import decimal_text, float_above
from hubbub.mechanisms.domains import Bounds, Categories, Domain
from hubbub.mechanisms.tallies_and_estimates import Estimate, Interval, Tally

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from hubbub.mechanisms._crowd_simulation import CrowdRandomness
    from hubbub.mechanisms._weighted_sums import WeightedSums
    from hubbub.mechanisms.amplification_data import Amplification
    from hubbub.randomness import BulkRandomness, Randomness

Report = TypeVar("Report")
Kind: TypeAlias = Literal["frequency", "mean"]
Population: TypeAlias = Literal["reports", "superpopulation"]
Json: TypeAlias = "str | int | list[Json] | dict[str, Json]"
Face: TypeAlias = int | Fraction | tuple[int, ...] | None
"""What a report says if read literally: the index of one value, a number, the indexes that it says yes to (it says no
to all others), or None if it names nothing."""

MOST_TALLIED = 2**40
"""Most reports in one tally. Sums over a whole domain of counts as large as this stay far within 64 bits."""


class Mechanism(ABC, Generic[Report]):
    """A local randomizer with everything that is claimed about it. Subclasses are frozen dataclasses."""

    __slots__ = ()

    name: ClassVar[str]
    """As written in a codebook; set by `register`."""
    kind: ClassVar[Kind]
    regime: ClassVar[str]
    """When to choose it, in half a line."""
    needs_options: ClassVar[str] = ""
    """What only a person can supply, such as a matrix. Empty if an epsilon and a domain are enough to make it."""
    reserved: ClassVar[str] = ""
    """Why `select` never takes it although it fits, such as its cost to the server. A person may still name it."""

    complementary: ClassVar[bool] = False
    """Whether two estimated shares always sum to one, so that an interval for one is an interval for both."""

    epsilon: Fraction
    """The local epsilon that was asked for. The realised epsilon is never above it."""

    # -- making one -----------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def fits(cls, domain: Domain) -> bool:
        """Whether it can randomize values of this domain."""

    @classmethod
    @abstractmethod
    def calibrate(cls, epsilon: object, domain: Domain, **options: Any) -> Self:
        """The mechanism with the most accurate integers that keep epsilon over the domain."""

    @classmethod
    def variants(cls, domain: Domain) -> Sequence[Mapping[str, Any]]:  # noqa: ARG003  most leave nothing open
        """Options of `calibrate` that fix what epsilon leaves open, such as the size of a subset.

        By default `calibrate` chooses what is best at its epsilon. After shuffling something else may be best, so a
        choice for a release target tries every variant.
        """
        return ({},)

    @classmethod
    @abstractmethod
    def from_parameters(cls, epsilon: object, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        """Rebuild from `parameters` and check the privacy claim again: a device trusts no codebook."""

    @classmethod
    @abstractmethod
    def examples(cls, epsilon: float) -> list[Self]:
        """Small instances whose output law can be enumerated. The conformance suite runs on them."""

    @classmethod
    def usual_domain(cls, size: int = 4) -> Domain:
        """A domain to show the mechanism on: `size` values, two values, or the numbers from -1 to 1."""
        shown: list[Domain] = [Categories(size), Categories(2), Bounds(Fraction(-1), Fraction(1))]
        return next(domain for domain in shown if cls.fits(domain))

    @abstractmethod
    def parameters(self) -> dict[str, Json]:
        """The integers that run, big ones as decimal strings. With epsilon and domain they determine the mechanism."""

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """What may be randomized."""

    # -- on the device --------------------------------------------------------------------------

    @abstractmethod
    def randomize(self, value: Any, rng: Randomness) -> Report:
        """One private report. Only integers decide. Raises InvalidValue for a value outside the domain."""

    @property
    @abstractmethod
    def report_bytes(self) -> int:
        """Length of every encoded report."""

    @abstractmethod
    def encode(self, report: Report) -> bytes:
        """The report in exactly `report_bytes` bytes."""

    @abstractmethod
    def decode(self, payload: bytes) -> Report:
        """The report, or MalformedReport. Each report has exactly one encoding."""

    # -- in words -------------------------------------------------------------------------------

    @abstractmethod
    def in_words(self) -> str:
        """The law for lay readers: one sentence that begins with "Each device" and has the probabilities that run."""

    def face(self, report: Report) -> Face:  # noqa: ARG002  a mechanism that names nothing needs no look at the report
        """What a report says if read literally. By default nothing: a hash, for example, stands for many values."""
        return None

    # -- the claim ------------------------------------------------------------------------------

    @abstractmethod
    def loss(self) -> Fraction:
        """The realised epsilon, from the integers that run: ln of the largest P[y | x] / P[y | x'] or just above it."""

    @property
    def realised_epsilon(self) -> float:
        """`loss` as a float, rounded up. If 0.3 was asked for, it may be the next float above 0.3."""
        return float_above(self.loss())

    def _refuse_if_not_private(self) -> None:
        loss = self.loss()
        if loss > self.epsilon:
            raise InvalidParameter(
                f"{self.name}: these parameters realise epsilon {float_above(loss):.9g}, above the stated "
                f"{float(self.epsilon):g}; use calibrate(), or state the larger epsilon"
            )

    @abstractmethod
    def likelihood(self, report: Report, value: Any) -> float:
        """P[report | value] of the code that runs. Tests compare the randomizer with it."""

    @abstractmethod
    def outputs(self) -> Sequence[Report]:
        """Every report that can occur, in a fixed order. Short for the `examples`; may be long otherwise."""

    @abstractmethod
    def inputs(self) -> Sequence[Any]:
        """The extreme inputs. The law of every other input is a mixture of theirs."""

    @abstractmethod
    def amplification(self) -> Amplification:
        """What the shuffle accountant needs to know."""

    @abstractmethod
    def influence(self) -> float:
        """Largest change of any estimated value when one report of n is replaced, times n."""

    def step(self) -> float:
        """The size of an estimate's jumps, times n: `influence` for counts, 0 for a sum on a fine grid.

        Jumps matter where noise is small.
        """
        return self.influence() if self.domain.estimates > 1 else 0.0

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
        """A tally as if every value of a crowd had been randomized: `counts[i]` devices hold `values[i]`.

        By default it randomizes every value, in parts that fit into memory. A mechanism that can draw its counts
        at once overrides this. tests/core/simulation compares both with `likelihood`.
        """
        from hubbub.mechanisms._crowd_simulation import AT_ONCE, in_parts

        total = self.tally([])
        for part in in_parts(values, counts, max(1, AT_ONCE // (8 * self.report_bytes))):
            total += self.tally(self.randomize_many(part, rng))
        return total

    def decode_many(self, payloads: NDArray[np.uint8]) -> tuple[ArrayLike, NDArray[np.bool_]]:
        """The reports among many payloads, one per row, as `tally` takes them, and a mask of the rows that hold one.

        It accepts the same payloads as `decode`. By default each different payload is decoded once.
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
        """Eight bytes that distinguish this mechanism with these parameters from any other."""
        text = json.dumps(
            [self.name, decimal_text(self.epsilon), self.domain.fingerprint(), self.parameters()], sort_keys=True
        )
        return hashlib.sha256(text.encode()).digest()[:8]

    def tally_from_bytes(self, data: bytes) -> Tally:
        """Read `Tally.to_bytes` back. MalformedTally if the bytes are not a tally of this mechanism."""
        import numpy as np

        if len(data) != 16 + 8 * self.cells:
            raise MalformedTally(f"a {self.name} tally has {16 + 8 * self.cells} bytes, got {len(data)}")
        if data[:8] != self.fingerprint:
            raise MalformedTally(f"this tally belongs to another mechanism, or to {self.name} with other parameters")
        tally = Tally(data[:8], int.from_bytes(data[8:16]), np.frombuffer(data[16:], ">i8").astype(np.int64))
        if tally.reports > MOST_TALLIED:
            raise MalformedTally(f"a tally has at most {MOST_TALLIED} reports, got {tally.reports}")
        self._refuse_impossible(tally)
        return tally

    def _refuse_impossible(self, tally: Tally) -> None:
        """Raise MalformedTally for counts that no set of reports can give. By default each report adds to one cell."""
        # check the largest count first: a sum of larger ones could wrap around to the number of reports
        low, high = int(tally.cells.min()), int(tally.cells.max())
        if low < 0 or high > tally.reports or int(tally.cells.sum()) != tally.reports:
            raise MalformedTally(f"the counts of a {self.name} tally must be non-negative and sum to its reports")

    @abstractmethod
    def estimate(self, tally: Tally) -> Estimate:
        """Unbiased estimates for the devices that reported, with variances."""

    @abstractmethod
    def interval(
        self,
        tally: Tally,
        confidence: float = 0.95,
        *,
        population: Population = "reports",
        simultaneous: bool = False,
    ) -> Interval:
        """Limits that contain each value (all values together if `simultaneous`) with `confidence`.

        `population="reports"` is about the devices that reported, `"superpopulation"` about a larger population of
        which they are a random sample.
        """

    @abstractmethod
    def variance(self, truth: ArrayLike) -> NDArray[np.float64]:
        """The number of reports times the exact variance of each estimated value, given the truth.

        The truth is the vector of frequencies or, for a mean, the values of all devices.
        """

    @abstractmethod
    def typical_variance(self) -> float:
        """The figure by which mechanisms are compared: the number of reports times the variance, averaged over the
        items of a uniform population (frequency), or in the worst case with the bounds scaled to [-1, 1] (mean)."""

    def precision(self) -> NDArray[np.float64] | None:
        """The inverse covariance of all estimates of one report, at equal shares. None where it is not known."""
        return None

    def weighted_sums(self, weights: ArrayLike) -> WeightedSums:  # noqa: ARG002  see below
        """Estimates of weighted sums of the shares, one for each row of weights: for bins in order."""
        raise InvalidParameter(f"{self.name} does not estimate sums over {self.domain.in_words}")
