"""Rate limits by address: enough for any honest device, and nothing is kept that would tell whose address it was."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hubbub.wire import REPORTS_TYPE
from hubbub_service_common.http.client_network import network_of
from hubbub_shuffler.ingest.rate_limit import KEY_BYTES, Limits, sender_of
from tests.shuffler.world import NOW, World, unique, upload
from tests.support.clock import Clock

HERE = "198.51.100.7"
THERE = "203.0.113.9"


def limits(clock: Clock, hops: int = 0, rate: float = 2, burst: float = 4) -> Limits:
    return Limits(rate=rate, burst=burst, hops=hops, key=bytes(range(KEY_BYTES)), clock=clock)


def scope(host: str, *forwarded: str) -> dict[str, Any]:
    return {"client": (host, 4_711), "headers": [(b"x-forwarded-for", each.encode()) for each in forwarded]}


def admitted(of: Limits, host: str, requests: int, *forwarded: str) -> int:
    """How many of so many requests get through."""
    taken = 0
    for _ in range(requests):
        source = of.source(scope(host, *forwarded))
        taken += source is None or of.take(source) == 0
    return taken


def test_an_address_may_send_a_burst_and_then_so_many_per_second() -> None:
    clock = Clock(1_000.0)
    of = limits(clock)
    assert admitted(of, HERE, 10) == 4
    clock.now += 0.4
    assert admitted(of, HERE, 10) == 0
    clock.now += 0.6
    assert admitted(of, HERE, 10) == 2
    clock.now += 1_000
    assert admitted(of, HERE, 10) == 4


def test_who_is_refused_learns_when_to_come_back_and_is_let_in_then() -> None:
    clock = Clock(1_000.0)
    of = limits(clock, rate=0.25, burst=1)
    source = of.source(scope(HERE))
    assert source is not None
    assert of.take(source) == 0
    wait = of.take(source)
    assert wait == 4
    clock.now += wait
    assert of.take(source) == 0


def test_one_address_does_not_use_up_what_another_has() -> None:
    of = limits(Clock(1_000.0))
    assert admitted(of, HERE, 100) == 4
    assert admitted(of, THERE, 100) == 4


def test_reports_beyond_the_first_are_owed_and_paid_for_by_waiting() -> None:
    clock = Clock(1_000.0)
    of = limits(clock)
    source = of.source(scope(HERE))
    assert source is not None
    assert of.take(source) == 0
    of.charge(source, 99)  # one upload of a hundred
    assert of.take(source) == 49
    clock.now += 49
    assert of.take(source) == 0


def test_many_large_uploads_at_the_same_time_are_not_all_let_in_for_one_token_each() -> None:
    clock = Clock(1_000.0)
    of = limits(clock)
    source = of.source(scope(HERE))
    assert source is not None
    assert [of.take(source) for _ in range(3)] == [0, 0, 0]  # three that begin at the same time
    assert of.charge(source, 99) == 0
    waits = [of.charge(source, 99) for _ in range(2)]
    assert waits == [50, 50]  # the debt is that of one upload, not of three
    clock.now += waits[0]
    assert of.charge(source, 99) == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_loopback_has_no_limit(host: str) -> None:
    assert admitted(limits(Clock(NOW)), host, 100) == 100


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:198.51.100.7", HERE, True),
        (HERE, "198.51.100.8", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("unknown", "_hidden", True),
        ("127.1", "unknown", True),
        ("::ffff:c633:6407", HERE, True),
        ("0:0:0:0:0:ffff:198.51.100.7%1", HERE, True),
        ("", "\0", True),
    ],
)
def test_what_counts_as_one_address(one: str, other: str, same: bool) -> None:
    assert (network_of(one) == network_of(other)) is same


@pytest.mark.parametrize(
    ("hops", "said", "sender"),
    [
        (1, [HERE], HERE),
        (1, [f"6.6.6.6, {HERE}"], HERE),
        (1, ["6.6.6.6", HERE], HERE),
        (2, [f"6.6.6.6, {HERE}, 10.0.0.1"], HERE),
        (2, [HERE], HERE),
        (2, ["127.0.0.1", f"6.6.6.6,{HERE}", "10.0.0.1"], HERE),
        (3, [f"6.6.6.6, {HERE}, 10.0.0.1, 10.0.0.2"], HERE),
        (1, [f"{HERE}, "], ""),
        (1, [f"{HERE}:4711"], HERE),
        (1, ["[2001:db8::1]:4711"], "2001:db8::1"),
        (1, ["2001:db8::1"], "2001:db8::1"),
        (1, [], None),
    ],
)
def test_behind_proxies_the_sender_is_who_they_saw_and_not_who_he_says_he_is(
    hops: int, said: list[str], sender: str | None
) -> None:
    assert sender_of([(b"x-forwarded-for", each.encode()) for each in said], hops) == sender


def test_a_forged_header_gets_nobody_around_the_limit() -> None:
    of = limits(Clock(1_000.0), hops=1)
    taken = sum(admitted(of, "127.0.0.1", 1, f"10.0.{n // 256}.{n % 256}, {HERE}") for n in range(100))
    assert taken == 4
    of = limits(Clock(1_000.0))  # without a proxy nothing of it is read
    assert sum(admitted(of, HERE, 1, f"10.0.0.{n}") for n in range(100)) == 4


def test_nobody_gets_a_full_bucket_by_sending_from_many_other_addresses() -> None:
    of = limits(Clock(1_000.0))
    admitted(of, HERE, 100)
    for n in range(70_000):
        source = of.source(scope(f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}"))
        assert source is not None
        of.take(source)
    assert admitted(of, HERE, 100) == 0


def test_a_thousand_addresses_over_their_limit_hold_up_almost_nobody_else() -> None:
    of = limits(Clock(1_000.0))
    for n in range(1_000):
        assert admitted(of, f"10.1.{n >> 8}.{n & 255}", 5) <= 4
    held_up = sum(admitted(of, f"10.2.{n >> 8}.{n & 255}", 1) == 0 for n in range(20_000))
    assert held_up < 40  # one in 4,300 is expected: shares both numbers with one of the thousand


def test_two_processes_do_not_know_an_address_by_the_same_numbers() -> None:
    one, other = limits(Clock(NOW)), Limits(rate=2, burst=4, hops=0, key=bytes(KEY_BYTES), clock=Clock(NOW))
    assert one.source(scope(HERE)) != other.source(scope(HERE))


def from_address(world: World, host: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(world.app, client=(host, 4_711)),
        base_url="http://shuffler.test",
        headers={"Content-Type": REPORTS_TYPE},
    )


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/reports"), ("PUT", "/v1/reports"), ("GET", "/v1/bundle"), ("GET", "/nowhere")],
)
async def test_too_much_from_one_address_is_told_when_to_come_back_on_every_route(
    tmp_path: Path, method: str, path: str
) -> None:
    ticking = Clock(1_000.0)

    async with (
        World(tmp_path, limits=limits(ticking)) as world,
        from_address(world, HERE) as here,
        from_address(world, THERE) as there,
    ):
        body = upload(unique(1))
        first = [(await here.request(method, path, content=body)).status_code for _ in range(4)]
        assert 429 not in first
        answer = await here.request(method, path, content=body)
        assert (answer.status_code, answer.json()["type"]) == (429, "urn:hubbub:problem:rate-limited")
        assert answer.headers["retry-after"] == "1"
        assert HERE not in answer.text
        assert world.ingest.refused["rate-limited"] == 1
        assert (await there.request(method, path, content=body)).status_code != 429
        ticking.now += 1
        assert (await here.request(method, path, content=body)).status_code != 429


async def test_large_uploads_that_come_together_are_not_all_taken(tmp_path: Path) -> None:
    async with World(tmp_path, limits=limits(Clock(1_000.0))) as world, from_address(world, HERE) as here:
        sent = [here.post("/v1/reports", content=upload(unique(50))) for _ in range(3)]
        answers = await asyncio.gather(*sent)
        assert sorted(answer.status_code for answer in answers) == [202, 429, 429]


async def test_an_upload_of_many_is_taken_whole_and_the_next_one_waits(tmp_path: Path) -> None:
    async with World(tmp_path, limits=limits(Clock(1_000.0))) as world, from_address(world, HERE) as here:
        assert (await here.post("/v1/reports", content=upload(unique(50)))).status_code == 202
        answer = await here.post("/v1/reports", content=upload(unique(1)))
        assert (answer.status_code, int(answer.headers["retry-after"])) == (429, 24)
