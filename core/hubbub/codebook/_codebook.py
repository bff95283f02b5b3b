"""The codebook: what is collected, resolved to the integers that run, with ids that only a change changes."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

from hubbub.canonical import Json, canonical_bytes, digest, read_json
from hubbub.codebook._metric import ID_BYTES, Collection, Metric, total_epsilon
from hubbub.codebook._read import read, resolve
from hubbub.mechanisms import Domain, Mechanism, mechanism
from hubbub.metric_types import metric_type, names
from hubbub.period import duration_text
from hubbub.problems import CodebookError, Finding, InvalidParameter, did_you_mean

__all__ = ["Codebook"]

FORMAT = "hubbub-codebook 1"
_COMPILED = "compiled codebook"
_DERIVED = ("id", "name", "report_bytes", "share_threshold")


@dataclass(frozen=True, slots=True)
class Codebook:
    """A collection and its metrics, sorted by name."""

    collection: Collection
    metrics: tuple[Metric, ...]
    id: bytes = field(init=False)
    """Sixteen bytes of the hash of everything: any edit, even of a description, changes it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", digest("hubbub-01 codebook", self._content())[:ID_BYTES])

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The codebook in a metrics.toml file."""
        try:
            text = Path(path).read_bytes().decode("utf-8")
        except OSError as error:
            raise _error(
                str(path), f"cannot be read: {error.strerror}", "check the path and its permissions"
            ) from error
        except UnicodeDecodeError as error:
            raise _error(str(path), f"is not UTF-8: {error}", "save it as UTF-8") from error
        return cls.from_toml(text, file=str(path))

    @classmethod
    def from_toml(cls, text: str, file: str = "metrics.toml") -> Self:
        """The codebook in this text; CodebookError carries everything that is wrong with it."""
        try:
            document = tomllib.loads(text, parse_float=Decimal)
        except (ValueError, ArithmeticError, RecursionError) as error:
            raise _error(file, f"is not TOML: {error}", "correct the syntax there") from error
        return cls(*read(document, file, resolve))

    @classmethod
    def from_compiled(cls, compiled: bytes | Mapping[str, Json]) -> Self:
        """Rebuild from the compiled form, checking privacy claims and ids again: a device trusts no codebook."""
        try:
            raw = canonical_bytes(read_json(compiled) if isinstance(compiled, bytes) else dict(compiled))
            tables = _tables(read_json(raw))
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            raise _tampered(f"is not one: {type(error).__name__}: {error}") from error
        codebook = cls(*read(tables, _COMPILED, _rebuild))
        if codebook.to_bytes() != raw:
            raise _tampered("does not match its own ids: it was changed after it was compiled")
        return codebook

    def compiled(self) -> dict[str, Json]:
        """The codebook as JSON with nothing left to decide: what devices and services work from."""
        return {"id": self.id.hex(), **self._content()}

    def to_bytes(self) -> bytes:
        """The compiled form in its one canonical spelling."""
        return canonical_bytes(self.compiled())

    def metric(self, name: str) -> Metric:
        """The metric of this name, or InvalidParameter that suggests the nearest one."""
        names = {metric.name: metric for metric in self.metrics}
        if name in names:
            return names[name]
        raise InvalidParameter(f"no metric is named {name!r}: {did_you_mean(name, names) or 'see the codebook'}")

    @property
    def spent(self) -> Fraction:
        """What the enabled metrics spend per device and period."""
        return total_epsilon(self.metrics)

    def with_min_batch(self, min_batch_of: Callable[[Metric], int]) -> Self:
        """The codebook with every `min_batch` that was left open filled in. No metric's id changes."""
        return replace(
            self,
            metrics=tuple(
                metric if metric.min_batch is not None else replace(metric, min_batch=min_batch_of(metric))
                for metric in self.metrics
            ),
        )

    def _content(self) -> dict[str, Json]:
        return {
            "format": FORMAT,
            "collection": self.collection.document(),
            "metrics": [metric.document() for metric in self.metrics],
        }


def _tables(document: Any) -> dict[str, object]:
    """The compiled form as the TOML tables it came from, so that one reader checks both."""
    if document["format"] != FORMAT:
        raise ValueError(f"its format is {document['format']!r}, this software reads {FORMAT!r}")
    collection = dict(document["collection"])
    for name in ("period", "grace", "forward_horizon"):
        collection[name] = duration_text(collection[name])
    for name in ("device_epsilon", "honest_fraction"):
        collection[name] = Decimal(collection[name])
    collection["release"] = {name: Decimal(text) for name, text in collection["release"].items()}
    return {"collection": collection, "metrics": {str(m["name"]): _metric_table(m) for m in document["metrics"]}}


def _metric_table(metric: Any) -> dict[str, object]:
    table = {name: value for name, value in metric.items() if value is not None and name not in _DERIVED}
    table["epsilon"], table["share"] = Decimal(table["epsilon"]), Decimal(table["share"])
    if "expires" in table:
        table["expires"] = date.fromisoformat(table["expires"])
    return metric_type(table["type"]).restored(table) if table.get("type") in names() else table


def _rebuild(written: Any, epsilon: Fraction, domain: Domain, _report_bytes: int | None) -> Mechanism[Any]:
    """The mechanism of a compiled metric, from its integers; from_parameters checks the privacy claim."""
    if not isinstance(written, Mapping) or set(written) != {"name", "parameters"}:
        raise InvalidParameter(f"expected a name and parameters, got {written!r}")
    return mechanism(written["name"]).from_parameters(epsilon, domain, written["parameters"])


def _error(file: str, problem: str, fix: str) -> CodebookError:
    return CodebookError([Finding(file, "", problem, fix)])


def _tampered(problem: str) -> CodebookError:
    return _error(_COMPILED, problem, "fetch it again, or compile metrics.toml again")
