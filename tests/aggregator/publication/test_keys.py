"""Identity, sealing keys, codebook versions, and the bundle that carries them."""

from __future__ import annotations

import json
import logging
import re
import sqlite3
import stat
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import SecretStr

from hubbub.bundle import Seen, verify
from hubbub.canonical import canonical_bytes
from hubbub.codebook import Codebook
from hubbub.errors import InvalidParameter, UntrustedBundle
from hubbub.trust_anchor import anchor_of
from hubbub_aggregator.intake.open_reports import Pool, Slice
from hubbub_aggregator.main import DATABASE, build
from hubbub_aggregator.publication.codebook_versions import Codebooks
from hubbub_aggregator.publication.key_id_allocation import free_id
from hubbub_aggregator.publication.keys import IDENTITY, KeyRing, load_identity, new_identity
from hubbub_aggregator.settings import Settings
from hubbub_aggregator.storage import SqliteStorage, StoredCodebook, StoredKey
from hubbub_cli.all_commands import hubbub
from hubbub_cli.commands.aggregator import aggregator
from hubbub_cli.commands.keys import keys
from hubbub_cli.terminal.period_names import named
from hubbub_service_common.clock.trusted_clock import TrustedClock
from hubbub_service_common.http.tokens import Tokens
from tests.aggregator.backends import counted
from tests.aggregator.world import CODEBOOK, DAY, START, WAIT, Site
from tests.support.compiled import compiled, write_compiled


def ring(tmp_path: Path, period: str, max_age: int = 3600) -> KeyRing:
    codebook = Codebook.from_toml(CODEBOOK.replace('period = "1d"\ngrace = "1d"', f'period = "{period}"'))
    storage = SqliteStorage(tmp_path / "keys.db")
    first = codebook.collection.calendar.index_at(START)
    storage.add_codebook(StoredCodebook(first, codebook.with_min_batch(lambda _: 100).to_bytes()))
    return KeyRing(storage, Codebooks(storage), max_age)


# -- identity -------------------------------------------------------------------------------------


