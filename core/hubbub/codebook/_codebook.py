"""The codebook: what is collected, resolved to the integers that run. An id changes only when its content does."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

from hubbub.canonical import DEEPEST_NESTING, Json, canonical_bytes, digest, read_json
from hubbub.codebook._metric import ID_BYTES, Collection, Metric, total_epsilon
from hubbub.codebook._open_epsilon import Solve, chosen_for
from hubbub.codebook._read import check_budget, read, read_collection, read_metric, resolve
from hubbub.codebook._total import MEMBER as _TOTAL
from hubbub.codebook._total import noted_total
from hubbub.errors import CodebookError, Finding, InvalidParameter, did_you_mean
from hubbub.mechanisms import Domain, Mechanism, mechanism
from hubbub.metric_types import metric_type, names
from hubbub.period import duration_text

__all__ = ["Codebook", "is_compiled", "read_file"]

FORMAT = "hubbub-codebook 1"
_COMPILED = "compiled codebook"
_DEEPEST = DEEPEST_NESTING - 3
"""Levels of a codebook: a bundle has three around it."""
_ORDER = "order"
"""The member of the collection's `notes` that holds the names of the metrics as metrics.toml lists them."""
_DERIVED = ("id", "name", "report_bytes", "share_threshold")


@dataclass(frozen=True, slots=True)
class Codebook:
    """A collection and its metrics, sorted by name."""

    collection: Collection
    metrics: tuple[Metric, ...]
    refused: Mapping[str, CodebookError] = field(default_factory=dict, compare=False)
    """The metrics of a received codebook that cannot be used here, by name, with the reason."""
    order: tuple[str, ...] = field(default=(), compare=False)
    """Names of the metrics as metrics.toml lists them, for display. Devices ignore it. Empty: by name."""
    notes_order: bool = field(default=False, compare=False)
    """Whether the compiled form says the order, under the collection's `notes`. Where it is by name, it is left out."""
    id: bytes = field(init=False)
    """Sixteen bytes of a hash of everything. Any edit changes it, even of a description."""
    _received: dict[str, Json] | None = field(init=False, default=None, repr=False, compare=False)
    """The document that a received codebook was read from. It is kept so that its bytes stay the same."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", _id(self._content()))

    @classmethod
    def load(cls, path: str | Path, solve: Solve | None = None) -> Self:
        """The codebook in a file: a metrics.toml, or the output of `hubbub codebook compile`. For `solve` see
        `from_toml`."""
        raw = read_file(path)
        if is_compiled(raw):
            return cls.from_compiled(raw)
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _error(str(path), f"is not UTF-8: {error}", "save it as UTF-8") from error
        return cls.from_toml(text, file=str(path), solve=solve)

    @classmethod
    def from_toml(cls, text: str, file: str = "metrics.toml", solve: Solve | None = None) -> Self:
        """The codebook in this text. CodebookError carries everything that is wrong with it.

        `solve` works out epsilons that the text leaves open (`hubbub.accounting.auto_epsilon`). Without it they are
        errors: a device or a service works out none.
        """
        try:
            document = tomllib.loads(text, parse_float=Decimal)
        except (ValueError, ArithmeticError, RecursionError) as error:
            raise _error(file, f"is not TOML: {error}", "correct the syntax there") from error
        collection, metrics = read(document, file, resolve, solve)
        in_order = tuple(metric.name for metric in metrics)
        return cls(collection, tuple(sorted(metrics, key=lambda metric: metric.name)), order=in_order)

    @classmethod
    def from_compiled(cls, compiled: bytes | Mapping[str, Json]) -> Self:
        """Rebuild from the compiled form and check privacy claims and ids again. CodebookError if any metric cannot be
        used."""
        codebook = cls.received(compiled)
        if codebook.refused:
            raise CodebookError([finding for error in codebook.refused.values() for finding in error.findings])
        try:
            total = noted_total(_notes(codebook._content()["collection"]))
        except InvalidParameter as error:
            raise _error(_COMPILED, error.problem, error.fix) from error
        object.__setattr__(codebook, "collection", replace(codebook.collection, total=total))
        return codebook

    @classmethod
    def received(cls, compiled: bytes | Mapping[str, Json]) -> Self:
        """The same for a device, which trusts no codebook. A metric that it does not understand, or whose claims do not
        hold, goes into `refused`; the others stay in use. CodebookError if the codebook itself is at fault."""
        try:
            document: Any = read_json(compiled, _DEEPEST) if isinstance(compiled, bytes) else dict(compiled)
            content = {name: value for name, value in document.items() if name != "id"}
            is_whole = document["id"] == _id(content).hex()
            metrics = _by_name(document["metrics"])
            head = _without_notes(content)
            written, order = _without_notes(document["collection"]), _noted_order(document["collection"])
            tables = {"collection": _collection_table(dict(written))}
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            raise _tampered(f"is not a compiled codebook: {type(error).__name__}: {error}") from error
        if not is_whole:
            raise _tampered("does not match its own id, so it was changed after it was compiled")
        if head.get("format") != FORMAT:
            raise _tampered(f"has the format {head.get('format')!r}, but this software reads {FORMAT!r}")
        if unknown := head.keys() - {"format", "collection", "metrics"}:
            raise _tampered(f"has members that this software does not know: {', '.join(sorted(unknown))}")
        collection = read_collection(tables, _COMPILED)
        if canonical_bytes(collection.document()) != canonical_bytes(written):
            raise _tampered("has a collection that is not written as this software compiles it")
        kept, refused = [], {}
        for name, metric in metrics.items():
            try:
                kept.append(_rebuilt(name, metric, collection))
            except CodebookError as error:
                refused[name] = error
        check_budget(collection, kept, _COMPILED)
        codebook = cls(collection, tuple(kept), refused, order, notes_order=bool(order))
        object.__setattr__(codebook, "_received", content)
        object.__setattr__(codebook, "id", _id(content))
        return codebook

    def compiled(self) -> dict[str, Json]:
        """The codebook as JSON, with nothing left to decide. Devices and services work from this."""
        return {"id": self.id.hex(), **self._content()}

    def to_bytes(self) -> bytes:
        """The compiled form as canonical JSON."""
        return canonical_bytes(self.compiled())

    def metric(self, name: str) -> Metric:
        """The metric of this name, or InvalidParameter that suggests the nearest one."""
        names = {metric.name: metric for metric in self.metrics}
        if name in names:
            return names[name]
        raise InvalidParameter(f"no metric is named {name!r}: {did_you_mean(name, names) or 'see the codebook'}")

    @property
    def in_file_order(self) -> tuple[Metric, ...]:
        """The metrics as metrics.toml lists them, for display. Devices work in the order of the names."""
        place = {name: number for number, name in reversed(list(enumerate(self.order)))}
        return tuple(sorted(self.metrics, key=lambda metric: (place.get(metric.name, len(place)), metric.name)))

    @property
    def spent(self) -> Fraction:
        """What the enabled metrics spend per device and period."""
        return total_epsilon(self.metrics)

    def with_min_batch(self, min_batch_of: Callable[[Metric], int]) -> Self:
        """The codebook with every open `min_batch` filled in. No metric's id changes."""
        return replace(
            self,
            metrics=tuple(
                metric if metric.min_batch is not None else replace(metric, min_batch=min_batch_of(metric))
                for metric in self.metrics
            ),
        )

    def _content(self) -> dict[str, Json]:
        if self._received is not None:
            return self._received
        names = [metric.name for metric in self.in_file_order]
        notes: dict[str, Json] = {_ORDER: list(names)} if self.notes_order and names != sorted(names) else {}
        if self.collection.total is not None:
            notes[_TOTAL] = self.collection.total.document()
        return {
            "format": FORMAT,
            "collection": {**self.collection.document(), **({"notes": notes} if notes else {})},
            "metrics": [metric.document() for metric in self.metrics],
        }


