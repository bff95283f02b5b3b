"""The bundle on the device: only what a trust anchor signed, never an older one, and none past its expiry."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from hubbub.bundle import Bundle, entity_tag, verify
from hubbub_client import Client, Outcome
from hubbub_client._http.transport import is_loopback
from tests.client.world import DAY, START, TOML, TRUST, World, no_network, page, problem, signed
from tests.support.codebooks import IDENTITY, STRANGER
from tests.support.codebooks import signed as signed_bundle


def later(world: World, bundle: bytes) -> None:
    """The device asks again, and is served this."""
    world.time.now += 3_601
    world.transport.bundle = bundle


def altered(bundle: bytes) -> bytes:
    """A bundle with a bit of its content changed on the way."""
    return bundle[:-2] + bytes([bundle[-2] ^ 1]) + bundle[-1:]


SERVED_BADLY = {
    "bundle:RolledBackBundle": signed(now=START - 1),
    "bundle:ExpiredBundle": signed(now=START + 10, lifetime=1),
    "bundle:BadSignature": altered(signed(now=START + 10)),
    "bundle:UntrustedBundle": signed(now=START + 10, identity=STRANGER),
    "bundle:MalformedBundle": b"<html>Please log in</html>",
}


@pytest.mark.parametrize("counter", SERVED_BADLY)
def test_while_a_refused_bundle_is_served_nothing_is_sent(world: World, counter: str) -> None:
    client = world.ready()
    client.record("theme", "dark")
    later(world, SERVED_BADLY[counter])

    assert not client.flush(0, now=True)
    assert world.uploads() == []
    assert client.stats()[counter] == 1

    later(world, signed(now=START + 20))
    assert client.flush(0, now=True)
    assert len(world.transport.reports) == 1


@pytest.mark.parametrize("counter", sorted(SERVED_BADLY.keys() - {"bundle:RolledBackBundle"}))
def test_a_first_bundle_that_is_refused_makes_no_codebook(world: World, counter: str) -> None:
    world.transport.bundle = SERVED_BADLY[counter]
    client = world.client()
    assert not client.flush(0)
    assert client.record("theme", "dark") is Outcome.WAITING
    assert client.stats()[counter] == 1


def test_rollback_is_recognised_after_a_restart(world: World) -> None:
    world.ready().close()
    later(world, signed(now=START - 1))
    client = world.client()
    assert not client.flush(0)
    assert client.stats()["bundle:RolledBackBundle"] == 1


def test_two_different_bundles_under_one_number_are_a_rollback(world: World) -> None:
    client = world.ready()
    later(world, signed(TOML.replace("epsilon = 2", "epsilon = 1")))
    assert not client.flush(0)
    assert client.stats()["bundle:RolledBackBundle"] == 1


def test_nobody_waits_for_the_file_while_a_bundle_is_verified(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    verified = []

    def watched(*arguments: Any) -> Bundle:
        other = sqlite3.connect(world.directory / "hubbub.sqlite3", timeout=0, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")  # locked, if someone is writing
        other.close()
        verified.append(verify(*arguments))
        return verified[-1]

    monkeypatch.setattr("hubbub_client._codebooks.bundle_fetch_and_cache.verify", watched)
    world.ready()
    assert len(verified) == 1


def test_a_bundle_older_than_one_that_another_process_accepted_meanwhile_is_a_rollback(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overtaken(*arguments: Any) -> Bundle:
        monkeypatch.setattr("hubbub_client._codebooks.bundle_fetch_and_cache.verify", verify)
        older, world.transport.bundle = world.transport.bundle, signed(now=START + 10)
        world.ready().close()
        world.transport.bundle = older
        return verify(*arguments)

    client = world.client()
    monkeypatch.setattr("hubbub_client._codebooks.bundle_fetch_and_cache.verify", overtaken)
    assert not client.flush(0)
    assert client.stats()["bundle:RolledBackBundle"] == 1
    assert world.client().record("theme", "dark") is Outcome.RECORDED


def test_a_cached_bundle_works_offline_until_it_expires(world: World) -> None:
    world.ready().close()
    client = world.client()
    world.transport.script.extend([no_network] * 100)
    world.time.now += 10 * DAY
    assert client.record("theme", "dark") is Outcome.RECORDED
    assert not client.flush(0, now=True)  # sealed and kept, but the network is gone

    world.time.now = START + 30 * DAY
    assert client.record("theme", "dark") is Outcome.EXPIRED
    assert world.client().record("theme", "dark") is Outcome.EXPIRED
    uploads = len(world.uploads())
    assert not client.flush(0, now=True)
    assert len(world.uploads()) == uploads


@pytest.mark.parametrize("answer", [no_network, page(403), page(503), problem("no-bundle")])
def test_a_bundle_that_cannot_be_had_does_not_stop_a_device_that_holds_one(world: World, answer: object) -> None:
    assert callable(answer)
    client = world.ready()
    client.record("theme", "dark")
    world.time.now += 3_601
    world.transport.script.append(answer)
    assert client.flush(0, now=True)
    assert len(world.transport.reports) == 1


def test_the_bundle_is_asked_for_only_when_its_age_is_over_and_by_its_tag(world: World) -> None:
    client = world.ready()
    assert client.flush(0)
    world.time.now += 3_600
    assert client.flush(0)
    assert client.flush(0)

    first, second = world.transport.requests
    assert "if-none-match" not in first.headers
    assert second.headers["if-none-match"] == entity_tag(world.transport.bundle)


def test_a_tag_that_the_service_makes_up_is_never_sent_back(world: World) -> None:
    """It could be a name for this device, to know it again from another address."""
    named = {"etag": '"device-1234"'}
    world.transport.script.append(lambda _: (200, named, world.transport.bundle))
    client = world.client()
    client.flush(0)
    world.time.now += 3_601
    client.flush(0)
    asked = world.transport.requests[-1].headers["if-none-match"]
    assert "device-1234" not in asked
    assert all("device-1234" not in str(request.headers) for request in world.transport.requests)


def test_a_clock_set_back_makes_the_device_ask(world: World) -> None:
    client = world.ready()
    world.time.now -= 500
    assert client.flush(0)
    assert len(world.transport.requests) == 2


def test_an_anchor_that_is_no_longer_trusted_takes_its_cached_bundle_with_it(world: World) -> None:
    world.ready().close()
    from hubbub.trust_anchor import anchor_of

    client = world.client(trust=anchor_of(STRANGER))
    assert client.record("theme", "dark") is Outcome.WAITING
    assert world.client(trust=[anchor_of(STRANGER), TRUST]).record("theme", "dark") is Outcome.RECORDED


def test_a_device_with_both_anchors_goes_on_when_the_identity_is_exchanged(world: World) -> None:
    from hubbub.trust_anchor import anchor_of

    world.ready().close()
    client = world.client(trust=[TRUST, anchor_of(STRANGER)])
    client.record("theme", "dark")
    later(world, signed(now=START + 10, identity=STRANGER))

    assert client.flush(0, now=True)
    assert len(world.transport.reports) == 1


def test_on_this_machine_the_first_signer_is_believed_from_then_on(world: World) -> None:
    def client() -> Client:
        return Client(
            "http://localhost:1",
            trust=None,
            consent=True,
            state_dir=world.directory,
            clock=world.time,
            transport=world.transport,
        )

    assert client().flush(0)
    later(world, signed(now=START + 10, identity=STRANGER))
    second = client()
    assert not second.flush(0)
    assert second.stats()["bundle:UntrustedBundle"] == 1
    later(world, signed(now=START + 10, identity=IDENTITY))
    assert client().flush(0)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("http://127.0.0.1:80", True),
        ("http://127.9.9.9", True),
        ("http://[::1]:80", True),
        ("http://LOCALHOST", True),
        ("http://localhost.example.com", False),
        ("http://128.0.0.1", False),
        ("http://127.0.0.1.example.com", False),
        ("http://0.0.0.0", False),
        ("http://10.0.0.1", False),
        ("http://[::ffff:8.8.8.8]", False),
    ],
)
def test_loopback_is_this_machine_and_nothing_else(address: str, expected: bool) -> None:
    assert is_loopback(address) is expected


def test_a_codebook_that_claims_what_does_not_hold_collects_nothing(world: World) -> None:
    """Signed by the aggregator, and still: epsilon 2 stated, the integers of a larger one shipped."""
    from hubbub.codebook import Codebook
    from tests.client.world import sealing_key

    honest, lavish = (
        Codebook.from_toml(text).compiled() for text in (TOML, TOML.replace("epsilon = 2", "epsilon = 3"))
    )
    for metric, other in zip(honest["metrics"], lavish["metrics"], strict=True):  # type: ignore[arg-type]  # lists
        metric["mechanism"] = other["mechanism"]  # type: ignore[index,call-overload]  # of objects
    world.transport.bundle = signed_bundle({0: honest}, [sealing_key()], now=START, lifetime=DAY, max_age=60)
    client = world.client()
    client.flush(0)
    assert client.record("theme", "dark") is Outcome.INVALID
    assert client.stats()["codebook:unreadable"] == 1
    client.flush(0, now=True)
    assert world.transport.reports == []
