"""Settings: safe by default, wrong ones refused in one readable line, documented as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from hubbub.problems import InvalidParameter
from hubbub_cli.shuffler import shuffler
from hubbub_shuffler.main import load
from hubbub_shuffler.settings import Settings, is_loopback
from tests.shuffler.world import TOKEN, TRUST

PAGE = Path(__file__).parents[2] / "docs" / "shuffler.md"
FAR = "https://aggregator.example.com"


@pytest.fixture(autouse=True)
def _no_settings_around(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"HUBBUB_SHUFFLER_{name.upper()}", raising=False)


def test_on_loopback_it_starts_without_being_told_anything() -> None:
    assert load().host == "127.0.0.1"


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
        load(aggregator=FAR, **given)


def test_options_win_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUBBUB_SHUFFLER_PORT", "1234")
    monkeypatch.setenv("HUBBUB_SHUFFLER_TRUST", f"{TRUST[0]}, {TRUST[0]}")
    assert load().port == 1234
    assert load(port=99).port == 99
    assert load().trust == TRUST * 2


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
        {"aggregator": f"https://user:{TOKEN}@aggregator.example.com"},
    ],
)
def test_a_wrong_setting_is_named_and_no_secret_is_shown(given: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter, match=next(iter(given))) as caught:
        load(**given)
    assert TOKEN not in str(caught.value)


def test_the_token_does_not_print() -> None:
    assert TOKEN not in repr(load(forward_token=TOKEN))


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
    assert is_loopback(address) == local


def test_every_setting_is_documented_as_it_is() -> None:
    page = PAGE.read_text()
    for name, field in Settings.model_fields.items():
        assert field.description, name
        default = "" if field.default is None or field.default == () else f"`{field.default}`"
        assert f"| `{name}` | {default} | {field.description} |" in page, name


def test_the_command_says_what_is_wrong_instead_of_starting() -> None:
    result = CliRunner().invoke(shuffler, ["--aggregator", FAR])
    assert isinstance(result.exception, InvalidParameter)


def test_the_shuffler_loads_nothing_that_could_read_a_report() -> None:
    code = "import sys, hubbub_shuffler.main; print('\\n'.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    forbidden = ("hubbub.mechanisms", "hubbub.codebook", "hubbub.accounting", "hubbub.sealing", "numpy")
    assert not [name for name in run.stdout.split() if name.startswith(forbidden)]