def read_file(path: str | Path) -> bytes:
    """The bytes of a codebook file, or a CodebookError that says why it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise _error(str(path), f"cannot be read: {error.strerror}", "check the path and its permissions") from error


def is_compiled(raw: bytes) -> bool:
    """Whether these bytes are a compiled codebook, or meant to be one. No TOML file starts with a brace."""
    return raw.lstrip().startswith(b"{")


def _id(content: dict[str, Json]) -> bytes:
    return digest("hubbub-01 codebook", content)[:ID_BYTES]


def _without_notes(document: Mapping[str, Json]) -> dict[str, Json]:
    """The members that matter here. A newer version may add things under `notes`, which can be ignored."""
    if not isinstance(document.get("notes", {}), dict):
        raise ValueError("notes: expected an object")
    return {name: value for name, value in document.items() if name != "notes"}


def _notes(collection: object) -> Mapping[str, Json]:
    notes = collection.get("notes") if isinstance(collection, Mapping) else None
    return notes if isinstance(notes, dict) else {}


def _noted_order(collection: Mapping[str, Json]) -> tuple[str, ...]:
    """The order in the collection's `notes`, or nothing if there is none that can be used: it is only for display."""
    order = _notes(collection).get(_ORDER)
    return tuple(name for name in order if isinstance(name, str)) if isinstance(order, list) else ()


