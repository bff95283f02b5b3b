"""The end that a total gives a page: no key, no page, no report and no batch beyond it, in every part of the system."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hubbub.bundle_body import BundledCodebook
from hubbub.canonical import canonical_bytes
from hubbub.codebook import Codebook
from hubbub.errors import CodebookError, InvalidParameter
from hubbub_aggregator.intake.open_reports import Pool
from hubbub_aggregator.operations.backup_and_restore import catch_up
from hubbub_aggregator.publication.codebook_versions import Codebooks
from hubbub_aggregator.publication.collection_end import is_stop_page
from hubbub_aggregator.storage import SqliteStorage
from hubbub_cli.commands.codebook import codebook
from hubbub_client import Client, Outcome
from hubbub_client.testing import MemoryTransport
from hubbub_shuffler.ingest.admission import Admission
from tests.aggregator.world import DAY, START, Site
from tests.support.codebooks import dark_mode, photo_app
from tests.support.compiled import compiled, write_compiled

KEYS: dict[str, Any] = {"grace": "1d", "epsilon": 8.0, "delta": 1e-6, "honest_fraction": 0.9}
TOTAL = {"epsilon": 0.5, "delta": 1e-6, "over": "6d"}
CAPPED = photo_app(dark_mode(1.0, min_batch=300, missing=False), total=TOTAL, **KEYS)
"""Three days of six fit the total."""
LASTS = 3
EDITED = CAPPED.replace("min_batch = 300", "min_batch = 301")


@pytest.fixture
def site(tmp_path: Path, pool: Pool) -> Any:
    site = Site.open(tmp_path, pool, CAPPED)
    yield site
    site.close()


def later(site: Site, days: int) -> None:
    site.clock.now = START + days * DAY + 3_600
    site.service.tick()


def test_the_bundle_ends_the_page_and_no_key_is_made_beyond(site: Site) -> None:
    first = site.period
    body = site.bundle().body
    page, stop = body.codebooks
    assert (page.first_period, stop.first_period) == (first, first + LASTS)
    assert page.metrics
    assert is_stop_page(stop)
    assert [bool(body.key_for(first + day)) for day in range(-1, LASTS + 3)] == [False, *[True] * LASTS, *[False] * 3]
    for day in range(12):
        later(site, day)
        assert not any(key.last_period >= first + LASTS for key in site.service.storage.sealing_keys())
    with pytest.raises(InvalidParameter, match="a total ends the collection"):
        site.service.ring.rotate(site.clock())


def test_a_shuffler_takes_no_report_beyond_the_end_even_with_a_key_for_it(site: Site) -> None:
    first, metric = site.period, site.metric("dark_mode")
    later(site, LASTS)
    bundle = site.bundle()
    admission = Admission(bundle, floor=2, skew=60)
    admission.held_through = first + LASTS + 1
    assert bundle.body.metric(metric.id, first + LASTS - 1) is not None
    for period, reason in ((first + LASTS - 1, "wrong-length"), (first + LASTS, "unknown-metric")):
        header = site.header("dark_mode", 1, period)
        report = metric.id + period.to_bytes(4, "big") + bytes([header.key])
        raw = b"\x01" + report + bytes(200)
        assert admission.judge(raw, site.clock()) == reason


def test_a_device_reports_up_to_the_last_period_and_is_silent_after_it(site: Site, tmp_path: Path) -> None:
    transport = MemoryTransport(site.get("/v1/bundle").content)
    sent = []
    for day in range(LASTS + 2):
        later(site, day)
        transport.bundle = site.get("/v1/bundle").content
        with Client(
            "https://telemetry.example.com",
            trust=site.service.anchor,
            transport=transport,
            clock=site.clock,
            consent=True,
            state_dir=tmp_path / "device",
            background=False,
        ) as client:
            client.flush(60, now=True)
            outcome = client.record("dark_mode", True)
            assert [one.name for one in client.preview().metrics] == ["dark_mode"]  # whatever comes after it
            client.flush(60, now=True)
        sent.append((outcome, len(transport.reports)))
    assert [outcome for outcome, _ in sent] == [*[Outcome.RECORDED] * LASTS, *[Outcome.INVALID] * 2]
    assert len(transport.reports) <= LASTS
    assert sent[-1][1] == sent[LASTS - 1][1] or sent[-1][1] == LASTS  # the last period is still sent in its grace


def test_a_batch_beyond_the_end_is_refused_unopened(site: Site) -> None:
    first = site.period
    assert site.service.codebooks.governing(site.metric("dark_mode").id, first + LASTS - 1) is not None
    assert site.service.codebooks.governing(site.metric("dark_mode").id, first + LASTS) is None
    later(site, LASTS)
    response = site.put(site.header("dark_mode", 400, first + LASTS).encode() + bytes(400 * 69))
    assert response.status_code == 404
    assert response.json()["type"].endswith("unknown-metric")


def test_publishing_is_refused_until_there_is_room_and_says_from_when(site: Site) -> None:
    first, calendar = site.period, site.service.codebooks.collection.calendar
    later(site, 2)
    edited = compiled(EDITED)
    with pytest.raises(InvalidParameter, match=f"there is room from {calendar.period(first + 6).label} on"):
        site.service.codebooks.publish(edited, site.clock())
    with pytest.raises(InvalidParameter, match="leaves no room"):
        site.service.codebooks.publish(edited, site.clock(), first + 5)
    assert len(list(site.service.codebooks)) == 1
    version = site.service.codebooks.publish(edited, site.clock(), first + 6)
    assert (version.first_period, version.last_period) == (first + 6, first + 8)
    body = site.bundle().body
    assert [(page.first_period - first, is_stop_page(page)) for page in body.codebooks] == [
        (0, False),
        (3, True),
        (6, False),
        (9, True),
    ]
    later(site, 4)
    assert site.service.collecting.warning() is not None
    assert f"until {calendar.period(first + 6).label}" in str(site.service.collecting.warning())
    later(site, 6)
    assert site.service.collecting.warning() is None
    assert site.bundle().body.key_for(first + 6) is not None


def test_the_same_codebook_goes_on_when_the_budget_renews_and_a_smaller_total_holds_for_it(site: Site) -> None:
    first = site.period
    later(site, 3)
    again = site.service.codebooks.publish(compiled(CAPPED), site.clock(), first + 6)
    assert again.last_period == first + 8
    # without a total of its own: the windows that hold a day of the pages before it are still within theirs
    free = compiled(photo_app(dark_mode(1.0, min_batch=300, missing=False), **KEYS))
    with pytest.raises(InvalidParameter, match="leaves no room"):
        site.service.codebooks.publish(free, site.clock(), first + 9)
    assert site.service.codebooks.publish(free, site.clock(), first + 12).last_period is None


def test_an_end_that_was_settled_stays_whatever_later_software_would_find(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [(page.first_period, page.document) for page in site.bundle().body.codebooks]
    monkeypatch.setattr("hubbub.accounting.total_cap.last_period", lambda *_: None)
    site.reopen()
    assert [(page.first_period, page.document) for page in site.bundle().body.codebooks] == before


def test_a_restore_keeps_the_ends_that_a_bundle_says(site: Site, tmp_path: Path) -> None:
    first = site.period
    site.service.codebooks.publish(compiled(EDITED), site.clock(), first + 6)
    body, storage = site.bundle().body, SqliteStorage(tmp_path / "restored.db")
    catch_up(storage, body)
    assert storage.starts() == [first, first + 6]  # pages without metrics are not codebooks
    ends = [version.last_period for version in Codebooks(storage)]
    storage.close()
    assert ends == [first + 2, first + 8]


def test_a_page_that_cannot_hold_one_period_is_not_started(tmp_path: Path, pool: Pool) -> None:
    small = CAPPED.replace("epsilon = 0.5", "epsilon = 0.01")
    with pytest.raises(InvalidParameter, match=r"is more than the total of epsilon 0\.01"):
        Site.open(tmp_path, pool, small)


def test_a_batch_of_an_older_page_is_not_taken_in_a_period_that_a_total_counts(tmp_path: Path, pool: Pool) -> None:
    """The shuffler may hold an older page; the total counts only what its own page may release."""
    other = dark_mode(0.5, min_batch=300, missing=False).replace("dark_mode", "light_mode")
    keys = {**KEYS, "device_epsilon": 6}
    text = photo_app(dark_mode(1.0, min_batch=300, missing=False), other, **keys)
    capped = photo_app(dark_mode(1.0, min_batch=300, missing=False), total={**TOTAL, "epsilon": 2.0}, **keys)
    site = Site.open(tmp_path, pool, text)
    dropped = site.metric("light_mode").id
    version = site.service.codebooks.publish(compiled(capped), site.clock())
    governing = site.service.codebooks.governing
    assert governing(dropped, version.first_period - 1) is not None
    assert governing(dropped, version.first_period) is None
    # nor a batch of a page with a total in the periods of the one after it, which has none
    free = compiled(photo_app(other, **keys))
    later = site.service.codebooks.publish(free, site.clock(), version.first_period + 3)
    kept = version.codebook.metrics[0].id
    assert governing(kept, later.first_period - 1) is not None
    assert governing(kept, later.first_period) is None
    site.close()


def test_the_command_says_when_a_page_ends(site: Site, tmp_path: Path) -> None:
    file = write_compiled(tmp_path / "edited.json", EDITED)
    calendar, first = site.service.codebooks.collection.calendar, site.period
    argv = [str(file), "--state-dir", str(site.state_dir), "--from", calendar.period(first + 6).label]
    made = CliRunner().invoke(codebook, ["publish", *argv, "--json"])
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout)["last_period"] == calendar.period(first + 8).label


def test_a_page_without_metrics_is_refused_as_a_codebook_and_has_an_id_of_its_content(site: Site) -> None:
    stop: BundledCodebook = site.bundle().body.codebooks[1]
    content = {name: value for name, value in stop.document.items() if name != "id"}
    assert content["metrics"] == []
    assert canonical_bytes(content)
    with pytest.raises(CodebookError, match="a metric has no name"):
        Codebook.received(stop.document)
