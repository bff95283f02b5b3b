"""The audit audits itself: bugs that were made before, planted one by one in shipped code, each of which it must catch.

Sources: noise too low and a bit that is never turned off (pure-LDP issue 11; the RAPPOR client), rounding that is not
fair, a shuffle that is none, coins used twice, retries that draw again. A planted mechanism is the shipped class with
one method changed; in clients and services the function at fault is replaced while the attack runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from fractions import Fraction
from typing import Any
from unittest.mock import patch

from hubbub.mechanisms import BinaryRandomizedResponse as Binary
from hubbub.mechanisms import (
    Bounds,
    Categories,
    DiscreteLaplaceMean,
    KaryRandomizedResponse,
    SymmetricUnaryEncoding,
)
from hubbub.mechanisms._numbers import position
from hubbub.mechanisms._symbols import index
from hubbub.randomness import WORD, Randomness, SystemRandomness, discrete_laplace
from hubbub.sealing import Sealer
from hubbub.wire import decode_report
from hubbub_audit.channels import recording, sending
from hubbub_audit.exact import exact
from hubbub_audit.findings import FAMILY, Attack
from hubbub_audit.local import law, local
from hubbub_audit.logged import canaries
from hubbub_audit.periods import retries
from hubbub_audit.plan import Audit, audit
from hubbub_audit.shuffled import shuffled
from hubbub_audit.subjects import Subject, subject_of, usual
from hubbub_client import Client, _reports
from hubbub_client._draw import Draw, draw, seal
from hubbub_client._sending import Sending
from hubbub_client.outbox import Outbox
from hubbub_shuffler import ranking
from hubbub_shuffler.commits import Commits
from hubbub_shuffler.permute import PLACE_BYTES

__all__ = ["PLANTS", "Plant", "caught"]

_AS_IN_A_WHOLE_AUDIT = FAMILY / 1_000
"""An audit of all mechanisms makes some hundred tests."""


@dataclass(frozen=True, slots=True)
class Plant:
    """A bug, where it is planted, and what is attacked then."""

    name: str
    what: str
    attacks: Callable[[int], list[Attack]]
    """By number of trials."""
    planted: Callable[[], AbstractContextManager[Any]] = nullcontext


def caught(plant: Plant, trials: int) -> Audit:
    """The audit of the planted bug, with tests as strict as in a whole audit: some claim must be beaten in it."""
    with plant.planted():
        return audit(plant.attacks(trials), alpha=_AS_IN_A_WHOLE_AUDIT)


# -- mechanisms --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NoiseFivePercentLow(KaryRandomizedResponse):
    """Lies nineteen times where it should twenty times."""

    def randomize(self, value: object, rng: Randomness) -> int:
        truth = index(value, self.size, self.name)
        lie = (truth + 1 + rng.below(self.size - 1)) % self.size
        kept = WORD - (WORD - self.keep) * 19 // 20
        return truth if rng.coin(kept, WORD) else lie


@dataclass(frozen=True)
class NeverTurnsATrueBitOff(Binary):
    """Says no only for a no."""

    def randomize(self, value: object, rng: Randomness) -> int:
        return 1 if value else int(not rng.coin(self.keep, WORD))


@dataclass(frozen=True)
class ZeroBitsShareOneCoin(SymmetricUnaryEncoding):
    """Every bit by itself has the right law; only together do they give the value away."""

    def randomize(self, value: object, rng: Randomness) -> bytes:
        held = index(value, self.size, self.name)
        noise = (1 << self.size) - 1 if rng.coin(self.flip, WORD) else 0
        one = int(rng.coin(self.keep, WORD))
        return self.packed(noise & ~(1 << held) | one << held)


@dataclass(frozen=True)
class RoundsDown(DiscreteLaplaceMean):
    """Takes the grid point below, always: as private as before, and wrong."""

    def randomize(self, value: object, rng: Randomness) -> int:
        up, whole = position(value, self.bounds, self.name)
        noisy = up * self.steps // whole + discrete_laplace(rng, self.scale, self.rate)
        return min(max(noisy, -self.reach), self.steps + self.reach)


def _noise_five_percent_low() -> Subject:
    right = KaryRandomizedResponse.calibrate(1, Categories(2))
    return subject_of(NoiseFivePercentLow(right.epsilon, right.size, right.keep))


def _never_turned_off() -> Subject:
    right = Binary.calibrate(1, Categories(2))
    return subject_of(NeverTurnsATrueBitOff(right.epsilon, right.keep))


def _shared_coin() -> Subject:
    right = SymmetricUnaryEncoding.calibrate(1, Categories(16))
    return subject_of(ZeroBitsShareOneCoin(right.epsilon, right.size, right.flip))


def _shared_coin_of_few() -> Subject:
    right = SymmetricUnaryEncoding.calibrate(1, Categories(3))
    return subject_of(ZeroBitsShareOneCoin(right.epsilon, right.size, right.flip))


def _rounds_down() -> Subject:
    right = DiscreteLaplaceMean.calibrate(1, Bounds(Fraction(-1), Fraction(3)), steps=2)
    return subject_of(RoundsDown(right.epsilon, right.bounds, right.steps, right.scale, right.rate, right.reach))


def _of_a_mechanism(subject: Callable[[], Subject]) -> Callable[[int], list[Attack]]:
    """Sampled attacks first: they must see it without knowing all coins."""
    return lambda trials: [local(subject(), trials), law(subject(), trials // 2), exact(subject())]


# -- clients and shufflers ---------------------------------------------------------------------------


@contextmanager
def _keeps_the_order() -> Iterator[None]:
    """A shuffler that sorts by arrival."""
    arrived: dict[bytes, int] = {}
    add = Commits.add

    def noting(self: Commits, place: Any, sealed: Any) -> Any:
        for report in sealed:
            arrived.setdefault(bytes(report), len(arrived))
        return add(self, place, sealed)

    def places(reports: bytes, size: int, seed: bytes) -> bytes:  # noqa: ARG001  what a keyed hash would use
        # never zero bytes at the end: places are compared as C strings
        return b"".join(
            arrived[reports[at : at + size]].to_bytes(PLACE_BYTES - 1) + b"\1" for at in range(0, len(reports), size)
        )

    with patch.object(Commits, "add", noting), patch.object(ranking, "places", places):
        yield


@contextmanager
def _draws_again() -> Iterator[None]:
    """A client that randomizes whenever it sends, under the same nonce: the aggregator counts it once, and sees all."""
    held: dict[bytes, tuple[Any, object]] = {}
    ready = Sending._ready

    def noting(metric: Any, value: object, rng: Randomness) -> Draw:
        drawn = draw(metric, value, rng)
        held[drawn.nonce] = metric, value
        return drawn

    def again(self: Sending, some: Any, body: Any, now: float, *, hurry: bool) -> list[tuple[Any, bytes]]:
        made = []
        for report, sealed in ready(self, some, body, now, hurry=hurry):
            fresh = Draw(draw(*held[report.drawn.nonce], SystemRandomness()).payload, report.drawn.nonce)
            header, key = decode_report(sealed)[0], body.key_for(report.period)
            made.append((report, seal(header, fresh, Sealer(key.public_key))))
        return made

    with patch.object(_reports, "draw", noting), patch.object(Sending, "_ready", again):
        yield


@contextmanager
def _sends_one_value_earlier() -> Iterator[None]:
    """A client that cuts the delay of one value by a quarter."""
    told: list[object] = []
    put = Outbox.put

    def noting(metric: Any, value: object, rng: Randomness) -> Draw:
        told.append(metric.input_of(value))
        return draw(metric, value, rng)

    def earlier(connection: Any, report: Any, *, due: float, delay: float) -> None:
        put(connection, report, due=due, delay=delay * (0.75 if told[-1] == 0 else 1.0))

    with patch.object(_reports, "draw", noting), patch.object(Outbox, "put", staticmethod(earlier)):
        yield


@contextmanager
def _is_slow_for_one_value() -> Iterator[None]:
    """A `record` that does some more work for one value."""
    record = Client.record

    def slower(self: Client, name: str, value: object) -> Any:
        if value == "value 0":
            sum(range(5_000))
        return record(self, name, value)

    with patch.object(Client, "record", slower):
        yield


@contextmanager
def _logs_what_it_draws() -> Iterator[None]:
    """A line for the developer, left in."""

    def saying(metric: Any, value: object, rng: Randomness) -> Draw:
        logging.getLogger("hubbub_client").debug("drawing %s of %s", value, metric.name)
        return draw(metric, value, rng)

    with patch.object(_reports, "draw", saying):
        yield


PLANTS: tuple[Plant, ...] = (
    Plant(
        "low-noise",
        "krr lies 5 % less often than it claims",
        _of_a_mechanism(_noise_five_percent_low),
    ),
    Plant("sure-bit", "rr never turns a true bit off", _of_a_mechanism(_never_turned_off)),
    Plant(
        "shared-coin",
        "sue flips all zero bits by one coin",
        lambda trials: [
            local(_shared_coin(), trials),
            law(_shared_coin(), trials // 2),
            exact(_shared_coin_of_few()),
        ],
    ),
    Plant("biased-rounding", "laplace rounds down instead of by a fair chance", _of_a_mechanism(_rounds_down)),
    Plant(
        "kept-order",
        "the shuffler forwards in the order of arrival",
        lambda trials: [shuffled(usual("krr", 3.0), max(trials // 50, 40))],
        _keeps_the_order,
    ),
    Plant(
        "fresh-retry",
        "the client randomizes again when it sends again",
        lambda trials: [retries(usual("krr", 1.0), max(6, trials // 2_000))],
        _draws_again,
    ),
    Plant(
        "early-value",
        "the client sends one value after three quarters of the delay",
        lambda trials: [sending(usual("krr", 1.0, size=2), max(trials // 50, 64))],
        _sends_one_value_earlier,
    ),
    Plant(
        "slow-value",
        "record() takes some microseconds longer for one value",
        lambda trials: [recording(usual("krr", 1.0, size=2), max(trials // 25, 64))],
        _is_slow_for_one_value,
    ),
    Plant("talkative", "the client logs what it draws, at DEBUG", lambda _: [canaries()], _logs_what_it_draws),
)
