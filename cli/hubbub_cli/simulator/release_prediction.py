"""Whether a number of reports would be released, and with what guarantee, as shuffler and aggregator decide it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hubbub.accounting import FAILURE_SHARE, Guarantee, guarantee, honest_reports, honest_reports_in_part
from hubbub.accounting.codebook_plan import min_batch
from hubbub.errors import InvalidParameter
from hubbub_cli.services.default_min_crowd import usual_floor
from hubbub_shuffler.batching.permute import number_of_parts
from hubbub_shuffler.settings import Settings

if TYPE_CHECKING:
    from hubbub.codebook import Codebook, Metric

__all__ = ["Verdict", "parts_of", "verdict"]


def _default(name: str) -> int:
    found = Settings.model_fields[name].default
    assert isinstance(found, int)  # noqa: S101  always true; for the type checker
    return found


FLOOR, LARGEST = usual_floor(), _default("max_batch")
"""Limits of a shuffler with default settings."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What happens to the reports of one period."""

    reports: int
    needed: int | None
    """Fewest reports for a release; None if no batch meets the release target."""
    parts: int
    """Number of batches into which the reports are cut; 0 if nothing is released."""
    guarantee: Guarantee
    """Guarantee of the smallest batch; if nothing is released, what it would have been."""

    @property
    def released(self) -> bool:
        return self.parts > 0


def verdict(metric: Metric, codebook: Codebook, reports: int) -> Verdict:
    """The verdict of a shuffler with default settings, if all reports are valid."""
    collection = codebook.collection
    needed: int | None
    try:
        needed = max(min_batch(metric, codebook), FLOOR)
    except InvalidParameter:
        needed = None
    if needed is not None and needed > LARGEST:
        needed = None  # the aggregator does not start with such a metric
    parts = parts_of(reports, needed)
    share, delta = collection.honest_fraction, collection.release_delta
    if parts > 1:  # chance decides how many reports in a part are honest
        failure = delta * FAILURE_SHARE
        honest = honest_reports_in_part(reports // parts, share, failure)
        promise = replace(guarantee(metric.mechanism, max(1, honest), delta - failure), delta=float(delta))
    else:
        promise = guarantee(metric.mechanism, max(1, honest_reports(reports, share)), delta)
    return Verdict(reports, needed, parts, promise)


def parts_of(reports: int, needed: int | None) -> int:
    """Number of batches into which a shuffler with default settings cuts this many reports."""
    return 0 if needed is None else number_of_parts(reports, needed, LARGEST)
