r"""Any transition matrix: asymmetric randomized response, post randomization (PRAM), or your own design.

The report y is drawn from column x of P. If o are the shares of the reports seen, f = A o is unbiased for
any left inverse A of P (for a square P, the inverse), and for the devices that reported

    n Cov = A ( sum_x f_x (diag P_x - P_x P_x^T) ) A^T        eps = max over y, x, x' of ln P[y,x] / P[y,x']

(Gouweleeuw, Kooiman, Willenborg and de Wolf, "Post Randomisation for Statistical Disclosure Control",
J. Official Statistics 14, 1998; Chaudhuri and Mukerjee, "Randomized Response", 1988, for the estimator.)

If there are more outputs than inputs, A is the generalised least squares inverse for a uniform truth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, combinations
from typing import TYPE_CHECKING, Any, ClassVar, Self

from hubbub.errors import InvalidParameter, SingularMatrix
from hubbub.mechanisms import _frequency_oracle, _intervals
from hubbub.mechanisms._exact_arithmetic import exact_epsilon, exact_number, exp_below, float_above, log_above
from hubbub.mechanisms._parameters import categories_of, integer, is_list, refuse_unfit
from hubbub.mechanisms._registry import register
from hubbub.mechanisms._symbols import SymbolMechanism, index, whole_numbers
from hubbub.mechanisms.amplification_data import Amplification, Table
from hubbub.mechanisms.base import Json, Kind, Population
from hubbub.mechanisms.domains import Categories, Domain
from hubbub.mechanisms.tallies_and_estimates import Estimate, Interval, Tally
from hubbub.number_format import count, probability
from hubbub.randomness import WORD

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from hubbub.mechanisms._crowd_simulation import CrowdRandomness
    from hubbub.randomness import BulkRandomness, Randomness

LARGEST = 64
"""Most values that a matrix may have. Both this mechanism and the accountant check every pair of columns."""
WORST_CONDITION = 1e6
"""Beyond this condition number even the estimates from a million devices would be noise."""


@register("matrix")
@dataclass(frozen=True, slots=True)
class MatrixResponse(SymbolMechanism):
    """`columns[x][y]` / 2**64 is the probability of report y from value x."""

    kind: ClassVar[Kind] = "frequency"
    regime: ClassVar[str] = "your own transition matrix: asymmetric secrets, PRAM, legacy designs"
    needs_options: ClassVar[str] = "a matrix of probabilities"
    complementary: ClassVar[bool] = True

    epsilon: Fraction
    columns: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        heights = {len(column) for column in self.columns}
        if not 2 <= len(self.columns) <= LARGEST or len(heights) != 1:
            raise InvalidParameter(
                "matrix: there are too few or too many columns, or their lengths differ",
                f"give 2 to {LARGEST} columns of equal length, one for each value",
            )
        if heights.pop() < len(self.columns):
            raise SingularMatrix(
                "matrix: fewer reports than values, so the values cannot be told apart",
                f"give at least {len(self.columns)} rows",
            )
        if any(min(column) < 0 or sum(column) != WORD for column in self.columns):
            raise InvalidParameter("matrix: the weights of each column must be non-negative and sum to 2**64")
        self._refuse_if_not_private()

    @classmethod
    def fits(cls, domain: Domain) -> bool:
        return is_list(domain) and domain.estimates <= LARGEST

    @classmethod
    def calibrate(
        cls,
        epsilon: object,
        domain: Domain,
        *,
        matrix: Sequence[Sequence[object]] | None = None,
        **options: Any,
    ) -> Self:
        """`matrix[y][x]` is the probability of report y from value x. Columns sum to one.

        Probabilities become integers out of 2**64. If that takes the ratio slightly above e^epsilon, the columns are
        mixed with their mean, by 2**-50 to 2**-20. A matrix that is further off is refused.
        """
        refuse_unfit(cls, domain, options)
        size = categories_of(cls, domain).size
        exact = exact_epsilon(epsilon)
        columns = _read(matrix, size)
        if any(min(row) == 0 < max(row) for row in zip(*columns, strict=True)):
            raise InvalidParameter(
                "matrix: a report that is impossible for one value and possible for another reveals it",
                "give every value of that row a positive probability",
            )
        mean = [sum(row, Fraction(0)) / size for row in zip(*columns, strict=True)]
        asked = exp_below(exact)
        for share in (Fraction(0), Fraction(1, 2**50), Fraction(1, 2**35), Fraction(1, 2**20)):
            rounded = tuple(
                _integers([(1 - share) * p + share * m for p, m in zip(column, mean, strict=True)])
                for column in columns
            )
            ratio = _worst_ratio(rounded)
            if ratio is not None and ratio <= asked:
                built = cls(exact, rounded)
                left_inverse(built._channel())  # raises for a matrix that does not allow an estimate
                return built
        worst = max(max(row) / min(row) for row in zip(*columns, strict=True) if max(row))
        raise InvalidParameter(
            f"matrix: these probabilities have epsilon {float_above(log_above(worst)):.6g}, above the stated "
            f"{float(exact):g}",
            "state at least that epsilon, or make the rows more even",
        )

    @classmethod
    def from_parameters(cls, epsilon: object, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        size = categories_of(cls, domain).size
        columns = parameters.get("columns")
        if set(parameters) != {"columns"} or not isinstance(columns, list) or len(columns) != size:
            raise InvalidParameter(f"matrix takes `columns`, one list of weights for each of the {size} values")
        if not all(isinstance(column, list) for column in columns):
            raise InvalidParameter("matrix: each column is a list of weights")
        whole = tuple(tuple(integer(cls.name, "columns", weight) for weight in column) for column in columns)
        return cls(exact_epsilon(epsilon), whole)

    @classmethod
    def examples(cls, epsilon: float) -> list[Self]:
        z = exp_below(exact_epsilon(epsilon))
        half = 1 / z + (1 - 1 / z) / 2  # between 1/z and 1
        turning = [[Fraction(1), half, 1 / z], [1 / z, Fraction(1), half], [half, 1 / z, Fraction(1)]]
        square = [[p / sum(column) for p in column] for column in turning]
        sometimes_silent = [[p * 9 / 10 for p in column] + [Fraction(1, 10)] for column in square]
        asymmetric = [[1 - 1 / (2 * z), 1 / (2 * z)], [Fraction(1, 2), Fraction(1, 2)]]
        return [
            cls.calibrate(epsilon, Categories(len(columns)), matrix=list(zip(*columns, strict=True)))
            for columns in (asymmetric, square, sometimes_silent)
        ]

    def parameters(self) -> dict[str, Json]:
        return {"columns": [[str(weight) for weight in column] for column in self.columns]}

    @property
    def domain(self) -> Categories:
        return Categories(len(self.columns))

    @property
    def symbols(self) -> int:
        return len(self.columns[0])

    def in_words(self) -> str:
        stay = [column[x] / WORD for x, column in enumerate(self.columns)]
        low, high = probability(min(stay)), probability(max(stay))
        how = low if low == high else f"between {low} and {high}, depending on the value,"
        return (
            f"Each device draws one of {count(self.symbols)} answers from a table of probabilities that the codebook "
            f"states; it sends its true value with probability {how} and another answer otherwise."
        )

    def face(self, report: int) -> int | None:
        """The value with this index. A matrix may have more reports than values."""
        return report if report < len(self.columns) else None

    def randomize(self, value: object, rng: Randomness) -> int:
        column = self.columns[index(value, len(self.columns), "matrix")]
        return rng.pick(list(accumulate(column)))

    def randomize_many(self, values: ArrayLike, rng: BulkRandomness) -> NDArray[np.int64]:
        import numpy as np

        truth = whole_numbers(values, len(self.columns), "a value of matrix")
        words = rng.words(len(truth))
        reports = np.zeros(len(truth), np.int64)
        for value, column in enumerate(self.columns):
            mine = truth == value
            # the report is the number of cumulative weights at or below the word; those equal to 2**64 never are
            steps = np.array([c for c in accumulate(column) if c < WORD], np.uint64)
            reports[mine] = np.searchsorted(steps, words[mine], side="right")
        return reports

    def simulate(self, values: ArrayLike, counts: ArrayLike, rng: CrowdRandomness) -> Tally:
        """Each value's reports are one multinomial draw from its column."""
        from hubbub.mechanisms._crowd_simulation import per_item

        held = per_item(values, counts, len(self.columns), "matrix")
        return self._simulate_columns(held, self.columns, rng)

    def inputs(self) -> range:
        return range(len(self.columns))

    def loss(self) -> Fraction:
        ratio = _worst_ratio(self.columns)
        if ratio is None:
            raise InvalidParameter(
                "matrix: a report that is impossible for one value and possible for another reveals it"
            )
        return log_above(ratio)

    def likelihood(self, report: int, value: int) -> float:
        return self.columns[value][report] / WORD

    def amplification(self) -> Amplification:
        """All pairs of columns. The blanket is the smallest likelihood of each report."""
        rows = [(min(row), row) for row in zip(*self.columns, strict=True) if min(row)]
        masses = tuple(Fraction(least, WORD) for least, _ in rows)
        ratios = tuple(tuple(Fraction(row[x], least) for least, row in rows) for x in range(len(self.columns)))
        table = Table(masses, ratios, tuple(combinations(range(len(self.columns)), 2)))
        binary = None
        if len(self.columns) == self.symbols == 2:
            binary = (Fraction(self.columns[0][1], WORD), Fraction(self.columns[1][1], WORD))
        return Amplification(table, binary)

    def influence(self) -> float:
        """The largest span of a row of the inverse, which is the most that changing one report moves an estimate."""
        inverse = left_inverse(self._channel())
        return float((inverse.max(axis=1) - inverse.min(axis=1)).max())

    # -- at the aggregator ----------------------------------------------------------------------

    def _channel(self) -> NDArray[np.float64]:
        """P, reports by values."""
        import numpy as np

        return np.array(self.columns, np.float64).T / WORD

    def _contributions(self) -> NDArray[np.float64]:
        """v[i, x]: variance of one report's contribution to item i when its device holds x."""
        import numpy as np

        channel = self._channel()
        inverse = left_inverse(channel)
        return inverse**2 @ channel - np.eye(len(self.columns))

    def estimate(self, tally: Tally) -> Estimate:
        import numpy as np

        _frequency_oracle.refuse_empty(tally.reports)
        values = left_inverse(self._channel()) @ (tally.cells / tally.reports)
        each = self._contributions()
        # linear in f, so unbiased at the estimate; no true share has less than the smallest contribution
        return Estimate(tally.reports, values, np.maximum(each @ values, each.min(axis=1)) / tally.reports)

    def covariance(self, tally: Tally) -> NDArray[np.float64]:
        """Covariance of all estimates, for differences and sums of items."""
        import numpy as np

        _frequency_oracle.refuse_empty(tally.reports)
        channel = self._channel()
        inverse = left_inverse(channel)
        values = inverse @ (tally.cells / tally.reports)
        seen = channel @ values
        spread = np.diag(seen) - (channel * values) @ channel.T
        return np.asarray(inverse @ spread @ inverse.T / tally.reports)

    def interval(
        self,
        tally: Tally,
        confidence: float = 0.95,
        *,
        population: Population = "reports",
        simultaneous: bool = False,
    ) -> Interval:
        """Two values: as a pure oracle. More: score if a normal tail can be trusted, otherwise Bernstein's bound."""
        _frequency_oracle.refuse_empty(tally.reports)
        size = len(self.columns)
        together = _intervals.comparisons(size, simultaneous)
        alpha = _intervals.miss(confidence, together)
        if size == self.symbols == 2:
            low, high, kind = self._two_values(tally, alpha, population)
        else:
            low, high, kind = self._many_values(tally, alpha, population)
        return _intervals.labelled(low, high, confidence, kind, together)

    def _many_values(
        self, tally: Tally, alpha: float, population: Population
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], str]:
        """n Var is linear in the share of the item, given how the rest of the truth is spread over the other items.

        A sum of n independent terms of total variance V and span s has normal tails at z if z^3 s / (6 sqrt V) is
        small. If not, Bernstein's bound is used: P[|error| > sqrt(2 V L) + s L / 3] <= 2 e^-L, with the largest V.
        """
        import numpy as np

        from hubbub.postprocess import norm_sub

        n, size, z = tally.reports, len(self.columns), _intervals.normal_quantile(alpha)
        values, each = self.estimate(tally).values, self._contributions()
        inverse = left_inverse(self._channel())
        span = inverse.max(axis=1) - inverse.min(axis=1)
        extra = 1.0 if population == "superpopulation" else 0.0
        whom = "superpopulation" if extra else "devices that reported"
        if (n * each.min(axis=1) < (z**3 / 0.6 * span) ** 2).any():
            level = math.log(2 / alpha)
            variance = each.max(axis=1) + extra / 4
            half = np.sqrt(2 * variance * level / n) + span * level / (3 * n)
            return values - half, values + half, f"{whom}, Bernstein"
        own = np.diag(each)
        weights = np.tile(norm_sub(values).values, (size, 1))
        np.fill_diagonal(weights, 0)
        total = weights.sum(axis=1)
        worst = np.where(np.eye(size, dtype=bool), -np.inf, each).max(axis=1)
        others = np.where(total > 0, (weights * each).sum(axis=1) / np.where(total > 0, total, 1), worst)
        limits = _intervals.score((values, values), n, alpha, others, own - others + extra, -extra)
        low, high = _intervals.around(values, limits)
        return low, high, f"{whom}, score"

    def _two_values(
        self, tally: Tally, alpha: float, population: Population
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], str]:
        """Item 1 as a pure oracle with p = P[1|1], q = P[1|0], or with report 0 if that is the one that supports item
        1. Item 0 is its complement."""
        import numpy as np

        sign = 1 if self.columns[1][1] > self.columns[0][1] else 0
        # a probability within 2**-53 of one would round to one, and its complement would have no logarithm
        p, q = min(self.columns[1][sign] / WORD, 1 - 2**-53), self.columns[0][sign] / WORD
        one = _frequency_oracle.interval(
            tally.cells[sign : sign + 1],
            tally.reports,
            p,
            q,
            confidence=1 - alpha,
            population=population,
            simultaneous=False,
        )
        return np.array([1 - one.high[0], one.low[0]]), np.array([1 - one.low[0], one.high[0]]), one.kind

    def variance(self, truth: ArrayLike) -> NDArray[np.float64]:
        import numpy as np

        return self._contributions() @ np.asarray(truth, np.float64)

    def typical_variance(self) -> float:
        return float(self._contributions().mean())


