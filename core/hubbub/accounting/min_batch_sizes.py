"""Batch sizes of a codebook: the fewest reports of each metric whose honest part meets the release target.

They complete a codebook: its compiled form then holds everything that devices and services need.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from hubbub.codebook import LARGEST_BATCH, Codebook, decimal_text
from hubbub.errors import CodebookError, Finding, InvalidParameter

if TYPE_CHECKING:
    from hubbub.codebook import Collection, Metric

__all__ = ["smallest_batch", "with_batch_sizes"]

_FIX = "lower the metric's epsilon, or raise the release's"


def smallest_batch(metric: Metric, collection: Collection) -> int:
    """The fewest reports that meet the release target, whatever the metric's own `min_batch`. Takes about a second."""
    from hubbub.accounting.codebook_plan import min_batch

    computed = replace(metric, min_batch=None)
    return min_batch(computed, Codebook(collection, (computed,)))


def with_batch_sizes(
    codebook: Codebook,
    file: str = "metrics.toml",
    smallest: Callable[[Metric, Collection], int] = smallest_batch,
) -> Codebook:
    """The codebook with every `min_batch` filled in. A `min_batch` in the file can raise it but never lower it.

    CodebookError names each metric whose releases cannot meet the target.
    """
    found: list[Finding] = []
    sized: list[Metric] = []
    for metric in codebook.metrics:
        try:
            needed = smallest(metric, codebook.collection)
        except InvalidParameter as error:
            found.append(Finding(file, f"metrics.{metric.name}", error.problem, error.fix or _FIX))
            continue
        if needed > LARGEST_BATCH:
            target = decimal_text(codebook.collection.release_epsilon)
            problem = (
                f"a release that meets epsilon {target} needs {needed:,} reports, "
                f"more than the {LARGEST_BATCH:,} that a batch can hold"
            )
            found.append(Finding(file, f"metrics.{metric.name}.epsilon", problem, _FIX))
        sized.append(replace(metric, min_batch=max(needed, metric.min_batch or 0)))
    if found:
        raise CodebookError(found)
    return replace(codebook, metrics=tuple(sized), notes_order=True)
