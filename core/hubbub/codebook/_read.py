"""Reader of a codebook's TOML tables. It finds everything that is wrong in one go."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from hubbub.codebook._metric import Collection, Metric, total_epsilon
from hubbub.codebook._open_epsilon import (
    ChosenFor,
    Expected,
    OpenMetric,
    Solve,
    is_open,
    read_expected,
    read_wish,
    refuse_above_cap,
    the_epsilon,
)
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
from hubbub.codebook._toml_values import a_delay, a_name, above_zero, at_most_one, below_one, tame
from hubbub.codebook._total import read_total
from hubbub.errors import CodebookError, HubbubError, InvalidParameter, did_you_mean
from hubbub.mechanisms import REPORT_BYTES, Domain, Mechanism, choose, fitting, mechanism
from hubbub.metric_types import LATER, metric_type, names
from hubbub.metric_types._exact_numbers import decimal_text
from hubbub.period import Calendar, duration_seconds
from hubbub.reduce import REDUCERS

if TYPE_CHECKING:
    from hubbub.metric_types import Declared, MetricType

__all__ = ["Build", "check_budget", "read", "read_collection", "read_metric", "resolve"]

Build: TypeAlias = Callable[[object, Fraction, Domain, int | None], Mechanism[Any]]
"""(the `mechanism` key or None, epsilon, domain, longest report) -> the mechanism."""

LARGEST_BATCH = 1_000_000
_COUNTS = frozenset({"counter", "sum", "total", "integer", "int", "number"})
"""What other products call the type of a number of events."""
DEFAULT_HONEST = Fraction(9, 10)
DEFAULT_FORWARD_HORIZON = duration_seconds("7d")


def read(
    document: Mapping[str, object], file: str, build: Build, solve: Solve | None = None
) -> tuple[Collection, tuple[Metric, ...]]:
    """The codebook in a parsed file, its metrics as listed there, or CodebookError with every finding.

    `solve` works out open epsilons. Without it they are findings.
    """
    findings = Findings(file)
    for name in document:
        if name not in ("collection", "metrics"):
            near = did_you_mean(name, ("collection", "metrics"))
            findings.add(key_path("", name), "there is no such table", near or "use [collection] and [metrics.NAME]")
    collection, expected = _collection(_table(document, "collection", findings), findings)
    found = [
        metric
        for name, content in _table(document, "metrics", findings).items()
        if (metric := _metric(name, content, collection, findings, build, expected)) is not None
    ]
    if not document.get("metrics"):
        findings.add("metrics", "no metric is defined", "add a table such as [metrics.dark_mode]")
    metrics = _with_epsilons(collection, found, findings, solve)
    if collection is not None and not findings.found:
        _check_budget(collection, metrics, findings)
    if findings.found or collection is None:
        raise CodebookError(findings.found)
    return collection, tuple(metrics)


def read_collection(document: Mapping[str, object], file: str) -> Collection:
    """The collection alone, or CodebookError with every finding."""
    findings = Findings(file)
    collection, _ = _collection(_table(document, "collection", findings), findings)
    if findings.found or collection is None:
        raise CodebookError(findings.found)
    return collection


def read_metric(name: str, content: object, collection: Collection, file: str, build: Build) -> Metric:
    """One metric alone, or CodebookError with every finding."""
    findings = Findings(file)
    metric = _metric(name, content, collection, findings, build, None)
    if findings.found or not isinstance(metric, Metric):
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


def _collection(content: Mapping[str, object], findings: Findings) -> tuple[Collection | None, Expected]:
    table = Table(content, "collection", findings, COLLECTION)
    name = table.need("name", a_name(r"[a-z][a-z0-9_-]{0,63}"))
    calendar = table.need("period", Calendar.parse)
    grace = table.take("grace", duration_seconds, calendar.seconds if calendar else 0)
    delay = table.take("delay", a_delay(grace), None)
    forward_horizon = table.take("forward_horizon", duration_seconds, DEFAULT_FORWARD_HORIZON)
    device_epsilon = table.need("device_epsilon", above_zero)
    honest = table.take("honest_fraction", at_most_one, DEFAULT_HONEST)
    expected, total = read_expected(table), read_total(table)
    release = table.need("release", a_table)
    inner = Table(release or {}, "collection.release", findings, RELEASE)
    epsilon = inner.need("epsilon", above_zero) if release is not None else None
    delta = inner.need("delta", below_one) if release is not None else None
    if name is None or calendar is None or device_epsilon is None or epsilon is None or delta is None:
        return None, expected
    rules = (grace, forward_horizon, device_epsilon, epsilon, delta, honest, delay, total)
    found = Collection(name, calendar, *rules)
    return found, expected


def _with_epsilons(
    collection: Collection | None, found: Sequence[Metric | OpenMetric], findings: Findings, solve: Solve | None
) -> list[Metric]:
    """The metrics, with open epsilons worked out. Where anything is wrong, those that had one."""
    metrics = [metric for metric in found if isinstance(metric, Metric)]
    still_open = [metric for metric in found if isinstance(metric, OpenMetric)]
    if solve is None:
        for metric in still_open:
            fix = "run `hubbub codebook compile`, and use the codebook.json that it writes"
            findings.add(f"{metric.key}.epsilon", "is left to be worked out, which happens once, while compiling", fix)
    if not still_open or solve is None or collection is None or findings.found:
        return metrics
    solved = solve(collection, metrics, still_open, findings)
    if findings.found:
        return metrics
    return [
        replace(one.finish(solved[one.name]), chosen_for=ChosenFor.of(one)) if isinstance(one, OpenMetric) else one
        for one in found
    ]


def _metric(
    name: str,
    content: object,
    collection: Collection | None,
    findings: Findings,
    build: Build,
    expected: Expected | None,
) -> Metric | OpenMetric | None:
    """`expected`: None for a compiled metric, which has nothing left to work out."""
    path, before = key_path("metrics", name), len(findings.found)
    if not isinstance(content, Mapping):
        findings.add(path, f"expected a table, got {content!r}", f"write it as [{path}]")
        return None
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name):
        findings.add(
            path,
            "a metric's name is a lower-case letter, then letters, digits or _, at most 64 characters",
            f"rename it, for example to {tame(name)!r}",
        )
    table = Table(content, path, findings)
    values = _values(table)
    wish = None if expected is None else read_wish(table, expected)
    is_left_open = wish is not None and is_open(content)
    epsilon = None if is_left_open else table.need("epsilon", the_epsilon)
    if wish is not None and epsilon is not None:
        refuse_above_cap(table, epsilon, wish.cap)
    share = table.take("share", at_most_one, Fraction(1))
    report_bytes = table.take("report_bytes", whole_number(1, 2**20), None)
    remarks: dict[str, Any] = {
        "min_batch": table.take("min_batch", whole_number(2, LARGEST_BATCH), None),
        "enabled": table.take("enabled", a_flag, default=True),
        "description": table.take("description", a_text, ""),
        "owner": table.take("owner", a_text, ""),
        "expires": table.take("expires", a_date, None),
        "public": table.take("public", a_flag, default=False),
    }
    if table.take("memoize", a_flag, default=False):
        table.fault("memoize", "memoized metrics are not supported yet", "remove it, or set it to false")
    if values is None:
        return None
    reduce = table.take("reduce", _reducer_of(values), values.reducers[0])
    missing: Declared | None = table.take("missing", values.declared, None)
    only = _named(table, values) if is_left_open else None
    built = None if epsilon is None else _mechanism(table, values, epsilon, report_bytes, build)
    if collection is None or len(findings.found) > before:
        return None
    rest, remarks["wish"] = (reduce, share, missing), wish
    if wish is not None and is_left_open:
        limit = report_bytes if report_bytes is not None or only else REPORT_BYTES

        def finish(found: Mechanism[Any]) -> Metric:
            return Metric(collection.name, collection.calendar, name, values, found, *rest, **remarks)

        return OpenMetric(name, path, values, share, remarks["enabled"], limit, only, wish, finish)
    if built is None:
        return None
    return Metric(collection.name, collection.calendar, name, values, built, *rest, **remarks)


def _named(table: Table, values: MetricType) -> str | None:
    """The mechanism that a metric with an open epsilon names."""
    written = table.content.get("mechanism")
    name = written.get("name") if isinstance(written, Mapping) else written
    if name is None:
        return None
    try:
        if not isinstance(name, str):
            raise InvalidParameter(f"expected a name, got {name!r}")
        if mechanism(name, values.domain).needs_options:
            raise InvalidParameter(f"{name} has its epsilon from what a person designs", "write that epsilon")
    except InvalidParameter as error:
        fix = f"use one of {', '.join(fitting(values.domain))}, or leave it out"
        table.fault("mechanism", error.problem, error.fix or fix)
    return name if isinstance(name, str) else None


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
