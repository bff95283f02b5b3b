"""Random scripts: one number is one history of about a hundred operations. Hypothesis draws from the same tables.

Each history has a theme, which says how often each operation comes in it: with everything at once hardly anything would
be counted, and with one fault at a time two would never meet.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, get_args

from hypothesis import strategies as st

from tests.world import operations as op

__all__ = ["FIELDS", "script_of", "scripts"]

LENGTH = 60, 140
"""Fewest and most operations of a history that comes from a number."""
THEMES = 512
"""How many ways there are to weigh operations."""
CHAPTERS, LONGEST = 16, 12
"""Of a script that Hypothesis draws: lists, and most phrases of one. It draws long lists rarely."""

STEADY: dict[str, int] = {
    "arrive": 12,
    "close": 6,
    "settle": 6,
    "verdict": 8,
    "crowd": 6,
    "tick": 6,
    "pass": 6,
    "drain": 4,
    "together": 8,
    "flush": 8,
    "record": 8,
    "house": 4,
    "refresh": 4,
    "start": 6,
    "resume": 4,
}
"""What every theme has, by weight: without it nothing moves."""
RARE = {"torn": 0.1, "restore": 0.3, "fork": 0.25, "switch": 0.4, "revoke": 0.4, "disable": 0.4, "publish": 0.4}
"""Share of the themes, in place of a half, that have an operation that ends much of what is at stake, or takes long."""

WHICH = (0, 1)
COUNTS = (1, 2, 3, 4, 6, 12, 20)
STEPS = (*range(16), *range(16, 128, 7))
SECONDS = (1, 1, 10, 10, 61, 61, 300, 300, 900, 900, 1_800, 3_600, 4_600, 7_200, 21_600, 30_000, 90_000)
OFFSETS = (1, 30, 61, 300, 301, 900, 3_600, 7_200, 25_200, 86_400, 900_000, 40_000_000)
"""Seconds: about a step, a lease, the tolerance, the grace, a period, the horizon, and far past everything."""
PARTIES = ("s0", "s1", "a0", "a1", "d0", "d1")
METRICS = ("key", "key", "plain", "plain", "target", "small")

FIELDS: dict[str, dict[str, Sequence[Any]]] = {
    "pass": {"seconds": SECONDS, "end": (0, 0, 0, 1)},
    "clock": {"party": (*PARTIES, "r"), "by": (*OFFSETS, *(-each for each in OFFSETS))},
    "record": {"device": WHICH, "metric": METRICS, "value": range(4)},
    "flush": {"device": WHICH, "shuffler": WHICH, "hurry": (1, 0)},
    "fork": {"device": WHICH, "metric": METRICS, "value": range(4), "shuffler": WHICH},
    "second": {"device": WHICH, "metric": METRICS, "value": range(4), "shuffler": WHICH},
    "consent": {"device": WHICH, "given": (1, 0)},
    "disable": {"device": WHICH, "on": (1, 0)},
    "copy": {"device": WHICH},
    "put-back": {"device": WHICH, "witness": (0,)},  # with its witness, a restored copy is not noticed, as documented
    "torn": {"party": PARTIES, "page": range(1, 13)},
    "crowd": {"shuffler": WHICH, "metric": METRICS, "count": COUNTS, "back": (0, 0, 0, 0, 1, 2)},
    "replay": {"shuffler": WHICH, "back": range(6)},
    "reseal": {"shuffler": WHICH, "back": range(6), "times": (1, 2, 3)},
    "junk": {
        "shuffler": WHICH,
        "metric": METRICS,
        "kind": ("garbage", "wrong-period", "impossible", "malformed", "other-key"),
        "count": (1, 3, 10, 40),
    },
    "net": {"hop": get_args(op.Hop), "kind": get_args(op.Kind), "count": (1, 2, 3)},
    "deliver": {"newest": (0, 1)},
    "hostile-bundle": {"shuffler": WHICH, "kind": ("key", "page", "older", "drop")},
    "refresh": {"shuffler": WHICH},
    "tick": {"shuffler": WHICH},
    "house": {"aggregator": WHICH},
    "drain": {"aggregator": WHICH},
    "together": {},
    "rotate": {"aggregator": WHICH},
    "revoke": {"aggregator": WHICH, "ahead": (0, 1, 2)},
    "switch": {"aggregator": WHICH, "metric": METRICS, "off": (1, 0)},
    "publish": {"aggregator": WHICH, "edit": range(4)},
    "backup": {"aggregator": WHICH, "keys": (1, 0)},
    "restore": {"aggregator": WHICH},
    "crash": {"party": PARTIES, "steps": STEPS},
    "start": {"party": PARTIES},
    "pause": {"party": PARTIES, "steps": STEPS},
    "resume": {"party": PARTIES},
    "fail": {"party": PARTIES, "calls": STEPS, "done": (0, 1)},
    "full": {"party": (*PARTIES, "r"), "on": (1, 0)},
}
"""What an operation's fields may be. Plain values come first: Hypothesis shortens toward them."""

