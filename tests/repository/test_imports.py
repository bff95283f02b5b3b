"""Import rules: who may import whom, and what a device must never load."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

HEAVY = {
    "numpy",
    "scipy",
    "pydantic",
    "fastapi",
    "starlette",
    "uvicorn",
    "redis",
    "httpx2",
    "altair",
    "click",
    "dp_accounting",
    "narwhals",
    "pandas",
    "polars",
    "pyarrow",
}

_LINT = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"

LIGHT = [
    "hubbub",
    "hubbub.randomness",
    "hubbub.mechanisms",
    "hubbub.codebook",
    "hubbub.bundle",
    "hubbub.period",
    "hubbub.reduce",
    "hubbub.postprocess",
    "hubbub.errors",
    "hubbub_client",
    "hubbub_query",
]


def loaded_by(statement: str) -> set[str]:
    """Top-level modules in a fresh interpreter after a statement."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(run.stdout))


def test_the_import_contracts_hold() -> None:
    # in a process of its own: it sets up logging in a way that switches every existing logger off
    found = subprocess.run([sys.executable, "-c", _LINT], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize("module", LIGHT)
def test_what_a_device_or_an_analyst_imports_loads_neither_numpy_nor_any_server_library(module: str) -> None:
    assert not {name.split(".")[0] for name in loaded_by(f"import {module}")} & HEAVY


def test_a_whole_report_is_made_without_numpy() -> None:
    """Not only the import: reading a codebook, randomizing and encoding need the standard library alone."""
    loaded = loaded_by(
        "from hubbub.mechanisms import registered\n"
        "from hubbub.randomness import SystemRandomness\n"
        "for name, cls in registered().items():\n"
        "    if cls.needs_options: continue\n"
        "    made = cls.examples(1)[0]\n"
        "    built = cls.from_parameters(1, made.domain, made.parameters())\n"
        "    built.decode(built.encode(built.randomize(1, SystemRandomness())))\n"
        "    built.realised_epsilon\n"
    )
    assert not {name.split(".")[0] for name in loaded} & HEAVY


def test_a_choice_is_made_without_numpy() -> None:
    """A device that compiles a packaged codebook chooses too."""
    loaded = loaded_by(
        "from hubbub.mechanisms import Bounds, Categories, select\n"
        "[select(domain, 1).why for domain in (Categories(2), Categories(300), Categories(65536), Bounds(0, 1))]\n"
    )
    assert not {name.split(".")[0] for name in loaded} & HEAVY


def test_what_the_shuffler_imports_never_loads_a_mechanism() -> None:
    loaded = loaded_by("import hubbub_shuffler, hubbub.bundle, hubbub.period, hubbub.errors")
    assert not any(name.startswith(("hubbub.mechanisms", "hubbub.codebook")) for name in loaded)


def test_only_the_simulation_module_uses_a_seedable_generator() -> None:
    """No numpy.random and no `random` on any path that a device or a service takes."""

    root = ROOT
    for package in ("core/hubbub", "client_sdk", "query_sdk", "service_common", "shuffler", "aggregator"):
        for path in (root / package).rglob("*.py"):
            if path.parts[-2:] == ("simulation", "randomness.py"):
                continue
            text = path.read_text()
            assert "np.random" not in text, path
            assert "numpy.random" not in text, path
            assert "import random" not in text, path
