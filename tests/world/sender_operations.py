"""Operations of senders in a simulated world: crowds of devices, copies of what they sent, and hostile reports."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from hubbub.errors import HubbubError
from hubbub.low_order import has_low_order
from hubbub.sealing import Sealer, public_key_of
from hubbub.simulation.randomness import InsecureRandomness
from hubbub.wire import Plaintext, ReportHeader, decode_report, decode_upload, encode_report, encode_upload
from tests.world import operations as op
from tests.world.codebooks import PERIOD
from tests.world.device_operations import VALUES
from tests.world.event_loop import acting
from tests.world.handlers import carries_out
from tests.world.transmission import deliver_up, posted

if TYPE_CHECKING:
    from hubbub.bundle_body import Body
    from tests.world.history import History
    from tests.world.site import ShufflerSite

_MOST = 60
"""Reports in one upload."""


def _body(site: ShufflerSite) -> Body | None:
    """The bundle that a shuffler relays now."""
    if site.able is None:
        return None
    with acting(site.up):
        relayed = site.parts.bundles.current
    return None if relayed is None else relayed.bundle.body


@carries_out(op.Crowd)
def crowd(history: History, given: op.Crowd) -> None:
    site = history.shuffler(given.shuffler)
    body = _body(site)
    if body is None:
        return
    period = int(history.loop.now // PERIOD) - given.back
    if reports := _reports(history, body, given.metric, period, given.count):
        _send(history, site, encode_upload(reports))


def _reports(history: History, body: Body, name: str, period: int, count: int) -> list[bytes]:
    """Fresh reports of as many devices, each with a value of its own."""
    codebook, key = body.in_force(period), body.key_for(period)
    header = next((one for one in codebook.metrics if one.name == name), None) if codebook else None
    if key is None or header is None or not header.enabled:
        return []
    metric = history.oracle.metrics[header.id]
    sealer, about = Sealer(key.public_key), ReportHeader(header.id, period, key.id)
    reports = []
    for _ in range(max(0, min(count, _MOST))):
        rng = InsecureRandomness(history.rng.getrandbits(64))
        value = metric.input_of(metric.recorded(history.rng.choice(VALUES[name])))
        payload = metric.mechanism.encode(metric.mechanism.randomize(value, rng))
        plaintext = Plaintext(period, history.rng.randbytes(16), payload)
        reports.append(encode_report(about, sealer.seal(about, plaintext.encode())))
    return reports


def _send(history: History, site: ShufflerSite, body: bytes) -> None:
    """A new upload, which others may send again."""
    history.sent.append(body)
    deliver_up(history, site, posted(body), history.faults["up"])


def _sent_at(history: History, back: int) -> list[bytes]:
    if not history.sent:
        return []
    with suppress(HubbubError):
        return decode_upload(history.sent[-1 - back % len(history.sent)])
    return []


@carries_out(op.Replay)
def replay(history: History, given: op.Replay) -> None:
    if reports := _sent_at(history, given.back):
        body = encode_upload(reports)
        deliver_up(history, history.shuffler(given.shuffler), posted(body), history.faults["up"])


@carries_out(op.Reseal)
def reseal(history: History, given: op.Reseal) -> None:
    site = history.shuffler(given.shuffler)
    body = _body(site)
    if body is None:
        return
    again = []
    for report in _sent_at(history, given.back):
        content = history.oracle.contents.get(decode_report(report)[1])
        key = body.key_for(content.header.period) if content else None
        if content is None or key is None or key.id != content.header.key:
            continue
        plaintext = Plaintext(content.header.period, content.nonce, content.payload).encode()
        sealer = Sealer(key.public_key)
        again += [
            encode_report(content.header, sealer.seal(content.header, plaintext))
            for _ in range(max(1, min(given.times, 5)))
        ]
    if again:
        _send(history, site, encode_upload(again[:_MOST]))


@carries_out(op.Junk)
def junk(history: History, given: op.Junk) -> None:
    site = history.shuffler(given.shuffler)
    body = _body(site)
    period = int(history.loop.now // PERIOD)
    codebook, key = (body.in_force(period), body.key_for(period)) if body else (None, None)
    header = next((one for one in codebook.metrics if one.name == given.metric), None) if codebook else None
    if header is None or key is None:
        return
    about, sealer = ReportHeader(header.id, period, key.id), Sealer(key.public_key)
    length, made = header.report_bytes, []
    for _ in range(max(1, min(given.count, _MOST))):
        nonce = history.rng.randbytes(16)
        history.oracle.junk.add(nonce)
        match given.kind:
            case "garbage":
                made.append(encode_report(about, history.rng.randbytes(length + 68)))
            case "wrong-period":
                plaintext = Plaintext(period + 1, nonce, bytes(length)).encode()
                made.append(encode_report(about, sealer.seal(about, plaintext)))
            case "impossible":
                plaintext = Plaintext(period, nonce, b"\xff" * length).encode()
                made.append(encode_report(about, sealer.seal(about, plaintext)))
            case "malformed":
                made.append(history.rng.randbytes(history.rng.randrange(1, 120)))
            case "other-key":
                stranger = public_key_of(history.rng.randbytes(32))
                assert not has_low_order(stranger)
                plaintext = Plaintext(period, nonce, bytes(length)).encode()
                made.append(encode_report(about, Sealer(stranger).seal(about, plaintext)))
    deliver_up(history, site, posted(encode_upload(made)), history.faults["up"])
