"""The last period of a page: where a cap over time (`total`) ends a collection before it reveals more.

The end is worked out once, before the first report, from nothing but codebooks and their first periods, and is then
kept. A bundle shows it as a page without metrics that begins in the period after it. Devices and shufflers of every
version stop there: the last page that has begun rules a period, even if it is not readable. No key is made beyond it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from hubbub.bundle import BundledCodebook
from hubbub.canonical import digest
from hubbub.codebook import Codebook
from hubbub.errors import InvalidParameter

if TYPE_CHECKING:
    from hubbub.accounting.total_cap import Page
    from hubbub.bundle_body import Body
    from hubbub_aggregator.storage import Storage

__all__ = ["LastPeriods", "is_stop_page", "keep_last_periods", "stop_page"]

ID_BYTES = 16
_NEVER = -1

Begun = tuple[int, Codebook]
"""A codebook and its first period."""


class LastPeriods:
    """The last period of each version of a collection, as it was settled when the version was published."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def of(self, versions: Sequence[Begun]) -> list[int | None]:
        """The last period of each version, oldest first. None: it goes on until another one begins."""
        found: list[int | None] = []
        for number in range(len(versions)):
            found.append(self._settled(versions[: number + 1], found))
        return found

    def settle(self, earlier: Sequence[Begun], codebook: Codebook, first: int) -> int | None:
        """Work out, and keep, the last period of a version that is about to be published. InvalidParameter if a total
        leaves it none."""
        ends = self.of(earlier)
        last = self._settled([*earlier, (first, codebook)], ends)
        if last is None or last >= first:
            return last
        from hubbub.accounting.total_cap import next_start

        caps = [version.collection.total for _, version in (*earlier, (first, codebook))]
        total = next(total for total in reversed(caps) if total is not None)
        calendar = codebook.collection.calendar
        start = next_start(_pages(earlier, ends), codebook, first)
        label = calendar.period(first).label
        if start is not None:
            begins = calendar.period(start).label
            raise InvalidParameter(
                f"what was published before leaves no room for it in {label}, under the total of {total}",
                f"there is room from {begins} on: publish it with --from {begins}",
            )
        raise InvalidParameter(
            f"one period of it from {label} on, with what was published before, is more than the total of {total}",
            "raise min_batch or the total, or lower an epsilon; `hubbub plan` shows the course",
        )

    def keep(self, versions: Sequence[Begun], last: int | None) -> None:
        """Keep the last period of the newest of these versions, as a bundle says it."""
        self._storage.remember(_question(versions), _NEVER if last is None else last)

    def _settled(self, versions: Sequence[Begun], ends: Sequence[int | None]) -> int | None:
        """The last period of the newest of these versions; one before its first if there is no room."""
        if all(codebook.collection.total is None for _, codebook in versions):
            return None
        known = self._storage.remembered(_question(versions))
        if known is None:
            from hubbub.accounting.total_cap import last_period  # loads numpy

            first, codebook = versions[-1]
            last = last_period(_pages(versions[:-1], ends), codebook, first)
            if last is None or last >= first:
                self.keep(versions, last)
            return last
        return None if known == _NEVER else known


def stop_page(codebook: Codebook, first: int) -> BundledCodebook:
    """A page that collects nothing from a period on. Every device refuses it, and keeps to it that the one before it
    has ended."""
    collection = codebook.collection.document()
    content = {"format": codebook.compiled()["format"], "collection": collection, "metrics": []}
    id_ = digest("hubbub-01 codebook", content)[:ID_BYTES].hex()
    return BundledCodebook(first, {"id": id_, **content})


def is_stop_page(page: BundledCodebook) -> bool:
    return not page.metrics


def keep_last_periods(storage: Storage, newest: Body) -> None:
    """Keep the ends that a bundle says: what was told to devices stays, whatever a storage remembers."""
    ends = {
        page.first_period: stop.first_period - 1
        for page, stop in pairwise(newest.codebooks)
        if is_stop_page(stop) and not is_stop_page(page)
    }
    begun = [(one.first_period, Codebook.from_compiled(one.compiled)) for one in storage.codebooks()]
    for number, (first, _) in enumerate(begun):
        if first in ends:
            LastPeriods(storage).keep(begun[: number + 1], ends[first])


def _pages(versions: Sequence[Begun], ends: Sequence[int | None]) -> list[Page]:
    from hubbub.accounting.total_cap import Page

    return [Page(first, last, codebook) for (first, codebook), last in zip(versions, ends, strict=True)]


def _question(versions: Sequence[Begun]) -> str:
    """No version of this software is part of it: an end that was settled stays."""
    return "last_period " + " ".join(f"{first}:{codebook.id.hex()}" for first, codebook in versions)