WORLD: dict[str, Sequence[Any]] = {"devices": (1, 2, 0), "shufflers": (1, 2), "aggregators": (1, 2), "shared": (1, 0)}

Choose = Callable[[Sequence[Any]], Any]
"""Takes one of several."""


@cache
def _weighted(theme: int, allowed: frozenset[str] | None = None) -> tuple[str, ...]:
    """Names of phrases, each as often as its weight says. Theme 0 has all."""
    rng, found = random.Random(f"theme {theme}"), list[str]()
    for name in (*_PHRASES, *op.OPERATIONS):
        steady = STEADY.get(name)
        weight = steady or rng.choice((1, 2, 4))
        if (steady or not theme or rng.random() < RARE.get(name, 0.5)) and (allowed is None or name in allowed):
            found += [name] * weight
    return tuple(found)


def _one(name: str, choose: Choose) -> op.Operation:
    made: op.Operation = op.OPERATIONS[name](
        **{field: choose(values) for field, values in FIELDS[name].items()},
    )
    return made


def _arrive(choose: Choose) -> list[op.Operation]:
    """Two crowds of one metric come, by any shuffler."""
    metric = choose(METRICS)
    return [op.Crowd(choose(WHICH), metric, choose(COUNTS)) for _ in range(2)]


def _close(choose: Choose) -> list[op.Operation]:
    """A period ends with its grace, and a shuffler sees it."""
    return [op.Pass(910, end=1), op.Tick(choose(WHICH))]


def _settle(choose: Choose) -> list[op.Operation]:
    """A period ends, a device has time to send for it before the grace is over, and then it is over."""
    return [op.Pass(choose((10, 300)), end=1), op.Flush(choose(WHICH), choose(WHICH)), op.Pass(900), op.Tick()]


def _verdict(choose: Choose) -> list[op.Operation]:
    """The aggregator gives its verdicts, and after a while a shuffler asks for them."""
    return [op.Drain(choose(WHICH)), op.Pass(choose((10, 61, 300))), op.Tick(choose(WHICH))]


_PHRASES: dict[str, Callable[[Choose], list[op.Operation]]] = {
    "arrive": _arrive,
    "close": _close,
    "settle": _settle,
    "verdict": _verdict,
}
"""Operations that make sense together: without them most histories would be over before anything is counted."""


def _phrase(name: str, choose: Choose) -> list[op.Operation]:
    return _PHRASES[name](choose) if name in _PHRASES else [_one(name, choose)]


def script_of(
    number: int, storage: op.Storage, allowed: frozenset[str] | None = None, more: tuple[str, ...] = ()
) -> op.Script:
    """The history of this number. `allowed`: names of operations and phrases; None: all. `more`: those that are to come
    more often."""
    rng = random.Random(f"script {storage} {number}")
    world = op.World(seed=number, storage=storage, **{name: rng.choice(values) for name, values in WORLD.items()})
    names, length = _weighted(rng.randrange(THEMES), allowed) + more, rng.randint(*LENGTH)
    operations: list[op.Operation] = []
    while len(operations) < length:
        operations += _phrase(rng.choice(names), rng.choice)
    return op.Script(world, tuple(operations))


@st.composite
def scripts(draw: st.DrawFn, storage: op.Storage) -> op.Script:
    """Any script on this storage."""

    def choose(values: Sequence[Any]) -> Any:
        return draw(st.sampled_from(values))

    seed = draw(st.integers(0, 2**32 - 1))
    world = op.World(seed=seed, storage=storage, **{name: choose(values) for name, values in WORLD.items()})
    names = st.sampled_from(_weighted(draw(st.integers(0, THEMES - 1))))

    @st.composite
    def phrase(draw: st.DrawFn) -> list[op.Operation]:
        return _phrase(draw(names), lambda values: draw(st.sampled_from(values)))

    chapters = [draw(st.lists(phrase(), max_size=LONGEST)) for _ in range(CHAPTERS)]
    return op.Script(world, tuple(one for chapter in chapters for some in chapter for one in some))
