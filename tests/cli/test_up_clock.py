"""`hubbub up` with a clock in doubt: what it says, and how an operator ends the doubt."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hubbub_cli.all_commands import hubbub
from hubbub_cli.commands import up
from hubbub_cli.services import processes
from hubbub_cli.services.processes import Services
from tests.aggregator.world import CODEBOOK, START
from tests.support.compiled import compiled
from tests.support.unwrapped import unwrapped

DOUBT = "this clock was set, or is far from when the service ran last"


@pytest.fixture
def both(tmp_path: Path) -> Services:
    (tmp_path / "metrics.toml").write_text(CODEBOOK)
    return Services(tmp_path / "state", tmp_path / "metrics.toml", shuffler_port=1, aggregator_port=2)


def _ready(monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any]) -> None:
    class Opener:
        def open(self, _address: str, timeout: float) -> io.BytesIO:
            assert timeout
            return io.BytesIO(json.dumps(answer).encode())

    monkeypatch.setattr(processes, "opener", lambda _address: Opener())


def test_it_promises_no_closing_time_without_a_word_of_the_doubt(
    both: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ready(monkeypatch, {"ok": True, "warnings": [{"name": "clock", "detail": DOUBT}]})
    said = up.welcome(compiled(CODEBOOK), both, START + 60, both.aggregator)
    assert f"It may be later than that: {DOUBT}." in unwrapped(said)
    assert "--clock-is-right" in said
    _ready(monkeypatch, {"ok": True})
    assert "It may be later" not in up.welcome(compiled(CODEBOOK), both, START + 60, both.aggregator)


def test_a_service_that_does_not_answer_warns_of_nothing(both: Services) -> None:
    assert both.clock_warning() is None


@pytest.mark.parametrize("flags", [[], ["--clock-is-right"]])
def test_the_operators_word_goes_to_both_services(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    given: dict[str, Any] = {}

    def started(*_: Any, **settings: Any) -> None:
        given.update(settings)
        raise RuntimeError("that is all")

    (tmp_path / "metrics.toml").write_text(CODEBOOK)
    monkeypatch.setattr(up, "Services", started)
    monkeypatch.setattr(up, "stop_on_sigterm", lambda: None)
    CliRunner().invoke(hubbub, ["up", "--codebook", str(tmp_path / "metrics.toml"), *flags])
    wanted = {"CLOCK_IS_RIGHT": "true", "LOG_FORMAT": "json"} if flags else {"LOG_FORMAT": "json"}
    assert given["aggregator_settings"] == wanted
    assert given["shuffler_settings"].pop("CORS_ORIGINS")
    assert given["shuffler_settings"] == wanted
