"""Batches over HTTP and their verdicts: what counts, what does not, and that one bad report harms no other."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hubbub.accounting import guarantee
from hubbub.refusals import refusal_named
from hubbub.sealing import new_private_key, public_key_of
from hubbub.wire import BATCH_HEADER_BYTES, BATCH_TYPE, BatchHeader, Plaintext
from hubbub_aggregator.intake.open_reports import Pool
from hubbub_aggregator.storage import Batch, SqliteStorage
from tests.aggregator.world import CODEBOOK, DAY, START, WAIT, Site, needed, whole

SHUFFLER = "a-secret-of-a-shuffler"
SUCCESSOR = "its-successor-while-rotating"


def problem(response: httpx2.Response, name: str) -> None:
    """The answer is this problem, and a whole one."""
    assert response.headers["content-type"] == "application/problem+json"
    document = response.json()
    refusal = refusal_named(document["type"])
    assert refusal is not None, document
    assert (refusal.name, refusal.status) == (name, response.status_code), document
    assert document["status"] == response.status_code
    assert document["title"]
    assert document["detail"]


def spooled(site: Site) -> list[str]:
    return [path.name for path in (site.state_dir / "spool").iterdir()]


# -- what counts ----------------------------------------------------------------------------------


def test_a_batch_is_acknowledged_opened_and_counted(site: Site) -> None:
    body, name = site.batch("dark_mode", [True] * 300), os.urandom(16)

    taken = site.put(body, name)
    assert (taken.status_code, taken.json()["state"]) == (202, "pending")
    assert len(spooled(site)) == 1
    site.work()

    verdict = site.json(f"/v1/batches/{name.hex()}")
    assert (verdict["state"], verdict["reason"], verdict["count"], verdict["valid"]) == ("accepted", None, 300, 300)
    assert verdict["invalid"] == {}
    assert spooled(site) == []


def test_hostile_reports_are_counted_by_reason_and_honest_ones_still_count(site: Site) -> None:
    honest = site.plaintexts("dark_mode", [True, False] * 150)
    least = site.header("dark_mode", 1)
    other_period = Plaintext(site.period + 1, os.urandom(16), b"\x01").encode()
    impossible = Plaintext(site.period, os.urandom(16), b"\xff").encode()
    reports = [
        *site.seal(least, honest),
        *site.seal(least, honest[:1] * 3),  # one device again, sealed afresh: the same nonce
        *site.seal(least, [other_period] * 5),
        *site.seal(least, [impossible] * 4),
        *site.seal(least, honest[:2], public_key_of(new_private_key())),
        *[os.urandom(least.size) for _ in range(6)],
        bytes(least.size),
    ]
    other = replace(least, metric=site.metric("theme").id)
    reports += site.seal(other, honest[:1])  # sealed for another metric
    header = replace(least, count=len(reports))

    verdict = site.settle(whole(header, reports))

    assert verdict["state"] == "accepted"
    assert verdict["valid"] == 300
    assert verdict["invalid"] == {"cannot-open": 10, "duplicate": 3, "malformed": 4, "wrong-period": 5}
    answer = site.json("/v1/metrics/dark_mode/estimate")
    assert answer["segments"][0]["reports"] == 300
    assert site.json("/v1/status")["invalid_reports"] == verdict["invalid"]


def test_a_nonce_counts_once_across_batches_of_a_metric_and_period(site: Site) -> None:
    first = site.plaintexts("dark_mode", [True] * 200)
    fresh = site.plaintexts("dark_mode", [False] * 200, seed=2)
    header = site.header("dark_mode", 200)
    assert site.settle(whole(header, site.seal(header, first)))["valid"] == 200

    header = replace(header, count=350)
    verdict = site.settle(whole(header, site.seal(header, first[:150] + fresh)))

    assert (verdict["state"], verdict["valid"], verdict["invalid"]) == ("accepted", 200, {"duplicate": 150})
    assert site.json("/v1/metrics/dark_mode/estimate")["segments"][0]["reports"] == 400


def test_batches_worked_on_at_once_still_share_no_nonce(site: Site) -> None:
    plaintexts = site.plaintexts("dark_mode", [True] * 400)
    header = site.header("dark_mode", 400)
    for _ in range(2):
        site.put(whole(header, site.seal(header, plaintexts)))
    site.service.accumulator.at_once = 2
    site.work()

    assert site.json("/v1/metrics/dark_mode/estimate")["segments"][0]["reports"] == 400
    assert site.json("/v1/status")["batches"] == {"pending": 0, "accepted": 1, "refused": 1}


def test_a_batch_of_many_slices_is_counted_whole(site: Site) -> None:
    verdict = site.settle(site.batch("theme", ["light", "dark", "sepia"] * 1500))
    assert (verdict["state"], verdict["valid"]) == ("accepted", 4500)


def test_a_worker_that_dies_is_replaced_and_its_batch_is_counted(site: Site) -> None:
    site.settle(site.batch("dark_mode", [True] * 200))
    workers = active_children()
    for worker in workers:
        worker.kill()
        worker.join()

    assert site.settle(site.batch("dark_mode", [True] * 200))["state"] == "accepted"
    assert len(workers) > 0


# -- what is released -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dark_mode", "theme", "startup_ms"])
def test_the_smallest_batch_is_the_accountants_over_the_honest_fraction(site: Site, name: str) -> None:
    least = needed(site.metric(name).mechanism)
    assert site.least(name) == -(-least * 10 // 9)


def test_a_batch_below_the_minimum_is_refused_for_good_and_never_opened(site: Site) -> None:
    name = os.urandom(16)
    body = site.batch("dark_mode", [True] * (site.least("dark_mode") - 1))
    verdict = site.settle(body, name)

    assert (verdict["state"], verdict["reason"], verdict["valid"]) == ("refused", "batch-too-small", None)
    again = site.put(body, name)
    assert (again.status_code, again.json()) == (200, verdict)
    assert site.json("/v1/status")["refused_batches"] == {"batch-too-small": 1}
    problem(site.get("/v1/metrics/dark_mode/estimate"), "nothing-released")


def test_junk_can_not_make_up_a_crowd(site: Site) -> None:
    """What is released needs its minimum in valid reports; with one fewer nothing is, however many there are in all."""
    least = site.least("dark_mode")
    for valid, state in [(least, "accepted"), (least - 1, "refused")]:
        plaintexts = site.plaintexts("dark_mode", [True] * valid)
        header = site.header("dark_mode", 500)
        junk = [os.urandom(header.size) for _ in range(500 - valid)]
        verdict = site.settle(whole(header, site.seal(header, plaintexts) + junk))
        assert (verdict["state"], verdict["valid"]) == (state, valid)
    assert verdict["reason"] == "batch-too-small"


def test_a_minimum_in_the_codebook_raises_and_never_lowers(tmp_path: Path, pool: Pool) -> None:
    for written, expected in [(5, None), (2_000, 2_000)]:
        root = tmp_path / str(written)
        root.mkdir()
        site = Site.open(root, pool, CODEBOOK.replace('type = "boolean"', f'type = "boolean"\nmin_batch = {written}'))
        computed = -(-needed(site.metric("dark_mode").mechanism) * 10 // 9)
        assert site.least("dark_mode") == (expected or computed)
        if expected:
            assert site.settle(site.batch("dark_mode", [True] * 1_999))["reason"] == "batch-too-small"
        site.close()


@pytest.mark.parametrize(("sent", "valid"), [(400, 400), (400, 300)])
def test_the_guarantee_is_the_accountants_for_the_honest_reports(site: Site, sent: int, valid: int) -> None:
    plaintexts = site.plaintexts("dark_mode", [True] * valid)
    header = site.header("dark_mode", sent)
    junk = [os.urandom(header.size) for _ in range(sent - valid)]
    site.settle(whole(header, site.seal(header, plaintexts) + junk))

    honest = valid * 9 // 10
    expected = guarantee(site.metric("dark_mode").mechanism, honest, 1e-6)
    (record,) = site.json("/v1/releases")["releases"]
    found = site.json("/v1/metrics/dark_mode/estimate")["segments"][0]["privacy"]
    for stated in (record, found):
        assert (stated["epsilon"], stated["delta"], stated["method"]) == (expected.epsilon, 1e-6, expected.method)
        assert (stated["honest_reports"], stated["local_epsilon"]) == (honest, expected.local_epsilon)
    assert found["epsilon"] <= 0.5
    assert found["if_collusion"] == {"epsilon": 1.0, "delta": 0.0}
    assert any("share of the distinct valid reports" in line for line in found["assumptions"])
    assert (record["reports"], record["valid"], record["part"]) == (sent, valid, None)
    assert record["honest_reports_pessimistic"] == valid - (sent - sent * 9 // 10)
    assert record["unit"] == "one device's report to this metric in this period"
    assert site.json(f"/v1/releases/{record['id']}") == record


# -- the same id ----------------------------------------------------------------------------------


def test_the_same_id_and_content_gives_the_stored_verdict(site: Site) -> None:
    body, name = site.batch("dark_mode", [True] * 200), os.urandom(16)
    assert [site.put(body, name).status_code for _ in range(2)] == [202, 202]
    site.work()
    site.work()

    again = site.put(body, name)
    assert (again.status_code, again.json()["state"]) == (200, "accepted")
    assert site.json("/v1/metrics/dark_mode/estimate")["segments"][0]["reports"] == 200
    assert spooled(site) == []

    site.clock.now += 60 * DAY
    site.service.tick()
    assert site.put(body, name).json() == again.json()  # ids are kept after the horizon


@pytest.mark.parametrize("worked", [False, True])
def test_the_same_id_with_other_content_is_a_conflict_and_changes_nothing(site: Site, worked: bool) -> None:
    name = os.urandom(16)
    site.put(site.batch("dark_mode", [True] * 200), name)
    if worked:
        site.work()
    other = site.batch("dark_mode", [True] * 200)
    problem(site.put(other, name), "batch-conflict")
    problem(site.put(other[:-1], name), "malformed-batch")
    problem(site.put(site.header("dark_mode", 0, size=0, kind="discard").encode(), name), "batch-conflict")

    site.work()
    assert site.json(f"/v1/batches/{name.hex()}")["state"] == "accepted"
    assert site.json("/v1/metrics/dark_mode/estimate")["segments"][0]["reports"] == 200


def test_a_conflict_in_the_header_is_answered_before_the_body_is_read(site: Site) -> None:
    """Else a known id would let its sender make us read as much as a header can promise."""
    name, sent = os.urandom(16), 0
    site.put(site.batch("dark_mode", [True] * 200), name)
    header = site.header("dark_mode", 2**32 - 1).encode()

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        yield header
        while sent < 10:
            sent += 1
            yield bytes(2**16)

    headers = {"Content-Type": BATCH_TYPE}
    problem(site.call("PUT", f"/v1/batches/{name.hex()}", content=endless(), headers=headers), "batch-conflict")
    assert sent < 10


def test_two_uploads_of_one_id_at_once_keep_one_body(site: Site) -> None:
    name, bodies = os.urandom(16), [site.batch("dark_mode", [True] * 200) for _ in range(2)]
    header = BatchHeader.decode(bodies[0])
    for number, body in enumerate(bodies):  # both have passed the look-up before either is admitted
        kept = site.service.storage.admit(Batch(name, header, body[-32:], "pending", f"file-{number}"))
        assert kept.spool == "file-0"


# -- discards -------------------------------------------------------------------------------------


def test_a_discard_is_recorded_without_a_count(site: Site) -> None:
    name, notice = os.urandom(16), site.header("theme", 0, size=0, kind="discard").encode()
    first, again = site.put(notice, name), site.put(notice, name)

    assert (first.status_code, first.json()["state"], first.json()["kind"]) == (200, "accepted", "discard")
    assert first.json()["count"] == 0
    assert again.json() == first.json()
    assert site.json("/v1/status")["discards"] == 1
    problem(site.put(notice + b"x"), "malformed-batch")


def test_a_discard_for_a_revoked_key_is_not_taken_for_a_small_crowd(site: Site) -> None:
    small, revoked = (site.header(name, 0, size=0, kind="discard") for name in ("theme", "dark_mode"))
    site.put(small.encode())
    site.service.storage.revoke_key(revoked.key)
    verdict = site.put(revoked.encode()).json()

    assert (verdict["state"], verdict["reason"]) == ("accepted", None)
    found = {one["metric"]: one["reason"] for one in site.json("/v1/status")["discarded"]}
    assert found == {"theme": "too-few", "dark_mode": "revoked-key"}


# -- what is refused at the door ------------------------------------------------------------------


def test_lengths_are_never_trusted(site: Site) -> None:
    body = site.batch("dark_mode", [True] * 200)
    header = BatchHeader.decode(body)
    for damaged in (body[:-1], body + b"x", body[:BATCH_HEADER_BYTES], body[:10], b"", body[: -header.size]):
        problem(site.put(damaged), "malformed-batch")
    for lie in (199, 201):
        problem(site.put(replace(header, count=lie).encode() + body[BATCH_HEADER_BYTES:]), "malformed-batch")
    problem(site.put(replace(header, count=2**32 - 1).encode() + body[BATCH_HEADER_BYTES:]), "too-large")
    problem(site.put(replace(header, size=65_535).encode() + body[BATCH_HEADER_BYTES:]), "wrong-length")
    problem(site.put(b"\x09" + body[1:]), "malformed-batch")
    problem(site.put(body[:1] + b"\x09" + body[2:]), "malformed-batch")
    assert spooled(site) == []
    assert site.json("/v1/status")["batches"] == {"pending": 0, "accepted": 0, "refused": 0}


def test_an_upload_that_breaks_off_is_never_kept(site: Site) -> None:
    body = site.batch("dark_mode", [True] * 200)

    async def cut() -> Any:
        sent: list[Any] = []
        messages = iter([{"type": "http.request", "body": body[:5000], "more_body": True}, {"type": "http.disconnect"}])

        async def receive() -> Any:
            return next(messages)

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": "PUT",
            "path": f"/v1/batches/{'ab' * 16}",
            "query_string": b"",
            "headers": [(b"content-type", b"application/vnd.hubbub.batch")],
        }
        await site.app(scope, receive, send)
        return sent

    assert asyncio.run(cut())[0]["status"] == 400
    assert spooled(site) == []
    problem(site.get(f"/v1/batches/{'ab' * 16}"), "not-found")


def test_unknown_metrics_keys_and_periods_are_refused(site: Site) -> None:
    body = site.batch("dark_mode", [True] * 200)
    header, rest = BatchHeader.decode(body), body[BATCH_HEADER_BYTES:]
    cases: list[tuple[dict[str, Any], str]] = [
        ({"metric": b"?" * 16}, "unknown-metric"),
        ({"period": header.period - 1}, "unknown-metric"),  # before the codebook was in force
        ({"period": header.period + 1}, "period-in-future"),
        ({"period": 2**32 - 1}, "period-in-future"),
        ({"key": 200}, "unknown-key"),
        ({"key": header.key + 1}, "unknown-key"),  # a real key, of another period
    ]
    for changes, name in cases:
        problem(site.put(replace(header, **changes).encode() + rest), name)
    problem(site.put(body, headers={"Content-Type": "application/json"}), "unsupported-media-type")
    problem(site.call("PUT", "/v1/batches/XYZ", content=body), "malformed-batch")
    problem(site.call("POST", f"/v1/batches/{'0' * 32}", content=body), "method-not-allowed")
    assert site.json("/v1/status")["refused_requests"]["unknown-key"] == 2


def test_a_batch_past_its_horizon_is_gone(site: Site) -> None:
    body = site.batch("dark_mode", [True] * 200)
    site.clock.now = START + (1 + 1 + 7) * DAY + WAIT - 1
    assert site.put(body).status_code == 202
    site.clock.now += 1
    problem(site.put(body), "batch-too-late")

    site.service.tick()  # the batch that was acknowledged in time keeps its key until it is worked on
    site.work()
    assert site.json("/v1/status")["batches"]["accepted"] == 1


class Failing(Pool):
    """Workers that never come up."""

    async def map(self, *_work: Any) -> list[Any]:
        raise OSError("no more processes")


def test_a_batch_that_can_not_be_worked_on_waits_until_its_horizon_and_holds_back_no_erasure(site: Site) -> None:
    name = os.urandom(16)
    site.put(site.batch("dark_mode", [True] * 200), name)
    site.service.accumulator.pool = Failing(1)
    for days, state, unsettled in [(9, "pending", 1), (9 + WAIT / DAY, "refused", 0)]:
        site.clock.now = START + days * DAY
        site.service.tick()
        assert site.service.ring.find(START // DAY, 0) is not None
        assert site.drain() == unsettled
        assert site.json(f"/v1/batches/{name.hex()}")["state"] == state
    assert site.json(f"/v1/batches/{name.hex()}")["reason"] == "batch-too-late"
    assert spooled(site) == []
    site.service.tick()
    assert site.service.ring.find(START // DAY, 0) is None


@pytest.mark.everyday("True-None")
@pytest.mark.parametrize(("restarted", "left"), [(False, None), (True, None), (True, 5_000)])
def test_a_batch_whose_file_is_gone_is_asked_for_again_and_counted_once(
    site: Site, restarted: bool, left: int | None
) -> None:
    """Or not whole, as a disk may leave it."""
    body, name = site.batch("dark_mode", [True] * 200), os.urandom(16)
    site.put(body, name)
    for file in spooled(site):
        path = site.state_dir / "spool" / file
        if left is None:
            path.unlink()
        else:
            os.truncate(path, left)
    if restarted:
        site.reopen()
    site.work()
    problem(site.get(f"/v1/batches/{name.hex()}"), "not-found")
    assert site.settle(body, name)["state"] == "accepted"
    assert site.json("/v1/metrics/dark_mode/estimate")["segments"][0]["reports"] == 200


def test_a_batch_that_could_not_be_noted_leaves_no_file(site: Site) -> None:
    body, name, storage = site.batch("dark_mode", [True] * 200), os.urandom(16), site.service.storage
    assert isinstance(storage, SqliteStorage)
    storage._connection.execute("PRAGMA query_only = ON")  # as good as a full disk
    for _ in range(2):
        answer = site.put(body, name)
        problem(answer, "overloaded")
        assert int(answer.headers["retry-after"]) > 0
    assert spooled(site) == []
    storage._connection.execute("PRAGMA query_only = OFF")
    assert site.settle(body, name)["state"] == "accepted"


def test_a_batch_too_large_is_refused_before_it_is_read(tmp_path: Path, pool: Pool) -> None:
    site = Site.open(tmp_path, pool, max_batch_bytes=1_000)
    problem(site.put(site.batch("dark_mode", [True] * 20)), "too-large")
    site.close()


def test_reports_sealed_with_a_revoked_key_are_refused(site: Site) -> None:
    early, late = (site.batch("dark_mode", [True] * 200) for _ in range(2))
    name = os.urandom(16)
    site.put(early, name)
    site.service.ring.revoke(BatchHeader.decode(early).key, site.clock())

    problem(site.put(late), "revoked-key")
    site.work()
    assert site.json(f"/v1/batches/{name.hex()}")["reason"] == "revoked-key"
    site.clock.now += DAY
    site.service.tick()
    assert site.settle(site.batch("dark_mode", [True] * 200))["state"] == "accepted"


def test_the_shuffler_must_show_one_of_its_tokens(tmp_path: Path, pool: Pool) -> None:
    hashed = "sha256:" + hashlib.sha256(SUCCESSOR.encode()).hexdigest()
    site = Site.open(tmp_path, pool, shuffler_token=SHUFFLER, shuffler_token_next=hashed)
    body = site.batch("dark_mode", [True] * 200)
    wrong = [
        "",
        "Bearer",
        "Bearer wrong",
        f"Basic {SHUFFLER}",
        SHUFFLER,
        f"Bearer {SHUFFLER}x",
        "Bearer \xff",
        f"Bearer {hashed}",
    ]
    for header in wrong:
        answer = site.put(body, headers={"Authorization": header.encode("latin-1")})
        problem(answer, "unauthorized")
        assert "www-authenticate" in answer.headers
    problem(site.get(f"/v1/batches/{'0' * 32}"), "unauthorized")
    for token in (SHUFFLER, SUCCESSOR):
        assert site.put(body, headers={"Authorization": f"Bearer {token}"}).status_code == 202
    assert SHUFFLER not in repr(site.settings)
    site.close()


# -- whatever comes -------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_body_is_answered_with_a_5xx(site: Site, data: st.DataObject) -> None:
    real = site.header("dark_mode", 3)
    header = BatchHeader(
        data.draw(st.sampled_from([real.metric, b"?" * 16])),
        data.draw(st.sampled_from([real.period, real.period + 1, 0, 2**32 - 1])),
        data.draw(st.integers(0, 255)),
        data.draw(st.integers(0, 4)),
        data.draw(st.sampled_from([0, real.size, 1])),
        data.draw(st.sampled_from(["batch", "discard"])),
    )
    body = data.draw(st.sampled_from([b"", header.encode()])) + data.draw(st.binary(max_size=3 * real.size))
    answer = site.put(body, data.draw(st.binary(min_size=16, max_size=16)))
    if answer.status_code not in (200, 202):
        assert answer.status_code < 500
        problem(answer, answer.json()["type"].removeprefix("urn:hubbub:problem:"))
