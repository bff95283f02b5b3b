"""Limits that a device sets itself unless its app says otherwise: `Client(max_epsilon=..., min_period=...)`."""

from __future__ import annotations

from fractions import Fraction

__all__ = ["USUAL_MAX_EPSILON", "USUAL_MIN_PERIOD"]

USUAL_MAX_EPSILON = Fraction(8)
"""The most that a device spends in a UTC day."""
USUAL_MIN_PERIOD = "1h"
"""A codebook with shorter periods is not used."""
