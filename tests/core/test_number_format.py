"""Numbers in sentences: nothing that is only likely is shown as certain."""

from __future__ import annotations

import pytest

from hubbub.number_format import probability


@pytest.mark.parametrize(
    ("number", "text"),
    [(1.0, "1"), (0.9999999, "above 0.999999"), (0.9999, "0.9999"), (0.996, "0.996"), (0.5, "0.50"), (1e-9, "1e-09")],
)
def test_a_probability_below_one_is_never_shown_as_one(number: float, text: str) -> None:
    assert probability(number) == text
