"""The audit of a metric type: it attacks what is published, by the type's values and influence."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hubbub.codebook import Codebook
from hubbub_audit.confidence_bounds import mcdiarmid
from hubbub_audit.local_epsilon_and_law import law
from hubbub_audit.poisoning import poisoning
from hubbub_audit.targets import Subject
from tests.core.metric_types.toy_curve import Ladder
from tests.core.metric_types.toy_groups import AmountByGroup
from tests.core.metric_types.toys import CODEBOOK

if TYPE_CHECKING:
    from hubbub.mechanisms import Estimate, Mechanism, Tally

pytestmark = pytest.mark.usefixtures("toys")


class SaysLess(AmountByGroup):
    """States the influence of its mechanism for its own: minutes taken for shares."""

    __slots__ = ()

    def influence(self, mechanism: Mechanism[Any]) -> float:
        return mechanism.influence()


class OffByTenth(Ladder):
    """Publishes a tenth too much of everything."""

    __slots__ = ()

    def estimate(self, mechanism: Mechanism[Any], tally: Tally) -> Estimate:
        found = super().estimate(mechanism, tally)
        return replace(found, values=found.values + 0.1)


def subject(name: str, planted: type | None = None) -> Subject:
    metric = Codebook.from_toml(CODEBOOK).metric(name)
    if planted is None:
        return Subject(metric)
    known: Any = metric.values
    return Subject(
        replace(metric, values=planted(**{field.name: getattr(known, field.name) for field in fields(known)}))
    )


@pytest.mark.parametrize("name", ["look", "wait", "minutes"])
def test_fakes_reach_the_influence_that_is_published_and_no_more(name: str) -> None:
    (finding,) = poisoning(subject(name)).run(1e-9)
    assert finding.verdict == "holds", finding


def test_an_influence_that_is_stated_too_small_is_beaten() -> None:
    (finding,) = poisoning(subject("minutes", SaysLess)).run(1e-9)
    assert finding.verdict == "beaten"


def test_values_that_are_published_off_are_seen() -> None:
    (right,) = law(subject("wait"), 20_000).run(1e-9)
    (wrong,) = law(subject("wait", OffByTenth), 20_000).run(1e-9)
    assert (right.verdict, wrong.verdict) == ("holds", "beaten")


def test_a_mean_of_bounded_numbers_keeps_to_the_limit() -> None:
    """Of 20,000 means of 100 coins about one in a hundred may be farther; a fixed seed."""
    means = np.random.default_rng(19).integers(0, 2, (20_000, 100)).mean(axis=1)
    limit = mcdiarmid(1.0, 100, 0.01)
    assert limit == pytest.approx(math.sqrt(math.log(200) / 200))
    assert (np.abs(means - 0.5) > limit).mean() < 0.01
