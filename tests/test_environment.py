"""Secrets come from files where a variable says so, whichever service it is for, and no mistake goes unsaid."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import SecretStr

from hubbub.problems import InvalidParameter
from hubbub_aggregator import settings as of_the_aggregator
from hubbub_cli.commands import hubbub
from hubbub_service_common import secret_files as environment
from hubbub_shuffler import settings as of_the_shuffler
from hubbub_shuffler.main import load
from tests.shuffler.world import TRUST

SERVICES = [pytest.param(module, id=module.PREFIX) for module in (of_the_shuffler, of_the_aggregator)]
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


def secrets(module: Any) -> list[str]:
    return [name for name, field in module.Settings.model_fields.items() if SecretStr in _parts(field.annotation)]


def _parts(annotation: Any) -> tuple[Any, ...]:
    return getattr(annotation, "__args__", (annotation,))


@pytest.mark.parametrize("module", SERVICES)
def test_every_secret_may_stand_in_a_file(module: Any, file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(secrets(module)) <= set(module.IN_FILES)
    for name in secrets(module):
        value = f"redis://:{SECRET}@localhost/0" if name == "storage" else SECRET
        monkeypatch.setenv(f"{module.PREFIX}{name.upper()}_FILE", file(f"{value}\n".encode()))
        assert getattr(module.Settings(), name).get_secret_value() == value
        monkeypatch.delenv(f"{module.PREFIX}{name.upper()}_FILE")


def test_trust_anchors_may_stand_in_a_file_one_on_a_line(file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUBBUB_SHUFFLER_TRUST_FILE", file(f"{TRUST[0]}\n{TRUST[0]}\n".encode()))
    assert load().trust == TRUST * 2


def test_an_option_wins_over_a_file(file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUBBUB_SHUFFLER_FORWARD_TOKEN_FILE", file(SECRET.encode()))
    given = load(forward_token=SECRET.upper()).forward_token
    assert given is not None
    assert given.get_secret_value() == SECRET.upper()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"\xff\xfe" + SECRET.encode(), "is no text"),
        (SECRET.encode() * 4_000, "more than 65536 bytes"),
        (None, "No such file"),
    ],
)
def test_a_file_that_cannot_hold_a_secret_is_refused_by_name_and_not_shown(
    content: bytes | None, complaint: str, file: Any
) -> None:
    path = "/nowhere/secret" if content is None else file(content)
    with pytest.raises(InvalidParameter, match=complaint) as refused:
        environment.from_files({"SERVICE_TOKEN_FILE": path}, "SERVICE_", ["token"])
    assert "SERVICE_TOKEN_FILE" in str(refused.value)
    assert path in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("value", ["x", ""])
def test_a_value_and_a_file_for_it_are_one_too_many(value: str, file: Any) -> None:
    with pytest.raises(InvalidParameter, match="SERVICE_TOKEN and SERVICE_TOKEN_FILE are both set"):
        environment.from_files(
            {"SERVICE_TOKEN": value, "SERVICE_TOKEN_FILE": file(SECRET.encode())}, "SERVICE_", ["token"]
        )


@pytest.mark.parametrize("module", SERVICES)
def test_small_letters_name_a_file_as_well(module: Any, file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{module.PREFIX}ADMIN_TOKEN_FILE".lower(), file(SECRET.encode()))
    assert module.Settings().admin_token.get_secret_value() == SECRET


def test_a_name_that_is_left_empty_is_no_file() -> None:
    assert environment.from_files({"SERVICE_TOKEN_FILE": ""}, "SERVICE_", ["token"]) == {}


@pytest.mark.parametrize("module", SERVICES)
def test_a_variable_that_is_no_setting_is_noticed_and_a_file_of_what_is_no_secret_too(module: Any) -> None:
    right = {f"{module.PREFIX}PORT", f"{module.PREFIX}ADMIN_TOKEN_FILE", "HUBBUB_TOKEN", "PATH"}
    wrong = {f"{module.PREFIX}PROT", f"{module.PREFIX}TLS_KEY_FILE"}
    assert set(module.unknown(right | wrong)) == wrong


@pytest.mark.parametrize("module", SERVICES)
def test_help_names_every_variable_that_may_name_a_file(module: Any) -> None:
    shown = CliRunner().invoke(hubbub, [module.PREFIX.split("_")[1].lower(), "--help"]).output
    for name in module.IN_FILES:
        assert f"{module.PREFIX}{name.upper()}_FILE" in shown


def test_a_service_that_cannot_read_its_secret_says_so_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUBBUB_SHUFFLER_FORWARD_TOKEN_FILE", "/nowhere/token")
    with pytest.raises(InvalidParameter, match="FORWARD_TOKEN_FILE names /nowhere/token"):
        CliRunner().invoke(hubbub, ["shuffler"], catch_exceptions=False)
