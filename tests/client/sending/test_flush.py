"""`flush`: the same bytes until they are acknowledged, and each refusal acted on by its name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from hubbub.bundle import SealingKey, verify
from hubbub.randomness import SystemRandomness
from hubbub.refusals import REFUSALS, Action
from hubbub.wire import decode_report, decode_upload
from hubbub_client import Client, Outcome
from hubbub_client._http.transport import Answer, CannotReach
from hubbub_client._sending import seal_and_send
from hubbub_client._sending.outbox import Lane
from hubbub_client._sending.upload import upload
from hubbub_client.testing import MemoryTransport, Pace, Request
from tests.client.world import (
    DAY,
    START,
    TOML,
    TRUST,
    World,
    codebook,
    failures,
    lost_answer,
    no_network,
    opened,
    page,
    period_of,
    problem,
    rows,
    sealing_key,
    signed,
)


def two_reports(world: World) -> Client:
    """A client with a report of each metric that is due, because something was recorded."""
    client = world.ready()
    client.record("startup_ms", 9)
    world.time.now += DAY
    client.record("theme", "dark")
    return client


STEADY = TOML.replace("[metrics.theme]", '[metrics.theme]\nmissing = "other"').replace(
    "[metrics.startup_ms]", "[metrics.startup_ms]\nmissing = 0"
)


def two_steady_reports(world: World) -> Client:
    """A client with a report of each metric that is due, whatever was recorded."""
    world.transport.bundle = signed(STEADY)
    client = world.ready()
    world.time.now += DAY
    return client


TWO_REPORTS = {Lane.OCCASIONAL: two_reports, Lane.STEADY: two_steady_reports}


def test_a_report_is_sent_once_and_then_forgotten(world: World) -> None:
    client = two_reports(world)
    assert client.flush(0, now=True)
    assert client.flush(0, now=True)
    assert len(world.uploads()) == 1
    assert client.stats()["outbox"] == 0


def test_a_retry_sends_the_same_bytes_even_after_a_restart(world: World) -> None:
    client = two_reports(world)
    world.transport.script.extend([world.transport.accept, no_network])  # the bundle has gone stale: it comes first
    assert not client.flush(0, now=True)
    client.close()
    world.transport.script.append(lost_answer(world.transport))
    assert not world.client().flush(0, now=True)
    assert world.client().flush(0, now=True)

    first, *others = world.uploads()
    assert len(others) == 2
    assert all(upload == first for upload in others)


@pytest.mark.everyday
@pytest.mark.parametrize("lane", Lane)
@pytest.mark.parametrize("name", REFUSALS)
def test_a_whole_request_that_is_refused_is_acted_on_by_name(world: World, name: str, lane: Lane) -> None:
    client = TWO_REPORTS[lane](world)
    world.transport.script.extend([world.transport.accept, problem(name)])

    done = client.flush(0, now=True)

    stats = client.stats()
    match REFUSALS[name].action:
        case Action.RETRY:
            assert not done
            assert stats[f"retried:{name}"] == stats["outbox"] == 2
        case Action.DROP:
            assert done
            assert stats[f"dropped:{name}"] == 2
            assert stats["outbox"] == 0
        case Action.SPLIT:
            assert done
            assert stats["acknowledged"] == len(world.transport.reports) == 2
        case Action.REFETCH:  # the bundle has not changed, so they stay as they are
            assert not done
            assert stats["outbox"] == 2
            assert len(world.uploads()) == 1
            asked = [request.method for request in world.transport.requests[1:]]
            # What is sent because something was recorded makes no request but its own.
            assert asked == (["GET", "POST", "GET"] if lane is Lane.STEADY else ["GET", "POST"])


@pytest.mark.everyday(8)
@pytest.mark.parametrize("name", REFUSALS)
def test_a_single_report_that_is_refused_is_acted_on_by_name(world: World, name: str) -> None:
    client = two_reports(world)
    world.transport.script.extend([world.transport.accept, failures((1, name))])

    done = client.flush(0, now=True)

    assert client.stats()["acknowledged"] == 1
    dropped = REFUSALS[name].action in (Action.DROP, Action.SPLIT)
    assert done is dropped
    assert client.stats()["outbox"] == (0 if dropped else 1)
    assert client.stats()[f"{'dropped' if dropped else 'retried'}:{name}"] == 1


def test_after_a_partial_failure_only_the_refused_report_is_sent_again(world: World) -> None:
    client = two_reports(world)
    world.transport.script.extend([world.transport.accept, failures((0, "period-in-future"))])
    assert not client.flush(0, now=True)
    assert client.flush(0, now=True)
    first, second = world.uploads()
    assert second == first[:1]


def test_too_large_an_upload_is_halved_until_it_passes(world: World) -> None:
    client = two_reports(world)
    world.transport.script.extend([world.transport.accept, problem("too-large")])
    assert client.flush(0, now=True)
    assert [len(upload) for upload in world.uploads()] == [2, 1, 1]
    assert len(world.transport.reports) == 2


def test_an_outbox_too_large_for_one_request_goes_in_parts_and_what_arrived_is_gone_from_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sealed part by part, too: when the network breaks, the parts that were never tried have cost nothing."""
    monkeypatch.setattr(seal_and_send, "MOST_REPORTS", 5)
    flags = "".join(f'[metrics.flag_{n}]\ntype = "boolean"\nepsilon = 0.3\nmin_batch = 100\n' for n in range(12))
    world.transport.bundle = signed(TOML[: TOML.index("[metrics")] + flags)
    client = world.ready()
    for n in range(12):
        client.record(f"flag_{n}", True)
    world.transport.script.extend([world.transport.accept, no_network])

    assert not client.flush(0, now=True)

    assert [len(upload) for upload in world.uploads()] == [5, 5]
    assert sorted(row[-1] is None for row in rows(world, "outbox")) == [False] * 5 + [True] * 2
    assert client.flush(0, now=True)
    assert [len(upload) for upload in world.uploads()[2:]] == [5, 2]
    assert world.uploads()[1] == world.uploads()[2]
    assert len({opened(report)[1].nonce for report in world.transport.reports}) == len(world.transport.reports) == 12