def test_the_identity_is_made_once_and_is_private(tmp_path: Path) -> None:
    state = tmp_path / "state"
    first = anchor_of(load_identity(state))
    assert anchor_of(load_identity(state)) == first
    assert stat.S_IMODE((state / "identity.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    with pytest.raises(InvalidParameter, match="exists already"):
        new_identity(state)
    assert [path.name for path in state.iterdir()] == ["identity.key"]
    (state / "identity.key").chmod(0o644)
    with pytest.raises(InvalidParameter, match="read by others"):
        load_identity(state)


def test_the_anchor_can_be_read_made_and_handed_on_as_a_file(tmp_path: Path) -> None:
    run, option = CliRunner(), ["--state-dir", str(tmp_path / "state")]
    missing = run.invoke(keys, ["anchor", *option]).exception
    assert isinstance(missing, InvalidParameter)
    assert not (tmp_path / "state").exists()  # asking makes nothing
    made = run.invoke(keys, ["anchor", "--make", *option]).output.strip()
    assert made == anchor_of(load_identity(tmp_path / "state"))
    assert run.invoke(keys, ["anchor", "--make", *option]).output.strip() == made
    assert json.loads(run.invoke(keys, ["anchor", "--json", *option]).output) == {"trust_anchor": made}
    out = tmp_path / "anchor"
    assert run.invoke(keys, ["anchor", "--out", str(out), *option]).exit_code == 0
    assert out.read_text() == f"{made}\n"
    assert stat.S_IMODE(out.stat().st_mode) == 0o644
    nowhere = run.invoke(keys, ["anchor", "--out", str(tmp_path / "no" / "anchor"), *option])
    assert nowhere.exit_code == 1
    assert "can't be written: No such file" in nowhere.stderr


def test_an_identity_that_is_lost_is_asked_for_and_never_replaced(site: Site) -> None:
    identity = (site.state_dir / IDENTITY).read_bytes()
    (site.state_dir / IDENTITY).unlink()
    with pytest.raises(InvalidParameter, match="restore it from your copy"):
        site.reopen()
    assert not (site.state_dir / IDENTITY).exists()
    (site.state_dir / IDENTITY).write_bytes(identity)
    (site.state_dir / IDENTITY).chmod(0o600)
    before = site.service.anchor
    site.start()
    assert site.service.anchor == before


def test_an_identity_that_is_exchanged_signs_the_next_bundle_and_opens_what_was_sealed_before(
    site: Site, tmp_path: Path
) -> None:
    """docs/how-to/rotate-keys-and-tokens.md: what was acknowledged under the old one still counts."""
    before, batch = site.bundle(), site.batch("dark_mode", [True] * site.least("dark_mode"))
    exchanged = new_identity(tmp_path / "next")
    (tmp_path / "next" / IDENTITY).replace(site.state_dir / IDENTITY)
    site.reopen()

    raw = site.get("/v1/bundle").content
    with pytest.raises(UntrustedBundle):
        verify(raw, [before.signer], site.clock())
    after = verify(raw, [before.signer, anchor_of(exchanged)], site.clock(), before.seen)
    assert after.signer == anchor_of(exchanged)
    assert after.body.sequence > before.body.sequence
    assert after.body.keys == before.body.keys
    assert site.settle(batch)["state"] == "accepted"


def test_everything_in_the_state_directory_is_for_its_owner_only(site: Site) -> None:
    site.put(site.batch("dark_mode", [True] * 120))
    for path in site.state_dir.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_private_keys_are_in_no_log_nor_representation(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        assert site.settle(site.batch("dark_mode", [True] * 200))["state"] == "accepted"
        site.service.ring.rotate(site.clock())
        site.service.tick()
    secrets = [key.private_key for key in site.service.storage.sealing_keys() if key.private_key is not None]
    secrets.append(load_identity(site.state_dir).private_bytes_raw())
    part = Slice(Path("f"), 0, 1, site.header("dark_mode", 1), site.metric("dark_mode").mechanism, secrets[0])
    said = caplog.text + repr(site.service.storage.sealing_keys()) + repr(part) + site.get("/v1/status").text
    for secret in secrets:
        assert secret.hex() not in said
        assert repr(secret)[2:-1] not in said
    assert "accepted" in caplog.text


# -- sealing keys ---------------------------------------------------------------------------------


@pytest.mark.parametrize("period", ["1s", "1m", "1h", "1d", "1w"])
def test_every_period_has_exactly_one_key_published_ahead_and_ids_suffice(tmp_path: Path, period: str) -> None:
    keyring = ring(tmp_path, period)
    calendar = keyring.collection.calendar
    now = float(START)
    first = calendar.index_at(now)
    for _ in range(60):
        keyring.ensure(now)
        keyring.forget(now)
        current, published = calendar.index_at(now), keyring.published(now)
        assert len({key.id for key in published}) == len(published) <= 230
        ahead = calendar.index_at(now + 2 * keyring.max_age)
        for index in {current, current + 1, current + 2, ahead, calendar.index_at(now - keyring.collection.grace)}:
            covering = [key for key in published if key.covers(index) and key.state != "revoked"]
            assert len(covering) == (1 if index >= first else 0), index
        now += 12 * 3600 if calendar.seconds <= DAY else 2 * DAY


def test_after_a_long_silence_keys_start_at_the_oldest_open_period(tmp_path: Path) -> None:
    keyring = ring(tmp_path, "1d")
    keyring.ensure(START)
    keyring.ensure(START + 300 * DAY)
    assert [key.first_period - START // DAY for key in keyring.storage.sealing_keys()] == [0, 1, 2, 299, 300, 301, 302]


def test_rotation_adds_a_key_after_the_published_ones(site: Site) -> None:
    before = site.bundle().body
    key = site.service.ring.rotate(site.clock())
    after = site.bundle().body
    assert key.first_period == before.keys[-1].last_period + 1
    assert after.keys[:-1] == before.keys
    assert after.sequence > before.sequence


def test_a_key_that_is_revoked_in_a_begun_period_is_not_replaced_there(site: Site) -> None:
    before, first = site.bundle(), site.period
    old = before.body.key_for(first)
    assert old is not None
    assert site.service.ring.revoke(old.id, site.clock()) == (range(first, first + 1), None, first + 1)
    for days in range(3):
        site.clock.now = START + days * DAY + 3600
        site.service.tick()
        raw = site.get("/v1/bundle").content
        after = verify(raw, [site.service.anchor], site.clock(), before.seen)
        assert after.body.key_for(first) is None
        assert next(key for key in after.body.keys if key.id == old.id).state == "revoked"
        assert after.body.key_for(site.period + 1) is not None
    assert after.body.sequence > before.body.sequence
    for id in (old.id, 99):  # noqa: A001  it is an id
        with pytest.raises(InvalidParameter, match="can be revoked"):
            site.service.ring.revoke(id, site.clock())


def test_of_a_key_for_many_periods_those_are_replaced_that_everybody_can_know_of(tmp_path: Path) -> None:
    keyring = ring(tmp_path, "1m", max_age=600)
    keyring.ensure(START)
    (first, *_), now = keyring.storage.sealing_keys(), START + 90
    assert first.last_period - first.first_period > 30

    done = keyring.revoke(first.id, now)

    soonest = START // 60 + 1 + 20 + 1  # in the second minute, two cache lifetimes of ten ahead
    assert done.instead is not None
    assert (done.instead.first_period, done.instead.last_period) == (soonest, first.last_period)
    assert (done.lost, done.again) == (range(first.first_period, soonest), soonest)
    keyring.ensure(now)
    late = keyring.revoke(done.instead.id, now)  # not begun: all of its periods are replaced
    assert late.instead is not None
    assert (late.lost, late.again) == (range(soonest, soonest), soonest)
    assert (late.instead.first_period, late.instead.last_period) == (soonest, first.last_period)


def test_a_period_that_never_had_a_key_gets_one_even_when_it_has_begun(tmp_path: Path) -> None:
    keyring = ring(tmp_path, "1d")
    keyring.ensure(START)
    now = START + 40 * DAY + 3600  # it was stopped: nobody has a key for these days
    for key in keyring.storage.sealing_keys():
        keyring.revoke(key.id, now)
    keyring.ensure(now)
    live = [key.first_period - START // DAY for key in keyring.storage.sealing_keys() if not key.revoked]
    assert live == [39, 40, 41, 42]


def test_private_key_and_nonces_of_a_period_go_together_after_the_horizon(site: Site) -> None:
    site.settle(site.batch("dark_mode", [True] * 200))
    period, metric = site.period, site.metric("dark_mode").id
    site.clock.now = START + 9 * DAY + WAIT - 1
    site.service.tick()
    assert len(counted(site.service.storage, metric, period)) == 1
    assert site.service.ring.find(period, 0) is not None
    site.clock.now += 1
    site.service.tick()
    assert counted(site.service.storage, metric, period) == []
    assert site.service.ring.find(period, 0) is None
    assert site.json("/v1/metrics/dark_mode/estimate")["segments"][0]["reports"] == 200


def test_an_edit_that_shortens_grace_and_horizon_takes_nothing_from_the_periods_before_it(site: Site) -> None:
    early, late, period = site.batch("dark_mode", [True] * 200), site.batch("dark_mode", [False] * 200), site.period
    site.settle(early)
    site.clock.now = START + 5 * DAY
    site.reopen(CODEBOOK.replace('grace = "1d"', 'grace = "1h"\nforward_horizon = "1h"'))
    site.clock.now = START + 9 * DAY + WAIT - 1
    site.service.tick()
    assert len(counted(site.service.storage, site.metric("dark_mode").id, period)) == 1
    assert site.settle(late)["state"] == "accepted"
    site.clock.now += 1
    site.service.tick()
    assert site.service.ring.find(period, 0) is None


def test_a_key_that_a_command_adds_meanwhile_leaves_one_live_key_for_each_period(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose, other = free_id, SqliteStorage(site.state_dir / DATABASE)

    def slowly(keys: Sequence[StoredKey], restored: int | None = None) -> int:
        monkeypatch.setattr("hubbub_aggregator.publication.keys.free_id", choose)
        KeyRing(other, site.service.codebooks).rotate(site.clock())
        return choose(keys, restored)

    monkeypatch.setattr("hubbub_aggregator.publication.keys.free_id", slowly)
    site.clock.now += 2 * DAY
    site.service.tick()
    site.service.tick()
    other.close()
    covered = [key.first_period for key in site.bundle().body.keys]
    assert covered == list(range(site.period - 2, site.period + 3))


def test_a_revoked_key_is_gone_from_the_files_even_if_a_reader_stood_in_the_way(site: Site) -> None:
    (secret,) = (key.private_key for key in site.service.storage.sealing_keys() if key.covers(site.period))
    assert secret is not None

    def in_files() -> bool:
        return any(secret in path.read_bytes() for path in site.state_dir.glob(f"{DATABASE}*"))

    assert in_files()
    with closing(sqlite3.connect(site.state_dir / DATABASE, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM keys").fetchone()
        site.service.ring.revoke(0, site.clock())
        site.service.tick()
    site.service.tick()
    assert not in_files()


# -- codebooks and bundle -------------------------------------------------------------------------


def test_the_bundle_is_cached_by_tag_and_signed_again_when_it_ages(site: Site) -> None:
    first = site.get("/v1/bundle")
    tag = first.headers["etag"]
    assert first.headers["cache-control"] == "public, max-age=3600"
    unchanged = site.get("/v1/bundle", headers={"If-None-Match": tag})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    seen = verify(first.content, [site.service.anchor], site.clock()).seen
    site.reopen()
    assert site.get("/v1/bundle").content == first.content

    site.clock.now = START + DAY + 10
    site.service.tick()
    later = verify(site.get("/v1/bundle").content, [site.service.anchor], site.clock(), seen)
    assert [key.state for key in later.body.keys] == ["active", "active", "pending", "pending"]
    assert later.body.sequence >= site.clock.now


def test_a_sequence_never_falls_even_if_the_clock_does(site: Site) -> None:
    before = site.bundle().body.sequence
    site.clock.now -= 1800
    site.service.ring.rotate(site.clock())
    raw = site.get("/v1/bundle").content
    assert verify(raw, [site.service.anchor], site.clock(), Seen(before, b"")).body.sequence > before


def test_an_edited_codebook_starts_with_the_next_period_and_the_old_one_stays_until_its_horizon(site: Site) -> None:
    old = site.bundle().body.codebooks
    site.reopen(CODEBOOK.replace("Whether the dark theme is on", "Whether it is dark"))
    both = site.bundle().body.codebooks
    assert [codebook.first_period for codebook in both] == [site.period, site.period + 1]
    assert both[0] == old[0]
    site.reopen()
    assert site.bundle().body.codebooks == both

    for days, count in [(8.9, 2), (9.1, 1)]:
        site.clock.now = START + days * DAY
        site.service.tick()
        assert len(site.bundle().body.codebooks) == count


def test_another_collection_or_period_length_needs_another_state_directory(site: Site) -> None:
    for change in (("photo-app", "video-app"), ('period = "1d"', 'period = "1h"')):
        with pytest.raises(InvalidParameter, match="another state directory"):
            site.reopen(CODEBOOK.replace(*change))
        site.service.storage = SqliteStorage(site.state_dir / DATABASE)


def test_what_is_served_is_what_was_compiled_byte_for_byte(site: Site) -> None:
    assert canonical_bytes(site.bundle().body.codebooks[0].document) == compiled(CODEBOOK).to_bytes()
    assert [each["id"] for each in site.json("/v1/status")["codebooks"]] == [compiled(CODEBOOK).id.hex()]


def test_a_codebook_that_was_compiled_for_smaller_crowds_is_refused(site: Site) -> None:
    """By another version, or by hand. What the target needs is worked out once, and remembered."""
    storage, edited = site.service.storage, compiled(CODEBOOK.replace("Whether", "If"))
    assert isinstance(storage, SqliteStorage)
    with storage._transaction():
        storage._connection.execute("UPDATE remembered SET answer = 900")
    with pytest.raises(InvalidParameter, match="a release on target needs 900 reports: compile it with this version"):
        Codebooks(storage).publish(edited, site.clock())
    larger = replace(edited, metrics=tuple(replace(metric, min_batch=900) for metric in edited.metrics))
    assert Codebooks(storage).publish(larger, site.clock()).codebook.id == larger.id


def test_a_service_compiles_nothing(tmp_path: Path) -> None:
    (tmp_path / "metrics.toml").write_text(CODEBOOK)
    with pytest.raises(InvalidParameter, match=r"is not compiled: run `hubbub codebook compile .*metrics\.toml"):
        build(Settings(codebook=tmp_path / "metrics.toml", state_dir=tmp_path / "state"))


def test_backfilled_periods_have_a_codebook_and_keys(tmp_path: Path, pool: Pool) -> None:
    site = Site.open(tmp_path, pool, backfill_periods=1)
    body = site.bundle().body
    assert body.codebooks[0].first_period == site.period - 1
    assert body.key_for(site.period - 1) is not None
    site.close()


# -- settings and commands ------------------------------------------------------------------------


def test_what_others_can_reach_needs_tokens() -> None:
    with pytest.raises(ValueError, match="set shuffler_token and analyst_token"):
        Settings(host="0.0.0.0")  # noqa: S104  it is refused
    with pytest.raises(InvalidParameter, match="at least 16"):
        Tokens(["short"])
    Settings(host="::1")


def test_a_setting_that_is_refused_shows_no_part_of_a_token() -> None:
    secret = "hunter-2-" * 2
    with pytest.raises(ValueError, match="analyst_token") as refused:
        Settings(host="10.0.0.1", shuffler_token=SecretStr(secret))
    raw: dict[str, Any] = {"host": "10.0.0.1", "shuffler_token": secret}
    with pytest.raises(ValueError, match="analyst_token") as also:
        Settings(**raw)
    assert "hunter" not in str(refused.value) + str(also.value)


def test_the_command_refuses_bad_settings_without_showing_a_token() -> None:
    secret = "a-token-" + "that-nobody-must-see"
    result = CliRunner().invoke(aggregator, ["--host", "10.0.0.1"], env={"HUBBUB_AGGREGATOR_SHUFFLER_TOKEN": secret})
    assert result.exit_code == 2
    assert "analyst_token" in result.output
    assert secret not in result.output


@pytest.mark.parametrize("command", [["keys", "list"], ["keys", "rotate"], ["aggregator", "backup", "copy"]])
def test_commands_beside_it_refuse_bad_settings_without_showing_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setenv("HUBBUB_AGGREGATOR_STORAGE", "a-secret@somewhere")
    result = CliRunner().invoke(hubbub, [*command, "--state-dir", str(tmp_path)])
    assert result.exit_code == 2
    assert "storage: " in result.output
    assert "a-secret" not in result.output


def test_a_state_that_is_no_database_is_named_and_not_a_traceback(tmp_path: Path) -> None:
    new_identity(tmp_path)
    (tmp_path / DATABASE).write_bytes(bytes(range(256)) * 16)
    result = CliRunner().invoke(hubbub, ["keys", "list", "--state-dir", str(tmp_path)])
    assert isinstance(result.exception, InvalidParameter)
    assert "file is not a database" in str(result.exception)


def test_keys_are_made_listed_rotated_and_revoked_by_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, state, now = CliRunner(), tmp_path / "state", START + 3600
    monkeypatch.setattr("time.time", lambda: now)
    option = ["--state-dir", str(state)]
    made = run.invoke(keys, ["new", *option])
    assert made.exit_code == 0
    anchor = made.output.strip()
    assert isinstance(run.invoke(keys, ["new", *option]).exception, InvalidParameter)
    assert isinstance(run.invoke(keys, ["list", *option]).exception, InvalidParameter)

    write_compiled(tmp_path / "codebook.json", CODEBOOK)
    service = build(Settings(codebook=tmp_path / "codebook.json", state_dir=state), TrustedClock.set_by(lambda: now))
    assert service.anchor == anchor
    listed = json.loads(run.invoke(keys, ["list", "--json", *option]).output)
    assert listed["trust_anchor"] == anchor
    assert [key["state"] for key in listed["keys"]] == ["active", "pending", "pending"]

    before = service.bundle()
    for off, word in ((400, "has expired: check the time"), (-400, "400.0 days behind the date of the last bundle")):
        with monkeypatch.context() as wrong:
            wrong.setattr("time.time", lambda off=off: now + off * DAY)
            assert word in run.invoke(keys, ["revoke", "99", *option]).stderr
    assert run.invoke(keys, ["rotate", *option]).output.startswith("key 3 seals the periods ")
    days = [key["first_period"] for key in listed["keys"]]
    revoked = json.loads(run.invoke(keys, ["revoke", "0", "--json", *option]).output)
    assert revoked == {"revoked": 0, "lost": days[:1], "instead": None, "again": days[1]}
    said = run.invoke(keys, ["revoke", "2", *option]).output
    again = named(days[2])
    assert f"key 4 seals the periods {again} to {again}\n  reports are collected again from {again} on" in said
    assert "lost" not in said  # that day has not begun
    listed = json.loads(run.invoke(keys, ["list", "--json", *option]).output)
    found = {key["id"]: (key["state"], key["lost"]) for key in listed["keys"]}
    assert (found[0], found[2], found[4]) == (("revoked", days[:1]), ("revoked", []), ("pending", []))
    shown = run.invoke(keys, ["list", *option]).output.splitlines()
    assert re.split(r" {2,}", shown[1].strip()) == ["0", "revoked", *[named(days[0])] * 3]
    assert service.bundle().sequence > before.sequence  # a running service notices
    service.close()
