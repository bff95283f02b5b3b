"""Devices in threads: each is new, has a value of its own, tries until its period is closed, and repeats itself.

Of those that were acknowledged some send the same bytes again, some seal again around the same nonce. What an answer
means is read by the SDK's own code (`hubbub_client._sending.upload`).
"""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from hubbub.bundle import Bundle, verify
from hubbub.errors import BundleError
from hubbub.refusals import Action
from hubbub.sealing import Sealer
from hubbub.wire import NONCE_BYTES, REPORT_HEADER_BYTES, Plaintext, ReportHeader, encode_report
from hubbub_client._http.transport import CannotReach, HttpTransport
from hubbub_client._sending.upload import upload
from tests.faults.oracle import Receipts
from tests.faults.plan import KEY, SMALL, Plan
from tests.support.patience import PATIENCE, wait_for

__all__ = ["TOO_EARLY", "Crowd", "Devices"]

REPEAT, RESEAL = 0.15, 0.05
"""Shares of acknowledged uploads: the same bytes once more, sealed once more."""
ANSWER = 8.0
"""Seconds that a device waits for an answer."""
LONGEST_WAIT = 2.0
"""Seconds: of a longer Retry-After a device waits this much, since its period lasts some seconds only."""
TOO_EARLY = "period-closed too early"
"""What a device was told, where its period was not over by the true clock. It drops the report."""
LATE = 1.5
"""Seconds after the close for which devices go on trying: what they get then must be a refusal."""


class Report(NamedTuple):
    value: int
    nonce: bytes


@dataclass
class Crowd:
    """Devices that have one clock, and the bundle that they hold."""

    plan: Plan
    anchor: str
    addresses: list[str]
    offset: float = 0.0
    """Seconds by which their clock is ahead."""
    bundle: Bundle | None = None
    told: Counter[str] = field(default_factory=Counter)
    """Why reports were not acknowledged."""
    acknowledged_at: list[float] = field(default_factory=list)
    """By the monotonic clock, one for each upload."""
    _asked: float = float("-inf")

    def now(self) -> float:
        return time.time() + self.offset

    def refresh(self, rng: random.Random, *, hurry: bool = False) -> None:
        """Fetch the bundle when the one at hand has its age, or it is said to be another by now."""
        now = time.monotonic()
        if now - self._asked < (0.5 if hurry else self.plan.max_age / 2):
            return
        self._asked = now
        try:
            with HttpTransport(rng.choice(self.addresses), timeout=ANSWER) as transport:
                status, _, raw = transport.request("GET", "/v1/bundle", {}, b"")
            if status == 200:
                self.bundle = verify(raw, [self.anchor], self.now(), self.bundle.seen if self.bundle else None)
        except (CannotReach, BundleError) as error:
            self.told[f"bundle: {type(error).__name__}"] += 1

    def seal(self, metric: str, period: int, report: Report) -> bytes | None:
        """None where there is no key that this crowd believes in."""
        bundle = self.bundle
        if bundle is None or bundle.body.expires <= self.now():
            return None
        key = bundle.body.key_for(period)
        if key is None:
            return None
        found = self.plan.codebook.metric(metric)
        header = ReportHeader(found.id, period, key.id)
        plaintext = Plaintext(period, report.nonce, found.mechanism.encode(report.value)).encode()
        return encode_report(header, Sealer(key.public_key).seal(header, plaintext))


