"""A queue of values in memory, which wait for a first codebook, or for a file that another thread or process writes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from hubbub.reduce import Value

__all__ = ["MOST_VALUES", "InMemoryQueue", "QueuedValue", "small_copy"]

MOST_VALUES = 1_000
_LONGEST_TEXT = 2_000
"""Characters. No category or metric name is this long, so a text that is cut off here is unknown either way."""
_MOST_ATTRIBUTES = 16
"""Attributes of one value. No metric has this many."""
_LONGEST_INTEGER = 1024
"""Bits. A longer integer fits no float, and so is infinite to a metric."""


Plain: TypeAlias = "Value | dict[str, bool | str | float]"
"""A value as an app recorded it, one level deep; or as a metric keeps it."""


class QueuedValue(NamedTuple):
    """A value, the name it was recorded under, and when."""

    at: float
    name: str
    value: Plain

    def __repr__(self) -> str:
        return f"QueuedValue(at={self.at}, name={self.name!r})"  # never shows a value


class InMemoryQueue:
    """First in, first out; at most `MOST_VALUES`; forgotten with the process."""

    def __init__(self) -> None:
        self._values: deque[QueuedValue] = deque()

    def __len__(self) -> int:
        return len(self._values)

    def put(self, queued: QueuedValue) -> bool:
        """False: there is no room."""
        if len(self._values) >= MOST_VALUES:
            return False
        self._values.append(QueuedValue(queued.at, queued.name[:_LONGEST_TEXT], queued.value))
        return True

    def first(self) -> QueuedValue | None:
        try:
            return self._values[0]
        except IndexError:
            return None

    def done(self, queued: QueuedValue) -> None:
        """Remove it from the front, unless a withdrawal of consent has cleared the queue meanwhile."""
        try:
            if self._values[0] is queued:
                self._values.popleft()
        except IndexError:
            pass

    def clear(self) -> None:
        self._values.clear()

    def forked(self) -> None:
        """In a child: start empty, as the parent records the values that were waiting."""
        self._values = deque()


def small_copy(value: object) -> Plain | None:
    """A copy that every metric reads like the original, takes little memory, and the app can't change; None: no metric
    takes the value.

    A value with several attributes is copied whole or not at all: with a part left out it would be another value.
    """
    if isinstance(value, Mapping):
        if len(value) > _MOST_ATTRIBUTES or not all(
            isinstance(key, str) and len(key) <= _LONGEST_TEXT for key in value
        ):
            return None
        attributes = {key: _plain(one) for key, one in value.items()}
        return None if None in attributes.values() else {k: one for k, one in attributes.items() if one is not None}
    if isinstance(value, list | tuple):
        parts = [_plain(one) for one in value] if len(value) <= _MOST_ATTRIBUTES else [None]
        return None if None in parts else [one for one in parts if one is not None]
    return _plain(value)


def _plain(value: object) -> bool | str | float | None:
    """A copy of one attribute, or None. It does not look inside containers, as a list may hold itself."""
    if isinstance(value, str):
        return value[:_LONGEST_TEXT]
    if isinstance(value, int) and value.bit_length() > _LONGEST_INTEGER:
        return inf if value > 0 else -inf
    return value if isinstance(value, bool | int | float) else None
