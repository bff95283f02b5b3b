"""Fixtures of the aggregator's tests that tests of commands need, too."""

from __future__ import annotations

from tests.aggregator.conftest import pool, site

__all__ = ["pool", "site"]