@pytest.mark.parametrize("answer", [page(413), lambda _: (413, {}, b"")])
def test_a_413_of_somebody_else_splits_too_and_drops_nothing(world: World, answer: Callable[[Request], Answer]) -> None:
    """A proxy in front of the shuffler may take less than the shuffler does."""
    client = two_reports(world)
    world.transport.script.extend([world.transport.accept, answer])
    assert client.flush(0, now=True)
    assert [len(upload) for upload in world.uploads()] == [2, 1, 1]


@pytest.mark.parametrize(
    ("answer", "most"),
    [(page(413), 11), (problem("too-large"), 1_999), (problem("overloaded", retry_after="1"), 1), (no_network, 1)],
)
def test_who_refuses_everything_is_not_asked_for_every_report(answer: Callable[[Request], Answer], most: int) -> None:
    transport = MemoryTransport(b"")
    transport.script.extend([answer] * 3_000)
    uploaded = upload(transport, [b"report"] * 1_000)
    assert len(uploaded.verdicts) == 1_000
    assert len(transport.requests) <= most


@pytest.mark.parametrize("status", [200, 202, 204, 302])
@pytest.mark.parametrize("name", ["too-large", "unknown-metric"])
def test_a_refusal_under_a_status_that_refuses_nothing_is_none(status: int, name: str) -> None:
    """Whoever wrote that, the reports may be durable or lost: they are kept, and sent again."""
    transport = MemoryTransport(signed())
    _, headers, body = problem(name)(None)  # type: ignore[arg-type]  # it looks at nothing
    transport.script.append(lambda _: (status, headers, body))

    (verdict,) = upload(transport, [b"report"]).verdicts

    assert (verdict.action, verdict.reason) == (Action.RETRY, f"http-{status}")


def test_a_network_that_breaks_between_two_halves_is_not_asked_for_the_second() -> None:
    transport = MemoryTransport(b"")
    transport.script.extend([problem("too-large"), no_network])
    uploaded = upload(transport, [b"report"] * 4)
    assert {verdict.action for verdict in uploaded.verdicts} == {Action.RETRY}
    assert len(transport.requests) == 2


