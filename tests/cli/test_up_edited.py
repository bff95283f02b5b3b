"""`hubbub up` after an edit: from when it counts, why, and what to do in a trial."""

from __future__ import annotations

from pathlib import Path

import pytest

from hubbub.bundle import verify
from hubbub_cli.commands.up import welcome
from hubbub_cli.services.edit_to_come import waiting
from hubbub_cli.services.processes import Services
from tests.aggregator.world import CODEBOOK
from tests.browser.sites import start
from tests.support.compiled import compiled
from tests.support.unwrapped import unwrapped

NOW = 1_800_007_200.0
"""15 January 2027, 10:00 UTC."""
EDITED = CODEBOOK.replace("epsilon = 1.0", "epsilon = 0.9", 1)


def said(root: Path, monkeypatch: pytest.MonkeyPatch, *texts: str, at: float = NOW) -> tuple[Services, str]:
    """What is said of the last of these codebooks, each given at a start a minute after the one before."""
    for number, text in enumerate(texts):
        service = start(root, text, NOW + 60 * number)
        raw = service.bundle().raw
        service.close()
    services = Services(root / "state", Path("metrics.toml"), shuffler_port=1, aggregator_port=2)
    services.frozen, services.anchor = compiled(texts[-1]), raw.split(b"\n", 2)[1].split()[0].decode()
    body = verify(raw, {services.anchor}, NOW + 60).body
    monkeypatch.setattr(Services, "bundle", lambda *_: body)
    found = waiting(services, at)
    return services, "" if found is None else found.text


def test_an_edit_says_from_when_it_counts_and_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    services, text = said(tmp_path, monkeypatch, CODEBOOK, EDITED, at=NOW + 60)
    begins = _second_start(services)
    assert text.startswith("Not in force yet: the edit of metrics.toml counts from 16 Jan 2027 on (in ")
    assert "may keep that one for 2 hours" in text
    assert f"--state-dir {services.state_dir}-2" in text
    assert "delete" in text
    shown = unwrapped(welcome(services.frozen, services, NOW + 60, services.aggregator))
    assert unwrapped(text) in shown
    assert "First numbers of it: the period that begins 16 Jan 2027" in shown
    found = waiting(services, begins - 3600.0)
    assert found is not None
    assert "(in 1 hour)" in found.text
    assert waiting(services, begins) is None


def test_the_first_codebook_is_in_force_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    services, text = said(tmp_path, monkeypatch, CODEBOOK)
    assert text == ""
    assert "Not in force" not in welcome(services.frozen, services, NOW, services.aggregator)


def test_an_edit_that_is_taken_back_is_said_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    services, text = said(tmp_path, monkeypatch, CODEBOOK, EDITED, CODEBOOK)
    assert text.startswith("Not in force: metrics.toml is an older codebook")
    assert "codebook publish metrics.toml --state-dir" in text
    shown = welcome(services.frozen, services, NOW, services.aggregator)
    assert "First numbers: the period that began" in shown


def test_services_that_do_not_answer_say_nothing(tmp_path: Path) -> None:
    services = Services(tmp_path, Path("metrics.toml"), shuffler_port=1, aggregator_port=2)
    services.frozen = compiled(CODEBOOK)
    assert waiting(services, NOW) is None


def _second_start(services: Services) -> int:
    body = services.bundle(NOW)
    assert body is not None
    assert len(body.codebooks) == 2
    calendar = services.frozen.collection.calendar
    return calendar.period(body.codebooks[-1].first_period).start
