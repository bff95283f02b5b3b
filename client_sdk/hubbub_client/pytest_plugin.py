"""The pytest fixture `hubbub`: a device for the tests of an app. See `hubbub_client.testing`.

Enabled by `pytest_plugins = ["hubbub_client.pytest_plugin"]` in the project's conftest.py; nothing else imports this.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hubbub.codebook import Codebook
from hubbub_client._consent.consent_and_off_switches import OFF_SWITCHES
from hubbub_client._development_notices import forget_notices
from hubbub_client.testing import Device

__all__ = ["hubbub", "hubbub_codebook", "hubbub_options"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "hubbub_codebook", "The codebook of the fixture `hubbub`, from the root directory.", default="metrics.toml"
    )


@pytest.fixture
def hubbub_codebook(pytestconfig: pytest.Config) -> Codebook | Path | str:
    """The codebook for tests. Override it to return another path, TOML text, or a Codebook."""
    path: Path = pytestconfig.rootpath / pytestconfig.getini("hubbub_codebook")
    if not path.is_file():
        raise pytest.UsageError(
            f"there is no codebook at {path}: set hubbub_codebook in pytest's configuration, "
            "or write a fixture of that name that returns one"
        )
    return path


@pytest.fixture
def hubbub_options() -> dict[str, Any]:
    """Further arguments of `Client`, none by default. Override it to return those that your app passes, such as
    {"min_period": None} for a codebook with short periods."""
    return {}


@pytest.fixture
def hubbub(
    hubbub_codebook: Codebook | Path | str,
    hubbub_options: dict[str, Any],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Device]:
    """A device with consent, files of its own, a shuffler in memory and a fake clock; strict, and without a thread."""
    for name in list(os.environ):
        if name in OFF_SWITCHES or name.upper().startswith("HUBBUB_"):
            monkeypatch.delenv(name)
    forget_notices()  # each test says on stderr, which pytest captures, why nothing is collected in it
    with Device(hubbub_codebook, tmp_path_factory.mktemp("hubbub"), **hubbub_options) as device:
        yield device
