"""Codebooks put in force beside a running aggregator: when they start, what stays, and what stops at once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pydantic import SecretStr

from hubbub.errors import InvalidParameter
from hubbub.trust_anchor import anchor_of
from hubbub_aggregator.intake.open_reports import Pool
from hubbub_aggregator.publication.keys import load_identity, new_identity
from hubbub_cli.commands.codebook import codebook
from hubbub_cli.commands.keys import keys
from hubbub_cli.terminal.period_names import named
from tests.aggregator.world import CODEBOOK, DAY, START, Site
from tests.support.compiled import compiled
from tests.support.redis_server import RedisServer, one_server
from tests.support.unwrapped import unwrapped

EDITED = CODEBOOK.replace("Whether the dark theme is on", "Whether it is dark")
RANDOMIZED_OTHERWISE = CODEBOOK.replace("epsilon = 2.0", "epsilon = 1.5")
SWITCHED_OFF = CODEBOOK.replace('type = "boolean"', 'type = "boolean"\nenabled = false')

Publish = Callable[..., Result]


@pytest.fixture
def publish(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Publish:
    """The command, at the time that the site has."""
    monkeypatch.setattr("time.time", site.clock)

    def run(text: str, *options: str) -> Result:
        file = tmp_path / "edited.toml"
        file.write_text(text)
        return CliRunner().invoke(codebook, ["publish", str(file), "--state-dir", str(site.state_dir), *options])

    return run


def starts(site: Site) -> list[int]:
    """The first periods of the codebooks in the bundle, counted from the present one."""
    return [version.first_period - site.period for version in site.bundle().body.codebooks]


def test_a_running_aggregator_signs_it_in_at_its_next_tick_for_the_next_period(site: Site, publish: Publish) -> None:
    before = site.bundle()
    done = publish(EDITED)
    assert done.exit_code == 0, done.output
    label = site.service.codebooks.collection.calendar.period(site.period + 1).label
    assert f"in force from the period {named(label)} on" in unwrapped(done.output)

    site.service.tick()
    after = site.bundle()
    assert starts(site) == [0, 1]
    assert after.body.sequence > before.body.sequence
    assert after.body.codebooks[0] == before.body.codebooks[0]
    assert len(site.json("/v1/status")["codebooks"]) == 2


def test_it_starts_two_cache_lifetimes_ahead_and_says_when_and_why(site: Site, publish: Publish) -> None:
    """The bundle is cached for an hour: from ten in the evening on, the next day is too near."""
    calendar, day = site.service.codebooks.collection.calendar, site.period
    for late, first in [(2 * 3600 - 1, 2), (2 * 3600, 1)]:
        site.clock.now = START + DAY - late
        early = publish(EDITED, "--from", calendar.period(day + first - 1).label)
        assert isinstance(early.exception, InvalidParameter)
        assert f"{calendar.period(day + first).label} is the first possible" in str(early.exception)
    done = publish(EDITED)
    label = calendar.period(day + 1).label
    assert f"is in force from the period {named(label)} on" in unwrapped(done.output)
    assert "two cache lifetimes (2h) later" in done.stderr
    site.service.tick()
    assert starts(site) == [0, 1]


def test_a_bundle_that_is_out_counts_with_the_lifetime_that_it_was_signed_with(
    site: Site, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shorter one in the settings does not call back what devices hold."""
    monkeypatch.setenv("HUBBUB_AGGREGATOR_BUNDLE_MAX_AGE", "1")
    site.clock.now = START + DAY - 3600
    assert publish(EDITED).exit_code == 0
    site.service.tick()
    assert starts(site) == [0, 2]


def test_an_edit_at_a_restart_starts_two_cache_lifetimes_ahead_too(site: Site) -> None:
    site.clock.now = START + DAY - 3600
    site.reopen(EDITED)
    assert starts(site) == [0, 2]


