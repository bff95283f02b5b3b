"""Operations as data: what may happen in a world, one line each, and scripts of them that can be printed and read back.

A script is text. Its first line says what the world is made of, every other line is one operation:

    world seed=7 storage=redis devices=2 shufflers=2 aggregators=1
    crowd shuffler=0 metric=key count=5
    net hop=forward kind=lose-answer count=1
    tick shuffler=0

A line starts with the operation's name. Its fields follow as `field=value`; those with their default may be left out.
Empty lines and comments (#) are ignored. Numbers of parties are taken modulo how many there are, so every line makes
sense in every world, and Hypothesis and people can shorten scripts freely.

`REAL` says which operations a world of real processes can carry out as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Literal, TypeAlias, get_args

__all__ = ["OPERATIONS", "REAL", "Kind", "Operation", "Script", "Storage", "World", "parse", "written"]

Storage: TypeAlias = Literal["sqlite", "redis"]
Metric: TypeAlias = Literal["key", "plain", "target", "small"]
METRICS: tuple[Metric, ...] = get_args(Metric)
Hop: TypeAlias = Literal["up", "forward"]
"""Between device and shuffler, or between shuffler and aggregator."""
Kind: TypeAlias = Literal["lose-request", "lose-answer", "duplicate", "delay", "corrupt", "cut", "odd-answer"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class World:
    """What a world is made of. `shared`: all shufflers work on one storage; on Redis, all aggregators always do."""

    name: ClassVar[str] = "world"
    seed: int = 0
    storage: Storage = "sqlite"
    devices: int = 1
    shufflers: int = 1
    aggregators: int = 1
    shared: int = 1


# -- time


@dataclass(frozen=True, slots=True)
class Pass:
    """Time passes for everyone. `end`: to the end of the present period, and so many seconds on."""

    name: ClassVar[str] = "pass"
    seconds: int = 60
    end: int = 0


@dataclass(frozen=True, slots=True)
class SetClock:
    """The wall clock of one party is set: from now on it is this much further ahead, or behind. Time goes on as ever.

    `party`: d0, s1, a0, or r for Redis.
    """

    name: ClassVar[str] = "clock"
    party: str = "s0"
    by: int = 0


# -- devices


@dataclass(frozen=True, slots=True)
class Record:
    """A device records a value; its twin, which is to look the same from outside, records another one or nothing."""

    name: ClassVar[str] = "record"
    device: int = 0
    metric: Metric = "key"
    value: int = 0


@dataclass(frozen=True, slots=True)
class Flush:
    """A device runs a cycle. `hurry`: random delays count as over."""

    name: ClassVar[str] = "flush"
    device: int = 0
    shuffler: int = 0
    hurry: int = 1


@dataclass(frozen=True, slots=True)
class Fork:
    """The device's process forks; the child records, flushes and ends."""

    name: ClassVar[str] = "fork"
    device: int = 0
    metric: Metric = "key"
    value: int = 0
    shuffler: int = 0


@dataclass(frozen=True, slots=True)
class Second:
    """Another process of the app runs on the same directory: it records, flushes and ends."""

    name: ClassVar[str] = "second"
    device: int = 0
    metric: Metric = "key"
    value: int = 0
    shuffler: int = 0


@dataclass(frozen=True, slots=True)
class Consent:
    """The person gives consent, or withdraws it."""

    name: ClassVar[str] = "consent"
    device: int = 0
    given: int = 1


@dataclass(frozen=True, slots=True)
class Disable:
    """The person opts out for good, or takes that back."""

    name: ClassVar[str] = "disable"
    device: int = 0
    on: int = 1


@dataclass(frozen=True, slots=True)
class CopyDevice:
    """A backup of a device's directory is made. A second one replaces the first."""

    name: ClassVar[str] = "copy"
    device: int = 0


@dataclass(frozen=True, slots=True)
class PutBackDevice:
    """The device's directory is replaced by its backup, if there is one. `witness`: the witness file as well."""

    name: ClassVar[str] = "put-back"
    device: int = 0
    witness: int = 1


