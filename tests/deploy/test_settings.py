"""Settings in deploy/: the services have all of them, and all that the services have can be found there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hubbub_aggregator.settings import Settings as Aggregator
from hubbub_service_common.settings import ServiceSettings
from hubbub_shuffler.settings import Settings as Shuffler
from scripts import make_env_templates
from tests.deploy.network_namespaces import ROOT

DEPLOY = ROOT / "deploy"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file() and "secrets" not in path.parts)
SERVICES = [pytest.param(settings, id=settings.service) for settings in (Shuffler, Aggregator)]


def used(settings: type[ServiceSettings], path: Path) -> set[str]:
    return set(re.findall(rf"\b{settings.prefix()}[A-Z_]+\b", path.read_text()))


def known(settings: type[ServiceSettings]) -> set[str]:
    plain = {settings.prefix() + name.upper() for name in settings.model_fields}
    return plain | {f"{settings.prefix()}{name.upper()}_FILE" for name in settings.in_files()}


@pytest.mark.parametrize("settings", SERVICES)
def test_every_variable_in_deploy_is_a_setting(settings: type[ServiceSettings]) -> None:
    counted = 0
    for path in FILES:
        assert used(settings, path) <= known(settings), path
        counted += len(used(settings, path))
    assert counted > 40


@pytest.mark.parametrize("settings", SERVICES)
def test_every_setting_is_in_deploy(settings: type[ServiceSettings]) -> None:
    found = set().union(*(used(settings, path) for path in FILES))
    assert known(settings) <= found


def test_the_templates_say_what_the_settings_say() -> None:
    for path, text in make_env_templates.main().items():
        assert path.read_text() == text, "python -m scripts.make_env_templates"


@pytest.mark.parametrize("settings", SERVICES)
def test_no_value_of_a_secret_is_set_in_deploy(settings: type[ServiceSettings]) -> None:
    secrets = [name for name in settings.in_files() if name != "trust"]
    for path in FILES:
        for name in secrets:
            variable = settings.prefix() + name.upper()
            assert not re.search(rf"^[^#\n]*\b{variable}(:|=) *\S", path.read_text(), re.MULTILINE), (path, variable)
