"""Planted bugs of the services by which a crowd is, or looks, larger or smaller than it should."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from hubbub_aggregator.intake import accumulate, batch_guarantee
from hubbub_shuffler.bundle import begun_periods

__all__ = ["counts_junk_as_a_crowd", "forgets_what_it_refused", "takes_every_bundle"]


@contextmanager
def counts_junk_as_a_crowd() -> Iterator[None]:
    """The honest fraction is applied to all reports, up to the number of valid ones."""

    def of_all(storage: Any, governed: Any, header: Any, valid: int) -> Any:
        promise = batch_guarantee.promise_of(storage, governed, header, header.count)
        return replace(promise, valid=valid, honest=min(valid, promise.honest))

    with patch.object(accumulate, "promise_of", of_all):
        yield


@contextmanager
def forgets_what_it_refused() -> Iterator[None]:
    """A batch that was opened and refused leaves no record."""
    with patch.object(accumulate, "refusal_record", lambda *_: None):
        yield


@contextmanager
def takes_every_bundle() -> Iterator[None]:
    """The shuffler sees no change in what a bundle says about a begun period."""
    with patch.object(begun_periods, "_change", lambda *_: None):
        yield