@dataclass(frozen=True, slots=True)
class TornPage:
    """One page of a party's SQLite file is zeros after it was stopped: `page` counts modulo the pages of the file."""

    name: ClassVar[str] = "torn"
    party: str = "d0"
    page: int = 1


@dataclass(frozen=True, slots=True)
class Crowd:
    """So many new devices, each with one value, send a report each in one upload. `back`: for an earlier period."""

    name: ClassVar[str] = "crowd"
    shuffler: int = 0
    metric: Metric = "key"
    count: int = 5
    back: int = 0


@dataclass(frozen=True, slots=True)
class Replay:
    """Someone sends an earlier upload again, byte for byte."""

    name: ClassVar[str] = "replay"
    shuffler: int = 0
    back: int = 0


@dataclass(frozen=True, slots=True)
class Reseal:
    """Devices seal reports of an earlier upload again, around the same nonces, `times` times, and send them."""

    name: ClassVar[str] = "reseal"
    shuffler: int = 0
    back: int = 0
    times: int = 1


@dataclass(frozen=True, slots=True)
class Junk:
    """A hostile device sends reports that look right from outside."""

    name: ClassVar[str] = "junk"
    shuffler: int = 0
    metric: Metric = "key"
    kind: Literal["garbage", "wrong-period", "impossible", "malformed", "other-key"] = "garbage"
    count: int = 5


# -- network


@dataclass(frozen=True, slots=True)
class Net:
    """What happens to the next requests on a hop."""

    name: ClassVar[str] = "net"
    hop: Hop = "up"
    kind: Kind = "lose-answer"
    count: int = 1


@dataclass(frozen=True, slots=True)
class Deliver:
    """A delayed request arrives after all: the newest one first if `newest`."""

    name: ClassVar[str] = "deliver"
    newest: int = 0


@dataclass(frozen=True, slots=True)
class HostileBundle:
    """The aggregator, which is dishonest for a moment, signs another bundle for one shuffler's next fetch."""

    name: ClassVar[str] = "hostile-bundle"
    shuffler: int = 0
    kind: Literal["key", "page", "older", "drop"] = "key"


# -- services


@dataclass(frozen=True, slots=True)
class Refresh:
    """A shuffler fetches the bundle."""

    name: ClassVar[str] = "refresh"
    shuffler: int = 0


@dataclass(frozen=True, slots=True)
class Tick:
    """A shuffler closes, plans, forwards and forgets what is due."""

    name: ClassVar[str] = "tick"
    shuffler: int = 0


@dataclass(frozen=True, slots=True)
class House:
    """An aggregator does its housekeeping: keys, bundle, erasing."""

    name: ClassVar[str] = "house"
    aggregator: int = 0


@dataclass(frozen=True, slots=True)
class Drain:
    """An aggregator opens the batches that wait, and gives its verdicts."""

    name: ClassVar[str] = "drain"
    aggregator: int = 0


@dataclass(frozen=True, slots=True)
class Together:
    """All shufflers tick and all aggregators drain at the same time, step by step in an order that the seed decides."""

    name: ClassVar[str] = "together"


# -- operators


@dataclass(frozen=True, slots=True)
class Rotate:
    """An operator makes a new sealing key."""

    name: ClassVar[str] = "rotate"
    aggregator: int = 0


@dataclass(frozen=True, slots=True)
class Revoke:
    """An operator revokes the key of the present period (`ahead` 0) or of a later one."""

    name: ClassVar[str] = "revoke"
    aggregator: int = 0
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class Switch:
    """An operator switches a metric off, or on again."""

    name: ClassVar[str] = "switch"
    aggregator: int = 0
    metric: Metric = "plain"
    off: int = 1


@dataclass(frozen=True, slots=True)
class Publish:
    """An operator publishes an edited codebook."""

    name: ClassVar[str] = "publish"
    aggregator: int = 0
    edit: int = 0


@dataclass(frozen=True, slots=True)
class Backup:
    """An operator makes a backup of an aggregator on SQLite."""

    name: ClassVar[str] = "backup"
    aggregator: int = 0
    keys: int = 1