class Devices:
    """All devices of a world: half of them in each crowd, and a small one beside them."""

    def __init__(self, plan: Plan, anchor: str, addresses: list[str]) -> None:
        self.plan, self.receipts = plan, Receipts(plan)
        self.right, self.moved = Crowd(plan, anchor, addresses), Crowd(plan, anchor, addresses)
        """Those whose clock is always right, and those whose clock a run may set."""
        self._over = threading.Event()
        self._last = 2**40
        self._threads: list[threading.Thread] = []
        self._sent: tuple[int, dict[Report, bytes]] = (0, {})
        """The period and the bytes of the last upload that was acknowledged."""
        self.errors: list[BaseException] = []

    def __enter__(self) -> Self:
        """They begin with a period, so that its crowd is whole."""
        calendar = self.plan.calendar
        first = calendar.index_at(time.time()) + 1
        begin = time.monotonic() + calendar.period(first).start - time.time()
        for number in range(self.plan.senders):
            crowd = self.moved if number % 2 else self.right
            self._start(self._send_ever_new, crowd, number, begin)
        self._start(self._send_copies, self.right, self.plan.senders, begin)
        return self

    def _start(self, work: object, crowd: Crowd, number: int, begin: float) -> None:
        def run() -> None:
            try:
                if not self._over.wait(max(0.0, begin - time.monotonic())):
                    work(crowd, random.Random(f"{self.plan.seed} {number}"))  # type: ignore[operator]  # a method of this class
            except BaseException as error:  # noqa: BLE001  raised where the run is judged
                self.errors.append(error)

        self._threads.append(threading.Thread(target=run, name=f"device-{number}", daemon=True))
        self._threads[-1].start()

    def wait_for_acknowledgements(self, count: int = 1) -> None:
        """Until this many more uploads were acknowledged."""
        before = len(self.right.acknowledged_at)
        wait_for(lambda: len(self.right.acknowledged_at) >= before + count)

    def crowd(self, count: int) -> None:
        """So many more devices of the present period come at once, beside those that come by themselves."""

        def work(crowd: Crowd, rng: random.Random) -> None:
            crowd.refresh(rng)
            period = self.plan.calendar.index_at(time.time())
            values = self.receipts.take(KEY, period, count)
            if values and crowd.bundle is not None:
                self._deliver(crowd, rng, period, [Report(v, secrets.token_bytes(NONCE_BYTES)) for v in values])

        self._at_once(work)

    def again(self, *, sealed_again: bool) -> None:
        """The last upload that was acknowledged comes once more, in the same bytes or sealed again."""
        period, sealed = self._sent

        def work(crowd: Crowd, rng: random.Random) -> None:
            body = list(sealed.values())
            if sealed_again:
                body = [one for report in sealed if (one := crowd.seal(KEY, period, report)) is not None]
            self._once_more(crowd, rng, body)

        self._at_once(work)

    def junk(self, count: int) -> None:
        """Reports come that look right from outside, and that nobody can open."""

        def work(crowd: Crowd, rng: random.Random) -> None:
            period = self.plan.calendar.index_at(time.time())
            report = crowd.seal(KEY, period, Report(0, bytes(NONCE_BYTES)))
            if report is not None:
                head = report[:REPORT_HEADER_BYTES]
                self._once_more(crowd, rng, [head + rng.randbytes(len(report) - len(head)) for _ in range(count)])

        self._at_once(work)

    def _at_once(self, work: object) -> None:
        self._start(work, self.right, len(self._threads), time.monotonic())

    def finish(self) -> None:
        """The period that has begun gets its whole crowd; then they are silent."""
        self._last = self.plan.calendar.index_at(time.time())
        for thread in self._threads:
            thread.join(PATIENCE)
        assert not any(thread.is_alive() for thread in self._threads), "a device does not come to its end"
        if self.errors:
            raise self.errors[0]

    def __exit__(self, *_exc: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(PATIENCE)

    def told(self) -> Counter[str]:
        return self.right.told + self.moved.told

    def _going_on(self, now: float) -> bool:
        return not self._over.is_set() and self.plan.calendar.index_at(now) <= self._last

    def _send_ever_new(self, crowd: Crowd, rng: random.Random) -> None:
        while True:
            crowd.refresh(rng)
            now = time.time()
            if not self._going_on(now):
                return
            period = self.plan.calendar.index_at(now + crowd.offset)
            key = crowd.bundle and crowd.bundle.body.expires > crowd.now() and crowd.bundle.body.key_for(period)
            if not key:
                crowd.told["no key for the period"] += 1
                crowd.refresh(rng, hurry=True)
            else:
                values = self.receipts.take(KEY, period, rng.choice([1, 1, 1, 2, 5]))
                if values:
                    self._deliver(crowd, rng, period, [Report(v, secrets.token_bytes(NONCE_BYTES)) for v in values])
            self._over.wait(min(rng.expovariate(1 / self.plan.pause), 4 * self.plan.pause))

    def _deliver(self, crowd: Crowd, rng: random.Random, period: int, reports: list[Report]) -> None:
        """Until each is acknowledged or refused for good, or the period has closed by the true clock."""
        sealed = {report: body for report in reports if (body := crowd.seal(KEY, period, report)) is not None}
        acknowledged, in_doubt = dict[Report, bytes](), set[Report]()
        until = time.monotonic() + self.plan.period + self.plan.grace + LATE
        closes = self.plan.closes(period) + LATE
        while sealed and not self._over.is_set():
            with HttpTransport(rng.choice(crowd.addresses), timeout=ANSWER) as transport:
                # not a kept connection: it may send a request twice unseen, and then a refusal proves nothing
                answer = upload(transport, list(sealed.values()))
            for report, verdict in zip(list(sealed), answer.verdicts, strict=True):
                body = sealed.pop(report) if verdict.action in (None, Action.DROP) else b""
                if verdict.action is None:
                    acknowledged[report] = body
                    self.receipts.acknowledged(KEY, period, report.value)
                    crowd.acknowledged_at.append(time.monotonic())
                    continue
                early = verdict.reason == "period-closed" and time.time() < self.plan.closes(period)
                crowd.told[TOO_EARLY if early else verdict.reason] += 1
                if verdict.action is Action.DROP and report not in in_doubt:
                    self.receipts.refused(KEY, period, report.value)
                elif verdict.reason not in _NOTHING_KEPT:
                    in_doubt.add(report)
                if verdict.action is Action.REFETCH:
                    crowd.refresh(rng, hurry=True)
                    sealed[report] = crowd.seal(KEY, period, report) or sealed[report]
            if sealed and (time.monotonic() > until or time.time() > closes):
                return
            if sealed:
                wait = min(answer.retry_after, LONGEST_WAIT) * rng.uniform(0.8, 1.2)
                self._over.wait(max(wait, rng.uniform(0.05, 0.5)))
        if acknowledged:
            self._sent = period, acknowledged
            self._repeat(crowd, rng, period, acknowledged)

    def _repeat(self, crowd: Crowd, rng: random.Random, period: int, sealed: dict[Report, bytes]) -> None:
        """Only what was acknowledged: a report that was refused may not come again and be taken."""
        draw, body = rng.random(), list(sealed.values())
        if draw < REPEAT:
            self._over.wait(rng.choice([0.0, 0.0, 0.5, 3.0]))
        elif draw < REPEAT + RESEAL:
            body = [again for report in sealed if (again := crowd.seal(KEY, period, report)) is not None]
        else:
            return
        self._once_more(crowd, rng, body)

    def _once_more(self, crowd: Crowd, rng: random.Random, body: list[bytes]) -> None:
        with HttpTransport(rng.choice(crowd.addresses), timeout=ANSWER) as transport:
            if body:
                upload(transport, body)

    def _send_copies(self, crowd: Crowd, rng: random.Random) -> None:
        """The small crowd: each device three times in the same bytes, and twice sealed again."""
        while self._going_on(now := time.time()):
            period = self.plan.calendar.index_at(now)
            pause = self.plan.period / self.plan.most_small
            for value in self.receipts.take(SMALL, period, 1):
                report = Report(value, secrets.token_bytes(NONCE_BYTES))
                copies = [crowd.seal(SMALL, period, report) for _ in range(3)]
                self._once_more(crowd, rng, [copy for copy in [*copies[:1] * 3, *copies[1:]] if copy is not None])
            self._over.wait(pause * rng.uniform(0.2, 1.0))


_NOTHING_KEPT = frozenset({"period-in-future", "unknown-key", "revoked-key", "no-bundle", "rate-limited"})
"""Answers of the service itself that leave no doubt: this try has not been kept."""
