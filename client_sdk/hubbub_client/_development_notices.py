"""Notices on stderr for the developer of an app: why nothing is collected or sent, and what to do about it.

They are on where a developer is likely to read them: with a shuffler on this machine, or in a strict client. Each cause
is named once in a process, in one line. No line ever holds a recorded value, and writing one never waits.
"""

from __future__ import annotations

import select
import sys

__all__ = ["BY_COUNT", "forget_notices", "notify", "would_be_shown"]

_PREFIX = "hubbub: "
_MOST = 200
"""Causes that are named. An app may misspell any number of metrics."""
_LONGEST = 1_000
"""Characters of one line, which is then written to a pipe as a whole."""
_said: dict[str, object] = {}
"""What was said in this process, by any client. A forked child inherits it, and so repeats nothing."""

_WILL_RETRY = "they are kept and sent again"
BY_COUNT = {
    "codebook:unreadable": "nothing is collected by a codebook that this SDK cannot read: update the SDK",
    "lost:over-budget": "a recorded value is not reported, because a limit of this device is reached: "
    "`client.ledger()` shows what was spent; see max_epsilon and lifetime_epsilon, and device_epsilon in the codebook",
    "lost:codebook-refused": "a recorded value is not reported, because this device does not use the codebook of its "
    "period",
    "lost:metric-disabled": "a recorded value is not reported, because its metric is switched off",
    "lost:period-closed": "a recorded value is not reported, because its period and grace are over: run the app more "
    "often, take a longer grace, and check this machine's clock",
    "lost:unknown-metric": "a recorded value is not reported, because the codebook of its period has no such metric",
    "lost:invalid": "a recorded value is not reported, because its metric was edited meanwhile and does not take it",
    "lost:no-room": "a value was not kept, because too many already wait for a first codebook: look at the other "
    "notices, or ship the codebook with the app (codebook=)",
    "late:expired": "a value waited for a codebook until its period was over: ship the codebook with the app "
    "(codebook=), or call flush() before the first record",
    "dropped:period-closed": "reports were dropped, because their period and grace are over: run the app more often, "
    "take a longer grace, and check this machine's clock",
    "dropped:unknown-metric": "reports were dropped, because the codebook in force has no such metric any more",
    "dropped:metric-disabled": "reports were dropped, because their metric is switched off",
    "dropped:revoked-key": "reports were dropped, because the key of their period was revoked",
    "dropped:outbox-full": "reports were dropped, because too many wait to be sent",
    "dropped:wrong-length": "the shuffler refuses reports as too short or too long: this SDK and the server differ",
    "dropped:malformed-report": "the shuffler cannot read the reports: update the older of SDK and server",
    "retried:network": f"reports cannot be delivered, as the shuffler cannot be reached; {_WILL_RETRY}",
    "retried:period-in-future": "the shuffler says that a report's period has not begun: check this machine's clock; "
    f"reports are not lost, {_WILL_RETRY}",
    "retried:clock-in-doubt": f"the server doubts its own clock, and takes no reports for now; {_WILL_RETRY}",
    "retried:unknown-key": f"the shuffler does not know the key of a report; {_WILL_RETRY}",
    "retried:rate-limited": f"the shuffler takes no more reports from this address for now; {_WILL_RETRY}",
    "retried:overloaded": f"the shuffler is busy; {_WILL_RETRY}",
    "retried:no-bundle": f"the shuffler has no codebook from the aggregator yet; {_WILL_RETRY}",
    "retried:storage-full": f"the shuffler has no room for more reports; {_WILL_RETRY}",
}
"""What a count in `Client.stats` means, for those that no other notice explains."""


def notify(cause: str, text: str) -> None:
    """Write a line, if this cause is new."""
    mine = object()
    if len(_said) >= _MOST or _said.setdefault(cause, mine) is not mine:  # setdefault is one step among all threads
        return
    line = _PREFIX + " ".join(text.split())
    _write(line[:_LONGEST] + "\n")


def forget_notices() -> None:
    """Say everything again, as a new process would: for the tests of an app, each of which stands for one."""
    _said.clear()


def would_be_shown(logger: object) -> bool:
    """Whether this logger writes warnings to stderr already, so that a notice would repeat it."""
    logging = sys.modules["logging"]
    current = logger
    while isinstance(current, logging.Logger):
        for handler in current.handlers:
            if getattr(handler, "stream", None) in (sys.stderr, sys.__stderr__) and handler.level <= logging.WARNING:
                return True
        current = current.parent if current.propagate else None
    return False


def _write(line: str) -> None:
    """Write to stderr, unless that would block or fails: a cycle must not wait for whoever reads a pipe."""
    stream = sys.stderr
    try:
        if _is_ready(stream):
            stream.write(line)
            stream.flush()
    except (OSError, ValueError, RuntimeError, AttributeError):
        pass  # there is no stderr, it is closed, or a signal handler interrupted a write to it


def _is_ready(stream: object) -> bool:
    try:
        descriptor = stream.fileno()  # type: ignore[attr-defined]  # what has none is memory, and raises
        return bool(select.select([], [descriptor], [], 0)[1])
    except (OSError, ValueError, AttributeError):
        return True  # memory; or a system that can select among sockets only
