"""What deploy/ sets is what the services have; no engine is needed to see that."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hubbub_aggregator.settings import Settings as AggregatorSettings
from hubbub_shuffler.settings import Settings as ShufflerSettings

DEPLOY = Path(__file__).parent.parent / "deploy"


@pytest.mark.parametrize(
    ("prefix", "settings"),
    [("HUBBUB_AGGREGATOR_", AggregatorSettings), ("HUBBUB_SHUFFLER_", ShufflerSettings)],
)
def test_every_variable_in_the_compose_file_is_a_setting(prefix: str, settings: type) -> None:
    used = set(re.findall(rf"^ +{prefix}([A-Z_]+):", (DEPLOY / "compose.yml").read_text(), re.MULTILINE))
    assert len(used) > 4
    assert {name.lower() for name in used} <= set(settings.model_fields)  # type: ignore[attr-defined]  # pydantic's


def test_the_image_holds_every_package_and_runs_as_nobody_in_particular() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    for folder in ("core", "client_sdk", "shuffler", "aggregator", "audit", "cli"):
        assert f"COPY {folder} {folder}" in text
    assert "USER hubbub" in text
