"""The image, built once for all tests that run it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.deploy.dockerfile import Image, build
from tests.deploy.network_namespaces import ROOT, why_not

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  of this machine


@pytest.fixture(scope="session")
def image() -> Iterator[Image]:
    """deploy/Dockerfile, built by its own commands."""
    if why_not():
        pytest.skip(why_not())
    if not os.access(SHARED_MEMORY, os.W_OK) or shutil.disk_usage(SHARED_MEMORY).free < 2 * 2**30:
        pytest.skip("needs 2 GB in /dev/shm, to lie over this machine's file system")
    folder = Path(mkdtemp(prefix="hubbub-image-", dir=SHARED_MEMORY))
    folder.chmod(0o755)
    try:
        yield build(ROOT / "deploy" / "Dockerfile", ROOT, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
