"""Forks: a child gets locks of its own, as whoever held its parent's is not there to release them."""

from __future__ import annotations

import os
from functools import cache
from weakref import WeakSet

__all__ = ["Forkable"]


class Forkable:
    """What hears of every fork, from `_survive_forks` on and for as long as it lives."""

    def _before_fork(self) -> None:
        pass

    def _after_fork(self, *, in_child: bool) -> None:
        raise NotImplementedError

    def _survive_forks(self) -> None:
        _register()
        _forkable.add(self)


_forkable: WeakSet[Forkable] = WeakSet()


@cache  # once, and not at import
def _register() -> None:
    if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
        os.register_at_fork(before=_before, after_in_parent=lambda: _after(False), after_in_child=lambda: _after(True))


def _before() -> None:
    for thing in tuple(_forkable):
        thing._before_fork()


def _after(in_child: bool) -> None:
    for thing in tuple(_forkable):
        thing._after_fork(in_child=in_child)
