r"""Share credit: what the private coin of `share` hides, as long as only the shuffler knows who reported.

Each of N honest devices reports with probability s, by a coin of its own that is fresh in every period, and the
shuffler forwards nothing unless at least n0 honest reports arrived. A device then acts as R' = s R + (1-s) null on
N devices, and the number of nulls is all that the number of reports adds. (M) holds for R' with the blanket
s w + (1-s) null: masses times s, and one more atom of mass 1-s on which R'_0 = R'_1.

Nobody observes N. Let N0 be so small that Pr[Bin(N0, s) >= n0] <= δ'. If N <= N0, something is forwarded with
probability at most δ', whatever the values are. If N > N0, R' on N devices is post-processing of R' on N0. So
(ε, δ(N0) + δ') holds for every N. docs/explanation/accounting.md, section 7, has the proof and what it assumes.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from hubbub.accounting.any_randomizer import AnyRandomizer
from hubbub.accounting.blanket import MOST_REPORTS
from hubbub.accounting.guarantee import Randomizer, check_delta, check_reports, guarantee
from hubbub.accounting.honest_reports import FAILURE_SHARE, divergence_below, exact_log, honest_reports
from hubbub.errors import InvalidParameter
from hubbub.mechanisms import Amplification, Atom, Pair, Table
from hubbub.randomness import WORD

if TYPE_CHECKING:
    from hubbub.codebook import Collection, Metric

__all__ = ["SHARE_ASSUMPTIONS", "SampledRandomizer", "ShareCredit", "credit_of", "devices_behind", "share_credit"]

SHARE_ASSUMPTIONS = (
    "nobody but the shuffler knows which devices reported",
    "at least the honest fraction of all reports in each forwarded batch is honest",
    "each honest device takes part by a private coin that is fresh in each period, and reports whatever it holds",
    "whether a device whose coin says yes gets its report through does not depend on any coin or value",
)
_PRECISE = Context(prec=60)
_MARGIN = Decimal("1e-30")
_TWO_PI = Decimal("6.28318530717958")
"""Below 2π."""


@dataclass(frozen=True, slots=True)
class SampledRandomizer:
    """R' = s R + (1-s) null: a report with probability `share`, and otherwise the one output that says nothing."""

    mechanism: Randomizer
    share: Fraction

    @property
    def name(self) -> str:
        return f"{self.mechanism.name}-sampled"

    @property
    def realised_epsilon(self) -> float:
        """That of the mechanism: a device that reports has no other protection, and the null has ratio 1."""
        return self.mechanism.realised_epsilon

    def amplification(self) -> Amplification:
        """The blanket of the mechanism times `share`, and the null. Its exact analysis as one bit holds no longer."""
        local = AnyRandomizer.at_most(self.mechanism.realised_epsilon)
        pairs = self.mechanism.amplification().pairs or local.amplification().pairs
        if self.share == 1:
            return Amplification(pairs)
        rest, one = 1 - self.share, Fraction(1)
        if isinstance(pairs, Table):
            masses = tuple(mass * self.share for mass in pairs.masses)
            return Amplification(Table((*masses, rest), tuple((*row, one) for row in pairs.ratios), pairs.pairs))
        null = Atom(rest, one, one)
        return Amplification(
            tuple(
                Pair((*(Atom(atom.mass * self.share, atom.first, atom.second) for atom in pair.atoms), null))
                for pair in pairs
            )
        )


@dataclass(frozen=True, slots=True)
class ShareCredit:
    """(ε, δ) of a release for someone who does not know which devices reported. δ includes `failure`."""

    epsilon: float
    delta: float
    devices: int
    """N0: honest devices that toss the coin."""
    reports: int
    """n0: fewest honest reports of a batch that is forwarded."""
    share: Fraction
    failure: Fraction
    """δ': the most that the probability of a release with no more than N0 devices can be."""
    assumptions: tuple[str, ...] = SHARE_ASSUMPTIONS


def share_credit(mechanism: Randomizer, share: Fraction, reports: int, delta: float | Fraction) -> ShareCredit:
    """The smallest ε that can be certified at `delta` if every forwarded batch has at least `reports` honest reports.

    `reports` must be fixed before the coins are tossed: it is the threshold, not the size of the batch at hand. Never
    above the ε of `reports` reports without the coin, which holds as well.
    """
    if not isinstance(share, Fraction) or not 0 < share <= 1:
        raise InvalidParameter(f"share must be a fraction above 0 and at most 1, got {share!r}")
    plain = guarantee(mechanism, check_reports(reports), delta)
    if not 0 < check_delta(delta) < 1:
        return ShareCredit(plain.epsilon, float(delta), reports, reports, share, Fraction(0))
    failure = Fraction(delta) * FAILURE_SHARE
    devices = devices_behind(reports, share, failure)
    if share == 1 or devices <= reports:
        return ShareCredit(plain.epsilon, float(delta), reports, reports, share, Fraction(0))
    sampled = guarantee(SampledRandomizer(mechanism, share), devices, Fraction(delta) - failure)
    if sampled.epsilon >= plain.epsilon:
        return ShareCredit(plain.epsilon, float(delta), reports, reports, share, Fraction(0))
    return ShareCredit(sampled.epsilon, float(delta), devices, reports, share, failure)


def credit_of(metric: Metric, collection: Collection, min_batch: int) -> ShareCredit | None:
    """The credit of a metric whose batches have at least `min_batch` reports.

    None without a `share`, or without `missing`: then whether a device reports depends on what was recorded.
    """
    threshold = Fraction(metric.share_threshold, WORD)
    reports = honest_reports(min_batch, collection.honest_fraction)
    if threshold >= 1 or metric.missing is None or not reports:
        return None
    return share_credit(metric.mechanism, threshold, reports, collection.release_delta)


def devices_behind(reports: int, share: Fraction, failure: Fraction) -> int:
    """N0: the most devices, up to 10^9, for which Pr[Bin(N0, share) >= reports] is surely <= `failure`."""
    needed = _PRECISE.add(_MARGIN, exact_log(failure))
    low, high = reports - 1, max(reports, min(MOST_REPORTS, int(reports / share))) + 1
    while high - low > 1:  # with fewer devices than reports the probability is 0
        middle = (low + high) // 2
        low, high = (middle, high) if _log_tail_above(reports, middle, share) <= needed else (low, middle)
    return low


def _log_tail_above(least: int, devices: int, share: Fraction) -> Decimal:
    r"""ln Pr[Bin(N, s) >= k], from above, for k > N s; 0 otherwise. D = N KL(k/N || s) gives -D (Chernoff).

    Also Pr[X = k] <= sqrt(N / (2π k (N-k))) e^{-D} by Robbins' bounds on factorials, and from k on each term is at most
    r = (N-k) s / ((k+1) (1-s)) times the one before.
    """
    chernoff = -divergence_below(devices - least, devices, 1 - share)
    if least <= devices * share:
        return Decimal(0)
    if least == devices:
        return _PRECISE.add(chernoff, _MARGIN)
    ratio = (devices - least) * share / ((least + 1) * (1 - share))
    if ratio >= 1:
        return chernoff
    root = _PRECISE.divide(devices, _PRECISE.multiply(_TWO_PI, Decimal(least * (devices - least))))
    factor = _PRECISE.subtract(_PRECISE.divide(_PRECISE.ln(root), 2), exact_log(1 - ratio))
    return _PRECISE.add(chernoff, _PRECISE.add(_MARGIN, min(Decimal(0), factor)))
