"""Everyday and full cases: which cases of a test run in `make test`, and which are left to `make test-full`.

A test function is a promise, and `make test` checks nearly all of them. Where a promise is checked on many cases, the
function says which of them are for every day:

- `@pytest.mark.everyday`: as few cases as have every value of every parameter once;
- `@pytest.mark.everyday(3)`: the first three of those;
- `@pytest.mark.everyday("sqlite-*", "*-8")`: those whose id, the part in brackets, looks like this.

The others get the mark `full`.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

import pytest
from hypothesis import settings

Case = tuple[str, frozenset[tuple[str, int]]]
"""The id of a case, and which value each of its parameters has."""


def examples(everyday: int, explored: int) -> int:
    """How many examples hypothesis draws: in `make test`, and in `make test-full`."""
    return explored if settings.get_current_profile_name() == "explore" else everyday


def covering(cases: list[Case]) -> list[str]:
    """Ids of cases that have every value of every parameter, each the one with most that was not there before."""
    chosen, missing = [], frozenset[tuple[str, int]]().union(*(values for _, values in cases))
    while missing:
        name, values = max(cases, key=lambda case: len(case[1] & missing))
        chosen.append(name)
        missing -= values
    return chosen


def chosen(cases: list[Case], wanted: tuple[object, ...]) -> set[str]:
    """Ids of the cases that are for every day, by what the mark says."""
    match wanted:
        case ():
            return set(covering(cases))
        case (int() as count,):
            return set(covering(cases)[:count])
    return {name for name, _ in cases if any(fnmatchcase(name, str(pattern)) for pattern in wanted)}


def _values(item: pytest.Function) -> frozenset[tuple[str, int]]:
    """Which values its parameters have: by identity, as not all can be hashed, and all cases share them."""
    return frozenset((name, id(value)) for name, value in item.callspec.params.items())


def mark_repetition(items: Iterable[pytest.Item], *, whole: bool) -> None:
    """Give `full` to the cases that are not for every day. `whole`: every case of every function is here."""
    functions: dict[tuple[object, str], list[pytest.Function]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("everyday"):
            functions.setdefault((item.parent, item.originalname), []).append(item)
    for (_, name), together in functions.items():
        mark = together[0].get_closest_marker("everyday")
        cases = [(item, item.callspec.id) for item in together if not item.get_closest_marker("full")]
        assert mark is not None
        kept = chosen([(case, _values(item)) for item, case in cases], mark.args)
        if whole and not kept:
            raise pytest.UsageError(f"{name}: by {mark.args} no case is for every day, such as {cases[:1]}")
        for item, case in cases:
            if case not in kept:
                item.add_marker(pytest.mark.full)
