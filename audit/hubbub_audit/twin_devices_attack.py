"""Attack by twin devices, which differ only in what they record. Nothing that leaves them may tell them apart.

The twins share bundles, answers, starts and ends of the app, clock, consent and calls of `flush`, `enable` and
`disable`, and have the same coins for share, delay, order and pauses. Their values are randomized with the operating
system's randomness, as shipped. The audit controls the background thread: it runs when the client wants it to, in time
that the audit lets pass.

All requests are compared: moment, method, path, headers and, for each report in them, metric, period, key and length.
Reports of metrics without `missing` are left out: they are sent if and only if something was recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from hubbub.randomness import SystemRandomness
from hubbub_audit.findings import Attack, Finding
from hubbub_audit.replay_history import KeyedCoins, lived
from hubbub_audit.twin_events import EDITS, STORIES, History, codebook_of, random_history
from hubbub_audit.twin_server import Seen

__all__ = ["RULE", "difference", "twins"]

RULE = (
    "For metrics with `missing`: which ids, keys, periods, times, lengths and how many requests a device sends may "
    "depend on consent, its coins and the times at which the app ran, never on what was recorded. Metrics without "
    "`missing` report if and only if something was recorded; recording them changes no header, time or budget of the "
    "former."
)
"""Word for word as in docs/explanation/what-we-do-not-protect.md."""


def twins(histories: int, stories: Sequence[History] = STORIES) -> Attack:
    """Let pairs of twins live through every known story, and through `histories` random histories."""

    def run(_: float) -> list[Finding]:
        rng = SystemRandomness()
        told = [f"{history.name}: {found}" for history in stories if (found := difference(history))]
        for _number in range(histories):
            history = random_history(rng)
            if found := difference(history):
                told.append(f"{history}: {found}")
        count = len(stories) + histories
        return [
            Finding(
                "side channel",
                "twin devices",
                "headers of all requests",
                RULE,
                0.0,
                float(len(told)),
                "beaten" if told else "holds",
                f"{count} histories of edits, restarts, outages and consent; any difference shows",
                trials=count,
                detail=f"told apart in {len(told)}" + (f"; the first: {told[0]}" if told else ""),
            )
        ]

    return Attack("side channel", "twin devices", 0, run)


def difference(history: History) -> str | None:
    """What tells the twins apart; None if nothing does."""
    coins = KeyedCoins(SystemRandomness().bits(64))
    first, second = (lived(history, twin, coins) for twin in (0, 1))
    plain = _without_missing()
    if not history.recorded & {name for names in plain.values() for name in names}:
        return _first_difference(first, second)  # then nothing at all may differ
    mixed = [seen for seen in (*first, *second) if 0 < _count(seen, plain) < len(seen.reports)]
    if mixed:
        return f"one request carries both kinds: {mixed[0]}"
    kept = [[seen for seen in stream if not _count(seen, plain)] for stream in (first, second)]
    return _first_difference(*kept)


def _first_difference(first: list[Seen], second: list[Seen]) -> str | None:
    for number, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return f"request {number}: {one} or {other}"
    if len(first) != len(second):
        longer = max(first, second, key=len)
        return f"{len(first)} or {len(second)} requests; from there on {longer[min(len(first), len(second))]}"
    return None


@cache
def _without_missing() -> Mapping[bytes, frozenset[str]]:
    """Metrics without `missing`, which report only what was recorded, by id."""
    books = [codebook_of(edit) for edit in EDITS]
    return {m.id: frozenset({m.name}) for book in books for m in book.metrics if m.missing is None}


def _count(seen: Seen, plain: Mapping[bytes, object]) -> int:
    return sum(metric in plain for metric, *_ in seen.reports)
