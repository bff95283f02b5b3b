"""POST /v1/reports: durable before acknowledged, and each fault under its own name."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hubbub.refusals import PROBLEM_TYPE, REFUSALS
from hubbub.wire import REPORTS_TYPE, encode_upload
from hubbub_shuffler.storage import StorageError
from tests.shuffler.world import (
    CLOSES,
    DISABLED,
    HOUR,
    METRIC,
    NOW,
    PERIOD,
    SEALED,
    THEME,
    THEME_SEALED,
    StubAggregator,
    World,
    files_of,
    report,
    unique,
    upload,
)
from tests.support.clock import Clock

GOOD = bytes(SEALED)


async def stored(world: World) -> int:
    return sum(bucket.reports for bucket in (await world.storage.overview()).waiting)


@pytest.mark.parametrize("count", [1, 2, 500])
async def test_an_upload_is_acknowledged_with_nothing_to_say(tmp_path: Path, count: int) -> None:
    async with World(tmp_path) as world:
        answer = await world.post(upload(unique(count)))
        assert (answer.status_code, answer.content) == (202, b"")
        assert await stored(world) == count


async def test_reports_of_several_buckets_come_in_one_upload(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        body = upload(unique(2)) + upload(unique(3, THEME_SEALED), metric=THEME) + upload(unique(1), period=PERIOD - 1)
        assert (await world.post(body)).status_code == 202
        assert sorted(b.reports for b in (await world.storage.overview()).waiting) == [1, 2, 3]


REFUSED = {
    "unknown-metric": report(GOOD, metric=bytes(16)),
    "metric-disabled": report(GOOD, metric=DISABLED),
    "wrong-length": report(GOOD + b"x"),
    "period-in-future": report(GOOD, period=PERIOD + 1, key_id=2),
    "period-closed": report(GOOD, period=PERIOD - 2),
    "unknown-key": report(GOOD, key_id=9),
    "revoked-key": report(GOOD, key_id=3),
    "malformed-report": b"\x02" + report(GOOD)[1:],
}


@pytest.mark.parametrize("reason", REFUSED)
async def test_a_bad_report_is_refused_by_its_reason_and_harms_no_other(tmp_path: Path, reason: str) -> None:
    async with World(tmp_path) as world:
        good = [report(each) for each in unique(2)]
        answer = await world.post(encode_upload([good[0], REFUSED[reason], good[1]]))
        assert answer.status_code == 200
        assert answer.json() == {"failures": [{"index": 1, "reason": reason}]}
        assert answer.headers["content-type"] == "application/json"
        assert await stored(world) == 2
        assert world.ingest.refused == Counter({reason: 1})
        assert reason in REFUSALS


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (report(GOOD)[:22], "malformed-report"),
        (b"\x01", "malformed-report"),
        (report(b"x"), "wrong-length"),
        (report(GOOD, period=2**32 - 1), "period-in-future"),
        (report(GOOD, key_id=2), "unknown-key"),
    ],
    ids=["header only", "one byte", "short", "year 490000", "the next period's key"],
)
async def test_odd_reports_have_a_reason_too(tmp_path: Path, odd: bytes, reason: str) -> None:
    async with World(tmp_path) as world:
        answer = await world.post(encode_upload([odd]))
        assert answer.json() == {"failures": [{"index": 0, "reason": reason}]}
        assert await stored(world) == 0


async def test_a_metric_is_unknown_before_its_codebook_is_in_force(tmp_path: Path) -> None:
    from tests.shuffler.world import signed

    async with World(tmp_path, StubAggregator(signed(first_period=PERIOD))) as world:
        answer = await world.post(upload([GOOD], period=PERIOD - 1))
        assert answer.json()["failures"][0]["reason"] == "unknown-metric"


@pytest.mark.parametrize(("ahead", "status"), [(60, 202), (61, 200)])
async def test_a_clock_a_minute_ahead_is_forgiven_and_no_more(tmp_path: Path, ahead: int, status: int) -> None:
    async with World(tmp_path) as world:
        world.clock.now = (PERIOD + 1) * HOUR - ahead
        assert (await world.post(upload([GOOD], period=PERIOD + 1, key_id=2))).status_code == status


@pytest.mark.parametrize(("at", "reason"), [(CLOSES - 0.001, None), (CLOSES, "period-closed")])
async def test_a_period_is_open_until_its_grace_is_over_and_not_longer(
    tmp_path: Path, at: float, reason: str | None
) -> None:
    async with World(tmp_path) as world:
        assert (await world.post(upload(unique(1)))).status_code == 202
        world.clock.now = at
        answer = await world.post(upload(unique(1)))
        assert (answer.json()["failures"][0]["reason"] if answer.content else None) == reason


async def test_a_revocation_takes_effect_with_the_next_bundle(tmp_path: Path) -> None:
    from tests.shuffler.world import KEYS, key, signed

    async with World(tmp_path) as world:
        assert (await world.post(upload(unique(1)))).status_code == 202
        world.aggregator.bundle = signed(NOW + 1, keys=(key(1, PERIOD - 100, PERIOD, "revoked"), *KEYS[1:]))
        assert await world.bundles.refresh()
        answer = await world.post(upload(unique(1)))
        assert answer.json()["failures"][0]["reason"] == "revoked-key"


async def test_a_report_racing_a_revocation_is_to_be_sealed_again_and_not_dropped(tmp_path: Path) -> None:
    """Another process has the new bundle already; this one still goes by the old."""
    async with World(tmp_path) as world:
        assert (await world.post(upload(unique(1)))).status_code == 202
        await world.storage.close({1})
        answer = await world.post(upload(unique(1)))
        assert answer.json()["failures"] == [{"index": 0, "reason": "revoked-key"}]


def problem(answer: Any) -> str:
    assert answer.headers["content-type"] == PROBLEM_TYPE
    document = answer.json()
    assert document["status"] == answer.status_code
    assert document["title"]
    assert document["detail"]
    return str(document["type"]).removeprefix("urn:hubbub:problem:")


@pytest.mark.parametrize(
    ("body", "headers", "status", "name"),
    [
        (upload([GOOD]), {"Content-Type": "application/json"}, 415, "unsupported-media-type"),
        (upload([GOOD]), {"Content-Type": ""}, 415, "unsupported-media-type"),
        (b"", {}, 400, "malformed-upload"),
        (upload([GOOD])[:-1], {}, 400, "malformed-upload"),
        (upload([GOOD]) + b"\0", {}, 400, "malformed-upload"),
        (upload([GOOD]) + b"\0\0", {}, 400, "malformed-upload"),
        (upload([GOOD] * 50), {}, 413, "too-large"),
        (b"\0\1x" * 1_200, {}, 400, "malformed-upload"),
    ],
)
async def test_a_fault_of_the_whole_request_is_a_problem_and_keeps_nothing(
    tmp_path: Path, body: bytes, headers: dict[str, str], status: int, name: str
) -> None:
    async with World(tmp_path, max_body=4_096) as world:
        answer = await world.post(body, **headers)
        assert (answer.status_code, problem(answer)) == (status, name)
        assert await stored(world) == 0
        assert world.ingest.refused == Counter({name: 1})


async def test_the_content_type_may_be_written_in_any_case_and_with_parameters(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        answer = await world.post(upload([GOOD]), **{"Content-Type": REPORTS_TYPE.upper() + "; v=1"})
        assert answer.status_code == 202


async def test_other_methods_are_told_what_the_route_takes(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        answer = await world.client.get("/v1/reports")
        assert (answer.status_code, problem(answer)) == (405, "method-not-allowed")
        assert answer.headers["allow"] == "POST"


async def test_a_body_without_a_length_is_stopped_while_it_is_read(tmp_path: Path) -> None:
    """The stream has no end: an answer at all shows that it was not read to its end."""

    async def endless() -> Any:
        while True:
            yield bytes(500)

    async with World(tmp_path, max_body=1_024) as world:
        answer = await world.client.post("/v1/reports", content=endless(), headers={"Content-Type": REPORTS_TYPE})
        assert (answer.status_code, problem(answer)) == (413, "too-large")
        assert (await world.post(upload([GOOD]))).status_code == 202


async def test_before_the_first_bundle_devices_are_asked_to_come_back(tmp_path: Path) -> None:
    world = World(tmp_path)
    answer = await world.post(upload([GOOD]))
    assert (answer.status_code, problem(answer)) == (503, "no-bundle")
    assert int(answer.headers["retry-after"]) > 0
    await world.__aexit__()


async def test_an_expired_bundle_is_no_bundle(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        world.clock.now += 31 * 86_400
        assert problem(await world.post(upload([GOOD]))) == "no-bundle"


async def raw_post(world: World, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An upload message by message, as a server hands it over; waits forever when the messages are used up."""
    sent: list[dict[str, Any]] = []
    left = list(messages)

    async def receive() -> Any:
        return left.pop(0) if left else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/reports",
        "headers": [(b"content-type", REPORTS_TYPE.encode())],
    }
    await world.app(scope, receive, send)
    return sent


