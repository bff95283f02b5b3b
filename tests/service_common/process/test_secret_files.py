"""Secrets from files: a variable names the file, for both services alike, and every mistake is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import SecretStr

from hubbub.errors import InvalidParameter
from hubbub_aggregator.settings import Settings as Aggregator
from hubbub_cli.all_commands import hubbub
from hubbub_service_common import settings_from_files
from hubbub_shuffler.settings import Settings as Shuffler
from tests.shuffler.world import TRUST

SERVICES = [pytest.param(settings, id=settings.service) for settings in (Shuffler, Aggregator)]
SECRET = "a-secret-that-is-in-a-file-only"  # noqa: S105  it opens nothing


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in list(os.environ):
        if name.startswith("HUBBUB_"):
            monkeypatch.delenv(name)


@pytest.fixture
def file(tmp_path: Path) -> Callable[[bytes], str]:
    def write(content: bytes) -> str:
        (tmp_path / "secret").write_bytes(content)
        return str(tmp_path / "secret")

    return write


def secrets(settings: Any) -> list[str]:
    return [name for name, field in settings.model_fields.items() if SecretStr in _parts(field.annotation)]


def _parts(annotation: Any) -> tuple[Any, ...]:
    return getattr(annotation, "__args__", (annotation,))


@pytest.mark.parametrize("settings", SERVICES)
def test_every_secret_may_stand_in_a_file(settings: Any, file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(secrets(settings)) <= set(settings.in_files())
    for name in secrets(settings):
        value = f"redis://:{SECRET}@localhost/0" if name == "storage" else SECRET
        monkeypatch.setenv(f"{settings.prefix()}{name.upper()}_FILE", file(f"{value}\n".encode()))
        assert getattr(settings(), name).get_secret_value() == value
        monkeypatch.delenv(f"{settings.prefix()}{name.upper()}_FILE")


def test_trust_anchors_may_stand_in_a_file_one_on_a_line(file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUBBUB_SHUFFLER_TRUST_FILE", file(f"{TRUST[0]}\n{TRUST[0]}\n".encode()))
    assert Shuffler.load().trust == TRUST * 2


def test_an_option_wins_over_a_file(file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUBBUB_SHUFFLER_FORWARD_TOKEN_FILE", file(SECRET.encode()))
    given = Shuffler.load(forward_token=SECRET.upper()).forward_token
    assert given is not None
    assert given.get_secret_value() == SECRET.upper()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"\xff\xfe" + SECRET.encode(), "is not text"),
        (SECRET.encode() * 4_000, "more than 65536 bytes"),
        (None, "No such file"),
    ],
)
def test_a_file_that_cannot_hold_a_secret_is_refused_by_name_and_not_shown(
    content: bytes | None, complaint: str, file: Any
) -> None:
    path = "/nowhere/secret" if content is None else file(content)
    with pytest.raises(InvalidParameter, match=complaint) as refused:
        settings_from_files.from_files({"SERVICE_TOKEN_FILE": path}, "SERVICE_", ["token"])
    assert "SERVICE_TOKEN_FILE" in str(refused.value)
    assert path in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("value", ["x", ""])
def test_a_value_and_a_file_for_it_are_one_too_many(value: str, file: Any) -> None:
    with pytest.raises(InvalidParameter, match="SERVICE_TOKEN and SERVICE_TOKEN_FILE are both set"):
        settings_from_files.from_files(
            {"SERVICE_TOKEN": value, "SERVICE_TOKEN_FILE": file(SECRET.encode())}, "SERVICE_", ["token"]
        )


@pytest.mark.parametrize("settings", SERVICES)
def test_small_letters_name_a_file_as_well(settings: Any, file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{settings.prefix()}ADMIN_TOKEN_FILE".lower(), file(SECRET.encode()))
    assert settings().admin_token.get_secret_value() == SECRET


def test_a_name_that_is_left_empty_is_no_file() -> None:
    assert settings_from_files.from_files({"SERVICE_TOKEN_FILE": ""}, "SERVICE_", ["token"]) == {}


@pytest.mark.parametrize("settings", SERVICES)
def test_a_variable_that_is_no_setting_is_noticed_and_a_file_of_what_is_no_secret_too(
    settings: Any,
) -> None:
    right = {f"{settings.prefix()}PORT", f"{settings.prefix()}ADMIN_TOKEN_FILE", "HUBBUB_TOKEN", "PATH"}
    wrong = {f"{settings.prefix()}PROT", f"{settings.prefix()}TLS_KEY_FILE"}
    assert set(settings.unknown(right | wrong)) == wrong


@pytest.mark.parametrize("settings", SERVICES)
def test_help_names_every_variable_that_may_name_a_file(settings: Any) -> None:
    shown = CliRunner().invoke(hubbub, [settings.service, "--help"]).output
    for name in settings.in_files():
        assert f"{settings.prefix()}{name.upper()}_FILE" in shown


def test_a_service_that_cannot_read_its_secret_says_so_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUBBUB_SHUFFLER_FORWARD_TOKEN_FILE", "/nowhere/token")
    with pytest.raises(InvalidParameter, match="FORWARD_TOKEN_FILE names /nowhere/token"):
        CliRunner().invoke(hubbub, ["shuffler"], catch_exceptions=False)
