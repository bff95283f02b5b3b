r"""The cap over time: for how many periods a schedule of batches stays within a total (ε, δ), before any of them.

A page (one version of a codebook) collects in the periods from `first` to `last`, both included. In each it may
release one batch of every enabled metric, and none is smaller than the metric's `min_batch` m, so each reveals at most
what floor(h m) honest reports do. All that a device can lose in a window of W periods is what these batches compose to.

The number of periods is fixed before the first report, and depends on nothing that was reported. Then plain composition
covers it. A schedule that was chosen after seeing results, for example one that goes on for as long as the batches
happen to be large, would need a privacy filter, and composition of loss distributions is not proved to be one.

A total holds in every window that contains a period of its page, also for pages before and after that have none. What
the aggregator has opened is spent: hiding a release would protect its readers only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from hubbub.accounting.compose import Composition, compose, composed_delta
from hubbub.accounting.guarantee import check_delta, check_epsilon, delta_at
from hubbub.accounting.honest_reports import honest_reports
from hubbub.errors import InvalidParameter
from hubbub.period import LARGEST_INDEX

if TYPE_CHECKING:
    from hubbub.codebook import Codebook, Total
    from hubbub.mechanisms import Mechanism

__all__ = ["Course", "Page", "course", "last_period", "next_start", "smallest_batches"]

Batches: TypeAlias = "tuple[tuple[Mechanism[Any], int], ...]"
"""(mechanism, fewest honest reports) of each metric that a period may release."""

_STEPS = 256
"""Where pages follow each other, a window is looked at in at least this many places. Between two of them the larger
part of each page counts, so a page may end sooner than it must, and never later."""
_SHOWN = (1, 7, 30, 90, 180, 365)


@dataclass(frozen=True)
class Page:
    """One version of a codebook, from its first period on."""

    first: int
    last: int | None
    """None: it collects until another page begins."""
    codebook: Codebook

    @cached_property
    def batches(self) -> Batches:
        return smallest_batches(self.codebook)

    @property
    def total(self) -> Total | None:
        return self.codebook.collection.total

    @property
    def window(self) -> int:
        """Periods of the window of its total; 0 without one."""
        total = self.total
        return 0 if total is None else total.window(self.codebook.collection.calendar)

    def within(self, first: int, last: int) -> int:
        """How many periods from `first` to `last` it collects in."""
        end = last if self.last is None else min(last, self.last)
        return max(0, end - max(first, self.first) + 1)


def smallest_batches(codebook: Codebook) -> Batches:
    """The smallest batch of each enabled metric, by its honest reports. The `min_batch` must be filled in."""
    found = []
    for metric in codebook.metrics:
        if not metric.enabled:
            continue
        if metric.min_batch is None:
            raise InvalidParameter(f"the metric {metric.name} has no min_batch", "compile the codebook first")
        honest = honest_reports(metric.min_batch, codebook.collection.honest_fraction)
        found.append((metric.mechanism, max(1, honest)))
    return tuple(found)


def last_period(earlier: Sequence[Page], codebook: Codebook, first: int) -> int | None:
    """The last period in which a page that starts with `first` may collect; `first` - 1 if there is none, None if it
    may go on for good.

    `earlier`: the pages before it, whose periods are settled, oldest first. The last of them ends before `first`.
    """
    page = Page(first, None, codebook)
    pages = [*_cut(earlier, first), page]
    found: int | None = None
    for one in pages:
        if one.total is None:
            continue
        if one is page:  # from W periods on, its own windows hold nothing but itself
            until = first + one.window - 1
        else:  # windows that contain a period of an earlier page, too
            until = (first - 1 if one.last is None else one.last) + one.window - 1
        if until >= first:
            end = _first_beyond(pages, one.total, one.window, first, until if found is None else min(until, found + 1))
            found = found if end is None else end - 1
    if found is not None and found > LARGEST_INDEX:
        return None
    return found


def next_start(earlier: Sequence[Page], codebook: Codebook, first: int) -> int | None:
    """The first period from `first` on with which the codebook may start. None if it can't: no window has room for it
    at all, or the page before it has no end and takes the room."""

    def starts(at: int) -> bool:
        last = last_period(earlier, codebook, at)
        return last is None or last >= at

    if starts(first):
        return first
    ends = [page.last for page in earlier if page.last is not None]
    if not earlier or earlier[-1].last is None:
        return None
    # once all that was settled has left every window, there is room, if there ever is
    low, high = first, max(ends) + max([page.window for page in earlier] + [Page(first, None, codebook).window])
    if high <= low or not starts(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if starts(middle) else (middle, high)
    return high


@dataclass(frozen=True, slots=True)
class Course:
    """How the loss grows under a total: what `hubbub plan` shows."""

    total: Total
    window: int
    """Periods that count together."""
    periods: int | None
    """Periods after which collection stops. None: never. 0: it does not even start."""
    points: tuple[tuple[int, Composition], ...]
    """(periods, loss after them at the total's δ)."""


def course(codebook: Codebook) -> Course | None:
    """The course of a codebook that starts with nothing spent. None without a total."""
    total = codebook.collection.total
    if total is None:
        return None
    page = Page(0, None, codebook)
    last = last_period([], codebook, 0)
    periods = None if last is None else last + 1
    end = page.window if periods is None else max(1, periods)
    at = sorted({number for number in (*_SHOWN, end) if number <= end})
    points = tuple((number, compose([(*batch, number) for batch in page.batches], total.delta)) for number in at)
    return Course(total, page.window, periods, points)


def _cut(earlier: Sequence[Page], first: int) -> list[Page]:
    """The pages with the ends that their followers give them."""
    starts = [page.first for page in earlier[1:]] + [first] * bool(earlier)
    return [
        Page(page.first, start - 1 if page.last is None else min(page.last, start - 1), page.codebook)
        for page, start in zip(earlier, starts, strict=True)
    ]


def _first_beyond(pages: Sequence[Page], total: Total, window: int, first: int, until: int) -> int | None:
    """The first period, up to `until`, whose window does not fit the total. The windows end with their period."""
    least = max(1, window // _STEPS)

    def search(low: int, high: int) -> int | None:
        # the part of an earlier page in the window only falls, and that of the newest only rises
        counts = [max(page.within(end - window + 1, end) for end in (low, high)) for page in pages]
        if _fits(pages, counts, total):
            return None
        if high == low or (high - low < least and len(pages) > 1):
            return low
        middle = (low + high) // 2
        found = search(low, middle)
        return search(middle + 1, high) if found is None else found

    return search(first, until)


def _fits(pages: Iterable[Page], counts: Iterable[int], total: Total) -> bool:
    batches = [(*batch, times) for page, times in zip(pages, counts, strict=True) if times for batch in page.batches]
    return not batches or _delta(tuple(batches), check_epsilon(total.epsilon)) <= check_delta(total.delta)


@lru_cache(maxsize=4096)
def _delta(batches: tuple[tuple[Mechanism[Any], int, int], ...], epsilon: float) -> float:
    if len(batches) == 1 and batches[0][2] == 1:
        mechanism, reports, _ = batches[0]
        return delta_at(mechanism, reports, epsilon)
    return composed_delta(batches, epsilon)
