"""Clock and entropy: product code asks the operating system for time or random bytes in named modules only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT

SEAMS = {
    "client_sdk/hubbub_client/_process/clock_and_entropy.py",
    "service_common/hubbub_service_common/process/clock_and_entropy.py",
    "core/hubbub/randomness.py",  # the operating system's generator, for randomizers and the coins of a device
    "core/hubbub/simulation/randomness.py",  # seeded on purpose, and no device can import it
    "cli/hubbub_cli/demo_data.py",  # the demo's made-up people, from a seed
}
"""The one place of the SDK, of the services with the CLI, and of the core; and the two that are seeded."""
SEEDED = {"core/hubbub/simulation/randomness.py", "cli/hubbub_cli/demo_data.py"}
PACKAGES = ("core", "client_sdk", "query_sdk", "service_common", "shuffler", "aggregator", "cli")
"""Not the audit: it plays the attacker, and stands outside of what it attacks."""
FORBIDDEN = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "clock_gettime"}
    | {"clock_gettime_ns", "sleep", "localtime", "gmtime", "ctime", "process_time", "thread_time"},
    "os": {"urandom", "getrandom"},
    "secrets": None,
    "random": None,
    "uuid": None,
    "numpy.random": None,
    "datetime.datetime": {"now", "utcnow", "today"},
    "datetime.date": {"today"},
}
"""By module or class: names that may not be used; None: all of them."""
NO_ARGUMENTS = {"email.utils.formatdate", "time.strftime", "os.utime"}
"""They take the present time if they are given none."""


def _imported(tree: ast.Module) -> dict[str, str]:
    """What each name of a module stands for."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    return names


def _called(node: ast.expr, names: dict[str, str]) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in names:
        return ""
    return ".".join([names[node.id], *reversed(parts)])


def _is_forbidden(name: str) -> bool:
    for module, members in FORBIDDEN.items():
        if members is None and (name == module or name.startswith(f"{module}.")):
            return True
        if members is not None and any(name == f"{module}.{member}" for member in members):
            return True
    return False


def drawn(source: str) -> Iterator[str]:
    """Where a module draws time or entropy by itself: line and name."""
    tree = ast.parse(source)
    names = _imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and _is_forbidden(found := _called(node, names)):
            yield f"{node.lineno}: {found}"
        if isinstance(node, ast.Call) and (found := _called(node.func, names)) in NO_ARGUMENTS and not node.args:
            yield f"{node.lineno}: {found} without a time"


def _modules() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def test_product_code_draws_time_and_entropy_in_named_modules_only() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{where}"
        for path in _modules()
        if str(path.relative_to(ROOT)) not in SEAMS
        for where in drawn(path.read_text("utf-8"))
    ]
    assert found == []


def test_every_named_module_is_there_and_draws() -> None:
    for seam in SEAMS:
        assert list(drawn((ROOT / seam).read_text("utf-8"))), seam


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.time()",
        "from time import monotonic as m\nm()",
        "import os\nfield(default_factory=os.urandom)",
        "import secrets\nsecrets.token_hex(4)",
        "from datetime import datetime\ndatetime.now()",
        "import datetime\ndatetime.date.today()",
        "import numpy as np\nnp.random.default_rng()",
        "from uuid import uuid4\nuuid4()",
        "from email.utils import formatdate\nformatdate(usegmt=True)",
    ],
)
def test_each_way_to_draw_is_seen(source: str) -> None:
    assert list(drawn(source))


def test_no_setting_or_variable_can_replace_the_system_s_generator() -> None:
    """The modules read nothing but the operating system: no environment, no file, no setting."""
    for seam in SEAMS - SEEDED:
        tree = ast.parse((ROOT / seam).read_text("utf-8"))
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not names & {"environ", "getenv", "open", "read_text", "read_bytes", "setattr", "globals"}
        assert not any(isinstance(node, ast.Global) for node in ast.walk(tree))
