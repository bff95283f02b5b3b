"""Stock of reports sealed ahead, each used once, so that a run measures the services and not the sealing.

Report `i` of a period is about metric `i % METRICS` and has value `i // METRICS`, which no other report has. After the
reports come their twins: the first few again, sealed a second time with the same nonce. There is one file per period.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from multiprocessing import get_context
from pathlib import Path

from benchmarks.load.plan import METRICS, Plan
from hubbub.bundle import verify
from hubbub.bundle_body import Body
from hubbub.codebook import Codebook, Metric
from hubbub.sealing import Sealer
from hubbub.wire import NONCE_BYTES, REPORT_HEADER_BYTES, Plaintext, ReportHeader, encode_report

__all__ = ["Parcel", "Stock", "identity_of", "plan_period", "reseal", "seal_ahead"]

_PIECE = 1_000
"""Reports sealed by one call of a worker."""
_MARGIN = 1.2
"""Factor by which sealing may take longer than a sample suggests, before a period is given up."""


def identity_of(plan: Plan, number: int) -> int:
    """Index of the report within its period; a twin has that of the report that it repeats."""
    return number if number < plan.reports else number - plan.reports


def seal_ahead(
    plan: Plan, bundle: bytes, anchor: str, folder: Path, progress: Callable[[int], None], clock: Callable[[], float]
) -> int:
    """Seal the reports for all periods of the run, on all cores; return the first period, which has not begun.

    Reports are bound to their periods, so the periods are chosen by how long sealing will take. If it takes longer,
    since the machine is busy, periods that have begun meanwhile are given up and later ones sealed instead. `progress`
    gets the number of reports sealed so far.
    """
    body = verify(bundle, [anchor], clock()).body
    every, done = plan.reports + plan.twins, 0
    cores = os.cpu_count() or 1
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn"), initializer=_start, initargs=(body,)) as pool:

        def seal(period: int, numbers: range) -> Iterator[bytes]:
            starts = range(numbers.start, numbers.stop, _PIECE)
            return pool.map(_sealed, [(plan, period, range(at, min(at + _PIECE, numbers.stop))) for at in starts])

        ready: set[int] = set()
        while len(ready) < cores:  # processes start, libraries load
            ready |= set(pool.map(_who, range(4 * cores)))
        now = plan_period(plan, clock())
        sample, began = min(every, 2 * cores * _PIECE), clock()
        list(seal(now, range(sample)))
        expected = (clock() - began) / sample * every * plan.periods
        first = end = plan_period(plan, clock() + _MARGIN * expected) + 1
        while True:
            first = max(first, plan_period(plan, clock()) + 1)
            end = max(first, end)
            if end == first + plan.periods:
                return first
            with (folder / str(end)).open("wb") as file:
                for sealed in seal(end, range(every)):
                    file.write(sealed)
            end += 1
            progress(done := done + every)


def reseal(plan: Plan, bundle: bytes, anchor: str, period: int, identity: int) -> bytes:
    """The same report under another nonce, which a device must never send and the check must find."""
    _start(verify(bundle, [anchor], time.time()).body)
    _Worker.secret = os.urandom(32)
    return _sealed((plan, period, range(identity, identity + 1)))


def plan_period(plan: Plan, now: float) -> int:
    """Index of the period at this time: its length divides a day, so periods count from the epoch."""
    return int(now // plan.period)


class _Worker:
    """State of a sealing process, set when it starts."""

    metrics: list[Metric]
    body: Body
    sealers: dict[int, Sealer]
    secret: bytes


def _start(body: Body) -> None:
    book = Codebook.from_compiled(body.codebooks[-1].document)
    _Worker.body, _Worker.sealers = body, {}
    _Worker.metrics = [book.metric(f"slot_{number}") for number in range(METRICS)]
    _Worker.secret = body.keys[0].public_key  # the same in every worker of a run, and in no other run


def _who(_number: int) -> int:
    """The id of the process that works on this."""
    time.sleep(0.01)  # so that no single process gets all calls
    return os.getpid()


def _sealed(part: tuple[Plan, int, range]) -> bytes:
    plan, period, numbers = part
    key = _Worker.body.key_for(period)
    assert key is not None, f"no key was published for period {period}: the run is longer than the keys published ahead"
    sealer = _Worker.sealers.setdefault(key.id, Sealer(key.public_key))
    return b"".join(_one(sealer, period, key.id, identity_of(plan, number)) for number in numbers)


def _one(sealer: Sealer, period: int, key: int, identity: int) -> bytes:
    """One report, not randomized, so that its value identifies it. Its nonce is the same each time it is sealed."""
    metric, value = _Worker.metrics[identity % METRICS], identity // METRICS
    named = b"%d %d" % (period, identity)
    nonce = blake2b(named, digest_size=NONCE_BYTES, key=_Worker.secret).digest()
    header = ReportHeader(metric.id, period, key)
    plaintext = Plaintext(period, nonce, metric.mechanism.encode(value)).encode()
    return encode_report(header, sealer.seal(header, plaintext))


@dataclass(frozen=True, slots=True)
class Parcel:
    """Reports that one device sends together: of one period, by number."""

    period: int
    numbers: range | list[int]
    reports: list[bytes]


class Stock:
    """The sealed reports of a run, handed out once each."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self._files = {int(path.name): path for path in folder.iterdir()}
        self._open: dict[int, mmap.mmap] = {}
        self._next: dict[int, int] = {}
        self._next_twin: dict[int, int] = {}
        sizes = {path.stat().st_size for path in self._files.values()}
        assert len(sizes) == 1, "every period has as many reports, of one size"
        self.size = sizes.pop() // (plan.reports + plan.twins)

    @property
    def periods(self) -> list[int]:
        return sorted(self._files)

    def take(self, period: int, count: int) -> Parcel | None:
        """The next reports of a period; None if there are no more, or the period is not part of the run."""
        start = self._next.get(period, 0)
        end = min(start + count, self.plan.reports)
        if period not in self._files or start == end:
            return None
        self._next[period] = end
        return Parcel(period, range(start, end), list(self._read(period, range(start, end))))

    def take_twin(self, period: int) -> Parcel | None:
        """A twin of a report that was taken before; None if there is none."""
        at = self._next_twin.get(period, 0)
        if period not in self._files or at >= min(self.plan.twins, self._next.get(period, 0)):
            return None
        self._next_twin[period] = at + 1
        number = self.plan.reports + at
        return Parcel(period, [number], list(self._read(period, [number])))

    def garbage(self, period: int) -> bytes | None:
        """A report with an honest header but no valid seal, which only the aggregator notices."""
        if period not in self._files:
            return None
        whole = next(self._read(period, [0]))
        return whole[:REPORT_HEADER_BYTES] + os.urandom(len(whole) - REPORT_HEADER_BYTES)

    def _read(self, period: int, numbers: range | list[int]) -> Iterator[bytes]:
        if period not in self._open:
            with self._files[period].open("rb") as file:
                self._open[period] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        view, size = self._open[period], self.size
        for number in numbers:
            yield view[number * size : (number + 1) * size]
