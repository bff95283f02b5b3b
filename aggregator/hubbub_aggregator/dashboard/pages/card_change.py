"""What changed on a card: its headline against the one of the period before, and whether that is more than noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hubbub.number_format import MINUS
from hubbub_aggregator.dashboard import formatting
from hubbub_aggregator.dashboard.api_client import Problem, metric_path
from hubbub_aggregator.dashboard.pages.bins_headline import moved
from hubbub_aggregator.dashboard.pages.page_context import is_share
from hubbub_aggregator.models.comparison import Comparison
from hubbub_aggregator.models.distribution import LimitsModel

if TYPE_CHECKING:
    from hubbub_aggregator.dashboard.pages.page_context import Site
    from hubbub_aggregator.models.estimated_values import AxisModel
    from hubbub_aggregator.models.metrics import NamedMetric

__all__ = ["Change", "change_since"]

_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Change:
    """The headline against the period before."""

    since: str
    difference: str
    """With its sign and unit."""
    direction: int
    is_real: bool
    """Whether it differs from zero at 95 % confidence, over the changes of all cards together (Bonferroni)."""
    is_new: bool = False
    """The period before has no number, or asked another question."""


async def change_since(
    site: Site, metric: NamedMetric, bins: AxisModel | None, at: tuple[str, str, str], changes: int
) -> Change:
    """The headline of the period between the last two of `at`, against the one between the first two."""
    before, last, after = at
    confidence = 1 - (1 - _CONFIDENCE) / max(1, changes)
    try:
        if bins is not None:
            found = await moved(site, metric.name, bins, (before, last), (last, after), confidence)
            return _new(before) if found is None else _said(before, *found)
        return await site.api.read(
            "change",
            lambda body: _of_comparison(Comparison.model_validate_json(body)),
            metric_path(metric.name, "compare"),
            300,
            confidence=confidence,
            p_values=False,
            a_from=before,
            a_to=last,
            b_from=last,
            b_to=after,
            headline=True,
            composed=False,
        )
    except Problem as problem:
        if problem.status >= 500 or problem.status in (401, 403):
            raise
        return _new(before)


def _new(since: str) -> Change:
    return Change(since, "", 0, is_real=False, is_new=True)


def _of_comparison(answer: Comparison) -> Change:
    value = answer.values[0]
    found = LimitsModel(estimate=value.shown.value, low=value.low, high=value.high)
    return _said(answer.a.periods.start, found, answer.unit, is_share=is_share(answer))


def _said(since: str, found: LimitsModel, unit: str | None, *, is_share: bool = False) -> Change:
    difference = formatting.change(found.estimate, is_share=is_share, unit=unit)
    direction = 0 if not any(digit in difference for digit in "123456789") else 1 if found.estimate > 0 else -1
    is_real = direction != 0 and (
        (found.low is not None and found.low > 0) or (found.high is not None and found.high < 0)
    )
    return Change(since, difference.lstrip(f"+{MINUS}"), direction, is_real)