async def test_a_body_that_is_cut_off_commits_nothing(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        body = upload(unique(3))
        whole = len(body) // 3  # the first report is complete
        for cut in (0, 1, whole, len(body) - 1):
            cut_off = {"type": "http.request", "body": body[:cut], "more_body": True}
            assert await raw_post(world, [cut_off, {"type": "http.disconnect"}]) == []
        assert await raw_post(world, [{"type": "http.disconnect"}]) == []
        assert await stored(world) == 0
        assert world.ingest._pending == 0


async def test_more_than_can_be_held_is_turned_away_and_let_in_later(tmp_path: Path) -> None:
    async with World(tmp_path, max_pending=3 * len(upload(unique(100)))) as world:
        sealed = [unique(100) for _ in range(20)]
        answers = await asyncio.gather(*(world.post(upload(each)) for each in sealed))
        statuses = [answer.status_code for answer in answers]
        assert set(statuses) == {202, 503}
        for answer in answers:
            if answer.status_code == 503:
                assert problem(answer) == "overloaded"
                assert int(answer.headers["retry-after"]) > 0
        assert await stored(world) == 100 * statuses.count(202)
        assert (await world.post(upload(sealed[0]))).status_code == 202


async def test_concurrent_uploads_share_a_commit_and_one_blob_per_bucket(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        groups = []
        add = world.storage.add

        async def watched(arrivals: Any) -> Any:
            groups.append([len(each.sealed) for each in arrivals])
            return await add(arrivals)

        world.storage.add = watched  # type: ignore[method-assign]  # looks on, changes nothing
        answers = await asyncio.gather(*(world.post(upload(unique(1))) for _ in range(50)))
        assert {answer.status_code for answer in answers} == {202}
        assert sum(sum(group) for group in groups) == 50
        assert len(groups) <= 10
        assert all(len(group) == 1 for group in groups)


async def test_when_the_storage_fails_nothing_is_acknowledged_and_the_log_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with World(tmp_path) as world:

        async def full(_arrivals: Any) -> Any:
            raise StorageError("database or disk is full")

        add, world.storage.add = world.storage.add, full  # type: ignore[method-assign, assignment]  # a disk that is full for a while
        for _ in range(3):
            answer = await world.post(upload([GOOD]))
            assert (answer.status_code, problem(answer)) == (503, "overloaded")
        world.storage.add = add  # type: ignore[method-assign]  # there is room again
        assert (await world.post(upload([GOOD]))).status_code == 202
        assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
        assert await stored(world) == 1


class RunningClock(Clock):
    """Goes on a little whenever it is read, so that the close falls between two steps of some upload."""

    def __call__(self) -> float:
        self.now += 0.01
        return self.now


@pytest.mark.everyday(1)
@pytest.mark.parametrize("attempt", range(5))
async def test_an_upload_racing_the_close_is_in_the_batch_or_refused(tmp_path: Path, attempt: int) -> None:
    async with World(tmp_path, clock=RunningClock(NOW)) as world:
        world.clock.now = CLOSES - 1.0 - attempt / 10
        acknowledged, refused = [], []

        async def device() -> None:
            for _ in range(12):
                (sealed,) = unique(1)
                answer = await world.post(upload([sealed]))
                if answer.status_code == 202:
                    acknowledged.append(sealed)
                else:
                    assert answer.json()["failures"] == [{"index": 0, "reason": "period-closed"}]
                    refused.append(sealed)

        async def batcher() -> None:
            while not refused:
                await world.batcher.tick()

        await asyncio.gather(batcher(), *(device() for _ in range(10)))
        await world.settle_all()
        assert refused
        assert sorted(world.aggregator.delivered()) == sorted(acknowledged)


BODIES = st.one_of(
    st.binary(max_size=300),
    st.lists(st.binary(min_size=1, max_size=120), max_size=5).map(encode_upload),
    st.lists(
        st.builds(
            report,
            st.binary(min_size=SEALED - 1, max_size=SEALED + 1),
            metric=st.sampled_from([METRIC, THEME, DISABLED, bytes(16)]),
            period=st.one_of(st.integers(PERIOD - 3, PERIOD + 3), st.integers(0, 2**32 - 1)),
            key_id=st.integers(0, 255),
        ),
        max_size=5,
    ).map(encode_upload),
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(bodies=st.lists(BODIES, min_size=1, max_size=8))
async def test_no_body_makes_the_service_fail(tmp_path: Path, bodies: list[bytes]) -> None:
    async with World(tmp_path) as world:
        for body in bodies:
            answer = await world.post(body)
            if answer.status_code == 400:
                assert problem(answer) == "malformed-upload"
            elif answer.status_code == 200:
                assert answer.json()["failures"]
            else:
                assert answer.status_code == 202


async def test_nothing_of_a_request_but_its_sealed_reports_is_kept(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        sealed = unique(1)
        headers = {"User-Agent": "canary-agent", "X-Device": "canary-device", "Cookie": "canary=1"}
        assert (await world.post(upload(sealed), **headers)).status_code == 202
        kept = files_of(tmp_path)
        assert sealed[0] in kept
        assert b"canary" not in kept
