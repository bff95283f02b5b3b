"""Reader of a codebook's TOML tables. It finds everything that is wrong in one go."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from hubbub.codebook._metric import Collection, Metric, total_epsilon
from hubbub.codebook._toml_keys import COLLECTION, METRIC, RELEASE, metric_keys
from hubbub.codebook._toml_table import (
    Findings,
    Table,
    a_date,
    a_flag,
    a_table,
    a_text,
    key_path,
    one_of,
    whole_number,
)
from hubbub.errors import CodebookError, HubbubError, InvalidParameter, did_you_mean
from hubbub.mechanisms import REPORT_BYTES, Domain, Mechanism, choose, fitting, mechanism
from hubbub.mechanisms._exact_arithmetic import exact_epsilon
from hubbub.metric_types import LATER, metric_type, names
from hubbub.metric_types._exact_numbers import decimal_text, exact
from hubbub.period import Calendar, duration_seconds, duration_text
from hubbub.reduce import REDUCERS

if TYPE_CHECKING:
    from hubbub.metric_types import Declared, MetricType

__all__ = ["Build", "check_budget", "read", "read_collection", "read_metric", "resolve"]

Build: TypeAlias = Callable[[object, Fraction, Domain, int | None], Mechanism[Any]]
"""(the `mechanism` key or None, epsilon, domain, longest report) -> the mechanism."""

LARGEST_BATCH = 1_000_000
_COUNTS = frozenset({"count", "counter", "sum", "total", "integer", "int", "number"})
"""What other products call the type of a number of events."""
DEFAULT_HONEST = Fraction(9, 10)
DEFAULT_FORWARD_HORIZON = duration_seconds("7d")


def read(document: Mapping[str, object], file: str, build: Build) -> tuple[Collection, tuple[Metric, ...]]:
    """The codebook in a parsed file, its metrics as listed there, or CodebookError with every finding."""
    findings = Findings(file)
    for name in document:
        if name not in ("collection", "metrics"):
            near = did_you_mean(name, ("collection", "metrics"))
            findings.add(key_path("", name), "there is no such table", near or "use [collection] and [metrics.NAME]")
    collection = _collection(_table(document, "collection", findings), findings)
    metrics = [
        metric
        for name, content in _table(document, "metrics", findings).items()
        if (metric := _metric(name, content, collection, findings, build)) is not None
    ]
    if not document.get("metrics"):
        findings.add("metrics", "no metric is defined", "add a table such as [metrics.dark_mode]")
    if collection is not None:
        _check_budget(collection, metrics, findings)
    if findings.found or collection is None:
        raise CodebookError(findings.found)
    return collection, tuple(metrics)


def read_collection(document: Mapping[str, object], file: str) -> Collection:
    """The collection alone, or CodebookError with every finding."""
    findings = Findings(file)
    collection = _collection(_table(document, "collection", findings), findings)
    if findings.found or collection is None:
        raise CodebookError(findings.found)
    return collection


def read_metric(name: str, content: object, collection: Collection, file: str, build: Build) -> Metric:
    """One metric alone, or CodebookError with every finding."""
    findings = Findings(file)
    metric = _metric(name, content, collection, findings, build)
    if findings.found or metric is None:
        raise CodebookError(findings.found)
    return metric


def check_budget(collection: Collection, metrics: list[Metric], file: str) -> None:
    """Raise CodebookError if the metrics together spend more than the collection allows a device."""
    findings = Findings(file)
    _check_budget(collection, metrics, findings)
    if findings.found:
        raise CodebookError(findings.found)


def resolve(written: object, epsilon: Fraction, domain: Domain, report_bytes: int | None) -> Mechanism[Any]:
    """The mechanism that a metric names, or the best one that fits."""
    if written is None:
        return choose(domain, epsilon, REPORT_BYTES if report_bytes is None else report_bytes)
    if not isinstance(written, str | Mapping):
        fix = f"use one of {', '.join(fitting(domain))}, in quotes"
        raise InvalidParameter(f"expected a name or a table, got {written!r}", fix)
    options = {"name": written} if isinstance(written, str) else dict(written)
    name = options.pop("name", None)
    if not isinstance(name, str):
        fix = f'add name = "...", one of {", ".join(fitting(domain))}'
        raise InvalidParameter("the table does not name a mechanism", fix)
    built = mechanism(name, domain).calibrate(epsilon, domain, **options)
    if report_bytes is not None and built.report_bytes > report_bytes:
        raise InvalidParameter(
            f"a report of {built.name} takes {built.report_bytes} bytes, above `report_bytes`",
            f"raise report_bytes to {built.report_bytes}, or leave the mechanism out",
        )
    return built


def _table(document: Mapping[str, object], name: str, findings: Findings) -> Mapping[str, object]:
    content = document.get(name, {})
    if isinstance(content, Mapping):
        return content
    findings.add(name, f"expected a table, got {content!r}", f"write it as [{name}]")
    return {}


def _collection(content: Mapping[str, object], findings: Findings) -> Collection | None:
    table = Table(content, "collection", findings, COLLECTION)
    name = table.need("name", _name(r"[a-z][a-z0-9_-]{0,63}"))
    calendar = table.need("period", Calendar.parse)
    grace = table.take("grace", duration_seconds, calendar.seconds if calendar else 0)
    delay = table.take("delay", _delay(grace), None)
    forward_horizon = table.take("forward_horizon", duration_seconds, DEFAULT_FORWARD_HORIZON)
    device_epsilon = table.need("device_epsilon", _above_zero)
    honest = table.take("honest_fraction", _fraction, DEFAULT_HONEST)
    release = table.need("release", a_table)
    inner = Table(release or {}, "collection.release", findings, RELEASE)
    epsilon = inner.need("epsilon", _above_zero) if release is not None else None
    delta = inner.need("delta", _below_one) if release is not None else None
    if name is None or calendar is None or device_epsilon is None or epsilon is None or delta is None:
        return None
    return Collection(name, calendar, grace, forward_horizon, device_epsilon, epsilon, delta, honest, delay)


def _metric(
    name: str, content: object, collection: Collection | None, findings: Findings, build: Build
) -> Metric | None:
    path, before = key_path("metrics", name), len(findings.found)
    if not isinstance(content, Mapping):
        findings.add(path, f"expected a table, got {content!r}", f"write it as [{path}]")
        return None
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name):
        findings.add(
            path,
            "a metric's name is a lower-case letter, then letters, digits or _, at most 64 characters",
            f"rename it, for example to {_tame(name)!r}",
        )
    table = Table(content, path, findings)
    values = _values(table)
    epsilon = table.need("epsilon", lambda value: exact_epsilon(exact(value)))
    share = table.take("share", _fraction, Fraction(1))
    report_bytes = table.take("report_bytes", whole_number(1, 2**20), None)
    remarks: dict[str, Any] = {
        "min_batch": table.take("min_batch", whole_number(2, LARGEST_BATCH), None),
        "enabled": table.take("enabled", a_flag, default=True),
        "description": table.take("description", a_text, ""),
        "owner": table.take("owner", a_text, ""),
        "expires": table.take("expires", a_date, None),
    }
    if table.take("memoize", a_flag, default=False):
        table.fault("memoize", "memoized metrics are not supported yet", "remove it, or set it to false")
    if values is None:
        return None
    reduce = table.take("reduce", _reducer_of(values), values.reducers[0])
    missing: Declared | None = table.take("missing", values.declared, None)
    if epsilon is None:
        return None
    built = _mechanism(table, values, epsilon, report_bytes, build)
    if built is None or collection is None or len(findings.found) > before:
        return None
    return Metric(collection.name, collection.calendar, name, values, built, reduce, share, missing, **remarks)


def _reducer_of(values: MetricType) -> Callable[[object], str]:
    def read_reducer(value: object) -> str:
        if isinstance(value, str) and value in REDUCERS and value not in values.reducers:
            problem = f"{value} has no meaning for a {values.type} metric"
            raise InvalidParameter(problem, f"use one of {', '.join(values.reducers)}")
        return one_of(values.reducers)(value)

    return read_reducer


def _values(table: Table) -> MetricType | None:
    """What the metric may hold, as read by its type."""
    kind = table.need("type", _type)
    if kind is None:
        table.allow(metric_keys())
        return None
    found = metric_type(kind)
    table.allow((*METRIC, *found.keys), lambda: {key.name: f"a {kind} metric has no such key" for key in metric_keys()})
    return found.read(table)


def _type(value: object) -> str:
    if value in LATER:
        fix = f"use one of {', '.join(names())}, or wait for a later version"
        raise InvalidParameter(f"metrics of type {value} are not supported yet", fix)
    if isinstance(value, str) and value.lower() in _COUNTS:
        fix = 'write type = "mean", reduce = "sum", bounds = [0, MOST] and missing = 0: MOST caps what one device adds'
        raise InvalidParameter(f"{value!r} is not a type: a count is the mean of what each device counted", fix)
    return one_of(names())(value)


def _mechanism(
    table: Table, values: MetricType, epsilon: Fraction, report_bytes: int | None, build: Build
) -> Mechanism[Any] | None:
    written, fix = table.content.get("mechanism"), ""
    try:
        return build(written, epsilon, values.domain, report_bytes)
    except InvalidParameter as error:
        problem, fix = error.problem, error.fix
    except HubbubError as error:
        problem = str(error)
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        problem = f"an option is of the wrong kind: {error}"
    at_fault = next((name for name in ("mechanism", "report_bytes") if name in table.content), "epsilon")
    if at_fault == "mechanism" and not fix:  # the key's own text names a mechanism that may not fit this metric
        fix = f"use one of {', '.join(fitting(values.domain))}" if isinstance(written, str) else "correct its options"
        fix += ", or leave it out"
    table.fault(at_fault, problem, fix or None)
    return None


def _check_budget(collection: Collection, metrics: list[Metric], findings: Findings) -> None:
    spent = total_epsilon(metrics)
    if spent > collection.device_epsilon:
        findings.add(
            "collection.device_epsilon",
            f"the enabled metrics spend {decimal_text(spent)} per device and period, "
            f"more than {decimal_text(collection.device_epsilon)}",
            f"raise it to {decimal_text(spent)}, lower an epsilon, or set enabled = false on a metric",
        )


def _name(pattern: str) -> Callable[[object], str]:
    def read_name(value: object) -> str:
        if not re.fullmatch(pattern, a_text(value)):
            raise InvalidParameter(f"{value!r} is not a usable name")
        return a_text(value)

    return read_name


def _tame(name: str) -> str:
    """A usable name close to one that is not usable."""
    tame = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:60]
    return tame if tame[:1].isalpha() else f"m_{tame}".rstrip("_")


def _delay(grace: int) -> Callable[[object], int]:
    def read_delay(value: object) -> int:
        seconds = duration_seconds(value)
        if 2 * seconds > grace:
            raise InvalidParameter(
                f"a delay of {duration_text(seconds)} is more than half the grace of {duration_text(grace)}: "
                "the other half is needed to retry a report that was sent late",
                f'use "{duration_text(max(grace // 2, 1))}" or less, or a longer grace',
            )
        return seconds

    return read_delay


def _above_zero(value: object) -> Fraction:
    number = exact(value)
    if number <= 0:
        raise InvalidParameter(f"expected a number above 0, got {value}")
    return number


def _below_one(value: object) -> Fraction:
    number = _above_zero(value)
    if number >= 1:
        raise InvalidParameter(f"expected a number below 1, got {value}")
    return number


def _fraction(value: object) -> Fraction:
    number = _above_zero(value)
    if number > 1:
        raise InvalidParameter(f"expected a number above 0 and at most 1, got {value}")
    return number
