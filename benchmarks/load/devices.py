"""Devices under Locust: they send reports sealed ahead, try again as the SDK does, and repeat uploads; some send junk.

The SDK's own code interprets the answers (`hubbub_client._sending.upload`).
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import gevent
from gevent import socket
from locust import FastHttpUser, task

from benchmarks.load.stock import Parcel, identity_of, plan_period
from benchmarks.load.world import RUN
from hubbub.refusals import PROBLEM_TYPE, Action, refusal_named
from hubbub.wire import REPORTS_TYPE, encode_upload
from hubbub_client._http.transport import Answer, CannotReach
from hubbub_client._sending.upload import upload

__all__ = ["Device", "Gateway"]

LATE, TWIN, HANG_UP, REPEAT, JUNK = 0.05, 0.01, 0.01, 0.02, 0.02
"""Shares of a device's turns: for the last period, a second sealing, hanging up before the answer, a repeat, junk."""
SPIKE_UPLOADS = 25
"""Uploads that a device sends in a row when a period begins, in the shape `spike`."""
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 2.0


class LocustTransport:
    """The SDK's transport over Locust's client. Every request is in Locust's statistics, under `name`."""

    def __init__(self, client: Any, name: str) -> None:
        self._client, self._name = client, name

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        with self._client.request(
            method, path, data=body, headers=headers, name=self._name, catch_response=True
        ) as answer:
            status = answer.status_code
            content = answer.content or b"" if status else b""
            if status in (200, 202):
                answer.success()
        if not status:
            RUN.tally.unreachable += 1
            raise CannotReach(str(answer.error))
        RUN.tally.judge("shuffler", status, problem_name(answer.headers, content))
        return status, {name.lower(): value for name, value in answer.headers.items()}, content


def problem_name(headers: Any, content: bytes) -> str | None:
    """Name of the problem in an answer, if it is one of Hubbub's."""
    if not str(headers.get("content-type", "")).startswith(PROBLEM_TYPE):
        return None
    refusal = refusal_named(str(json.loads(content).get("type", "")))
    return refusal.name if refusal else None


class _Sender(FastHttpUser):
    """A user that uploads, in a closed loop: the next upload follows the last answer and a short pause."""

    abstract = True
    network_timeout = connection_timeout = 10.0
    reports = range(1, 2)
    """How many reports an upload may have."""
    label = ""

    def on_start(self) -> None:
        self._uploads_left = SPIKE_UPLOADS
        self.rng = random.Random(random.getrandbits(64))

    def wait_time(self) -> float:
        """A pause of some milliseconds. In a spike: none, and after the last upload until the next period begins."""
        if RUN.plan.shape == "spike":
            self._uploads_left -= 1
            if self._uploads_left > 0:
                return 0.0
            self._uploads_left = SPIKE_UPLOADS
            return self._until_next_period()
        return self.rng.uniform(0.005, 0.02)

    def _until_next_period(self) -> float:
        return RUN.plan.period - time.time() % RUN.plan.period + 0.001

    def turn(self) -> None:
        """One upload for this period, or from a late device for the one before."""
        draw, now = self.rng.random(), plan_period(RUN.plan, time.time())
        if draw < TWIN:
            parcel = RUN.stock.take_twin(now)
        else:
            period = now - 1 if draw < TWIN + LATE else now
            parcel = RUN.stock.take(period, self.rng.choice(self.reports))
        if parcel is None:
            if draw >= TWIN + LATE:
                RUN.tally.sold_out += 1
                gevent.sleep(self._until_next_period())
            return
        self.deliver(parcel)

    def deliver(self, parcel: Parcel, refused: Counter[str] | None = None) -> None:
        """Send until every report is acknowledged or refused for good, or the period has closed.

        Refusals are counted with those of honest reports, or in `refused`.
        """
        plan, refused = RUN.plan, RUN.tally.refused if refused is None else refused
        closes = (parcel.period + 1) * plan.period + plan.grace
        if self.rng.random() < HANG_UP:
            self._hang_up(parcel)
        pending = list(zip(parcel.numbers, parcel.reports, strict=True))
        pause = FIRST_PAUSE
        while pending:
            pending, wait = self._send(parcel.period, pending, refused)
            if not pending or time.time() > closes:
                break
            RUN.tally.retries += 1
            gevent.sleep(max(wait, self.rng.uniform(0.5, 1) * pause))
            pause = min(2 * pause, LONGEST_PAUSE)
        if not pending and self.rng.random() < REPEAT:
            RUN.tally.repeated += 1
            self._send(parcel.period, list(zip(parcel.numbers, parcel.reports, strict=True)), refused)

    def _send(
        self, period: int, pending: list[tuple[int, bytes]], refused: Counter[str]
    ) -> tuple[list[tuple[int, bytes]], float]:
        """One try; returns the reports to try again, and how long the service asks to wait."""
        plan, receipts, tally = RUN.plan, RUN.receipts, RUN.tally
        fresh = set(receipts.sending(period, (identity_of(plan, number) for number, _ in pending)))
        tally.uploads += 1
        answer = upload(LocustTransport(self.client, self.label), [report for _, report in pending])
        left, news = [], 0
        for (number, report), verdict in zip(pending, answer.verdicts, strict=True):
            identity = identity_of(plan, number)
            if verdict.action is None:
                news += receipts.acknowledged(period, identity)
                receipts.twins += number != identity
                continue
            if verdict.reason != "network":
                refused[verdict.reason] += 1
            if verdict.action is Action.DROP:
                receipts.refused(period, identity, first_try=identity in fresh)
            else:
                left.append((number, report))
        if news:
            tally.acknowledged(news)
        return left, answer.retry_after

    def _hang_up(self, parcel: Parcel) -> None:
        """Send everything, and hang up before the answer. The device does not know the result, and will try again."""
        plan = RUN.plan
        RUN.receipts.sending(parcel.period, (identity_of(plan, number) for number in parcel.numbers))
        body = encode_upload(parcel.reports)
        fields = [
            "POST /v1/reports HTTP/1.1",
            "Host: x",
            f"Content-Type: {REPORTS_TYPE}",
            f"Content-Length: {len(body)}",
        ]
        RUN.tally.hung_up += 1
        place = urlsplit(self.host)
        try:
            with socket.create_connection((place.hostname, place.port), 5) as connection:
                connection.sendall("\r\n".join([*fields, "", ""]).encode() + body)
        except OSError:
            RUN.tally.unreachable += 1


