"""The honest count: a share of the distinct valid reports. Junk and duplicates never help, on either storage."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from hubbub.accounting import compose, guarantee, honest_reports_in_part, min_reports
from hubbub_aggregator.intake.open_reports import Pool
from hubbub_aggregator.publication.keys import new_identity
from tests.aggregator.world import DAY, Site, whole
from tests.support.codebooks import dark_mode, photo_app
from tests.support.redis_server import one_server

SMALL = photo_app(
    dark_mode(1.0, min_batch=50), grace="1d", device_epsilon=2.0, epsilon=0.9, delta=1e-6, honest_fraction=0.9
)


@pytest.fixture
def embedded(tmp_path: Path, pool: Pool) -> Iterator[Site]:
    """An aggregator whose dark_mode is released from 50 reports on."""
    site = Site.open(tmp_path, pool, SMALL)
    yield site
    site.close()


@pytest.fixture(params=["sqlite", "redis"])
def small(request: pytest.FixtureRequest, tmp_path: Path, pool: Pool) -> Iterator[Site]:
    """The same, on each storage."""
    if request.param == "sqlite":
        yield request.getfixturevalue("embedded")
        return
    new_identity(tmp_path)
    with one_server(tmp_path / "redis") as server:
        site = Site.open(tmp_path, pool, SMALL, storage=SecretStr(server.url), identity=tmp_path / "identity.key")
        yield site
        site.close()


def settled(site: Site, valid: int, duplicates: int = 0, junk: int = 0, others: int = 0) -> tuple[str, Any]:
    """Send a batch of so many different reports, of copies sealed afresh and of junk; its state and its record."""
    plaintexts, name = site.plaintexts("dark_mode", [True] * valid), os.urandom(16)
    again = [plaintexts[at % valid] for at in range(duplicates)]
    header = site.header("dark_mode", valid + duplicates + junk, in_other_batches=others)
    reports = [*site.seal(header, plaintexts + again), *(os.urandom(header.size) for _ in range(junk))]
    state = site.settle(whole(header, reports), name)["state"]
    storage = site.service.storage
    kept = storage.release(name) or next((one for one in storage.opened_and_refused() if one.id == name), None)
    return state, None if kept is None else json.loads(kept.record)


@pytest.mark.everyday("sqlite")
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(valid=st.integers(45, 80), copies=st.integers(0, 20), junk=st.integers(0, 20), others=st.sampled_from([0, 900]))
def test_honest_count_and_released_set_never_grow_with_duplicates_or_junk(
    small: Site, valid: int, copies: int, junk: int, others: int
) -> None:
    state, record = settled(small, valid, others=others)
    if not others or valid < 50:
        assert state == ("accepted" if valid >= 50 else "refused")
    padded, noisy = settled(small, valid, copies, junk, others)
    assert padded == state
    if record is not None and noisy is not None:  # else its count alone was too small, and it was never opened
        assert noisy["honest_reports"] == record["honest_reports"] <= valid * 9 // 10
        assert noisy["honest_reports_pessimistic"] <= record["honest_reports_pessimistic"] <= record["honest_reports"]
        assert noisy["epsilon"] == record["epsilon"]
    if noisy is not None:
        assert noisy["valid"] == valid


def test_forty_devices_sealed_again_are_no_crowd_of_fifty(small: Site) -> None:
    assert small.least("dark_mode") == 50
    assert settled(small, 40, duplicates=20)[0] == "refused"
    assert settled(small, 40, junk=20)[0] == "refused"
    assert settled(small, 50)[0] == "accepted"


# -- parts of a bucket ----------------------------------------------------------------------------


def test_a_part_is_counted_with_an_allowance_that_its_delta_contains(embedded: Site) -> None:
    mechanism, delta = embedded.metric("dark_mode").mechanism, Fraction(1, 10**6)
    (_, record), (_, bucket) = settled(embedded, 90, others=200), settled(embedded, 90)

    assert record["part"] == {"bucket_reports": 290, "failure_probability": 1e-7}
    honest = honest_reports_in_part(90, "0.9", delta / 10)
    expected = guarantee(mechanism, honest, delta * Fraction(9, 10))
    assert (record["honest_reports"], record["epsilon"], record["delta"]) == (honest, expected.epsilon, 1e-6)
    assert honest < bucket["honest_reports"] == 81
    assert bucket["part"] is None
    assert record["epsilon"] > bucket["epsilon"]
    (shown, _) = sorted(embedded.json("/v1/releases")["releases"], key=lambda one: one["part"] is None)
    assert shown["part"] == record["part"]


def test_a_part_needs_its_own_least_number_of_honest_reports(tmp_path: Path, pool: Pool) -> None:
    site = Site.open(tmp_path, pool, SMALL.replace("min_batch = 50", "min_batch = 2"))
    delta = Fraction(1, 10**6)
    least = min_reports(site.metric("dark_mode").mechanism, 0.9, delta * Fraction(9, 10))
    enough = next(n for n in range(1, 10**4) if honest_reports_in_part(n, "0.9", delta / 10) >= least)
    assert enough > site.least("dark_mode")  # what a whole bucket needs
    for valid, state in [(enough - 1, "refused"), (enough, "accepted")]:
        assert settled(site, valid, others=1)[0] == state
    site.close()


def test_parts_are_composed_at_what_their_failures_leave_of_delta(embedded: Site) -> None:
    for _ in range(2):
        settled(embedded, 90, others=200)
        embedded.clock.now += DAY
        embedded.service.tick()
    found = embedded.json("/v1/privacy")["total"]
    counted = honest_reports_in_part(90, "0.9", Fraction(1, 10**7))
    expected = compose([(embedded.metric("dark_mode").mechanism, counted, 2)], Fraction(18, 10**7))
    assert found["delta"] == 2e-6
    assert math.isclose(found["epsilon"], expected.epsilon, rel_tol=1e-9)
    answer = embedded.json("/v1/metrics/dark_mode/estimate")["privacy"]
    assert (answer["delta"], answer["epsilon"]) == (2e-6, found["epsilon"])


# -- what was read and not released ---------------------------------------------------------------


@pytest.mark.everyday("redis")
def test_a_batch_that_was_opened_and_refused_is_in_the_ledger_and_no_release(small: Site) -> None:
    assert small.json("/v1/privacy")["total"] is None
    state, record = settled(small, 40, junk=20)
    assert (state, record["released"], record["reason"], record["valid"]) == ("refused", False, "batch-too-small", 40)
    expected = guarantee(small.metric("dark_mode").mechanism, 36, 1e-6)
    assert (record["honest_reports"], record["epsilon"], record["delta"]) == (36, expected.epsilon, 1e-6)

    found = small.json("/v1/privacy")
    assert (found["opened_and_refused"], found["periods"]["released"]) == (1, 0)
    for entry in (found["total"], *found["per_metric"], *found["per_period"], *found["over_time"]):
        assert (entry["epsilon"], entry["releases"], entry["honest_reports"]) == (expected.epsilon, 1, 36)
    assert found["total"]["method"] == "the refused batch's own"
    assert small.json("/v1/releases")["releases"] == []
    assert small.get(f"/v1/releases/{record['id']}").status_code == 404

    settled(small, 90)  # the same metric and period: the smallest counts
    after = small.json("/v1/privacy")
    assert (after["total"]["epsilon"], after["total"]["releases"]) == (expected.epsilon, 1)
    assert (after["opened_and_refused"], after["periods"]["released"]) == (1, 1)
    small.clock.now += DAY
    small.service.tick()
    settled(small, 90)
    assert small.json("/v1/privacy")["total"]["releases"] == 2
    assert small.json("/v1/privacy")["total"]["epsilon"] > after["total"]["epsilon"]


def test_what_is_read_costs_the_local_epsilon_at_most_and_nothing_new_costs_nothing(small: Site) -> None:
    _, alone = settled(small, 1, junk=59)
    assert (alone["honest_reports"], alone["epsilon"]) == (0, alone["local_epsilon"])
    found = small.json("/v1/privacy")["total"]
    assert found["epsilon"] == found["if_collusion"]["epsilon"] == alone["local_epsilon"]

    small.clock.now += DAY
    small.service.tick()
    header = small.header("dark_mode", 60)
    assert small.settle(whole(header, [os.urandom(header.size) for _ in range(60)]))["valid"] == 0
    after = small.json("/v1/privacy")
    assert (after["opened_and_refused"], after["total"]) == (2, found)


def test_what_is_never_opened_costs_nothing(small: Site) -> None:
    assert settled(small, 49) == ("refused", None)
    assert small.json("/v1/privacy")["opened_and_refused"] == 0


class Dying(Pool):
    """Workers that open reports and never come back with them."""

    async def map(self, *_work: Any) -> list[Any]:
        raise OSError("gone")


def test_what_may_have_been_read_before_it_failed_for_good_counts_as_if_a_device_had_been_alone(small: Site) -> None:
    small.put(small.batch("dark_mode", [True] * 60))
    small.service.accumulator.pool = Dying(1)
    small.clock.now += 10 * DAY
    small.work()
    (kept,) = small.service.storage.opened_and_refused()
    record = json.loads(kept.record)
    assert (record["reason"], record["valid"], record["epsilon"]) == ("batch-too-late", None, record["local_epsilon"])
    assert small.json("/v1/privacy")["total"]["epsilon"] == record["local_epsilon"]


def test_a_release_by_a_private_coin_says_what_the_coin_hides(tmp_path: Path, pool: Pool) -> None:
    hidden = dark_mode(1.0, min_batch=50) + "share = 0.1\nmissing = false\n"
    text = photo_app(hidden, grace="1d", device_epsilon=2.0, epsilon=0.9, delta=1e-6, honest_fraction=0.9)
    site = Site.open(tmp_path, pool, text)
    try:
        _, record = settled(site, 120)
        fewest = site.service.codebooks.newest.metric("dark_mode").min_batch
        assert fewest is not None
        credit = record["share_credit"]
        assert credit["fewest_honest_reports"] == fewest * 9 // 10
        assert credit["epsilon"] < record["epsilon"]
        assert credit["devices"] > 3 * fewest
        assert credit["delta"] == record["delta"]
        (listed,) = site.json("/v1/releases")["releases"]
        assert listed["share_credit"] == credit
        header, row = site.get("/v1/releases?format=csv").text.splitlines()
        assert float(row.split(",")[header.split(",").index("share_epsilon")]) == credit["epsilon"]
        _, refused = settled(site, fewest - 1, junk=5)
        assert refused["share_credit"] is None
    finally:
        site.close()
