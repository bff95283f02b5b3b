"""Transmission in a simulated world: what becomes of a request on its way, and what its sender hears."""

from __future__ import annotations

import json
import random
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hubbub.bundle import BundledCodebook, sign
from hubbub.errors import HubbubError
from hubbub.sealing import public_key_of
from hubbub.wire import REPORTS_TYPE, decode_upload
from tests.support.codebooks import IDENTITY
from tests.world import operations as op
from tests.world.codebooks import EDITS, PERIOD, book
from tests.world.event_loop import Idle
from tests.world.handlers import carries_out
from tests.world.network import ODD, Answer, Faults, Lost, Request, ask
from tests.world.oracle import Wrong

if TYPE_CHECKING:
    from tests.world.devices import Life
    from tests.world.history import History
    from tests.world.site import ShufflerSite

__all__ = ["deliver_up", "forward", "from_device", "posted"]


@carries_out(op.Net)
def net(history: History, given: op.Net) -> None:
    kinds = [given.kind] * max(1, min(given.count, 5))
    history.faults[given.hop].coming.extend(kinds)
    if given.hop == "up":
        for device in history.devices:
            for life in device.lives:
                life.faults.coming.extend(kinds)


@carries_out(op.Deliver)
def deliver(history: History, given: op.Deliver) -> None:
    if history.delayed:
        late = history.delayed.pop(-1 if given.newest else 0)
        task = history.loop.create_task(late())
        with suppress(Idle):
            history.loop.drive(task.done)


@carries_out(op.HostileBundle)
def hostile_bundle(history: History, given: op.HostileBundle) -> None:
    history.hostile[given.shuffler % len(history.shufflers)] = given.kind


def posted(body: bytes) -> Request:
    """An upload."""
    return Request("POST", "/v1/reports", (("content-type", REPORTS_TYPE),), body)


def from_device(history: History, life: Life, request: Request) -> Answer | None:
    """A request of a client of the SDK. What the oracle says to it is kept: the SDK raises nothing in an app."""
    try:
        if request.method == "POST":
            history.sent.append(request.body)
            history.oracle.leaves_device(life.name, decode_upload(request.body))
        return deliver_up(history, history.shuffler(life.shuffler), request, life.faults)
    except Wrong as error:
        history.wrong = history.wrong or error
        return None


def deliver_up(history: History, site: ShufflerSite, request: Request, faults: Faults) -> Answer | None:
    """A request to a shuffler. What the sender hears is an acknowledgement, if it is one."""
    kind = faults.next()
    history.trace.update(request.body + (kind or "").encode())
    task = history.loop.create_task(_upload(history, site, request, kind))
    try:
        history.loop.drive(task.done)
    except Idle:
        return None
    answer: Answer | None = task.result()
    if answer is not None and request.method == "POST" and kind not in {"corrupt", "odd-answer"}:
        _hear(history, site, request, answer)
    return answer


def _hear(history: History, site: ShufflerSite, request: Request, answer: Answer) -> None:
    if answer.status not in {200, 202}:
        return
    with suppress(HubbubError, ValueError):
        reports = decode_upload(request.body)
        failed = {each["index"] for each in json.loads(answer.body)["failures"]} if answer.status == 200 else set()
        history.oracle.acknowledges(site.group, [each for at, each in enumerate(reports) if at not in failed])


async def _upload(history: History, site: ShufflerSite, request: Request, kind: op.Kind | None) -> Answer | None:
    served = site.served
    try:
        match kind:
            case "lose-request":
                return None
            case "delay":
                history.delayed.append(lambda: _quietly(ask(history.loop, served, request)))
                return None
            case "corrupt":
                request, _ = _corrupted(request, history.rng)
            case "odd-answer":
                return history.rng.choice(ODD)
            case "duplicate":
                with suppress(Lost):
                    await ask(history.loop, served, request)
            case "cut" if request.body:
                await _quietly(ask(history.loop, served, request, cut=True))
                return None
        answer = await ask(history.loop, served, request)
    except Lost:
        return None
    return None if kind == "lose-answer" else answer


async def forward(history: History, shuffler: int, request: Request) -> Answer:
    """A request of a shuffler to its aggregator."""
    site = history.shufflers[shuffler]
    kind = history.faults["forward"].next()
    target = history.aggregators[shuffler % len(history.aggregators)]
    if request.method == "PUT":
        try:
            history.oracle.forwards(site.group, bytes.fromhex(request.path.rpartition("/")[2]), request.body)
        except Wrong as error:
            history.wrong = history.wrong or error  # it may not depend on what a service does about it
    if request.path == "/v1/bundle" and (hostile := history.hostile.pop(shuffler, None)):
        forged = _forged(history, hostile, site)
        if forged is not None:
            return Answer(200, {"etag": '"hostile"'}, forged)
    history.trace.update(request.path.encode() + request.body + (kind or "").encode())
    match kind:
        case "lose-request":
            raise Lost
        case "delay":
            history.delayed.append(lambda: _quietly(ask(history.loop, target.served, request)))
            raise Lost
        case "corrupt":
            request, place = _corrupted(request, history.rng)
            if request.method == "PUT":
                history.oracle.corrupted(bytes.fromhex(request.path.rpartition("/")[2]), place)
        case "odd-answer":
            return history.rng.choice(ODD)
        case "duplicate":
            with suppress(Lost):
                await ask(history.loop, target.served, request)
        case "cut" if request.body:
            await _quietly(ask(history.loop, target.served, request, cut=True))
            raise Lost
    answer = await ask(history.loop, target.served, request)
    if kind == "lose-answer":
        raise Lost
    return answer


def _forged(history: History, kind: str, site: ShufflerSite) -> bytes | None:
    """A bundle with the aggregator's own signature that an honest one would never sign."""
    relayed = site.parts.bundles._newest
    if relayed is None:
        return None
    body = relayed.bundle.body
    period = int(history.loop.now // PERIOD)
    keys, codebooks, sequence = list(body.keys), list(body.codebooks), body.sequence + 1
    match kind:
        case "key":
            other = public_key_of(history.rng.randbytes(32))
            keys = [replace(key, public_key=other) if key.covers(period) else key for key in keys]
        case "page":
            codebooks.append(BundledCodebook(period, book(history.rng.randrange(1, len(EDITS))).compiled()))
        case "drop":
            keys = [key for key in keys if not key.covers(period)]
        case "older":
            sequence = max(0, body.sequence - 1)
    now = int(history.loop.now) if kind != "older" else min(int(history.loop.now), sequence)
    with suppress(HubbubError, ValueError):
        return sign(
            IDENTITY,
            collection=body.collection,
            codebooks=codebooks,
            keys=keys,
            now=now,
            lifetime=7 * 86_400,
            max_age=body.max_age,
            last=None,
            sequence=max(sequence, now),
            off=body.off,
        )
    return None


def _corrupted(request: Request, rng: random.Random) -> tuple[Request, int]:
    """The request with one bit changed, and in which byte."""
    if not request.body:
        return request, 0
    body = bytearray(request.body)
    place = rng.randrange(len(body))
    body[place] ^= 1 << rng.randrange(8)
    return Request(request.method, request.path, request.headers, bytes(body)), place


async def _quietly(request: Coroutine[Any, Any, Answer]) -> None:
    with suppress(Lost):
        await request
