"""The how-to page on analysis: its script asks an aggregator as it stands."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, blocks
from tests.query_sdk.conftest import TOKEN

PAGE = ROOT / "docs" / "how-to" / "analyse-in-python.md"


def test_the_page_asks_as_it_says(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = [block for block in blocks(PAGE) if block.file == "ask.py"]
    (tmp_path / "ask.py").write_text(block.text)
    monkeypatch.setenv("HUBBUB_ADDRESS", address)
    monkeypatch.setenv("HUBBUB_TOKEN", TOKEN)
    runpy.run_path(str(tmp_path / "ask.py"))
    printed = capsys.readouterr().out
    assert "light: " in printed
    assert "1,200 reports; epsilon " in printed
    assert "open" in printed  # the gap
