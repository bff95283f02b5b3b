"""The table of `hubbub plan --allot`: `device_epsilon`, split over the metrics by importance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hubbub.codebook import decimal_text
from hubbub.errors import InvalidParameter
from hubbub_cli.terminal.table import table_or_records
from hubbub_cli.terminal.wrapped_text import wrapped

if TYPE_CHECKING:
    from hubbub.accounting.codebook_plan import MetricPlan, Plan
    from hubbub.accounting.release_choice import ReleaseChoice
    from hubbub.codebook import Codebook

__all__ = ["Allotment", "allot", "document", "render", "weights"]


@dataclass(frozen=True, slots=True)
class Allotment:
    """What one metric would get."""

    planned: MetricPlan
    importance: Fraction
    choice: ReleaseChoice

    @property
    def before(self) -> float:
        """Half of a 95 % interval now."""
        return self.planned.interval / 2

    @property
    def after(self) -> float:
        from hubbub.accounting.auto_epsilon import half_width

        return half_width(self.planned.metric.values, self.choice.mechanism, self.planned.reports)


def weights(given: tuple[str, ...], codebook: Codebook) -> dict[str, Fraction]:
    """The importance of each metric: as given on the command line, or else as the codebook says."""
    from hubbub.mechanisms._exact_arithmetic import exact_number

    wishes = {metric.name: metric.wish for metric in codebook.metrics if metric.enabled}
    found = {name: Fraction(1) if wish is None else wish.importance for name, wish in wishes.items()}
    for text in given:
        name, is_given, number = text.partition("=")
        if not is_given:
            raise InvalidParameter(f"--importance {text}: expected NAME=NUMBER, such as theme=2")
        codebook.metric(name)  # InvalidParameter names the nearest one
        if name not in found:
            raise InvalidParameter(f"--importance {text}: {name} is not enabled, so it gets nothing")
        if (weight := exact_number(number, "importance")) <= 0:
            raise InvalidParameter(f"--importance {text}: expected a number above 0")
        found[name] = weight
    return found


def allot(made: Plan, importance: Mapping[str, Fraction]) -> list[Allotment]:
    """The split of the collection's budget over the planned metrics."""
    from hubbub.accounting.budget_split import split
    from hubbub.accounting.codebook_plan import asked_of

    planned = [one for one in made.metrics if one.guarantee is not None]
    if not planned:
        raise InvalidParameter("no metric would have an honest report, so nothing can be split", "expect more devices")
    asked = {
        one.metric.name: replace(
            asked_of(one.metric, made.codebook, one.reports), importance=importance[one.metric.name]
        )
        for one in planned
    }
    found = split(asked, made.codebook.collection.device_epsilon)
    return [Allotment(one, importance[one.metric.name], found[one.metric.name]) for one in planned]


def render(made: Plan, found: list[Allotment]) -> str:
    """As a table, and what to do with it."""
    from hubbub.accounting.auto_epsilon import in_unit

    rows = [
        {
            "metric": one.planned.metric.name,
            "importance": decimal_text(one.importance),
            "mechanism": one.choice.mechanism.name,
            "eps0": decimal_text(one.planned.metric.epsilon),
            "allotted": decimal_text(one.choice.mechanism.epsilon),
            "95% error": in_unit(one.planned.metric.values, one.before),
            "would be": in_unit(one.planned.metric.values, one.after),
        }
        for one in found
    ]
    budget, spent = made.codebook.collection.device_epsilon, _spent(found)
    said = (
        f"device_epsilon {decimal_text(budget)} is split so that relative errors (of a share, or of a mean over the "
        f"width of its bounds) are equal, times importance: {decimal_text(spent)} of it is used. "
    )
    if spent < budget * Fraction(99, 100):
        said += "The rest would buy nothing: target, crowd or caps set these errors. "
    said += "Each meets the release target at equal certificate. Write the epsilons into metrics.toml to use them."
    return f"{table_or_records(rows)}\n\n{wrapped(said)}"


def document(made: Plan, found: list[Allotment]) -> dict[str, Any]:
    return {
        "device_epsilon": float(made.codebook.collection.device_epsilon),
        "spent": float(_spent(found)),
        "metrics": {
            one.planned.metric.name: {
                "importance": float(one.importance),
                "mechanism": one.choice.mechanism.name,
                "epsilon": float(one.choice.mechanism.epsilon),
                "standard_error": one.choice.error,
                "error": one.after,
                "error_before": one.before,
                "certified": {
                    "epsilon": one.choice.certified.epsilon,
                    "delta": one.choice.certified.delta,
                    "method": one.choice.certified.method,
                },
            }
            for one in found
        },
    }


def _spent(found: list[Allotment]) -> Fraction:
    return sum((one.choice.mechanism.epsilon for one in found), Fraction(0))