def test_it_may_start_later_and_never_with_a_period_that_has_begun(site: Site, publish: Publish) -> None:
    calendar = site.service.codebooks.collection.calendar
    for day in (0, -3):
        refused = publish(EDITED, "--from", calendar.period(site.period + day).label)
        assert isinstance(refused.exception, InvalidParameter)
        assert "has not begun" in str(refused.exception)
    assert publish(EDITED, "--from", calendar.period(site.period + 5).label).exit_code == 0
    site.service.tick()
    assert starts(site) == [0, 5]
    refused = publish(CODEBOOK, "--from", calendar.period(site.period + 3).label)
    assert isinstance(refused.exception, InvalidParameter)  # before one that is published


def test_batches_of_every_live_version_are_taken_side_by_side(site: Site, publish: Publish) -> None:
    assert publish(RANDOMIZED_OTHERWISE).exit_code == 0
    old = site.batch("theme", ["light"] * 600)
    site.clock.now += DAY
    site.service.tick()
    new = site.batch("theme", ["dark"] * 600)
    assert [site.settle(body)["state"] for body in (old, new)] == ["accepted", "accepted"]
    found = {release["metric_id"] for release in site.json("/v1/releases")["releases"]}
    assert len(found) == 2  # an edit makes a new metric


def test_the_kill_switch_works_with_the_next_bundle_and_not_only_in_the_next_period(
    site: Site, publish: Publish
) -> None:
    metric = site.metric("dark_mode").id
    waiting = site.batch("dark_mode", [True] * 250)
    done = publish(SWITCHED_OFF, "--json")
    document = json.loads(done.output)
    assert (document["ok"], document["switched_off"]) == (True, ["dark_mode"])
    site.service.tick()

    for period in (site.period, site.period + 1):
        header = site.bundle().body.metric(metric, period)
        assert header is not None
        assert not header.enabled
    others = site.bundle().body.metric(site.metric("theme").id, site.period)
    assert others is not None
    assert others.enabled
    assert site.settle(waiting)["state"] == "accepted"  # what devices had sent before still counts

    def enabled() -> list[bool]:
        states = [site.bundle().body.metric(metric, START // DAY + later) for later in (0, 1, 2)]
        return [state is not None and state.enabled for state in states]

    assert publish(CODEBOOK).exit_code == 0  # on again: with the period that it starts with, and known by then
    site.service.tick()
    assert enabled() == [False, False, False]
    site.clock.now = START + 2 * DAY - 2 * 3600
    site.service.tick()
    assert enabled()[1:] == [False, True]


def test_a_metric_is_switched_off_and_on_by_a_command_and_the_codebook_stays_what_it_is(site: Site) -> None:
    """A shuffler and apps that pin the codebook's id go along: it does not change."""
    metric, served = site.metric("dark_mode").id, site.bundle().body.codebooks

    def switch(word: str, *names: str) -> Any:
        return CliRunner().invoke(codebook, [word, *names, "--state-dir", str(site.state_dir), "--json"])

    off = switch("off", "dark_mode")
    assert json.loads(off.stdout) == {"ok": True, "changed": True, "switched_off": ["dark_mode"]}
    assert json.loads(switch("off", "dark_mode").stdout)["changed"] is False
    site.service.tick()
    body = site.bundle().body
    assert body.off == {metric}
    assert [each.document for each in body.codebooks] == [each.document for each in served]
    enabled = {m["name"]: m["versions"][-1]["enabled"] for m in site.json("/v1/metrics")["metrics"]}
    assert enabled == {"dark_mode": False, "startup_ms": True, "theme": True}
    shown = " ".join(re.sub(r"<[^>]*>", " ", site.get("/what-is-collected").text).split())
    assert "Switched off at the moment: dark_mode" in shown

    assert json.loads(switch("on", "dark_mode").stdout) == {"ok": True, "changed": True, "switched_off": []}
    site.service.tick()
    assert site.bundle().body.off == frozenset()
    with pytest.raises(InvalidParameter, match="dark_mode"):
        raise switch("off", "darkmode").exception


def test_a_metric_that_an_edit_changes_and_switches_off_is_off_at_once_under_its_old_id(
    site: Site, publish: Publish
) -> None:
    metric = site.metric("dark_mode").id
    assert publish(SWITCHED_OFF.replace("epsilon = 1.0", "epsilon = 0.9", 1)).exit_code == 0
    site.service.tick()
    header = site.bundle().body.metric(metric, site.period)
    assert header is not None
    assert not header.enabled
    assert site.bundle().body.metric(metric, site.period + 1) is None  # there it has another id


def test_the_same_codebook_or_another_collection_changes_nothing(site: Site, publish: Publish) -> None:
    before = site.get("/v1/bundle").content
    for text, why in [(CODEBOOK, "nothing was changed"), (CODEBOOK.replace("photo-app", "other"), "state directory")]:
        refused = publish(text)
        assert isinstance(refused.exception, InvalidParameter)
        assert why in str(refused.exception)
    broken = publish(CODEBOOK.replace("epsilon = 1.0", "epsilon = -1", 1))
    assert broken.exit_code == 1
    site.service.tick()
    assert site.get("/v1/bundle").content == before


def test_a_restart_with_the_old_file_does_not_undo_what_was_published(
    site: Site, publish: Publish, caplog: pytest.LogCaptureFixture
) -> None:
    publish(EDITED)
    site.reopen()
    assert starts(site) == [0, 1]
    assert "what was published stays in force" in caplog.text
    assert site.service.codebooks.newest.metric("dark_mode").description == "Whether it is dark"
    site.clock.now += DAY
    assert publish(CODEBOOK).exit_code == 0  # by command one can go back
    site.service.tick()
    assert site.service.codebooks.newest.metric("dark_mode").description == "Whether the dark theme is on"


def test_nothing_is_published_to_a_state_that_was_never_started(tmp_path: Path) -> None:
    (tmp_path / "metrics.toml").write_text(CODEBOOK)
    arguments = ["publish", str(tmp_path / "metrics.toml"), "--state-dir", str(tmp_path / "none")]
    assert isinstance(CliRunner().invoke(codebook, arguments).exception, InvalidParameter)
    assert not (tmp_path / "none").exists()


def test_commands_reach_a_redis_by_the_same_variables(
    tmp_path: Path, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_identity(tmp_path)
    with one_server(tmp_path / "redis") as server:
        monkeypatch.setenv("HUBBUB_AGGREGATOR_STORAGE", server.url)
        monkeypatch.setenv("HUBBUB_AGGREGATOR_IDENTITY", str(tmp_path / "identity.key"))
        _on_redis(server, tmp_path, pool, monkeypatch)


def _on_redis(server: RedisServer, root: Path, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: dict[str, Any] = {"storage": SecretStr(server.url), "identity": root / "identity.key"}
    site = Site.open(root, pool, **chosen)
    monkeypatch.setattr("time.time", site.clock)
    option = ["--state-dir", str(root / "anywhere")]
    rotated = json.loads(CliRunner().invoke(keys, ["rotate", "--json", *option]).output)
    assert rotated["id"] == 3
    listed = json.loads(CliRunner().invoke(keys, ["list", "--json", *option]).output)
    assert listed["trust_anchor"] == anchor_of(load_identity(root))
    assert [key["id"] for key in listed["keys"]] == [0, 1, 2, 3]
    (root / "edited.toml").write_text(EDITED)
    assert CliRunner().invoke(codebook, ["publish", str(root / "edited.toml"), *option]).exit_code == 0
    site.service.tick()
    assert starts(site) == [0, 1]
    assert [key.id for key in site.bundle().body.keys] == [0, 1, 2, 3]
    site.close()


def test_a_codebook_in_force_is_found_as_it_was_published(site: Site, publish: Publish) -> None:
    """What is served is the compiled form with its batch sizes, and its metric ids are those of the file."""
    publish(EDITED)
    site.service.tick()
    written = compiled(EDITED)
    served = site.bundle().body.codebooks[-1]
    assert [metric.id for metric in served.metrics] == [metric.id for metric in written.metrics]
    assert site.clock() < START + DAY
