"""A trace while it is written: settings of a device, and events in the order of time."""

from __future__ import annotations

from typing import Any

from hubbub.refusals import REFUSALS
from scripts.vectors.player import coins_stream
from scripts.vectors.streams import Recorded
from scripts.vectors.traces.world import DAY, FLAG, NOON

__all__ = ["Script", "failure", "problem"]


class Script:
    """One trace while it is written."""

    def __init__(self, name: str, bundle: str | None = FLAG, *, starts_at: int = NOON, **settings: Any) -> None:
        self.name, self.starts_at, self.now, self.settings = name, starts_at, starts_at, settings
        self.events: list[dict[str, Any]] = []
        if bundle is not None:
            self.serve(bundle)

    def document(self) -> dict[str, Any]:
        return {"name": self.name, "starts_at": self.starts_at, "settings": self.settings, "events": self.events}

    # -- events -----------------------------------------------------------------------------------

    def do(self, what: str, **more: Any) -> Script:
        self.events.append({"do": what, **more})
        return self

    def serve(self, bundle: str) -> Script:
        return self.do("serve", bundle=bundle)

    def wait(self, milliseconds: int) -> Script:
        self.now += milliseconds
        return self.do("wait", milliseconds=milliseconds)

    def wait_until(self, moment: int) -> Script:
        return self.wait(moment - self.now)

    def next_day(self, days: int = 1) -> Script:
        """To the beginning of a later day."""
        return self.wait_until((self.now // DAY + days) * DAY)

    def record(self, metric: str, *values: Any) -> Script:
        for value in values:
            self.do("record", metric=metric, value=value)
        return self

    def flush(self, *, now: bool = False) -> Script:
        return self.do("flush now" if now else "flush")

    def answers(self, *given: Any) -> Script:
        return self.do("answer uploads", **{"with": list(given)})

    def until_sent(self, metric: str, period: int, due: int, longest: int) -> Script:
        """Flush a millisecond before the end of a report's random delay, and one after it."""
        delay = Recorded(coins_stream(self.name, "delay", metric, period)).below(longest + 1)
        self.wait_until(due + delay - 1).flush()
        return self.wait(2).flush()


def problem(name: str, **more: Any) -> dict[str, Any]:
    refusal = REFUSALS[name]
    body = f'{{"type":"{refusal.urn}"}}'
    return {"status": refusal.status, "type": "application/problem+json", "body": body, **more}


def failure(name: str) -> dict[str, Any]:
    body = f'{{"failures":[{{"index":0,"reason":"{name}"}}]}}'
    return {"status": 200, "type": "application/json", "body": body}
