"""Operations of devices in a simulated world: what apps, people and operating systems do with a client of the SDK."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hubbub.errors import HubbubError
from tests.world import operations as op
from tests.world.event_loop import acting
from tests.world.handlers import carries_out
from tests.world.oracle import Wrong
from tests.world.process import Killed

if TYPE_CHECKING:
    from hubbub_client import Client
    from tests.world.devices import Device, Life
    from tests.world.history import History

__all__ = ["VALUES", "compare"]

VALUES: dict[str, Any] = {"key": "abc", "target": "abcd", "plain": (False, True), "small": (False, True)}
"""What may be recorded, by metric: values that every edit of the codebook has."""


def _value(metric: str, value: int, twin: int) -> object:
    """Twins record different values."""
    values = VALUES[metric]
    return values[(value + twin) % len(values)]


@carries_out(op.Record)
def record(history: History, given: op.Record) -> None:
    device = history.device(given.device)
    if device is None:
        return
    for twin, life in enumerate(device.lives):
        if twin and given.value % 2 and given.metric in {"key", "target"}:
            life.act(lambda _client: None)
            continue  # the twin records nothing, which must not show where there is a `missing`
        value = _value(given.metric, given.value, twin)
        life.act(lambda client, value=value: client.record(given.metric, value))  # type: ignore[misc]


@carries_out(op.Flush)
def flush(history: History, given: op.Flush) -> None:
    device = history.device(given.device)
    if device is None:
        return
    before = history.loop.now
    for life in device.lives:
        life.shuffler = given.shuffler
        life.act(lambda client: client.flush(0, now=bool(given.hurry)))
    if history.loop.now != before:
        device.comparable = False  # the second twin lives a little later
    _account(history, device)


@carries_out(op.Fork)
def fork(history: History, given: op.Fork) -> None:
    _other_process(history, given, lambda life, what: life.fork(what))


@carries_out(op.Second)
def second(history: History, given: op.Second) -> None:
    _other_process(history, given, lambda life, what: life.second(what))


def _other_process(
    history: History, given: op.Fork | op.Second, how: Callable[[Life, Callable[[Client], object]], None]
) -> None:
    device = history.device(given.device)
    if device is None:
        return
    device.comparable = device.comparable and isinstance(given, op.Second)
    before = history.loop.now
    for twin, life in enumerate(device.lives):
        life.shuffler = given.shuffler
        value = _value(given.metric, given.value, twin)

        def what(client: Client, value: object = value) -> None:
            client.record(given.metric, value)
            client.flush(0, now=True)

        how(life, what)
    if history.loop.now != before:
        device.comparable = False


@carries_out(op.Consent)
def consent(history: History, given: op.Consent) -> None:
    if device := history.device(given.device):
        for life in device.lives:
            life.consent = bool(given.given)


@carries_out(op.Disable)
def disable(history: History, given: op.Disable) -> None:
    if device := history.device(given.device):
        for life in device.lives:
            life.act(lambda client: client.disable() if given.on else client.enable())


@carries_out(op.CopyDevice)
def copy(history: History, given: op.CopyDevice) -> None:
    if device := history.device(given.device):
        for life in device.lives:
            life.copy()


@carries_out(op.PutBackDevice)
def put_back(history: History, given: op.PutBackDevice) -> None:
    if device := history.device(given.device):
        for life in device.lives:
            life.put_back(witness=bool(given.witness))


def compare(history: History, device: Device) -> None:
    """Twins look the same for as long as they were answered the same."""
    if not device.comparable:
        return
    first, second = (_steady(history, life) for life in device.lives)
    for (one, said), (other, told) in zip(first, second, strict=False):
        if one != other:
            raise Wrong("twins", f"{device.name}: {one} or {other}")
        if said != told:
            device.comparable = False
            return
    if len(first) != len(second):
        raise Wrong("twins", f"{device.name}: {len(first)} or {len(second)} requests")
    for life in device.lives:
        life.seen.clear()


def _steady(history: History, life: Life) -> list[Any]:
    """Requests of the steady lane: those that carry a metric without `missing` come only where one was recorded."""
    plain = {id_ for id_, metric in history.oracle.metrics.items() if metric.missing is None}
    return [each for each in life.seen if not any(id_ in plain for id_, *_ in each[0].reports)]


def _account(history: History, device: Device) -> None:
    """What a device's account says, against what left it."""
    for life in device.lives:
        if life.client is None:
            continue
        spent = sum(
            float(next(m.epsilon for m in history.oracle.metrics.values() if m.name == metric))
            for name, metric, _ in history.oracle.drawn
            if name == life.name
        )
        with acting(life.process), suppress(Killed, HubbubError):
            account = life.client.ledger()
            if account.complete and account.spent < spent * 0.999:
                raise Wrong("device-ledger", f"{life.name}: {account.spent} of {spent}")