@dataclass(frozen=True, slots=True)
class Restore:
    """An operator restores that backup, if there is one, with the newest bundle that a shuffler relays."""

    name: ClassVar[str] = "restore"
    aggregator: int = 0


# -- faults of processes and storages


@dataclass(frozen=True, slots=True)
class Crash:
    """A process is killed after so many more of its steps: storage calls and awaits. 0: now."""

    name: ClassVar[str] = "crash"
    party: str = "s0"
    steps: int = 0


@dataclass(frozen=True, slots=True)
class Start:
    """A process that was killed starts again."""

    name: ClassVar[str] = "start"
    party: str = "s0"


@dataclass(frozen=True, slots=True)
class Pause:
    """A process stands still after so many more of its steps."""

    name: ClassVar[str] = "pause"
    party: str = "s0"
    steps: int = 0


@dataclass(frozen=True, slots=True)
class Resume:
    """A process that stood still goes on where it was."""

    name: ClassVar[str] = "resume"
    party: str = "s0"


@dataclass(frozen=True, slots=True)
class Fail:
    """The storage of a party fails at one call, after `calls` others. `done`: the call took effect all the same."""

    name: ClassVar[str] = "fail"
    party: str = "s0"
    calls: int = 0
    done: int = 0


@dataclass(frozen=True, slots=True)
class Full:
    """The storage of a party is full, or has room again."""

    name: ClassVar[str] = "full"
    party: str = "s0"
    on: int = 1


Operation: TypeAlias = (
    Pass
    | SetClock
    | Record
    | Flush
    | Fork
    | Second
    | Consent
    | Disable
    | CopyDevice
    | PutBackDevice
    | TornPage
    | Crowd
    | Replay
    | Reseal
    | Junk
    | Net
    | Deliver
    | HostileBundle
    | Refresh
    | Tick
    | House
    | Drain
    | Together
    | Rotate
    | Revoke
    | Switch
    | Publish
    | Backup
    | Restore
    | Crash
    | Start
    | Pause
    | Resume
    | Fail
    | Full
)
OPERATIONS: dict[str, Any] = {each.name: each for each in get_args(Operation)}
"""Every operation by its name."""
REAL = frozenset(["pass", "clock", "crowd", "replay", "reseal", "junk", "net", "crash", "start", "pause", "resume"])
"""What real processes can do as well: by kill, pause, libfaketime, a proxy and devices of the harness.

Ticks, drains and housekeeping happen there by themselves, so those lines mean nothing. A crash or pause after some
steps is one after some hundredths of a second.
"""


@dataclass(frozen=True, slots=True)
class Script:
    """One history: a world, and what happens in it."""

    world: World
    operations: tuple[Operation, ...]

    def __str__(self) -> str:
        return "\n".join([written(self.world), *map(written, self.operations)]) + "\n"


def written(one: World | Operation) -> str:
    """One line. Fields that have their usual value are left out."""
    given = [(each.name, getattr(one, each.name)) for each in fields(one) if getattr(one, each.name) != each.default]
    return " ".join([one.name, *(f"{name}={value}" for name, value in given)])


def parse(text: str) -> Script:
    """Read a script back. ValueError names the line that is wrong."""
    world, *operations = _lines(text)
    if not isinstance(world, World) or any(isinstance(each, World) for each in operations):
        raise ValueError("a script has one line `world ...`, which is the first")
    return Script(world, tuple(operations))


def _lines(text: str) -> Iterator[Any]:
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split()
        if words:
            try:
                yield _read(words)
            except (KeyError, ValueError, TypeError) as error:
                raise ValueError(f"line {number}: {line.strip()!r}: {error}") from error


def _read(words: Sequence[str]) -> World | Operation:
    kind: Any = World if words[0] == World.name else OPERATIONS[words[0]]
    usual = {each.name: each.default for each in fields(kind)}
    given: dict[str, Any] = {}
    for word in words[1:]:
        name, _, value = word.partition("=")
        if name not in usual:
            raise ValueError(f"{words[0]} has no field {name!r}; it has {', '.join(usual) or 'none'}")
        assert usual[name] is not MISSING
        given[name] = int(value) if isinstance(usual[name], int) else value
    made: World | Operation = kind(**given)
    return made
