"""Handlers of operations: which function carries out which kind of operation in a simulated world."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tests.world.history import History
    from tests.world.operations import Operation

__all__ = ["HANDLERS", "carries_out"]

O = TypeVar("O", bound="Operation")  # noqa: E741  an operation

HANDLERS: dict[type, Callable[[History, Any], None]] = {}
"""By the operation's class."""


def carries_out(kind: type[O]) -> Callable[[Callable[[History, O], None]], Callable[[History, O], None]]:
    """The function below does what this operation says."""

    def note(handler: Callable[[History, O], None]) -> Callable[[History, O], None]:
        HANDLERS[kind] = handler
        return handler

    return note