@pytest.mark.parametrize(("asked", "granted"), [(7.0, 7.0), (1e9, 3_600.0)])
def test_how_long_a_transport_asks_to_be_left_alone_counts(asked: float, granted: float) -> None:
    def later(_: Request) -> Answer:
        raise CannotReach("not now", retry_after=asked)

    transport = MemoryTransport(b"")
    transport.script.append(later)
    assert upload(transport, [b"report"]).retry_after == granted


@pytest.mark.everyday(4)
@pytest.mark.parametrize(
    "answer",
    [
        page(202),
        page(202, b'{"status": "accepted"}'),
        page(200, b'{"failures": []}'),
        lambda _: (201, {}, b""),
        lambda _: (204, {}, b""),
        lambda _: (200, {}, b""),
        page(403),
        page(404),
        page(511),
        page(200),
        page(302, b""),
        page(200, b'{"failures": 3}'),
        page(200, b"[" * 100_000),
        lambda _: (200, {"content-type": "application/json"}, b'{"failures": [' + b" " * 2**20 + b"]}"),
        failures((7, "period-closed")),
        failures((0, "never-heard-of")),
        lambda _: (403, {"content-type": "application/problem+json"}, b'{"type": "about:blank"}'),
        lambda _: (403, {"content-type": "application/problem+json"}, b'{"type": "period-closed"}'),
        lambda _: (400, {"content-type": "text/html"}, b'{"type": "urn:hubbub:problem:malformed-report"}'),
    ],
)
def test_a_captive_portal_makes_the_device_wait_and_drop_nothing(world: World, answer: object) -> None:
    assert callable(answer)
    client = two_reports(world)
    world.transport.script.extend([world.transport.accept, answer])
    assert not client.flush(0, now=True)
    assert client.stats()["outbox"] >= 1
    assert not any(name.startswith("dropped") for name in client.stats())
    assert client.flush(0, now=True)
    assert len(set(world.transport.reports) | set(world.uploads()[0])) == 2


REVOKED = sealing_key(1, state="revoked")


def all_of_it(world: World, lane: Lane, keys: Sequence[SealingKey]) -> bytes:
    """The bundle with these keys instead."""
    return signed(STEADY if lane is Lane.STEADY else TOML, now=int(world.time.now), keys=keys)


@pytest.mark.parametrize("lane", Lane)
@pytest.mark.parametrize("name", ["revoked-key", "unknown-key"])
def test_a_refused_key_is_looked_up_and_what_was_sealed_to_a_revoked_one_is_dropped_and_never_sealed_again(
    world: World, name: str, lane: Lane
) -> None:
    client = TWO_REPORTS[lane](world)

    def refused_and_renewed(request: Request) -> Answer:
        world.transport.bundle = all_of_it(world, lane, [REVOKED, sealing_key(2)])
        return problem(name)(request)

    world.transport.script.extend([world.transport.accept, refused_and_renewed])

    at_once = client.flush(0, now=True)
    assert at_once is (lane is Lane.STEADY)
    if not at_once:  # it waits for the next bundle, and asks for none
        assert client.stats()["outbox"] == 2
        world.time.now += 3_601
        assert client.flush(0, now=True)

    assert [[decode_report(report)[0].key for report in upload] for upload in world.uploads()] == [[1, 1]]
    assert client.stats()["dropped:revoked-key"] == 2
    assert client.stats()["outbox"] == 0
    assert sum(row[2] for row in rows(world, "totals")) == 2  # drawn once, and spent


@pytest.mark.parametrize("lane", Lane)
@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("another", [True, False])
def test_a_signed_revocation_needs_no_word_from_the_shuffler(
    world: World, lane: Lane, sealed: bool, another: bool
) -> None:
    """Who holds the revoked key may be the shuffler's friend: from the bundle on, nothing more is sealed or sent to it.
    A period that has begun gets no other key, or who has the two could tell that a device reported again."""
    client = TWO_REPORTS[lane](world)
    if sealed:
        world.transport.script.extend([world.transport.accept, no_network])
        assert not client.flush(0, now=True)
    else:
        world.settle(client)
    before = len(world.uploads())
    assert {row[-1] is not None for row in rows(world, "outbox")} == {sealed}
    world.time.now += 3_601
    world.transport.bundle = all_of_it(world, lane, [REVOKED, *([sealing_key(2)] if another else [])])

    assert client.flush(0, now=True)

    assert len(world.uploads()) == before
    assert client.stats()["dropped:revoked-key"] == 2
    assert rows(world, "outbox") == []


