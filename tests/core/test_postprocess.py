"""Post-processing: right, labelled, and apart from estimating."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.errors import InvalidParameter
from hubbub.postprocess import base_cut, clip, norm_sub, projected

values = st.lists(st.floats(-2, 2), min_size=1, max_size=30)


@given(values)
def test_norm_sub_gives_frequencies(raw: list[float]) -> None:
    done = norm_sub(raw)
    assert done.method == "norm_sub"
    assert done.values.min() >= 0
    assert done.values.sum() == pytest.approx(1)


@given(values)
def test_norm_sub_keeps_the_order_and_subtracts_one_number(raw: list[float]) -> None:
    done = norm_sub(raw).values
    kept = done > 0
    shifts = (np.array(raw) - done)[kept]
    assert np.allclose(shifts, shifts[0])
    assert (np.array(raw)[~kept] <= shifts[0] + 1e-9).all()


def test_no_other_frequencies_are_nearer() -> None:
    raw = np.array([0.7, 0.45, 0.1, -0.2])
    others = np.random.default_rng(1).dirichlet(np.ones(4), 100_000)
    nearest = ((norm_sub(raw).values - raw) ** 2).sum()
    assert nearest <= ((others - raw) ** 2).sum(axis=1).min()


def test_base_cut_drops_noise_and_keeps_the_rest_unchanged() -> None:
    raw = np.zeros(1000)
    raw[:3] = [0.3, 0.05, 0.02]
    done = base_cut(raw, 0.01)
    assert done.method == "base_cut"
    assert done.values[:3].tolist() == [0.3, 0.05, 0.0]  # 3.9 standard errors at one in twenty over a thousand


def test_base_cut_lets_an_absent_item_through_as_rarely_as_it_says() -> None:
    """1000 times 50 absent items: some passes in one of twenty, within 5 sd of a count of 50."""
    noise = np.random.default_rng(1).normal(0, 0.01, (1000, 50))
    passed = sum(base_cut(row, 0.01).values.any() for row in noise)
    assert 0.05 * 1000 - 5 * np.sqrt(47.5) < passed < 0.05 * 1000 + 5 * np.sqrt(47.5)


def test_clip_holds_each_value_in_its_range() -> None:
    done = clip([-0.5, 0.2, 1.5])
    assert (done.method, done.values.tolist()) == ("clip", [0.0, 0.2, 1.0])
    assert clip([12.0], -10, 10).values.tolist() == [10.0]


@pytest.mark.parametrize(
    "call",
    [
        lambda: norm_sub([]),
        lambda: norm_sub([float("nan")]),
        lambda: clip([0.5], 1, 0),
        lambda: base_cut([0.5], 0.1, alpha=0),
        lambda: clip([[0.5]]),
    ],
)
def test_what_cannot_be_processed_is_refused(call: Any) -> None:
    with pytest.raises(InvalidParameter):
        call()


def test_projected_shares_fit_the_precision_best() -> None:
    """Beside random shares, and exactly where the raw ones are possible."""
    rng = np.random.default_rng(2)
    root = rng.normal(size=(6, 6))
    precision = root @ root.T + np.eye(6)
    raw = np.array([0.5, 0.4, -0.1, 0.3, -0.2, 0.1])
    found = projected(raw, precision)
    assert found.method == "projected"
    assert found.values.min() >= 0
    assert found.values.sum() == pytest.approx(1)
    least = (found.values - raw) @ precision @ (found.values - raw)
    for other in rng.dirichlet(np.ones(6), 2_000):
        assert least <= (other - raw) @ precision @ (other - raw) + 1e-9
    possible = np.array([0.1, 0.2, 0.3, 0.1, 0.2, 0.1])
    assert np.allclose(projected(possible, precision).values, possible)
