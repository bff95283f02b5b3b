"""The fleet: many devices, one transport, the same protection as one client."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from hubbub.errors import InvalidParameter, InvalidValue, UntrustedBundle
from hubbub.period import Calendar
from hubbub.trust_anchor import anchor_of
from hubbub.wire import Plaintext, decode_report
from hubbub_client._http.transport import CannotReach
from hubbub_client.testing import Fleet, MemoryTransport
from tests.client.world import (
    START,
    TOML,
    TRUST,
    Time,
    codebook,
    failures,
    lost_answer,
    no_network,
    opened,
    page,
    period_of,
    problem,
    sealing_key,
    served,
    signed,
)
from tests.support.codebooks import STRANGER

PERIOD = period_of(START)


def fleet(transport: MemoryTransport, **more: object) -> Fleet:
    moment = Time()
    return Fleet(transport, clock=moment, pace=moment.pace, **more)  # type: ignore[arg-type]  # passed on


def plaintexts(transport: MemoryTransport) -> list[Plaintext]:
    return [opened(report)[1] for report in transport.reports]


def test_every_value_arrives_once_with_a_nonce_of_its_own() -> None:
    transport = MemoryTransport(signed())
    devices = fleet(transport, remember=True, per_request=64)
    told: list[int] = []

    delivered = devices.report("theme", ["dark"] * 150 + ["light"] * 50, PERIOD, progress=told.append)

    assert (delivered.acknowledged, delivered.undelivered, delivered.silent) == (200, 0, 0)
    assert told == [64, 128, 192, 200]
    nonces = [plaintext.nonce for plaintext in plaintexts(transport)]
    assert set(nonces) == devices.acknowledged == set(devices.drawn)
    assert len(set(nonces)) == 200
    assert list(devices.drawn.values()).count("dark") == 150


THEMES = ["dark"] * 1_500 + ["light"] * 900 + ["unheard of"] * 600
TIMES = [*range(0, 6_000, 2)]
TRUTH = {"theme": [0.3, 0.5, 0.0, 0.2], "startup_ms": [sum(min(value, 5_000) for value in TIMES) / len(TIMES)]}

Crowd = tuple[Fleet, dict[str, list[Plaintext]]]


@pytest.fixture(scope="module")
def crowd() -> Crowd:
    """Three thousand devices that reported both metrics."""
    transport = MemoryTransport(signed())
    devices = fleet(transport, remember=True)
    devices.report("theme", THEMES, PERIOD)
    devices.report("startup_ms", TIMES, PERIOD)
    read = plaintexts(transport)
    return devices, {"theme": read[:3_000], "startup_ms": read[3_000:]}


@pytest.mark.parametrize("metric", ["theme", "startup_ms"])
def test_what_the_aggregator_estimates_is_what_the_devices_hold(crowd: Crowd, metric: str) -> None:
    """Six standard errors on fresh randomness: a false alarm once in 2.5e8 values."""
    mechanism = codebook().metric(metric).mechanism
    reports = [mechanism.decode(plaintext.payload) for plaintext in crowd[1][metric]]
    estimate = mechanism.estimate(mechanism.tally(reports))
    assert estimate.reports == 3_000
    for value, expected, stderr in zip(estimate.values, TRUTH[metric], estimate.stderr, strict=True):
        assert abs(value - expected) < 6 * stderr


def test_the_reports_are_noisy_at_the_stated_epsilon(crowd: Crowd) -> None:
    """The test above would pass without any noise. At epsilon 2, krr of four tells the truth with 0.711."""
    devices, read = crowd
    index = {"light": 0, "dark": 1, "unheard of": 3}
    truthful = sum(index[str(devices.drawn[report.nonce])] == report.payload[0] for report in read["theme"]) / 3_000
    assert abs(truthful - 0.7112) < 6 * (0.7112 * 0.2888 / 3_000) ** 0.5


def test_lost_answers_are_resent_as_the_same_bytes() -> None:
    transport = MemoryTransport(signed())
    devices = fleet(transport)
    transport.script.extend([lost_answer(transport), no_network, page(403)])

    delivered = devices.report("theme", ["dark"] * 20, PERIOD)

    assert delivered.acknowledged == 20
    assert transport.reports[:20] == transport.reports[20:]


def test_refusals_are_counted_by_reason_and_only_what_can_succeed_is_tried_again() -> None:
    transport = MemoryTransport(signed())
    devices = fleet(transport)
    transport.script.append(failures((0, "period-closed"), (3, "period-closed"), (4, "overloaded")))

    delivered = devices.report("theme", ["dark"] * 6, PERIOD)

    assert delivered.acknowledged == 4
    assert delivered.refused == {"period-closed": 2}
    assert len(transport.reports) == 1


def test_a_way_that_stays_blocked_is_given_up_and_said() -> None:
    transport = MemoryTransport(signed())
    devices = fleet(transport, attempts=3)
    transport.script.extend([problem("overloaded", retry_after="2")] * 3)
    assert devices.report("theme", ["dark"] * 5, PERIOD).undelivered == 5


def test_a_revoked_key_is_looked_up_and_the_same_draws_sealed_again() -> None:
    transport = MemoryTransport(signed())
    devices = fleet(transport, remember=True)
    transport.bundle = signed(now=START + 1, keys=[sealing_key(1, state="revoked"), sealing_key(2)])
    transport.script.append(problem("revoked-key"))

    assert devices.report("theme", ["dark"] * 5, PERIOD).acknowledged == 5

    assert {plaintext.nonce for plaintext in plaintexts(transport)} == set(devices.drawn)


def test_share_and_missing_decide_who_speaks() -> None:
    toml = TOML.replace("[metrics.theme]", '[metrics.theme]\nshare = 0.5\nmissing = "light"')
    devices = fleet(MemoryTransport(signed(toml)))
    delivered = devices.report("theme", [None] * 400, PERIOD)
    assert delivered.acknowledged + delivered.silent == 400
    assert abs(delivered.acknowledged - 200) < 6 * 10
    assert devices.report("startup_ms", [None] * 3, PERIOD).silent == 3


def test_what_cannot_be_reported_is_an_error_here() -> None:
    """A test or a demo wants to know; only an app must not crash."""
    transport = MemoryTransport(signed(keys=[sealing_key(1, first=PERIOD, last=PERIOD)]))
    devices = fleet(transport)
    with pytest.raises(InvalidParameter):
        devices.report("thme", ["dark"], PERIOD)
    with pytest.raises(InvalidValue):
        devices.report("theme", [3], PERIOD)
    with pytest.raises(InvalidParameter):
        devices.report("theme", ["dark"], PERIOD + 1)


def test_a_metric_of_a_codebook_to_come_says_when_it_counts() -> None:
    edited = TOML + '\n[metrics.meal]\ntype = "boolean"\nepsilon = 0.5\nmin_batch = 100\n'
    devices = fleet(MemoryTransport(signed(TOML, edited, first_periods=(0, PERIOD + 2))))
    with pytest.raises(InvalidParameter, match=r"meal is not in force yet.*begins 2026-12-15 on, .* begins 2026-12-13"):
        devices.report("meal", [True])


def test_a_mistake_about_the_metric_and_one_about_the_period_differ_and_name_dates() -> None:
    devices = fleet(MemoryTransport(signed()))
    assert devices.period_of().label == "2026-12-13"
    with pytest.raises(InvalidParameter, match=r"begins 2026-12-13 has no metric named 'thme': did you mean 'theme'"):
        devices.report("thme", ["dark"])
    with pytest.raises(InvalidParameter, match=r"no metric named 'xyz': it has startup_ms, theme"):
        devices.report("xyz", ["dark"])
    with pytest.raises(InvalidParameter, match=r"is 10s long, and those of the codebook in force are 1d.*2026-12-13"):
        devices.report("theme", ["dark"], Calendar.parse("10s").at(START))
    with pytest.raises(InvalidParameter, match=r"begins 2026-12-14 has not begun.*the current one began 2026-12-13"):
        devices.report("theme", ["dark"], PERIOD + 1)
    only_today = fleet(MemoryTransport(signed(keys=[sealing_key(1, first=PERIOD, last=PERIOD)])))
    with pytest.raises(InvalidParameter, match=r"no key for the period that begins 2026-12-12"):
        only_today.report("theme", ["dark"], PERIOD - 1)
    with pytest.raises(InvalidParameter, match=r"no codebook is in force in the period that begins 2026-12-12"):
        fleet(MemoryTransport(signed(first_periods=[PERIOD]))).report("theme", ["dark"], PERIOD - 1)


def test_a_fleet_knows_its_periods() -> None:
    transport = MemoryTransport(signed())
    devices = fleet(transport)
    moments = (None, START + 5, "2026-12-13", "2026-12-13T23:59:59+00:00", datetime(2026, 12, 13, 7, tzinfo=UTC))
    assert {devices.period_of(moment).index for moment in moments} == {PERIOD}
    assert devices.period_of("2026-12-14T00:30:00+01:00").index == PERIOD
    assert devices.report("theme", ["dark"]).acknowledged == 1
    assert devices.report("theme", ["dark"], devices.period_of("2026-12-12")).acknowledged == 1
    assert [decode_report(report)[0].period for report in transport.reports] == [PERIOD, PERIOD - 1]
    with pytest.raises(InvalidParameter, match="is not a date"):
        devices.period_of("yesterday")


def test_why_reports_are_undelivered_is_said() -> None:
    transport = MemoryTransport(signed())
    devices = fleet(transport, attempts=2)
    transport.script.extend([no_network, problem("period-in-future")])
    delivered = devices.report("theme", ["dark"] * 5)
    assert (delivered.undelivered, delivered.because) == (5, {"period-in-future": 5})
    assert devices.report("theme", ["dark"]).because == {}


def test_a_fleet_believes_only_its_anchor() -> None:
    transport = MemoryTransport(signed())
    fleet(transport, trust=TRUST)
    fleet(transport, bundle=signed(), trust=[TRUST])
    with pytest.raises(UntrustedBundle):
        fleet(transport, trust=anchor_of(STRANGER))
    with pytest.raises(InvalidParameter):
        Fleet("https://telemetry.example.com")


def test_a_fleet_without_a_shuffler_says_what_to_start_in_one_sentence() -> None:
    with pytest.raises(
        CannotReach, match=r"127\.0\.0\.1:1 cannot be reached .*: start the shuffler .*`hubbub up`"
    ) as told:
        Fleet("http://127.0.0.1:1")
    assert told.value.__suppress_context__  # a traceback shows this and not how the connection was tried


def test_a_fleet_reports_over_http() -> None:
    transport = MemoryTransport(signed())
    with served(transport) as address, Fleet(address, clock=lambda: START + 1.0, per_request=50) as devices:
        delivered = devices.report("theme", ["dark"] * 120, PERIOD)
    assert delivered.acknowledged == 120
    assert len(transport.reports) == 120
    assert [request.method for request in transport.requests] == ["GET", "POST", "POST", "POST"]


@pytest.mark.full
def test_sixty_thousand_reports_take_well_under_a_minute() -> None:
    """Processor time of this process, so that a busy machine does not decide."""
    devices = fleet(MemoryTransport(signed()))
    began = time.process_time()
    assert devices.report("theme", ["dark"] * 60_000, PERIOD).acknowledged == 60_000
    assert time.process_time() - began < 45
