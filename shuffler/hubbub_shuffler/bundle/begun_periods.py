"""Begun periods: each keeps the metrics and the key that it began with. A bundle that would change them is refused.

Two ids of one name, or two keys, in one period make two buckets of one crowd. An aggregator that changes either while
reports come in sorts devices into buckets by the time at which they fetch the bundle. So from the moment that reports
of a period may be taken until it is closed, every bundle must say of it what the first one said. Three things may
change:

- a metric is switched off or on (`enabled`): that makes no second bucket;
- a key is revoked: its bucket is discarded, and the period gets no other key;
- a period that had no codebook, or no key at all, gets one: nothing could be reported in it before.

While the clock is in doubt, no period is let go. An aggregator whose clock is in no doubt has erased the keys of
periods past their horizon, and its bundle no longer lists them. That is accepted if they are past it by both clocks;
such periods stay held to the same keys and codebook.

Periods are compared in stretches that have the same codebook and keys, never one by one: there may be many.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple, NoReturn

from hubbub.bundle_body import Body, BundledCodebook
from hubbub.canonical import canonical_bytes, digest, read_json
from hubbub.errors import ChangedPeriod
from hubbub.period import Calendar
from hubbub.trust_anchor import base64_text

__all__ = ["NOTHING_HELD", "Held", "HeldKey", "Said", "Stretch", "early"]

_DIGEST_BYTES = 16
_EARLIEST = 0.1


def early(calendar: Calendar, skew: float) -> float:
    """Seconds before a period's start from which its reports are taken. From then on it has begun for the rule above.

    At most a tenth of a period: there must be time to publish what starts with the next period.
    """
    return min(skew, calendar.seconds * _EARLIEST)


class HeldKey(NamedTuple):
    """A key that was listed for a period."""

    id: int
    public_key: str
    revoked: bool


@dataclass(frozen=True, slots=True)
class Stretch:
    """Periods from `first` to `last`, both included, that are held to the same codebook and keys."""

    first: int
    last: int
    codebook: str
    """Digest of its metrics' headers without `enabled`."""
    grace: int
    keys: tuple[HeldKey, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """What every period that has begun and is not closed is held to."""

    seconds: int
    """Length of a period."""
    stretches: tuple[Stretch, ...]

    def to_bytes(self) -> bytes:
        return canonical_bytes(
            {
                "seconds": self.seconds,
                "stretches": [
                    [s.first, s.last, s.codebook, s.grace, [list(key) for key in s.keys]] for s in self.stretches
                ],
            }
        )

    @classmethod
    def from_bytes(cls, raw: bytes) -> Held:
        """Reads what `to_bytes` wrote. Empty bytes: nothing is held."""
        if not raw:
            return NOTHING_HELD
        document: dict[str, object] = read_json(raw)  # type: ignore[assignment]  # our own
        stretches = [
            Stretch(first, last, codebook, grace, tuple(HeldKey(*key) for key in keys))
            for first, last, codebook, grace, keys in document["stretches"]  # type: ignore[attr-defined]  # our own
        ]
        return cls(document["seconds"], tuple(stretches))  # type: ignore[arg-type]  # our own

    def still_open(self, now: float) -> tuple[Stretch, ...]:
        """The stretches without the periods that are closed."""
        if not self.stretches:
            return ()
        calendar = Calendar(self.seconds)
        cut = [replace(s, first=max(s.first, _oldest_open(calendar, s.grace, now))) for s in self.stretches]
        return tuple(s for s in cut if s.first <= s.last)


NOTHING_HELD = Held(0, ())


class Said:
    """What a bundle says about periods, worked out once."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.calendar = body.codebooks[0].calendar
        self._starts = [codebook.first_period for codebook in body.codebooks]
        self._digests = [_digest(codebook) for codebook in body.codebooks]
        self._keys = [
            (key.first_period, key.last_period, HeldKey(key.id, base64_text(key.public_key), key.state == "revoked"))
            for key in sorted(body.keys, key=lambda key: key.id)
        ]

    def begun(self, now: float, skew: float) -> int:
        """The newest period whose reports are taken."""
        return self.calendar.index_at(now + early(self.calendar, skew))

    def begins(self, period: int, skew: float) -> float:
        """The time from which reports of a period are taken."""
        return self.calendar.period(period).start - early(self.calendar, skew)

    def held(
        self, before: Held, newest: int, now: float, explained_by: Said | None = None, over: float = -math.inf
    ) -> Held:
        """What open periods up to `newest` are held to under this bundle; ChangedPeriod if the bundle would change one.

        `explained_by`: the bundle that was in force, which knows the names behind a digest. `over`: the bundle need not
        list the codebook and keys of periods that were closed at this time.
        """
        kept = [part for stretch in before.still_open(now) for part in _cut(stretch, before.seconds, over)]
        if kept and before.seconds != self.calendar.seconds:
            self._refuse([(kept[-1], "periods would get another length")], Calendar(before.seconds))
        newest = max([newest, *(stretch.last for stretch in kept)])
        found: list[Stretch] = []
        conflicts: list[tuple[Stretch, str]] = []
        for old, new in self._side_by_side(kept, newest):
            if old is None:
                # an older period that a bundle mentions for the first time; it may be closed already
                found += Held(self.calendar.seconds, (new,)).still_open(now) if new else ()
                continue
            says = _completed(old, new) if _is_over(old, before.seconds, over) else new
            if (why := _change(old, says)) is not None:
                conflicts.append((old, why or self._why(old, explained_by)))
            elif says is not None:
                found.append(says)
        if conflicts:
            self._refuse(conflicts, self.calendar)
        return Held(self.calendar.seconds, tuple(_joined(found)))

    def _side_by_side(self, kept: Sequence[Stretch], newest: int) -> Iterator[tuple[Stretch | None, Stretch | None]]:
        """What was held and what this bundle says, for stretches in which neither changes, from the oldest on."""
        cuts = {start for start in self._starts if start <= newest}
        cuts |= {edge for first, last, _ in self._keys for edge in (first, last + 1) if edge <= newest}
        cuts |= {edge for stretch in kept for edge in (stretch.first, stretch.last + 1) if edge <= newest}
        edges = [*sorted(cuts), newest + 1]
        at = 0
        for first, after in pairwise(edges):
            while at < len(kept) and kept[at].last < first:
                at += 1
            held = at < len(kept) and kept[at].first <= first
            yield (replace(kept[at], first=first, last=after - 1) if held else None), self._stretch(first, after - 1)

    def _stretch(self, first: int, last: int) -> Stretch | None:
        index = bisect_right(self._starts, first) - 1
        if index < 0:
            return None
        keys = tuple(key for since, until, key in self._keys if since <= first <= until)
        return Stretch(first, last, self._digests[index], self.body.codebooks[index].grace, keys)

    def _why(self, held: Stretch, before: Said | None) -> str:
        """What would change, as far as this process knows: another process may have had another bundle."""
        was = before._stretch(held.first, held.last) if before is not None else None
        old = before.body.in_force(held.first) if before is not None else None
        new = self.body.in_force(held.first)
        if was is None or was.codebook != held.codebook or old is None or new is None:
            return "its metrics would differ from those that it began with here"
        return _difference(old, new)

    def _refuse(self, conflicts: Sequence[tuple[Stretch, str]], calendar: Calendar) -> NoReturn:
        stretch, why = conflicts[0]
        over = max(calendar.period(s.last).closes_at(s.grace) for s, _ in conflicts)
        raise ChangedPeriod(
            f"the period {calendar.period(stretch.first).label} has begun, and {why}: that would split its crowd. "
            "Sign a bundle that leaves begun periods as they are; this one is refused until "
            f"{datetime.fromtimestamp(over, UTC):%Y-%m-%dT%H:%M:%SZ}, and after that too unless later periods begin as "
            "it says"
        )


def _oldest_open(calendar: Calendar, grace: int, now: float) -> int:
    """The first period whose end and grace are not over."""
    return max(0, (math.floor(now) - grace - calendar.origin) // calendar.seconds)


def _is_over(stretch: Stretch, seconds: int, over: float) -> bool:
    """Whether all periods of a stretch were closed at the time `over`."""
    return over > -math.inf and stretch.last < _oldest_open(Calendar(seconds), stretch.grace, over)


def _cut(stretch: Stretch, seconds: int, over: float) -> list[Stretch]:
    """A stretch, cut into the periods that were closed at the time `over` and the others."""
    edge = _oldest_open(Calendar(seconds), stretch.grace, over) if over > -math.inf else 0
    if not stretch.first < edge <= stretch.last:
        return [stretch]
    return [replace(stretch, last=edge - 1), replace(stretch, first=edge)]


def _completed(old: Stretch, new: Stretch | None) -> Stretch:
    """What a bundle says, with the codebook or keys that it no longer lists."""
    if new is None:
        return old
    listed = {key.id for key in new.keys}
    missing = [key for key in old.keys if key.id not in listed]
    return replace(new, keys=tuple(sorted((*new.keys, *missing))))


def _digest(codebook: BundledCodebook) -> str:
    """Digest of all that must stay as it is. `enabled` is left out, since switching a metric off acts at once."""
    metrics = sorted([m.name, m.id.hex(), m.report_bytes, m.min_batch] for m in codebook.metrics)
    facts = [codebook.collection, codebook.calendar.seconds, codebook.grace, [list(metric) for metric in metrics]]
    return digest("hubbub-01 held codebook", facts)[:_DIGEST_BYTES].hex()  # type: ignore[arg-type]  # it is Json


def _change(old: Stretch, new: Stretch | None) -> str | None:
    """What a bundle would change, in words: None for nothing, an empty string for a change in the codebook."""
    if new is None:
        return "it would no longer have a codebook"
    if (old.codebook, old.grace) != (new.codebook, new.grace):
        return ""
    return _change_of_keys(old.keys, {key.id: key for key in new.keys}) if old.keys else None


def _change_of_keys(keys: Sequence[HeldKey], listed: dict[int, HeldKey]) -> str | None:
    for key in keys:
        now = listed.get(key.id)
        if now is None:
            return f"its key {key.id} would no longer be listed"
        if now.public_key != key.public_key:
            return f"its key {key.id} would be {now.public_key} instead of {key.public_key}"
        if key.revoked and not now.revoked:
            return f"its key {key.id}, which was revoked, would be in use again"
    began_with = {key.id for key in keys}
    added = [key.id for key in listed.values() if not key.revoked and key.id not in began_with]
    return f"it would get key {added[0]} beside key {keys[0].id}, which it began with" if added else None


def _difference(old: BundledCodebook, new: BundledCodebook) -> str:
    """The first difference between two codebooks, in words."""
    for what, one, other in (
        ("collection", old.collection, new.collection),
        ("grace", f"{old.grace} s", f"{new.grace} s"),
    ):
        if one != other:
            return f"its {what} would be {other} instead of {one}"
    before, after = ({metric.name: metric for metric in codebook.metrics} for codebook in (old, new))
    for name in sorted(before.keys() | after.keys()):
        if name not in after:
            return f"it would lose the metric {name!r}"
        if name not in before:
            return f"it would get a metric {name!r}"
        mine, theirs = before[name], after[name]
        for what, was, would_be in (
            ("id", mine.id.hex(), theirs.id.hex()),
            ("length", mine.report_bytes, theirs.report_bytes),
            ("min_batch", mine.min_batch, theirs.min_batch),
        ):
            if was != would_be:
                return f"its metric {name!r} would have the {what} {would_be} instead of {was}"
    return ""


def _joined(stretches: Sequence[Stretch]) -> list[Stretch]:
    """The stretches, with neighbours that are held to the same joined into one."""
    joined: list[Stretch] = []
    for stretch in stretches:
        last = joined[-1] if joined else None
        if last is not None and stretch == replace(last, first=last.last + 1, last=stretch.last):
            joined[-1] = replace(last, last=stretch.last)
        else:
            joined.append(stretch)
    return joined
