"""The documentation, built once for all workers of a test run."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys

import pytest

from tests.docs.blocks import ROOT
from tests.docs.html import Site

BUILD = ["-W", "--keep-going", "-n", "-q", "-b", "html"]
"""As `make docs` does."""
ELSEWHERE = [
    *(f"{folder}/*" for folder in ("images", "design", "explanation", "how-to", "project", "tutorial")),
    "performance.md",
    "index.md",
]
"""What is not the reference."""


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The reference alone, built in a third of the time. Links to other pages lead nowhere: `site` refuses those."""
    folder = tmp_path_factory.mktemp("reference")
    only = ["-D", f"exclude_patterns={','.join(ELSEWHERE)}", "-D", "root_doc=reference/index"]
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", *only, "-d", str(folder / "cache"), "docs"]
    built = subprocess.run(
        [*command, str(folder / "html")], cwd=ROOT, capture_output=True, text=True, timeout=250, check=False
    )
    assert built.returncode == 0, built.stderr
    return Site(folder / "html", "")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The built site, or the failure of a test that says what Sphinx complains about."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "documentation"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said, html = folder / "said", folder / "html"
        if not said.exists():
            command = [sys.executable, "-m", "sphinx", *BUILD, "-d", str(folder / "cache"), "docs", str(html)]
            built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250, check=False)
            said.write_text(built.stderr + f"\nexit code {built.returncode}" * bool(built.returncode))
    return Site(html, said.read_text())
