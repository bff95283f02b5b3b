"""The admin listener: what an operator needs to see, and nothing that would single out a waiting device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from hubbub_service_common.http.tokens import Tokens
from hubbub_shuffler.forwarding.lag import Lag
from hubbub_shuffler.operations.admin_listener import create_admin
from hubbub_shuffler.operations.metrics import Sources
from hubbub_shuffler.storage import StorageError
from tests.shuffler.world import CLOSES, NOW, PERIOD, TOKEN, World, codebook, signed, unique, upload


class Operated(World):
    """A world with an operator who looks at it."""

    def __init__(self, *arguments: Any, token: str | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.lag = Lag(self.clock)
        self.batcher = self.worker(self.lag.watch(self.storage))
        sources = Sources(self.ingest, self.bundles, self.lag, None, self.trusted)
        transport = httpx2.ASGITransport(create_admin(sources, self.storage, Tokens([token] if token else [])))
        self.admin = httpx2.AsyncClient(transport=transport, base_url="http://admin.test")

    async def __aexit__(self, *_exc: object) -> None:
        await self.admin.aclose()
        await super().__aexit__()

    async def metrics(self) -> dict[tuple[str, ...], float]:
        """Every sample by its name and the values of its labels, in the order of their names."""
        answer = await self.admin.get("/metrics")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain; version=")
        return {
            (sample.name.removeprefix("hubbub_shuffler_"), *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(answer.text)
            for sample in family.samples
        }


async def test_what_was_taken_and_refused_is_counted_by_reason(tmp_path: Path) -> None:
    async with Operated(tmp_path) as world:
        await world.post(upload(unique(250)))
        await world.post(upload(unique(3), period=PERIOD - 5))
        await world.post(b"")
        seen = await world.metrics()
        assert seen["accepted_reports_total",] == 200
        assert seen["refused_total", "period-closed"] == 3
        assert seen["refused_total", "malformed-upload"] == 1
        assert (await world.admin.get("/v1/status")).json()["refused"] == {"period-closed": 3, "malformed-upload": 1}


@pytest.mark.parametrize(
    ("reports", "crowd"),
    [
        (1, "below the minimum"),
        (19, "below the minimum"),
        (20, "large enough"),
        (199, "large enough"),
        (200, "tenfold"),
    ],
)
async def test_a_crowd_shows_only_as_too_small_large_enough_or_ten_times_that(
    tmp_path: Path, reports: int, crowd: str
) -> None:
    async with Operated(tmp_path, min_batch_floor=20) as world:
        await world.post(upload(unique(reports)))
        seen = await world.metrics()
        assert {key: value for key, value in seen.items() if key[0] == "waiting_buckets"} == {
            ("waiting_buckets", crowd, "dark_mode"): 1
        }


async def test_below_a_hundred_one_more_report_changes_no_number(tmp_path: Path) -> None:
    async with Operated(tmp_path, min_batch_floor=100) as world:
        await world.post(upload(unique(1)))
        shown = set()
        for _ in range(10):
            seen = await world.metrics()
            # memory and disk change with whatever else this machine does
            of_others = ("process_", "storage_limit_bytes")
            shown.add(str({key: value for key, value in seen.items() if not key[0].startswith(of_others)}))
            await world.post(upload(unique(9)))
        assert len(shown) == 1


async def test_batches_verdicts_and_discards_are_counted(tmp_path: Path) -> None:
    async with Operated(tmp_path, min_batch_floor=10) as world:
        await world.post(upload(unique(30)))
        await world.post(upload(unique(5), period=PERIOD - 1))
        world.clock.now = CLOSES
        world.aggregator.answers = [503] * 2
        await world.batcher.tick()
        seen = await world.metrics()
        assert seen["batches", "planned"] == 2
        assert seen["discarded_buckets_total", "dark_mode"] == 1
        assert seen["forward_lag_seconds",] == 3_600  # the period before closed an hour ago
        await world.settle_all()
        seen = await world.metrics()
        assert (seen["batches", "planned"], seen["batches", "sent"]) == (0, 0)
        assert seen["settled_batches_total", "dark_mode", "accepted"] == 1
        assert seen["settled_batches_total", "dark_mode", "discard-accepted"] == 1
        assert seen["forward_lag_seconds",] == 0


async def test_refused_bundles_and_halved_crowds_are_counted_for_the_operator(tmp_path: Path) -> None:
    async with Operated(tmp_path, min_batch_floor=10) as world:
        await world.post(upload(unique(30), period=PERIOD - 1))
        await world.post(upload(unique(14)))
        world.aggregator.bundle = signed(NOW + 5, book=codebook(4))
        assert not await world.bundles.refresh()
        waiting = await world.metrics()
        assert waiting["crowds_halved_total", "dark_mode"] == 0  # what waits is not looked at
        world.clock.now = CLOSES
        await world.settle_all()
        seen = await world.metrics()
        assert (seen["refused_bundles_total", "ChangedPeriod"], seen["crowds_halved_total", "dark_mode"]) == (1, 1)
        assert "halved" not in {key[-1] for key in seen if key[0] == "settled_batches_total"}
        assert (await world.admin.get("/v1/status")).json()["refused_bundles"] == {"ChangedPeriod": 1}


async def test_the_first_discard_and_the_first_loss_are_rises_from_zero(tmp_path: Path) -> None:
    """Else the first discard and the first batch that is lost would not be seen to rise."""
    async with Operated(tmp_path, min_batch_floor=10) as world:
        seen = await world.metrics()
        assert seen["discarded_buckets_total", "dark_mode"] == 0
        for verdict in ("accepted", "batch-too-late", "unknown-key"):
            assert seen["settled_batches_total", "dark_mode", verdict] == 0
        assert (seen["refused_total", "period-closed"], seen["refused_total", "overloaded"]) == (0, 0)
        assert (seen["refused_bundles_total", "ChangedPeriod"], seen["crowds_halved_total", "dark_mode"]) == (0, 0)
        await world.post(upload(unique(5), period=PERIOD - 1))
        world.clock.now = CLOSES
        await world.batcher.tick()
        assert (await world.metrics())["discarded_buckets_total", "dark_mode"] == 1
        assert (await world.admin.get("/v1/status")).json()["refused"] == {}


async def test_the_age_of_the_bundle_is_shown(tmp_path: Path) -> None:
    async with Operated(tmp_path) as world:
        world.clock.now = NOW + 60
        seen = await world.metrics()
        assert (seen["bundle_valid",], seen["bundle_age_seconds",]) == (1, 60)
        world.clock.now = NOW + 31 * 86_400
        assert (await world.metrics())["bundle_valid",] == 0


async def test_a_storage_that_cannot_be_read_is_a_metric_and_no_error(tmp_path: Path) -> None:
    async with Operated(tmp_path) as world:
        assert (await world.metrics())["storage_up",] == 1

        async def away() -> Any:
            raise StorageError("gone")

        world.storage.overview = away  # type: ignore[method-assign]  # a server that is down
        assert (await world.metrics())["storage_up",] == 0
        assert (await world.admin.get("/v1/status")).status_code == 503


async def test_with_a_token_the_admin_listener_is_for_who_has_it(tmp_path: Path) -> None:
    async with Operated(tmp_path, token=TOKEN) as world:
        for path in ("/metrics", "/v1/status", "/healthz", "/openapi.json", "/nowhere"):
            for wrong in ({}, {"Authorization": "Bearer no"}, {"Authorization": TOKEN}):
                answer = await world.admin.get(path, headers=wrong)
                assert (answer.status_code, answer.json()["type"]) == (401, "urn:hubbub:problem:unauthorized")
                assert answer.headers["www-authenticate"] == "Bearer"
        document = (await world.admin.get("/openapi.json", headers={"Authorization": f"Bearer {TOKEN}"})).json()
        assert all("401" in path["get"]["responses"] for path in document["paths"].values())
        assert (await world.admin.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})).status_code == 200


async def test_the_public_listener_has_no_metrics(tmp_path: Path) -> None:
    async with Operated(tmp_path) as world:
        assert (await world.client.get("/metrics")).status_code == 404
        assert "refused" not in (await world.client.get("/v1/status")).json()


async def test_a_batch_that_another_process_settled_is_no_lag_of_ours(tmp_path: Path) -> None:
    async with Operated(tmp_path) as world:
        await world.post(upload(unique(30)))
        world.clock.now = CLOSES
        world.aggregator.answers = [503]
        await world.batcher.tick()
        world.clock.now += 100
        other = world.worker()
        for _ in range(3):
            await other.tick()
            world.clock.now += 100
        assert (await world.metrics())["forward_lag_seconds",] == 0
