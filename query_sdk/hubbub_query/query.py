"""`Query`: questions to an aggregator, and their typed answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

from hubbub_query.comparison import Comparison
from hubbub_query.distribution import NumberDistribution
from hubbub_query.estimate import Estimate
from hubbub_query.ledger import Ledger
from hubbub_query.metrics import MetricList
from hubbub_query.read_json import read
from hubbub_query.releases import ReleaseList
from hubbub_query.series import Series
from hubbub_query.transport import PATIENCE, Connection

__all__ = ["ADDRESS", "Query", "path"]

ADDRESS = "http://127.0.0.1:8702"
"""Where `hubbub up` serves."""
When: TypeAlias = str | date | datetime
Population: TypeAlias = Literal["reports", "superpopulation"]
Postprocess: TypeAlias = Literal["none", "norm_sub", "base_cut", "clip", "projected"]
_MOST_RECORDS = 1000


class Query:
    """An aggregator to ask. Nothing is sent before a method is called, and asking costs no privacy.

    `start` and `end` are dates or times at the start of a period; `end` is not part of the range. Parameters are those
    of the API: what is not given has the API's default.
    """

    def __init__(self, address: str = ADDRESS, *, token: str | None = None, timeout: float = PATIENCE) -> None:
        self._connection = Connection(address, token, timeout)

    def __repr__(self) -> str:
        return f"Query({self._connection.address!r})"

    def metrics(self) -> MetricList:
        """Every metric, past and present."""
        return read(MetricList, self._connection.json("/v1/metrics"))

    def estimate(
        self,
        metric: str,
        *,
        start: When | None = None,
        end: When | None = None,
        confidence: float | None = None,
        postprocess: Postprocess | None = None,
        population: Population | None = None,
        simultaneous: bool | None = None,
        top: int | None = None,
    ) -> Estimate:
        """What a metric's releases say about all periods of the range together."""
        asked = _asked(locals(), "confidence", "postprocess", "population", "simultaneous", "top")
        return read(Estimate, self._connection.json(path(metric, "estimate"), _range(start, end) | asked))

    def distribution(
        self,
        metric: str,
        *,
        start: When | None = None,
        end: When | None = None,
        before: tuple[When, When] | None = None,
        quantiles: Sequence[float] | None = None,
        ranges: Sequence[tuple[float, float]] | None = None,
        confidence: float | None = None,
        population: Population | None = None,
        simultaneous: bool | None = None,
    ) -> NumberDistribution:
        """The distribution of a number in bins; with `before`, how far each quantile moved since those periods."""
        asked = _asked(locals(), "confidence", "population", "simultaneous")
        asked |= {"before_from": _text(before[0]), "before_to": _text(before[1])} if before else {}
        asked |= {
            "quantiles": None if quantiles is None else ",".join(map(str, quantiles)),
            "ranges": None if ranges is None else ",".join(f"{low}..{high}" for low, high in ranges),
        }
        return read(NumberDistribution, self._connection.json(path(metric, "distribution"), _range(start, end) | asked))

    def series(
        self,
        metric: str,
        *,
        start: When | None = None,
        end: When | None = None,
        confidence: float | None = None,
        postprocess: Postprocess | None = None,
        population: Population | None = None,
        simultaneous: bool | None = None,
        top: int | None = None,
        headline: bool | None = None,
        composed: bool | None = None,
        every: int | None = None,
    ) -> Series:
        """One estimate per period, with the gaps."""
        names = ("confidence", "postprocess", "population", "simultaneous", "top", "headline", "composed", "every")
        asked = _asked(locals(), *names)
        return read(Series, self._connection.json(path(metric, "series"), _range(start, end) | asked))

    def compare(
        self,
        metric: str,
        a: tuple[When, When],
        b: tuple[When, When],
        *,
        confidence: float | None = None,
        simultaneous: bool | None = None,
        top: int | None = None,
        headline: bool | None = None,
        composed: bool | None = None,
        p_values: bool | None = None,
    ) -> Comparison:
        """How range b, given as (start, end), differs from range a."""
        asked = _asked(locals(), "confidence", "simultaneous", "top", "headline", "composed", "p_values")
        sides = {"a_from": _text(a[0]), "a_to": _text(a[1]), "b_from": _text(b[0]), "b_to": _text(b[1])}
        return read(Comparison, self._connection.json(path(metric, "compare"), sides | asked))

    def releases(self, metric: str | None = None, *, start: When | None = None) -> ReleaseList:
        """The record of every release by period, of all pages; with `metric`, those of the id that it has now."""
        asked = {"metric": metric, "from": _text(start), "limit": str(_MOST_RECORDS)}
        pages = [read(ReleaseList, self._connection.json("/v1/releases", asked))]
        while pages[-1].next is not None:
            pages.append(read(ReleaseList, self._connection.json("/v1/releases", asked | {"after": pages[-1].next})))
        return replace(pages[-1], releases=tuple(one for page in pages for one in page.releases))

    def privacy(self, periods: int | None = None, *, delta: float | None = None) -> Ledger:
        """The ledger: what everything that was released cost a device; `periods`: how many of the newest to list;
        `delta`: at which to answer."""
        return read(Ledger, self._connection.json("/v1/privacy", {"periods": _text(periods), "delta": _text(delta)}))

    def json(self, target: str, asked: Mapping[str, str | None] | None = None) -> Any:
        """The JSON of any answer of the API, such as `json("/v1/status")`."""
        return self._connection.json(target, asked)

    def get(
        self, target: str, asked: Mapping[str, str | None] | None = None, *, accept: str = "application/json"
    ) -> bytes:
        """The bytes of any answer of the API, such as a CSV: `get("/v1/metrics", accept="text/csv")`."""
        return self._connection.get(target, asked, accept)


def path(metric: str, kind: str) -> str:
    """The path of a question about a metric."""
    return f"/v1/metrics/{quote(metric, safe='')}/{kind}"


def _range(start: When | None, end: When | None) -> dict[str, str | None]:
    return {"from": _text(start), "to": _text(end)}


def _asked(given: Mapping[str, Any], *names: str) -> dict[str, str | None]:
    return {name: _text(given[name]) for name in names}


def _text(value: object) -> str | None:
    """A parameter as the API reads it; None is left out."""
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case datetime():
            return (value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value).isoformat() + "Z"
        case date():
            return value.isoformat()
    return str(value)