@pytest.mark.parametrize("lane", Lane)
def test_after_a_revocation_only_the_periods_that_begin_later_are_sealed_to_the_other_key(
    world: World, lane: Lane
) -> None:
    client = TWO_REPORTS[lane](world)
    world.settle(client)
    world.time.now += 3_601
    world.transport.bundle = all_of_it(world, lane, [REVOKED, sealing_key(2)])
    for _ in range(3):
        assert client.flush(0, now=True)
        client.record("theme", "dark")
        client.record("startup_ms", 3)
        world.time.now += DAY
    assert client.flush(0, now=True)

    begun = period_of(START) + 1  # when it was revoked
    assert {(header.period > begun, header.key) for header, _ in world.opened()} == {(True, 2)}
    assert {header.period for header, _ in world.opened()} == {begun + 1, begun + 2}


@pytest.mark.parametrize("lane", Lane)
def test_a_shuffler_that_lies_about_keys_gets_the_same_bytes_again(world: World, lane: Lane) -> None:
    """Only a signed bundle says that a key is revoked: on the shuffler's word alone nothing is dropped."""
    client = TWO_REPORTS[lane](world)
    world.transport.script.extend([world.transport.accept, problem("revoked-key")])
    assert not client.flush(0, now=True)
    assert client.stats()["outbox"] == 2
    assert client.flush(0, now=True)
    assert world.uploads()[0] == world.uploads()[1]
    assert not any(name.startswith("dropped") for name in client.stats())


def test_failures_are_tried_again_with_growing_pauses_inside_the_time_given(world: World) -> None:
    client = two_reports(world)
    world.transport.script.extend([no_network] * 50)

    assert not client.flush(20, now=True)

    waits = world.time.waits
    assert sum(waits) <= 20
    assert len(waits) >= 5
    for attempt, wait in enumerate(waits):
        assert 0 <= wait <= 0.5 * 2**attempt


class Always(SystemRandomness):
    """Draws the same part of whatever there is to choose from."""

    def __init__(self, part: float) -> None:
        self.part = part

    def below(self, bound: int) -> int:
        return int(self.part * (bound - 1))


@pytest.mark.parametrize("attempt", [0, 1, 5, 6, 7, 8, 1_000_000])
def test_a_pause_is_anywhere_below_a_limit_that_doubles_up_to_a_minute(attempt: int) -> None:
    limit = min(0.5 * 2 ** min(attempt, 10), 60)
    assert [Pace().backoff(attempt, Always(part)) for part in (0.0, 0.5, 1.0)] == [0, limit / 2, limit]