def left_inverse(channel: ArrayLike) -> NDArray[np.float64]:
    """A with A P = 1, weighted for a uniform truth, or SingularMatrix if the values cannot be told apart."""
    import numpy as np

    matrix = np.asarray(channel, np.float64)
    condition = np.linalg.cond(matrix)
    if not condition < WORST_CONDITION:
        raise SingularMatrix(
            f"matrix: the condition number is {condition:.3g}: some mixtures of values look alike, so no number "
            "of reports can tell them apart",
            "make the columns differ more",
        )
    weighted = matrix.T / np.maximum(matrix.mean(axis=1), np.finfo(float).tiny)
    return np.asarray(np.linalg.solve(weighted @ matrix, weighted))


def _read(matrix: Sequence[Sequence[object]] | None, size: int) -> list[list[Fraction]]:
    """The columns as exact probabilities that sum to one."""
    if matrix is None:
        raise InvalidParameter("matrix: the probabilities are missing", _in_full(size))
    if not isinstance(matrix, list | tuple) or not all(isinstance(row, list | tuple) for row in matrix):
        raise InvalidParameter(f"matrix: expected a list of rows, got {matrix!r}", _in_full(size))
    rows = [list(row) for row in matrix]
    if any(len(row) != size for row in rows):
        raise InvalidParameter(f"matrix: each row needs {size} probabilities, one for each value", _in_full(size))
    columns = [
        [exact_number(entry, f"matrix[{y}][{x}]") for y, entry in enumerate(c)]
        for x, c in enumerate(zip(*rows, strict=True))
    ]
    for x, column in enumerate(columns):
        total = sum(column, Fraction(0))
        if min(column) < 0 or abs(total - 1) > Fraction(1, 10**6):
            raise InvalidParameter(
                f"matrix: column {x} must be probabilities that sum to 1, got a sum of {float(total):g}",
                "write in each column the probability of every report from one value",
            )
        columns[x] = [p / total for p in column]
    return columns


def _in_full(size: int) -> str:
    """How to write a matrix in a codebook."""
    return (
        'write { name = "matrix", matrix = [ROW, ROW, ...] }: rows are reports, columns are values, so a row holds '
        f"{size} probabilities, and each column sums to 1"
    )


def _integers(column: Sequence[Fraction]) -> tuple[int, ...]:
    """Weights that sum to 2**64: each is rounded down, and the largest one gets the rest."""
    weights = [int(p * WORD) for p in column]
    weights[weights.index(max(weights))] += WORD - sum(weights)
    return tuple(weights)


def _worst_ratio(columns: Sequence[Sequence[int]]) -> Fraction | None:
    """The largest ratio within a row, or None if a row has both a zero and a non-zero weight."""
    worst = Fraction(1)
    for row in zip(*columns, strict=True):
        if max(row) == 0:
            continue
        if min(row) == 0:
            return None
        worst = max(worst, Fraction(max(row), min(row)))
    return worst