class Device(_Sender):
    """A device like one with the SDK: its few reports of a period in one upload. Some send junk."""

    reports = range(1, 5)
    label = "upload of 1 to 4 reports"

    @task
    def report(self) -> None:
        if self.rng.random() < JUNK:
            self._junk()
        else:
            self.turn()

    def _junk(self) -> None:
        """Send one of: no upload; no report; an unknown metric; a report that is too short; one of a closed period; one
        that can't be opened, which only the aggregator notices."""
        now = plan_period(RUN.plan, time.time())
        kind = self.rng.randrange(6)
        garbage = RUN.stock.garbage(now)
        if kind == 5 and garbage is not None:
            status, name = self._post(encode_upload([garbage]))
            RUN.receipts.garbage["acknowledged" if status == 202 else "unsure"] += 1
            RUN.tally.junk[f"{status} {name or 'taken'}"] += 1
            return
        closed = RUN.stock.take(now - 2 - RUN.plan.grace // RUN.plan.period, 1) if kind == 4 else None
        if closed is not None:
            self.deliver(closed, RUN.tally.junk)
            return
        sample = garbage or bytes(60)
        bodies = [
            os.urandom(self.rng.randrange(1, 300)),
            b"",
            encode_upload([sample[:1] + bytes(16) + sample[17:]]),
            encode_upload([sample[:-1]]),
        ]
        status, name = self._post(bodies[kind % len(bodies)])
        RUN.tally.junk[f"{status} {name or 'report by report'}"] += 1

    def _post(self, body: bytes) -> tuple[int, str | None]:
        headers = {"content-type": REPORTS_TYPE}
        client: Any = self.client  # its types do not allow bodies of bytes
        with client.post("/v1/reports", data=body, headers=headers, name="junk", catch_response=True) as answer:
            status = answer.status_code
            name = problem_name(answer.headers, answer.content or b"") if status else None
            RUN.tally.judge("shuffler", status, name)
            if 200 <= status < 500:
                answer.success()
            return status, name


class Gateway(_Sender):
    """A gateway that collects for others, or a device back after a long time: a hundred reports in one upload."""

    reports = range(100, 101)
    label = "upload of 100 reports"

    @task
    def report(self) -> None:
        self.turn()

    def wait_time(self) -> float:
        return super().wait_time() if RUN.plan.shape == "spike" else self.rng.uniform(0.1, 0.3)
