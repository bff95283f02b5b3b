"""Codebook diffs: what a change means for ids, history, the budget and releases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, TypeAlias

from hubbub.canonical import Json, canonical_bytes
from hubbub.metric_types._exact_numbers import decimal_text
from hubbub.period import duration_text

if TYPE_CHECKING:
    from hubbub.codebook._codebook import Codebook
    from hubbub.codebook._metric import Metric

__all__ = ["Change", "Diff", "MetricDiff", "diff"]

Effect: TypeAlias = Literal["added", "removed", "new id", "edited"]

_MEANING: Mapping[Effect, str] = {
    "added": "starts with no history",
    "removed": "devices stop; its releases stay",
    "new id": "starts a new segment of history; old and new are shown side by side, and a device's own "
    "limits count across both",
    "edited": "same id, history goes on",
}
_DERIVED = ("share_threshold",)
"""Left out because another field says the same more readably."""
_LISTED = 8
"""Values of a list to name, of those that came or went."""


@dataclass(frozen=True, slots=True)
class Change:
    """One field before and after."""

    field: str
    old: Json
    new: Json

    def __str__(self) -> str:
        return f"{self.field}: {'; '.join(_in_words(self.old, self.new))}"


@dataclass(frozen=True, slots=True)
class MetricDiff:
    """What happens to one metric."""

    name: str
    effect: Effect
    old_id: str | None
    new_id: str | None
    changes: tuple[Change, ...] = ()

    @property
    def meaning(self) -> str:
        return _MEANING[self.effect]


@dataclass(frozen=True, slots=True)
class Diff:
    """Everything that differs. Unchanged metrics are left out."""

    collection: tuple[Change, ...]
    metrics: tuple[MetricDiff, ...]
    spent: tuple[Fraction, Fraction]
    """What the enabled metrics spend per device and period, before and after."""
    limit: tuple[Fraction, Fraction]

    def __bool__(self) -> bool:
        return bool(self.collection or self.metrics)

    def document(self) -> dict[str, Json]:
        """As JSON."""
        return {
            "collection": [_change(change) for change in self.collection],
            "metrics": [
                {
                    "name": metric.name,
                    "effect": metric.effect,
                    "meaning": metric.meaning,
                    "old_id": metric.old_id,
                    "new_id": metric.new_id,
                    "changes": [_change(change) for change in metric.changes],
                }
                for metric in self.metrics
            ],
            "budget": {
                "spent": {"old": decimal_text(self.spent[0]), "new": decimal_text(self.spent[1])},
                "device_epsilon": {"old": decimal_text(self.limit[0]), "new": decimal_text(self.limit[1])},
            },
        }

    def render(self) -> str:
        """As text for a reviewer."""
        if not self:
            return "no change"
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.collection:
            yield "collection"
            yield from (f"  {change}{_CONSEQUENCE.get(change.field, '')}" for change in self.collection)
        for metric in self.metrics:
            ids = " -> ".join(dict.fromkeys(full[:8] for full in (metric.old_id, metric.new_id) if full is not None))
            yield f"{metric.name}: {metric.effect} ({ids}): {metric.meaning}"
            yield from (f"  {change}" for change in metric.changes)
        old, new = (
            f"{decimal_text(spent)} of {decimal_text(limit)}"
            for spent, limit in zip(self.spent, self.limit, strict=True)
        )
        yield f"budget per device and period: epsilon {old}" + ("" if old == new else f" -> {new}")


_CONSEQUENCE = {
    "name": "  (changes every id)",
    "period": "  (changes every id)",
    "total": "  (until when it collects: see `hubbub plan`)",
    "order": "  (how the metrics are listed)",
    "release": "  (changes how many reports a release needs)",
    "honest_fraction": "  (changes how many reports a release needs)",
}


def diff(old: Codebook, new: Codebook) -> Diff:
    """What it means to go from the old codebook to the new one."""
    before = {metric.name: metric for metric in old.metrics}
    after = {metric.name: metric for metric in new.metrics}
    names = [metric.name for metric in (*new.in_file_order, *old.in_file_order)]
    compared = (_compare(name, before.get(name), after.get(name)) for name in dict.fromkeys(names))
    changed = _changes(_readable(old.collection.document()), _readable(new.collection.document()))
    return Diff(
        collection=(*changed, *_capped(old, new), *_reordered(old, new)),
        metrics=tuple(metric for metric in compared if metric is not None),
        spent=(old.spent, new.spent),
        limit=(old.collection.device_epsilon, new.collection.device_epsilon),
    )


def _capped(old: Codebook, new: Codebook) -> Iterator[Change]:
    """Whether the cap over time differs."""
    before, after = (codebook.collection.total for codebook in (old, new))
    if before != after:
        yield Change("total", *(None if total is None else str(total) for total in (before, after)))


def _reordered(old: Codebook, new: Codebook) -> Iterator[Change]:
    """Whether the metrics of both are listed in another order: it is part of the codebook's id."""
    names = [[metric.name for metric in codebook.in_file_order] for codebook in (old, new)]
    before, after = ([name for name in own if name in names[0] and name in names[1]] for own in names)
    if before != after:
        yield Change("order", list(before), list(after))