def test_devices_that_failed_together_do_not_come_back_together() -> None:
    """Of 1000 devices fewer than 200 come back in any tenth of the time: 100 are expected, and ten standard
    deviations more happen less than once in 1e20 runs."""
    waits = [Pace().backoff(20, SystemRandomness()) for _ in range(1_000)]
    assert max(Counter(int(wait // 6) for wait in waits).values()) < 200


def test_a_network_that_comes_back_in_time_is_enough(world: World) -> None:
    client = two_reports(world)
    world.transport.script.extend([no_network] * 4)
    assert client.flush(60, now=True)
    assert len(world.transport.reports) == 2


@pytest.mark.parametrize("lane", Lane)
def test_retry_after_is_honoured_also_by_the_next_flush(world: World, lane: Lane) -> None:
    client = TWO_REPORTS[lane](world)
    world.transport.script.extend([world.transport.accept, problem("overloaded", retry_after="30")])
    assert not client.flush(10, now=True)
    asked = len(world.transport.requests)

    assert not client.flush(10, now=True)
    assert len(world.transport.requests) == asked

    assert client.flush(60, now=True)
    assert world.time.passed >= 30


ONE_OF_EACH = TOML.replace("[metrics.startup_ms]", "[metrics.startup_ms]\nmissing = 0")


@pytest.mark.parametrize("refuses", [problem("overloaded", retry_after="600"), page(503), no_network])
def test_who_refuses_what_was_recorded_does_not_hold_up_what_is_sent_in_any_case(
    world: World, refuses: Callable[[Request], Answer]
) -> None:
    """Else what arrives of a metric with `missing`, and when, would tell that another was recorded."""
    world.transport.bundle = signed(ONE_OF_EACH)
    client = world.ready()
    client.record("theme", "dark")
    world.transport.script.append(refuses)
    assert not client.flush(0, now=True)
    assert len(world.uploads()) == 1

    world.time.now = START + DAY
    world.transport.script.extend([world.transport.accept, world.transport.accept, refuses])
    assert not client.flush(0, now=True)

    (report,) = world.transport.reports
    assert opened(report)[0].metric == codebook(ONE_OF_EACH).metric("startup_ms").id
    assert [len(upload) for upload in world.uploads()] == [1] * len(world.uploads())


def test_a_service_that_asks_to_be_left_alone_by_what_is_sent_in_any_case_is_so_by_all(world: World) -> None:
    world.transport.bundle = signed(ONE_OF_EACH)
    client = world.ready()
    client.record("theme", "dark")
    world.time.now = START + DAY
    world.transport.script.extend([world.transport.accept, problem("overloaded", retry_after="600")])
    assert not client.flush(0, now=True)
    assert len(world.uploads()) == 1
    assert client.stats()["outbox"] == 2
    world.time.passed += 601
    assert client.flush(0, now=True)
    assert client.stats()["acknowledged"] == 2


def test_nobody_can_silence_a_device_for_longer_than_an_hour(world: World) -> None:
    client = two_reports(world)
    world.transport.script.extend([world.transport.accept, problem("rate-limited", retry_after="99999999")])
    assert not client.flush(0, now=True)
    world.time.passed += 3_600
    assert client.flush(0, now=True)


def test_a_report_later_than_its_grace_is_dropped_without_asking(world: World) -> None:
    client = world.ready()
    client.record("theme", "dark")
    client.flush(0)  # randomized, and its random delay not over yet
    assert client.stats()["outbox"] == 1
    for moment in (START + 2 * DAY, START + 2 * DAY + 3_600):  # on the second look
        world.time.go_to(moment)
        assert client.flush(0, now=True)
    assert world.uploads() == []
    assert client.stats()["dropped:period-closed"] == 1


def test_a_metric_switched_off_takes_its_unsent_reports_with_it(world: World) -> None:
    client = world.ready()
    client.record("theme", "dark")
    client.record("startup_ms", 9)
    client.flush(0)  # the first value is randomized, and its random delay not over yet
    assert client.stats()["outbox"] == 1
    off = TOML.replace("mechanism", "enabled = false\nmechanism")
    world.time.now += DAY
    world.transport.bundle = signed(off, now=int(world.time.now))
    assert client.flush(0, now=True)
    assert world.uploads() == []
    assert client.stats()["dropped:metric-disabled"] == 1
    assert client.stats()["lost:metric-disabled"] == 1


def test_a_bundle_switches_a_metric_off_at_once_in_every_period_and_it_costs_nothing(world: World) -> None:
    """Its codebook stays what it is, so that an app that pins it goes along."""
    pinned = codebook(TOML)
    client = world.ready(pin=pinned.id.hex())
    client.record("theme", "dark")
    client.flush(0)
    spent = client.ledger().spent
    world.time.now += DAY
    body = verify(world.transport.bundle, [TRUST], world.time.now).body
    world.transport.bundle = signed(now=int(world.time.now), off=[pinned.metric("theme").id])
    assert client.flush(0, now=True)

    assert body.off == frozenset()
    assert world.uploads() == []
    assert client.stats()["dropped:metric-disabled"] == 1
    assert client.record("theme", "dark") is Outcome.DISABLED
    assert client.record("startup_ms", 9) is Outcome.RECORDED
    assert [metric.enabled for metric in client.preview().metrics] == [True, False]
    assert client.ledger().spent == spent + 1  # startup_ms, of the new period


def test_an_upload_is_what_the_wire_says(world: World) -> None:
    client = two_reports(world)
    client.flush(0, now=True)
    (post,) = [request for request in world.transport.requests if request.method == "POST"]
    assert post.path == "/v1/reports"
    assert post.headers == {"content-type": "application/vnd.hubbub.reports"}
    assert len(decode_upload(post.body)) == 2


def test_the_memory_front_door_answers_nothing_else() -> None:
    assert MemoryTransport(b"").request("GET", "/", {}, b"")[0] == 404
