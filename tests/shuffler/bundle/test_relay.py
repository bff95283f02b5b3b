"""The relayed bundle: verified, kept and passed on byte for byte. An older or a foreign one is refused."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from hubbub.bundle import entity_tag
from hubbub.errors import InvalidParameter
from hubbub.refusals import PROBLEM_TYPE
from hubbub.trust_anchor import anchor_of
from hubbub_shuffler.storage import StorageError
from tests.shuffler.world import (
    CLOSES,
    KEYS,
    NOW,
    PERIOD,
    TRUST,
    StubAggregator,
    World,
    codebook,
    files_of,
    signed,
    unique,
    upload,
)
from tests.support.codebooks import STRANGER
from tests.support.codebooks import signed as signed_bundle


async def test_the_bundle_is_relayed_byte_for_byte_and_may_be_cached(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        answer = await world.client.get("/v1/bundle")
        assert answer.content == world.aggregator.bundle
        assert answer.headers["cache-control"] == "max-age=600"
        assert answer.headers["etag"] == entity_tag(answer.content)  # as a device makes it
        for tag in (answer.headers["etag"], f'"other", {answer.headers["etag"]}', f"W/{answer.headers['etag']}", "*"):
            again = await world.client.get("/v1/bundle", headers={"If-None-Match": tag})
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["etag"] == answer.headers["etag"]
        assert (await world.client.get("/v1/bundle", headers={"If-None-Match": '"other"'})).status_code == 200


async def test_a_newer_bundle_replaces_the_old_one(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        first = (await world.client.get("/v1/bundle")).headers["etag"]
        assert await world.bundles.refresh()  # not modified
        world.aggregator.bundle = signed(NOW + 5)
        assert await world.bundles.refresh()
        answer = await world.client.get("/v1/bundle", headers={"If-None-Match": first})
        assert answer.content == world.aggregator.bundle
        assert (await world.client.get("/v1/status")).json()["bundle"] == NOW + 5


@pytest.mark.parametrize(
    "bad",
    [
        signed(NOW - 5),
        signed(NOW, max_age=700),
        signed(NOW + 5, identity=STRANGER),
        signed(NOW + 5)[:-1],
        signed(NOW - 100, lifetime=50),
        b"<html>a captive portal</html>",
        b"",
        bytes(9 * 2**20),
    ],
    ids=["older", "same number", "stranger", "cut", "expired", "html", "empty", "huge"],
)
async def test_a_bundle_that_cannot_be_trusted_changes_nothing(tmp_path: Path, bad: bytes) -> None:
    async with World(tmp_path) as world:
        good = world.aggregator.bundle
        world.aggregator.bundle = bad
        assert not await world.bundles.refresh()
        assert (await world.client.get("/v1/bundle")).content == good


async def test_that_a_bundle_has_expired_is_said_once_and_again_of_another(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The message has the time of the attempt in it."""
    async with World(tmp_path) as world:
        for lifetime in (50, 60):
            world.aggregator.bundle = signed(NOW - 100, lifetime=lifetime)
            for _ in range(3):
                world.clock.now += 1
                assert not await world.bundles.refresh()
        assert caplog.text.count("no new bundle: ExpiredBundle: the bundle expired at") == 2
        assert world.bundles.refused["ExpiredBundle"] == 6