def _compare(name: str, old: Metric | None, new: Metric | None) -> MetricDiff | None:
    old_id, new_id = (None if metric is None else metric.id.hex() for metric in (old, new))
    if old is None or new is None:
        return MetricDiff(name, "added" if old is None else "removed", old_id, new_id)
    identity = tuple(_changes(_readable(old.identity()), _readable(new.identity())))
    remarks = tuple(_changes({**old.remarks(), **old.notes()}, {**new.remarks(), **new.notes()}))
    if not identity and not remarks:
        return None
    return MetricDiff(name, "new id" if identity else "edited", old_id, new_id, identity + remarks)


def _changes(old: dict[str, Json], new: dict[str, Json]) -> Iterator[Change]:
    for name in old | new:
        if name not in _DERIVED and old.get(name) != new.get(name):
            yield Change(name, old.get(name), new.get(name))


def _readable(document: dict[str, Json]) -> dict[str, Json]:
    """The document with durations as a person writes them."""
    lengths = {
        name: duration_text(value)
        for name, value in document.items()
        if name in ("period", "grace", "delay", "forward_horizon") and isinstance(value, int)
    }
    return {**document, **lengths}


def _change(change: Change) -> dict[str, Json]:
    return {"field": change.field, "old": change.old, "new": change.new}


def _in_words(old: Json, new: Json) -> Iterator[str]:
    """What differs, and nothing of what does not. Nothing is cut: a terminal wraps it."""
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _members(old, new)
    elif isinstance(old, list) and isinstance(new, list) and all(isinstance(one, str) for one in (*old, *new)):
        yield from _elements([_plain(one) for one in old], [_plain(one) for one in new])
    else:
        yield f"{_plain(old)} -> {_plain(new)}"


def _members(old: dict[str, Json], new: dict[str, Json]) -> Iterator[str]:
    """A mechanism of another name has other parameters, which compare with nothing."""
    if old.get("name") != new.get("name"):
        yield f"{_plain(old.get('name'))} -> {_plain(new.get('name'))}"
        return
    for name in old | new:
        before, after = old.get(name), new.get(name)
        if before != after:
            deeper = isinstance(before, dict) and isinstance(after, dict)
            yield from (said if deeper else f"{name} {said}" for said in _in_words(before, after))


def _elements(old: list[str], new: list[str]) -> Iterator[str]:
    came, went = ([one for one in own if one not in set(other)] for own, other in ((new, old), (old, new)))
    if came:
        yield f"new: {_listed(came)}"
    if went:
        yield f"gone: {_listed(went)}"
    if not came and not went:
        yield f"{_listed(old)} -> {_listed(new)}"


def _listed(names: list[str]) -> str:
    rest = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {rest:,} more" if rest > 0 else "")


def _plain(value: Json) -> str:
    """The value as text. What could control a terminal is escaped."""
    plain = isinstance(value, str) and value.isprintable()
    return "none" if value is None else str(value) if plain else canonical_bytes(value).decode()
