"""The course of `hubbub plan` under a cap over time: how the loss grows, when collection stops, when there is room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hubbub.errors import InvalidParameter
from hubbub_cli.terminal.round_up import above

if TYPE_CHECKING:
    from hubbub.accounting.total_cap import Course
    from hubbub.codebook import Codebook

__all__ = ["course_of", "document", "sentences"]


def course_of(codebook: Codebook) -> Course | None:
    """The course of a codebook that has a total, each batch at its `min_batch`. None without one, or if a metric can't
    be released at all."""
    from hubbub.accounting.codebook_plan import min_batch
    from hubbub.accounting.total_cap import course

    if codebook.collection.total is None:
        return None
    try:
        return course(codebook.with_min_batch(lambda metric: min_batch(metric, codebook)))
    except InvalidParameter:
        return None


def document(found: Course | None) -> dict[str, Any] | None:
    """As JSON."""
    if found is None:
        return None
    return {
        "epsilon": float(found.total.epsilon),
        "delta": float(found.total.delta),
        "over": found.total.document()["over"],
        "window": found.window,
        "collects_for": found.periods,
        "renews_after": None if found.periods is None else found.window,
        "course": [{"periods": number, "epsilon": loss.epsilon} for number, loss in found.points],
    }


def sentences(found: Course) -> list[str]:
    """What a person should know of it."""
    steps = ", ".join(f"{above(loss.epsilon)} after {number:,}" for number, loss in found.points)
    said = [f"total of {found.total}, each batch at its smallest, in periods: eps {steps}"]
    if found.periods is None:
        said.append(f"it always fits: no {found.window:,} periods hold more, so collection goes on")
    elif found.periods == 0:
        said.append("! one period alone is more than the total: this codebook cannot be published")
    else:
        said.append(
            f"collection stops after {found.periods:,} periods, on devices, shuffler and aggregator. There is room "
            f"again {found.window:,} periods after the first: publish then"
        )
    return said
