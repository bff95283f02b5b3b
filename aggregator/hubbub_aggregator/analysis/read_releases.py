"""Releases, read a few at a time and summed as they come, so that a long range takes no more memory than one batch."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from hubbub_aggregator.analysis.answer_guarantee import Released

if TYPE_CHECKING:
    from hubbub.codebook import Metric
    from hubbub.mechanisms import Tally
    from hubbub_aggregator.storage import Release, Storage

__all__ = ["Crowd", "by_period", "every_record", "over", "records", "stream"]

_AT_ONCE = 4 * 2**20
"""Bytes of tallies that are read at once; a single one may be larger."""
_MOST_AT_ONCE = 500
_RECORDS_AT_ONCE = 50
_OF_ONE_PERIOD = 3
_LAST_ID = b"\xff" * 16


@dataclass(frozen=True, slots=True)
class Crowd:
    """The reports of one metric id in one period or in several, summed, and the releases they came from."""

    metric: Metric
    tally: Tally
    releases: list[Released]
    """In order of period and id."""

    @property
    def ids(self) -> list[str]:
        return [release.record["id"] for release in self.releases]

    @property
    def span(self) -> range:
        return range(self.releases[0].period, self.releases[-1].period + 1)


def over(storage: Storage, metric: Metric, periods: range, only: Container[bytes] | None = None) -> Crowd | None:
    """All releases of a metric id in a range, summed; None if there is none.

    `only` leaves out releases that came after these ids were read.
    """
    return _summed(metric, (one for one in stream(storage, metric, periods) if only is None or one.id in only))


def by_period(
    storage: Storage, metric: Metric, periods: range, only: Container[bytes] | None = None
) -> Iterator[Crowd]:
    """The same, one period after the other."""
    found = (one for one in stream(storage, metric, periods) if only is None or one.id in only)
    for _, releases in groupby(found, key=lambda release: release.period):
        if (crowd := _summed(metric, releases)) is not None:
            yield crowd


def records(
    storage: Storage, metric: bytes | None = None, after: tuple[int, bytes] | None = None, most: int | None = None
) -> Iterator[Release]:
    """Releases by period and id, of all metrics or of one, `most` of them; tallies are dropped as they are read."""
    while page := storage.page(metric, after, _RECORDS_AT_ONCE if most is None else min(most, _RECORDS_AT_ONCE)):
        for release in page:
            yield replace(release, tally=b"")
        after = (page[-1].period, page[-1].id)
        most = None if most is None else most - len(page)
        if most == 0:
            return


def every_record(storage: Storage) -> list[Release]:
    """Everything that was ever released, by period and id. What retention has deleted is included: its record is kept.

    So is what was opened and refused: only the aggregator has seen that, and the ledger is about what it has seen.
    """
    found = {release.id: release for release in records(storage)}
    # read afterwards: a release that is moved there meanwhile is in one of the two, or in both
    found |= {release.id: release for release in [*storage.expired(), *storage.opened_and_refused()]}
    return sorted(found.values(), key=lambda release: (release.period, release.id))


def _summed(metric: Metric, releases: Iterator[Release]) -> Crowd | None:
    tally: Tally | None = None
    known: list[Released] = []
    label = metric.calendar.period
    for release in releases:
        more = metric.mechanism.tally_from_bytes(release.tally)
        tally = more if tally is None else tally + more
        known.append(
            Released(metric.mechanism, release.period, label(release.period).label, json.loads(release.record))
        )
    return None if tally is None else Crowd(metric, tally, known)


def stream(storage: Storage, metric: Metric, periods: range) -> Iterator[Release]:
    """Releases in order, by keyset pages: at most one page is in memory, and no release comes twice.

    Of a range with a step, only the periods in it are read.
    """
    if periods.step > 1:
        for period in periods:
            yield from _read(storage, metric, range(period, period + 1), _OF_ONE_PERIOD)
        return
    size = max(1, min(_MOST_AT_ONCE, _AT_ONCE // (16 + 8 * metric.mechanism.cells)))
    yield from _read(storage, metric, periods, size)


def _read(storage: Storage, metric: Metric, periods: range, size: int) -> Iterator[Release]:
    place = (periods.start - 1, _LAST_ID) if periods.start else None
    while page := storage.page(metric.id, place, size):
        for release in page:
            if release.period >= periods.stop:
                return
            yield release
        if len(page) < size:
            return
        place = (page[-1].period, page[-1].id)
