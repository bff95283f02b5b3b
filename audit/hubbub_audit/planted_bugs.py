"""Self-test of the audit: known bugs, planted one by one in shipped code, each of which it must catch.

Sources: noise too low and a bit that is never turned off (pure-LDP issue 11; the RAPPOR client), unfair rounding, a
shuffle that keeps the order, coins used twice, retries that draw again. A planted mechanism is the shipped class with
one method changed. In clients and services, the function at fault is replaced while the attack runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from hubbub.randomness import Randomness, SystemRandomness
from hubbub.sealing import Sealer
from hubbub.wire import decode_report
from hubbub_audit.averaging_and_retries import retries
from hubbub_audit.crowd_splitting import splitting
from hubbub_audit.exact_epsilon import exact
from hubbub_audit.findings import FAMILY, Attack
from hubbub_audit.junk_and_copies import junk
from hubbub_audit.local_epsilon_and_law import law, local
from hubbub_audit.log_canaries import canaries
from hubbub_audit.plan import Audit, audit
from hubbub_audit.planted_crowd_sizes import counts_junk_as_a_crowd, forgets_what_it_refused, takes_every_bundle
from hubbub_audit.planted_mechanisms import (
    never_turned_off,
    noise_five_percent_low,
    rounds_down,
    shared_coin,
    shared_coin_of_few,
)
from hubbub_audit.planted_twins import (
    acts_on_consent_when_recording,
    charges_what_is_recorded,
    draws_all_from_one_stream,
    settles_missing_by_the_newest_page,
    wakes_when_recording,
)
from hubbub_audit.shuffled_batches import shuffled
from hubbub_audit.side_channels import recording, sending
from hubbub_audit.targets import Subject, usual
from hubbub_audit.twin_devices_attack import twins
from hubbub_audit.twin_events import STORIES
from hubbub_client import Client
from hubbub_client._randomizing import randomize
from hubbub_client._randomizing.draw import Draw, draw
from hubbub_client._sending.outbox import Outbox
from hubbub_client._sending.seal_and_send import Dispatch, seal
from hubbub_shuffler.batching import ranking
from hubbub_shuffler.batching.permute import PLACE_BYTES
from hubbub_shuffler.ingest.group_commit import Commits

__all__ = ["PLANTS", "Plant", "caught"]

_AS_IN_A_WHOLE_AUDIT = FAMILY / 1_000
"""An audit of all mechanisms makes several hundred tests."""


@dataclass(frozen=True, slots=True)
class Plant:
    """A bug, how it is planted, and the attacks that must catch it."""

    name: str
    what: str
    attacks: Callable[[int], list[Attack]]
    """The attacks, by number of trials."""
    planted: Callable[[], AbstractContextManager[Any]] = nullcontext


def caught(plant: Plant, trials: int) -> Audit:
    """Audit the planted bug, with tests as strict as in a whole audit. Some claim must be beaten."""
    with plant.planted():
        return audit(plant.attacks(trials), alpha=_AS_IN_A_WHOLE_AUDIT)


def _of_a_mechanism(subject: Callable[[], Subject]) -> Callable[[int], list[Attack]]:
    """Sampled attacks come first: they must see the bug without knowing all coins."""
    return lambda trials: [local(subject(), trials), law(subject(), trials // 2), exact(subject())]


# -- clients and shufflers ---------------------------------------------------------------------------


@contextmanager
def _keeps_the_order() -> Iterator[None]:
    """A shuffler that sorts by arrival."""
    arrived: dict[bytes, int] = {}
    add = Commits.add

    def noting(self: Commits, upload: Any) -> Any:
        for sealed in upload.values():
            for report in sealed:
                arrived.setdefault(bytes(report), len(arrived))
        return add(self, upload)

    def places(reports: bytes, size: int, seed: bytes) -> bytes:  # noqa: ARG001  a keyed hash would use the seed
        # never zero bytes at the end: places are compared as C strings
        return b"".join(
            arrived[reports[at : at + size]].to_bytes(PLACE_BYTES - 1) + b"\1" for at in range(0, len(reports), size)
        )

    with patch.object(Commits, "add", noting), patch.object(ranking, "places", places):
        yield


@contextmanager
def _draws_again() -> Iterator[None]:
    """A client that randomizes at each sending, under the same nonce: the aggregator counts one, and sees all."""
    held: dict[bytes, tuple[Any, object]] = {}
    ready = Dispatch._ready

    def noting(metric: Any, value: object, *streams: Randomness) -> Draw:
        drawn = draw(metric, value, *streams)
        held[drawn.nonce] = metric, value
        return drawn

    def again(self: Dispatch, some: Any, book: Any, now: float, *, hurry: bool) -> list[tuple[Any, bytes]]:
        made = []
        for report, sealed in ready(self, some, book, now, hurry=hurry):
            fresh = Draw(draw(*held[report.drawn.nonce], SystemRandomness()).payload, report.drawn.nonce)
            pin = book.pin(book.calendar.period(report.period))
            made.append((report, seal(decode_report(sealed)[0], fresh, Sealer(pin.public_key))))
        return made

    with patch.object(randomize, "draw", noting), patch.object(Dispatch, "_ready", again):
        yield


@contextmanager
def _sends_one_value_earlier() -> Iterator[None]:
    """A client that cuts the delay of one value by a quarter."""
    told: list[object] = []
    put = Outbox.put

    def noting(metric: Any, value: object, *streams: Randomness) -> Draw:
        told.append(metric.input_of(value))
        return draw(metric, value, *streams)

    def earlier(connection: Any, report: Any, *, due: float, delay: float) -> None:
        put(connection, report, due=due, delay=delay * (0.75 if told[-1] == 0 else 1.0))

    with patch.object(randomize, "draw", noting), patch.object(Outbox, "put", staticmethod(earlier)):
        yield


@contextmanager
def _is_slow_for_one_value() -> Iterator[None]:
    """A `record` that does more work for one value."""
    record = Client.record

    def slower(self: Client, name: str, value: object) -> Any:
        if value == "value 0":
            sum(range(5_000))
        return record(self, name, value)

    with patch.object(Client, "record", slower):
        yield


@contextmanager
def _logs_what_it_draws() -> Iterator[None]:
    """A log line for the developer that was left in."""

    def saying(metric: Any, value: object, *streams: Randomness) -> Draw:
        logging.getLogger("hubbub_client").debug("drawing %s of %s", value, metric.name)
        return draw(metric, value, *streams)

    with patch.object(randomize, "draw", saying):
        yield


def _lived(name: str) -> Callable[[int], list[Attack]]:
    """Twins that live through the story of this name."""
    stories = [story for story in STORIES if story.name == name]
    return lambda _: [twins(0, stories)]


PLANTS: tuple[Plant, ...] = (
    Plant(
        "low-noise",
        "krr lies 5 % less often than it claims",
        _of_a_mechanism(noise_five_percent_low),
    ),
    Plant("sure-bit", "rr never turns a true bit off", _of_a_mechanism(never_turned_off)),
    Plant(
        "shared-coin",
        "sue flips all zero bits by one coin",
        lambda trials: [
            local(shared_coin(), trials),
            law(shared_coin(), trials // 2),
            exact(shared_coin_of_few()),
        ],
    ),
    Plant("biased-rounding", "laplace rounds down instead of by a fair chance", _of_a_mechanism(rounds_down)),
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
    Plant(
        "newest-page",
        "the client reports `missing` by the newest page, and what was recorded by an older one",
        _lived("an edit just before the period ends"),
        settles_missing_by_the_newest_page,
    ),
    Plant(
        "sleeping-sender",
        "the client sends nothing before something is recorded",
        _lived("a crash after hours of silence"),
        wakes_when_recording,
    ),
    Plant(
        "recorded-charge",
        "the client charges the budget for what is recorded only",
        _lived("a budget that is nearly spent"),
        charges_what_is_recorded,
    ),
    Plant(
        "one-stream",
        "the client draws delays from the stream that it randomizes with",
        _lived("one crashes, the other does nothing"),
        draws_all_from_one_stream,
    ),
    Plant(
        "eager-record",
        "record() acts on a withdrawal that the client has not heard of",
        _lived("consent that is withdrawn for a moment"),
        acts_on_consent_when_recording,
    ),
    Plant(
        "counted-junk",
        "the aggregator takes the honest fraction of all reports, junk and copies included",
        lambda _: [junk(2)],
        counts_junk_as_a_crowd,
    ),
    Plant(
        "forgotten-batch",
        "the aggregator leaves a batch out of the ledger that it opened and refused",
        lambda _: [junk(1)],
        forgets_what_it_refused,
    ),
    Plant(
        "split-crowd",
        "the shuffler takes a bundle that changes a begun period",
        lambda _: [splitting()],
        takes_every_bundle,
    ),
    Plant("talkative", "the client logs what it draws, at DEBUG", lambda _: [canaries()], _logs_what_it_draws),
)
