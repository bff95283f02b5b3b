"""What changed between two ranges, in sentences: from what to what, how sure that is, and whether chance does that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hubbub_aggregator.dashboard import formatting
from hubbub_aggregator.dashboard.pages.page_context import has_one_line, is_share

if TYPE_CHECKING:
    from hubbub_aggregator.models.comparison import Comparison, DifferenceModel

__all__ = ["is_clear", "sentences"]

_MOST = 3
"""Most values with a sentence of their own."""


def is_clear(value: DifferenceModel) -> bool:
    """Whether the interval of the change leaves out no change."""
    return (value.low is not None and value.low > 0) or (value.high is not None and value.high < 0)


def sentences(answer: Comparison) -> list[str]:
    """The result in words: each of the clearest changes, and how many values did not clearly change."""
    if has_one_line(answer):
        shown = [value for value in answer.values if value.label == answer.headline.label] or answer.values[:1]
        return [formatting.sentence(_sentence(one, answer, str(answer.headline.name or one.label))) for one in shown]
    clear = sorted((one for one in answer.values if is_clear(one)), key=lambda one: -abs(one.shown.value))
    told = [_sentence(value, answer, value.label) for value in clear[:_MOST]]
    others = answer.value_count - len(told)
    if len(clear) > _MOST:
        more = len(clear) - _MOST
        told.append(f"{formatting.count(more)} more {'value' if more == 1 else 'values'} clearly changed.")
    elif not told:
        told.append(f"None of the {formatting.count(answer.value_count)} values clearly changed.")
    elif others:
        last = "The other value" if others == 1 else f"The other {formatting.count(others)} values"
        told.append(f"{last} did not clearly change.")
    return told


def _sentence(value: DifferenceModel, answer: Comparison, name: str) -> str:
    share, unit, shown = is_share(answer), answer.unit, value.shown
    before, after = (formatting.value(side, is_share=share, unit=unit) for side in (shown.a, shown.b))
    change, low, high = (
        formatting.change(number, is_share=share, unit=unit) for number in (shown.value, shown.low, shown.high)
    )
    sure = formatting.share(answer.interval.confidence, 0)
    chance = ""
    if value.adjusted_p_value is not None:
        chance = f" Chance alone would do that {formatting.by_chance(value.adjusted_p_value)}."
    if not is_clear(value):
        text = f"{name} did not clearly change: {before} before, {after} after ({low} to {high} at {sure} confidence)."
    else:
        verb = "rose" if shown.value > 0 else "fell"
        text = f"{name} {verb} from {before} to {after}: by {change}, {low} to {high} at {sure} confidence."
    return text + chance
