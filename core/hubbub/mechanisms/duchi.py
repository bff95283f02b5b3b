r"""Mean of a bounded number from one bit: unbiased random rounding to one end, then randomized response.

With the value at t in [0, 1] between its bounds and p = e^eps / (e^eps + 1), q = 1 - p, the bit is one
with probability q + t (p - q). On [-1, 1] this is the one-dimensional mechanism of Duchi, Jordan and
Wainwright (JASA 113, 2018, arXiv 1604.02390, section 4.1), answers +-c with c = (e^eps + 1)/(e^eps - 1):

    that = (C/n - q) / (p - q)        n Var = c^2 - x^2  on [-1, 1], averaged over the devices

The bits cannot show how the values spread. So the variance stated with an estimate is the largest one that fits
them, that of devices which all hold the same value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

from hubbub.errors import InvalidParameter
from hubbub.mechanisms import _intervals
from hubbub.mechanisms._exact_arithmetic import exact_epsilon, exp_below, log_above, threshold
from hubbub.mechanisms._frequency_oracle import refuse_empty
from hubbub.mechanisms._grid_rounding import position, positions, round_many_to_grid, round_to_grid
from hubbub.mechanisms._parameters import bounds_of, integers, refuse_unfit
from hubbub.mechanisms._registry import register
from hubbub.mechanisms._symbols import SymbolMechanism
from hubbub.mechanisms.amplification_data import Amplification, Atom, Pair
from hubbub.mechanisms.base import Json, Kind, Population
from hubbub.mechanisms.domains import Bounds, Domain
from hubbub.mechanisms.tallies_and_estimates import Estimate, Interval, Tally
from hubbub.number_format import amount, probability
from hubbub.randomness import WORD

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from hubbub.mechanisms._crowd_simulation import CrowdRandomness
    from hubbub.randomness import BulkRandomness, Randomness


@register("duchi")
@dataclass(frozen=True, slots=True)
class DuchiMean(SymbolMechanism):
    """The upper or the lower end, kept with probability `keep` / 2**64."""

    kind: ClassVar[Kind] = "mean"
    regime: ClassVar[str] = "a mean from one bit: best at small epsilon, hard to manipulate"

    epsilon: Fraction
    bounds: Bounds
    keep: int

    def __post_init__(self) -> None:
        if not WORD // 2 < self.keep < WORD:
            raise InvalidParameter(f"duchi: keep must be above 2**63 and below 2**64, got {self.keep}")
        self._refuse_if_not_private()

    @classmethod
    def fits(cls, domain: Domain) -> bool:
        return isinstance(domain, Bounds)

    @classmethod
    def calibrate(cls, epsilon: object, domain: Domain, **options: Any) -> Self:
        refuse_unfit(cls, domain, options)
        exact = exact_epsilon(epsilon)
        odds = exp_below(exact)
        return cls(exact, bounds_of(cls, domain), threshold(odds / (odds + 1)))

    @classmethod
    def from_parameters(cls, epsilon: object, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        return cls(exact_epsilon(epsilon), bounds_of(cls, domain), *integers(cls.name, parameters, ["keep"]))

    @classmethod
    def examples(cls, epsilon: float) -> list[Self]:
        return [cls.calibrate(epsilon, Bounds(Fraction(-1), Fraction(3)))]

    def parameters(self) -> dict[str, Json]:
        return {"keep": str(self.keep)}

    @property
    def domain(self) -> Bounds:
        return self.bounds

    @property
    def symbols(self) -> int:
        return 2

    @property
    def p(self) -> Fraction:
        """Probability that the device sends the end that it drew."""
        return Fraction(self.keep, WORD)

    @property
    def q(self) -> Fraction:
        """Probability that it sends the other end."""
        return 1 - self.p

    def randomize(self, value: object, rng: Randomness) -> int:
        end = round_to_grid(value, self.bounds, 1, "duchi", rng)
        return end ^ (not rng.coin(self.keep, WORD))

    def randomize_many(self, values: ArrayLike, rng: BulkRandomness) -> NDArray[np.int64]:
        ends = round_many_to_grid(values, self.bounds, 1, "duchi", rng)
        return ends ^ ~rng.coin(self.keep, len(ends))

    def simulate(self, values: ArrayLike, counts: ArrayLike, rng: CrowdRandomness) -> Tally:
        """Draw the number of devices at each end, then how many of them send it."""
        from hubbub.mechanisms._crowd_simulation import per_grid_point

        ends = per_grid_point(values, counts, self.bounds, 1, "duchi", rng)
        p, q = float(self.p), float(self.q)
        return self._simulate_columns(ends, [[p, q], [q, p]], rng)

    def in_words(self) -> str:
        low, high = map(amount, self.bounds.limits)
        return (
            f"Each device sends only one of the two ends, {low} or {high}: it draws an end, the one nearer to its "
            f"number more often, and then sends that end with probability {probability(float(self.p))} and the other "
            f"one with probability {probability(float(self.q))}."
        )

    def face(self, report: int) -> Fraction:
        return self.bounds.upper if report else self.bounds.lower

    def inputs(self) -> tuple[Fraction, Fraction]:
        return self.bounds.lower, self.bounds.upper

    def loss(self) -> Fraction:
        return log_above(self.p / self.q)

    def likelihood(self, report: int, value: Any) -> float:
        one = self.q + Fraction(*position(value, self.bounds, "duchi")) * (self.p - self.q)
        return float(one if report else 1 - one)

    def amplification(self) -> Amplification:
        """The same as randomized response on the two ends, since every value acts as a mixture of them."""
        ratio, one = self.p / self.q, Fraction(1)
        atoms = (Atom(self.q, ratio, one), Atom(self.q, one, ratio))
        return Amplification((Pair(atoms),), binary=(self.q, self.p))

    def influence(self) -> float:
        return float(self.bounds.width / (self.p - self.q))

    def estimate(self, tally: Tally) -> Estimate:
        import numpy as np

        refuse_empty(tally.reports)
        q, gain, width = float(self.q), float(self.p - self.q), float(self.bounds.width)
        n = tally.reports
        rate = tally.cells[1:] / n
        # unbiased if all devices hold the same value; the rate of ones lies between q and p whatever the truth
        coin = np.maximum(rate * (1 - rate) * n / (n - 1), q * (1 - q)) if n > 1 else np.array([0.25])
        values = float(self.bounds.lower) + width * (rate - q) / gain
        return Estimate(n, values, (width / gain) ** 2 * coin / n)

    def interval(
        self,
        tally: Tally,
        confidence: float = 0.95,
        *,
        population: Population = "reports",
        simultaneous: bool = False,  # noqa: ARG002  there is only one value
    ) -> Interval:
        """The ones are a sum of independent coins. It is most spread when all devices agree: then it is binomial."""
        refuse_empty(tally.reports)
        low, high = _intervals.clopper_pearson(tally.cells[1:], tally.reports, _intervals.miss(confidence))
        q, gain = float(self.q), float(self.p - self.q)
        lower, width = float(self.bounds.lower), float(self.bounds.width)
        whom = "superpopulation" if population == "superpopulation" else "devices that reported, widest spread"
        limits = (lower + width * (low - q) / gain, lower + width * (high - q) / gain)
        return _intervals.labelled(*limits, confidence, f"{whom}, Clopper-Pearson")

    def variance(self, truth: ArrayLike) -> NDArray[np.float64]:
        q, gain = float(self.q), float(self.p - self.q)
        ones = q + gain * positions(truth, self.bounds, "duchi")
        import numpy as np

        return np.array([(float(self.bounds.width) / gain) ** 2 * (ones * (1 - ones)).mean()])

    def typical_variance(self) -> float:
        return float(1 / (self.p - self.q)) ** 2