def _by_name(metrics: list[dict[str, Json]]) -> dict[str, dict[str, Json]]:
    names = [name for metric in metrics if isinstance(name := metric["name"], str)]
    if not names or len(names) != len(metrics):
        raise ValueError("a metric has no name")
    if names != sorted(set(names)):
        raise ValueError("its metrics are not sorted by name")
    return dict(zip(names, metrics, strict=True))


def _collection_table(collection: dict[str, Any]) -> dict[str, object]:
    """The compiled collection as the TOML table that it came from, so that one reader checks both forms."""
    for name in ("period", "grace", "forward_horizon"):
        collection[name] = duration_text(collection[name])
    if "delay" in collection:
        collection["delay"] = duration_text(collection["delay"])
    for name in ("device_epsilon", "honest_fraction"):
        collection[name] = Decimal(collection[name])
    collection["release"] = {name: Decimal(text) for name, text in collection["release"].items()}
    return collection


def _rebuilt(name: str, document: dict[str, Json], collection: Collection) -> Metric:
    """One metric of a compiled codebook, or a CodebookError that says why it cannot be used."""
    try:
        known = _without_notes(document)
        table = _metric_table(known)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise _tampered(f"has an unreadable metric {name!r}: {type(error).__name__}: {error}") from error
    metric = read_metric(name, table, collection, _COMPILED, _rebuild)
    if canonical_bytes(metric.document()) != canonical_bytes(known):
        raise _tampered(f"has a metric {name!r} that is not written as this software compiles it, or has another id")
    notes = document.get("notes")
    is_public = isinstance(notes, dict) and notes.get("public") is True
    return replace(metric, chosen_for=chosen_for(notes), public=is_public)


def _metric_table(metric: Any) -> dict[str, object]:
    table = {name: value for name, value in metric.items() if value is not None and name not in _DERIVED}
    table["epsilon"], table["share"] = Decimal(table["epsilon"]), Decimal(table["share"])
    if "expires" in table:
        table["expires"] = date.fromisoformat(table["expires"])
    return metric_type(table["type"]).restored(table) if table.get("type") in names() else table


def _rebuild(written: Any, epsilon: Fraction, domain: Domain, _report_bytes: int | None) -> Mechanism[Any]:
    """The mechanism of a compiled metric, from its integers. `from_parameters` checks the privacy claim."""
    if not isinstance(written, Mapping) or set(written) != {"name", "parameters"}:
        raise InvalidParameter(f"expected a name and parameters, got {written!r}")
    return mechanism(written["name"]).from_parameters(epsilon, domain, written["parameters"])


def _error(file: str, problem: str, fix: str) -> CodebookError:
    return CodebookError([Finding(file, "", problem, fix)])


def _tampered(problem: str) -> CodebookError:
    return _error(_COMPILED, problem, "fetch it again, or compile metrics.toml again")
