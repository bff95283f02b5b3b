"""The file for a script tag that the `hubbub` command carries: a fresh build of the sources gives the same bytes."""

from __future__ import annotations

import pytest

from scripts.make_client_js import KEPT, fresh
from tests.support.node import NO_PACKAGES, packages


@pytest.mark.skipif(not packages(), reason=NO_PACKAGES)
def test_the_file_that_is_shipped_is_what_the_sources_give() -> None:
    assert fresh() == KEPT.read_bytes(), "python -m scripts.make_client_js"