async def test_the_copy_on_disk_serves_while_the_aggregator_is_away(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        world.aggregator.up = False
        async with World(tmp_path, world.aggregator, world.clock) as again:
            assert (await again.client.get("/v1/bundle")).content == world.aggregator.bundle
            assert (await again.post(upload(unique(1)))).status_code == 202
            assert (await again.client.get("/readyz")).status_code == 200


async def test_a_restart_does_not_open_the_door_to_an_older_bundle(tmp_path: Path) -> None:
    """Not even when the newer copy at hand has expired."""
    async with World(tmp_path) as world:
        world.clock.now = NOW + 40 * 86_400
        world.aggregator.bundle = signed(NOW - 5, lifetime=90 * 86_400)
        async with World(tmp_path, world.aggregator, world.clock) as again:
            assert again.bundles.current is None
            assert not await again.bundles.refresh()


async def test_a_bundle_that_the_disk_cannot_take_is_in_use_and_is_written_once_there_is_room(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        file = tmp_path / "bundle"
        file.unlink()
        file.mkdir()  # what no file can replace: the write fails as on a full disk
        world.aggregator.bundle = signed(NOW + 5)
        assert not await world.bundles.refresh()
        assert (await world.client.get("/v1/bundle")).content == world.aggregator.bundle
        assert not list(tmp_path.glob("*.part"))
        file.rmdir()
        assert await world.bundles.refresh()
        assert file.read_bytes() == world.aggregator.bundle


async def test_a_damaged_copy_on_disk_is_fetched_anew(tmp_path: Path) -> None:
    (tmp_path / "bundle").write_bytes(signed()[:-3])

    async with World(tmp_path) as world:
        assert (await world.client.get("/v1/bundle")).content == world.aggregator.bundle


async def test_on_loopback_the_first_signer_is_kept_and_another_refused(tmp_path: Path) -> None:
    async with World(tmp_path, trust=(), address="http://127.0.0.1:8702") as world:
        assert world.bundles.current
        async with World(
            tmp_path,
            StubAggregator(signed(NOW + 5, identity=STRANGER)),
            world.clock,
            trust=(),
            address="http://127.0.0.1:8702",
        ) as again:
            assert not await again.bundles.refresh()
            assert again.bundles.current
            assert again.bundles.current.bundle.signer == TRUST[0]


async def test_while_an_identity_is_exchanged_either_of_two_anchors_is_trusted(tmp_path: Path) -> None:
    async with World(tmp_path, trust=(*TRUST, anchor_of(STRANGER))) as world:
        world.aggregator.bundle = signed(NOW + 5, identity=STRANGER)
        assert await world.bundles.refresh()
        assert (await world.client.get("/v1/bundle")).content == world.aggregator.bundle


def test_elsewhere_nothing_is_trusted_without_an_anchor(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="trust anchor"):
        World(tmp_path, trust=())


async def test_without_a_bundle_the_service_is_alive_but_not_ready(tmp_path: Path) -> None:
    async with World(tmp_path, StubAggregator(b"nothing yet")) as world:
        assert (await world.client.get("/healthz")).status_code == 200
        for path, said in {"/readyz": "not-ready", "/v1/bundle": "no-bundle"}.items():
            answer = await world.client.get(path)
            assert answer.status_code == 503
            assert answer.headers["content-type"] == PROBLEM_TYPE
            assert answer.json()["type"] == f"urn:hubbub:problem:{said}"
        wrong = (await world.client.get("/readyz")).json()
        assert (wrong["ok"], [reason["name"] for reason in wrong["reasons"]]) == (False, ["bundle"])
        assert (await world.client.get("/v1/status")).json()["bundle"] is None


async def test_a_storage_that_cannot_be_written_is_not_ready(tmp_path: Path) -> None:
    async with World(tmp_path) as world:

        async def locked() -> None:
            raise StorageError("database is locked")

        assert (await world.client.get("/readyz")).json() == {"ok": True}
        world.storage.check = locked  # type: ignore[method-assign]  # a file that someone else holds
        assert (answer := await world.client.get("/readyz")).status_code == 503
        assert answer.json()["reasons"] == [
            {"name": "storage", "detail": "the storage can't be written: the shuffler's log says why"}
        ]


@pytest.mark.parametrize(
    ("method", "path", "status", "name"),
    [
        ("GET", "/nowhere", 404, "not-found"),
        ("GET", "/v1/reports/", 404, "not-found"),
        ("POST", "/v1/bundle", 405, "method-not-allowed"),
        ("DELETE", "/v1/status", 405, "method-not-allowed"),
    ],
)
async def test_what_is_not_there_is_a_problem_too(
    tmp_path: Path, method: str, path: str, status: int, name: str
) -> None:
    async with World(tmp_path) as world:
        answer = await world.client.request(method, path)
        assert (answer.status_code, answer.json()["type"]) == (status, f"urn:hubbub:problem:{name}")
        assert answer.headers["content-type"] == PROBLEM_TYPE


async def test_a_fault_of_ours_is_an_internal_error_that_repeats_nothing(tmp_path: Path) -> None:
    async with World(tmp_path) as world:

        async def broken() -> None:
            raise RuntimeError("canary")

        world.storage.overview = broken  # type: ignore[method-assign, assignment]  # a bug
        transport = httpx2.ASGITransport(world.app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://shuffler.test") as client:
            answer = await client.get("/v1/status")
        assert (answer.status_code, answer.json()["type"]) == (500, "urn:hubbub:problem:internal-error")
        assert "canary" not in answer.text


async def test_the_status_says_what_waits_and_what_left(tmp_path: Path) -> None:
    async with World(tmp_path, min_batch_floor=200) as world:
        sealed = unique(137)
        await world.post(upload(sealed))
        status = (await world.client.get("/v1/status")).json()
        assert status == {
            "accepted": 0,
            "buckets": [{"metric": "dark_mode", "state": "open"}],
            "batches": {"planned": 0, "sent": 0},
            "held": {},
            "settled": {},
            "discarded": {},
            "min_batch_floor": 200,
            "minimum": {"dark_mode": 200, "old": 200, "theme": 200},
            "bundle": NOW,
            "codebooks": [codebook().id.hex()],
        }
        world.clock.now += 3 * 3_600
        await world.settle_all()
        status = (await world.client.get("/v1/status")).json()
        assert status["discarded"] == {"dark_mode": 1}
        assert status["settled"] == {"dark_mode": {"discard-accepted": 1}}
        assert status["buckets"] == []
        assert sealed[0] not in files_of(tmp_path)


async def test_nobody_can_count_a_waiting_or_a_discarded_crowd_by_adding_to_it(tmp_path: Path) -> None:
    async with World(tmp_path, min_batch_floor=200) as world:
        shown = set()
        for _ in range(11):  # from below one hundred to above, and never enough
            await world.post(upload(unique(17)))
            shown.add((await world.client.get("/v1/status")).text)
        assert len(shown) == 1
        world.clock.now = CLOSES
        await world.settle_all()
        status = (await world.client.get("/v1/status")).json()
        assert (status["accepted"], status["discarded"]) == (0, {"dark_mode": 1})
        assert "187" not in str(status)
        assert (await world.storage.overview()).counts["dark_mode", "discarded"].reports == 187  # for the operator


async def test_what_the_aggregator_accepted_is_shown_in_hundreds_and_what_was_refused_not_at_all(
    tmp_path: Path,
) -> None:
    async with World(tmp_path) as world:
        await world.post(upload(unique(250)))
        before = (await world.client.get("/v1/status")).text
        await world.post(upload(unique(201), period=PERIOD - 5))
        assert (await world.client.get("/v1/status")).text == before
        world.clock.now = CLOSES
        await world.settle_all()
        assert (await world.client.get("/v1/status")).json()["accepted"] == 200


async def test_the_effective_minimum_is_the_larger_of_codebook_and_floor_and_is_shown(tmp_path: Path) -> None:
    async with World(tmp_path, min_batch_floor=2) as world:
        status = (await world.client.get("/v1/status")).json()
        assert (status["min_batch_floor"], status["minimum"]["dark_mode"]) == (2, 3)


async def test_with_pinned_codebooks_a_bundle_with_another_one_is_refused_as_a_whole(tmp_path: Path) -> None:
    other = codebook(min_batch=4)

    async with World(tmp_path, codebooks=[codebook().id.hex()]) as world:
        good = world.aggregator.bundle
        assert (await world.client.get("/v1/bundle")).content == good
        world.aggregator.bundle = signed(NOW + 5, books={0: codebook(), PERIOD + 1: other})
        assert not await world.bundles.refresh()
        assert (await world.client.get("/v1/bundle")).content == good
        async with World(
            tmp_path, world.aggregator, world.clock, codebooks=[codebook().id.hex(), other.id.hex()]
        ) as both:
            assert (await both.client.get("/v1/bundle")).content == world.aggregator.bundle


async def test_a_codebook_that_lies_about_its_id_is_not_the_pinned_one(tmp_path: Path) -> None:
    lying = {**codebook(min_batch=4).compiled(), "id": codebook().id.hex()}
    raw = signed_bundle({0: lying}, KEYS, now=NOW, lifetime=86_400, max_age=600)

    async with World(tmp_path, StubAggregator(raw), codebooks=[codebook().id.hex()]) as world:
        assert world.bundles.current is None
