"""What deploy/ sets is what the services have, and all that they have can be found there."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from hubbub_aggregator import settings as of_the_aggregator
from hubbub_shuffler import settings as of_the_shuffler
from scripts import make_env_templates
from tests.deploy.lab import ROOT

DEPLOY = ROOT / "deploy"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file() and "secrets" not in path.parts)
SERVICES = [pytest.param(module, id=module.PREFIX) for module in (of_the_shuffler, of_the_aggregator)]


def used(module: ModuleType, path: Path) -> set[str]:
    return set(re.findall(rf"\b{module.PREFIX}[A-Z_]+\b", path.read_text()))


def known(module: ModuleType) -> set[str]:
    plain = {module.PREFIX + name.upper() for name in module.Settings.model_fields}
    return plain | {f"{module.PREFIX}{name.upper()}_FILE" for name in module.IN_FILES}


@pytest.mark.parametrize("module", SERVICES)
def test_every_variable_in_deploy_is_a_setting(module: ModuleType) -> None:
    counted = 0
    for path in FILES:
        assert used(module, path) <= known(module), path
        counted += len(used(module, path))
    assert counted > 40


@pytest.mark.parametrize("module", SERVICES)
def test_every_setting_is_in_deploy(module: ModuleType) -> None:
    found = set().union(*(used(module, path) for path in FILES))
    assert known(module) <= found


def test_the_templates_say_what_the_settings_say() -> None:
    for path, text in make_env_templates.main().items():
        assert path.read_text() == text, "python -m scripts.make_env_templates"


@pytest.mark.parametrize("module", SERVICES)
def test_no_value_of_a_secret_is_set_in_deploy(module: ModuleType) -> None:
    secrets = [name for name in module.IN_FILES if name != "trust"]
    for path in FILES:
        for name in secrets:
            variable = module.PREFIX + name.upper()
            assert not re.search(rf"^[^#\n]*\b{variable}(:|=) *\S", path.read_text(), re.MULTILINE), (path, variable)
