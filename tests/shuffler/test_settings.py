"""Settings: safe by default, wrong ones refused in one readable line, documented as they are."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from hubbub.errors import InvalidParameter
from hubbub_cli.commands.shuffler import shuffler
from hubbub_service_common.http.server import listen
from hubbub_shuffler.main import doubts, run
from hubbub_shuffler.settings import Settings
from scripts.reference.settings import settings
from tests.shuffler.world import TOKEN, TRUST, codebook

FAR = "https://aggregator.example.com"


@pytest.fixture(autouse=True)
def _no_settings_around(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"HUBBUB_SHUFFLER_{name.upper()}", raising=False)


def test_on_loopback_it_starts_without_being_told_anything() -> None:
    assert Settings.load().host == "127.0.0.1"


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({}, "forward_token and trust"),
        ({"forward_token": TOKEN}, "set trust"),
        ({"trust": TRUST}, "set forward_token"),
        ({"forward_token": "", "trust": TRUST}, "set forward_token"),
    ],
)
def test_an_aggregator_elsewhere_needs_a_token_and_a_trust_anchor(given: dict[str, object], missing: str) -> None:
    with pytest.raises(InvalidParameter, match=missing):
        Settings.load(aggregator=FAR, **given)


def test_options_win_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUBBUB_SHUFFLER_PORT", "1234")
    monkeypatch.setenv("HUBBUB_SHUFFLER_TRUST", f"{TRUST[0]}, {TRUST[0]}")
    assert Settings.load().port == 1234
    assert Settings.load(port=99).port == 99
    assert Settings.load().trust == TRUST * 2


@pytest.mark.parametrize(
    "given",
    [
        {"min_batch_floor": 1},
        {"lease": 3_601},
        {"longest_backoff": 3_601},
        {"tick": 3_601},
        {"port": 70_000},
        {"trust": "ed25519:short"},
        {"aggregator": "ftp://x"},
        {"aggregator": "aggregator:8702"},
        {"aggregator": "http://127.0.0.1:99999"},
        {"skew": "inf"},
        {"rate": "nan"},
        {"rate": 1e-320},
        {"forward_token": f"{TOKEN}\n"},
        {"admin_token": f"{TOKEN}\u00e9"},
        {"storage": f"redis+tls://:{TOKEN}@redis.example.com/0"},
        {"aggregator": f"https://user:{TOKEN}@aggregator.example.com"},
    ],
)
def test_a_wrong_setting_is_named_and_no_secret_is_shown(given: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter, match=next(iter(given))) as caught:
        Settings.load(**given)
    assert TOKEN not in str(caught.value)


def test_the_token_does_not_print() -> None:
    assert TOKEN not in repr(Settings.load(forward_token=TOKEN))


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("http://127.0.0.1:8702", True),
        ("http://127.9.9.9", True),
        ("http://[::1]:8702", True),
        ("http://localhost", True),
        ("http://localhost.example.com", False),
        ("http://10.0.0.1", False),
        ("http://127.0.0.1.example.com", False),
    ],
)
def test_loopback_is_recognised_by_its_address(address: str, local: bool) -> None:
    assert Settings.load(aggregator=address, forward_token=TOKEN, trust=TRUST).aggregator_on_loopback == local


def test_every_setting_is_documented_as_it_is() -> None:
    page = settings("shuffler")  # what docs/reference/settings.md is built with
    for name, default, text in Settings.table():
        assert text, name
        shown = re.search(rf"`HUBBUB_SHUFFLER_{name.upper()}`.*\n: .*", page)
        assert shown is not None, name
        assert (f"default `{default.lower()}`" if default else "unset") in shown[0].lower(), name
        assert text in shown[0], name
        secret = name in ("storage", "forward_token", "admin_token", "admin_token_next")
        assert ("**Secret:**" in shown[0]) == secret, name


def test_help_prints_every_setting_with_its_default_and_meaning_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORWARD_TOKEN", "ADMIN_TOKEN", "STORAGE"):
        monkeypatch.setenv(f"HUBBUB_SHUFFLER_{name}", TOKEN)
    said = CliRunner().invoke(shuffler, ["--help"], terminal_width=200).output
    words = " ".join(said.split())
    for name, default, text in Settings.table():
        assert f"HUBBUB_SHUFFLER_{name.upper()} {text} [{default or 'unset'}]" in words, name
    assert TOKEN not in said


def test_a_password_in_the_storage_url_does_not_print() -> None:
    given = f"redis://:{TOKEN}@redis.example.com/0"
    assert TOKEN not in repr(Settings.load(storage=given)) + str(Settings.load(storage=given).model_dump())


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"admin_port": 9_000, "admin_host": "0.0.0.0"}, "admin_token"),  # noqa: S104  it is refused
        ({"admin_port": 9_000, "admin_host": "::"}, "admin_token"),
        ({"admin_port": 8_701}, "same port"),
        ({"tls_key": "key.pem"}, "tls_certificate"),
        ({"tls_certificate": "chain.pem"}, "tls_key"),
        ({"codebooks": "not-an-id"}, "hexadecimal"),
        ({"log_format": "xml"}, "log_format"),
        ({"proxy_hops": -1}, "proxy_hops"),
        ({"cors_origins": "https://app.example.com/"}, "cors_origins: .* write https://app.example.com$"),
        ({"cors_origins": "*, https://app.example.com"}, "cors_origins"),
    ],
)
def test_what_would_be_unsafe_or_cannot_work_is_refused(given: dict[str, object], wrong: str) -> None:
    with pytest.raises(InvalidParameter, match=wrong):
        Settings.load(**given)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_the_admin_listener_needs_no_token_on_loopback(host: str) -> None:
    assert Settings.load(admin_port=0, admin_host=host).admin_port == 0


def test_codebooks_are_pinned_by_their_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = codebook().id.hex(), codebook(min_batch=9).id.hex()
    monkeypatch.setenv("HUBBUB_SHUFFLER_CODEBOOKS", ", ".join(ids))
    assert Settings.load().codebooks == ids


def test_the_pages_that_may_report_are_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings.load().cors_origins == ()
    for given, meant in (
        ("", ()),
        ("*", ("*",)),
        ("https://a.example, https://b.example", ("https://a.example", "https://b.example")),
    ):
        monkeypatch.setenv("HUBBUB_SHUFFLER_CORS_ORIGINS", given)
        assert Settings.load().cors_origins == meant


def test_an_address_that_is_taken_is_named_instead_of_a_traceback() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidParameter, match=f"port {port}"):
            listen("127.0.0.1", port)


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"storage": f"redis://:{TOKEN}@127.0.0.1:1/0?no_such_option=1"}, "storage can't be used"),
        ({"storage": "nowhere/reports.sqlite"}, "storage can't be used"),
        ({"tls_certificate": "nowhere.pem", "tls_key": "nowhere.key"}, "TLS with nowhere.pem"),
    ],
)
def test_what_is_not_there_at_the_start_is_one_line_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, object], wrong: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidParameter, match=wrong) as caught:
        run(Settings.load(port=0, state_dir=tmp_path / "state", **given))
    assert TOKEN not in str(caught.value)


def test_a_misspelt_setting_is_noticed() -> None:
    names = [
        "HUBBUB_SHUFFLER_MIN_BATCH_FLOR",
        "HUBBUB_SHUFFLER_HOST",
        "hubbub_shuffler_port",
        "HUBBUB_CLIENT_X",
        "PATH",
    ]
    assert Settings.unknown(names) == ["HUBBUB_SHUFFLER_MIN_BATCH_FLOR"]


@pytest.mark.parametrize(
    ("address", "doubted"),
    [
        ("http://aggregator.example.com:8702", True),
        ("HTTP://aggregator.example.com", True),
        ("https://aggregator.example.com:8702", False),
        ("http://127.0.0.1:8702", False),
    ],
)
def test_a_token_that_others_could_read_on_the_way_is_warned_of(address: str, doubted: bool) -> None:
    found = doubts(Settings.load(aggregator=address, forward_token=TOKEN, trust=TRUST), [])
    assert [line for line in found if "is not https" in line] == found
    assert bool(found) == doubted
    assert TOKEN not in "".join(found)


def test_the_command_says_what_is_wrong_instead_of_starting() -> None:
    result = CliRunner().invoke(shuffler, ["--aggregator", FAR])
    assert isinstance(result.exception, InvalidParameter)


def test_the_shuffler_loads_nothing_that_could_read_a_report() -> None:
    """And what devices talk to loads no numpy: that is for preparing a batch."""
    code = "import sys, hubbub_shuffler.{}; print(*sys.modules); import hubbub_shuffler.main; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code.format("app")], capture_output=True, text=True, check=True)
    edge, service = run.stdout.splitlines()
    assert "hubbub_shuffler.ingest.upload" in edge
    assert not [name for name in edge.split() if name.startswith(("numpy", "scipy"))]
    forbidden = ("hubbub.mechanisms", "hubbub.codebook", "hubbub.accounting", "hubbub.sealing", "scipy")
    assert not [name for name in service.split() if name.startswith(forbidden)]
