"""Operations of services in a simulated world: what they do by themselves, one turn at a time."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from tests.world import operations as op
from tests.world.handlers import carries_out

if TYPE_CHECKING:
    from tests.world.history import History
    from tests.world.process import Process


@carries_out(op.Refresh)
def refresh(history: History, given: op.Refresh) -> None:
    history.refresh(history.shuffler(given.shuffler))


@carries_out(op.Tick)
def tick(history: History, given: op.Tick) -> None:
    history.tick(history.shuffler(given.shuffler))


@carries_out(op.House)
def house(history: History, given: op.House) -> None:
    history.house(history.aggregator(given.aggregator))


@carries_out(op.Drain)
def drain(history: History, given: op.Drain) -> None:
    history.drain(history.aggregator(given.aggregator))


@carries_out(op.Together)
def together(history: History, _: op.Together) -> None:
    jobs: list[tuple[Process | None, Callable[[], Coroutine[Any, Any, Any]]]]
    jobs = [(site.able, site.parts.batcher.tick) for site in history.shufflers if site.able]
    jobs += [(site.able, site.service.accumulator.drain) for site in history.aggregators if site.able]
    history.drive([(process, history.begin(process, work)) for process, work in jobs if process is not None])
