"""tests/vectors/v1/received.json: compiled codebooks as they reach a device, and which metrics it can use of them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from hubbub.canonical import canonical_bytes, digest
from hubbub.codebook import Codebook
from hubbub.errors import CodebookError
from scripts.vectors.codebook import EVERY_TYPE, SMALLEST

__all__ = ["received", "usable"]

_Change = Callable[[dict[str, Any]], object]
_WHOLE = "whole"
_TOML = """
[collection]
name = "a"
period = "1d"
device_epsilon = 3
release = { epsilon = 1, delta = 1e-8 }

[metrics.flag]
type = "boolean"
epsilon = 1
min_batch = 100

[metrics.number]
type = "mean"
bounds = [0, 100]
missing = 0
epsilon = 1
mechanism = "duchi"
min_batch = 100

[metrics.word]
type = "category"
values = ["x", "y", "\u00e9"]
epsilon = 1
mechanism = "krr"
min_batch = 100
expires = 2030-01-31
"""
_NAMES = ("flag", "number", "word")
_UNITS = {
    "ms": "letters",
    "% of 20": "a space inside",
    "\u00b5s \u00b0C m\u00b2 \u2030 \u20ac": "signs",
    "\u5186": "Chinese",
}
_LONGEST_UNIT = (
    "\u00a1\u05ff\u0606\u061b\u061d\u1fff\u2010\u2027\u2030\u205e\u2070\u2fff\u3001\ud7ff\uf900\ufefe\uff00\uffef~."
)
"""Twenty characters, most of them next to one that a unit may not have."""
_NOT_IN_A_UNIT = [0x00, 0x0A, 0x1F, 0x7F, 0x85, 0xA0, 0xAD, 0x600, 0x605, 0x61C, 0x6DD, 0x70F, 0x890, 0x891, 0x8E2]
_NOT_IN_A_UNIT += [0x1680, 0x180E, 0x2000, 0x200B, 0x200F, 0x2028, 0x202E, 0x202F, 0x205F, 0x206F, 0x3000]
_NOT_IN_A_UNIT += [0xE000, 0xF8FF, 0xFEFF, 0xFFF0, 0xFFFD, 0xFFFF, 0x10000, 0x1F600, 0xE0001, 0x10FFFF]


def received() -> list[dict[str, Any]]:
    return list(_cases())


def usable(compiled: str) -> dict[str, Any]:
    """What a device makes of a compiled codebook: the names of the metrics that it uses, and of those it refuses."""
    try:
        codebook = Codebook.received(compiled.encode("ascii"))
    except CodebookError:
        return {"refused": _WHOLE}
    return {"refused": sorted(codebook.refused), "used": {metric.name: metric.id.hex() for metric in codebook.metrics}}


def _cases() -> Iterator[dict[str, Any]]:
    for what, wanted, compiled in [*_good(), *_whole(), *_metrics()]:
        made = usable(compiled)
        if made["refused"] != wanted:
            raise AssertionError(f"{what}: {made} instead of {wanted}")
        yield {"what": what, "compiled": compiled, **made}


def _changed(change: _Change, *more: str, new_metric_ids: bool = True, new_id: bool = True) -> str:
    """A codebook of `flag` and `more` metrics after a change, under the ids that who changed it would compute."""
    document: dict[str, Any] = copy.deepcopy(Codebook.from_toml(_TOML).compiled())
    document["metrics"] = [metric for metric in document["metrics"] if metric["name"] in ("flag", *more)]
    change(document)
    if new_metric_ids:
        for metric in document["metrics"]:
            if isinstance(metric, dict) and "id" in metric:
                metric["id"] = _metric_id(document, metric)
    if new_id:
        content = {name: member for name, member in document.items() if name != "id"}
        document["id"] = digest("hubbub-01 codebook", content)[:16].hex()
    return canonical_bytes(document).decode("ascii")


def _metric_id(document: dict[str, Any], metric: dict[str, Any]) -> str:
    """By whatever members the metric has."""
    remarks = {"id", "min_batch", "enabled", "description", "owner", "expires", "unit", "notes"}
    identity = {name: member for name, member in metric.items() if name not in remarks}
    collection = document["collection"]
    whole = {"collection": collection.get("name"), "period": collection.get("period"), **identity}
    return digest("hubbub-01 metric", whole)[:16].hex()


def _at(*path: Any, to: Any) -> _Change:
    def change(document: dict[str, Any]) -> None:
        node: Any = document
        for step in path[:-1]:
            node = node[step]
        node[path[-1]] = to

    return change


def _less(*path: Any) -> _Change:
    def change(document: dict[str, Any]) -> None:
        node: Any = document
        for step in path[:-1]:
            node = node[step]
        del node[path[-1]]

    return change


def _good() -> Iterator[tuple[str, Any, str]]:
    good: dict[str, _Change] = {
        "as it was compiled": lambda _: None,
        "a delay": _at("collection", "delay", to=3_600),
        "notes of the codebook": _at("notes", to={"colour": ["red", 7, None]}),
        "notes of the collection": _at("collection", "notes", to={}),
        "notes of a metric": _at("metrics", 0, "notes", to={"a": {"b": "\u00e9"}}),
        "a description and an owner": lambda d: d["metrics"][0].update(description="\u007f\u0000", owner="someone"),
        "a metric that is not enabled, beyond the budget": lambda d: (
            d["metrics"][0].update(enabled=False),
            d["collection"].update(device_epsilon="2"),
        ),
        "no min_batch": _at("metrics", 0, "min_batch", to=None),
        **{f"a unit with {what}": _at("metrics", 1, "unit", to=unit) for unit, what in _UNITS.items()},
        "the longest unit": _at("metrics", 1, "unit", to=_LONGEST_UNIT),
    }
    for what, change in good.items():
        yield what, [], _changed(change, *_NAMES)
    for toml, what in ((EVERY_TYPE, "every type"), (SMALLEST, "the smallest codebook")):
        yield what, [], Codebook.from_toml(toml).to_bytes().decode("ascii")


def _whole() -> Iterator[tuple[str, str, str]]:
    """Faults of the codebook itself: nothing of it is used."""
    changes: dict[str, _Change] = {
        "another format": _at("format", to="hubbub-codebook 2"),
        "a member that nobody knows": _at("colour", to="red"),
        "notes that are text": _at("notes", to="red"),
        "notes of the collection that are a list": _at("collection", "notes", to=[]),
        "a member of the collection that nobody knows": _at("collection", "colour", to="red"),
        "a delay that is null": _at("collection", "delay", to=None),
        "a delay of nothing": _at("collection", "delay", to=0),
        "a delay above half the grace": _at("collection", "delay", to=43_201),
        "no metric": _at("metrics", to=[]),
        "metrics in another order": lambda d: d["metrics"].append(d["metrics"][0] | {"name": "a"}),
        "a metric twice": lambda d: d["metrics"].insert(0, d["metrics"][0]),
        "metrics that are an object": _at("metrics", to={}),
        "a metric without a name": _less("metrics", 0, "name"),
        "a metric that is a number": _at("metrics", 0, to=7),
        "metrics that spend more than the collection allows": _at("collection", "device_epsilon", to="0.99"),
        "a period that does not divide a day": _at("collection", "period", to=25_200),
        "a name in capitals": _at("collection", "name", to="A"),
        "a number that is not in its shortest form": _at("collection", "device_epsilon", to="3.0"),
        "a number with an exponent": _at("collection", "device_epsilon", to="3e0"),
        "a number that is a number": _at("collection", "device_epsilon", to=3),
        "an honest fraction above one": _at("collection", "honest_fraction", to="1.01"),
        "a delta of one": _at("collection", "release", "delta", to="1"),
        "a release with a member more": _at("collection", "release", "colour", to="red"),
        **{
            f"no {name}": _less(*path, name)
            for path, name in (
                *(((), name) for name in ("format", "collection", "metrics")),
                *((("collection",), name) for name in ("name", "period", "grace", "forward_horizon")),
                *((("collection",), name) for name in ("device_epsilon", "release", "honest_fraction")),
            )
        },
    }
    for what, change in changes.items():
        ids = what not in {"a metric that is a number", "metrics that are an object", "no metrics", "no collection"}
        yield what, _WHOLE, _changed(change, new_metric_ids=ids)
    yield "an id that does not fit", _WHOLE, _changed(_at("id", to="00" * 16), new_id=False)
    yield "an edit under the old id", _WHOLE, _changed(_at("metrics", 0, "owner", to="me"), new_id=False)
    yield "no id", _WHOLE, _changed(_less("id"), new_id=False)


def _metrics() -> Iterator[tuple[str, list[str], str]]:
    """Faults of one metric: it is refused, and the others are used."""
    flag, number, word = (("metrics", place) for place in (0, 1, 1))
    changes: list[tuple[str, str, _Change]] = [
        ("a member that nobody knows", "flag", _at(*flag, "colour", to="red")),
        ("notes that are text", "flag", _at(*flag, "notes", to="red")),
        ("an unknown type", "flag", _at(*flag, "type", to="histogram")),
        ("an unknown mechanism", "flag", _at(*flag, "mechanism", "name", to="later")),
        ("a mechanism that does not fit the values", "flag", _at(*flag, "mechanism", to=_document(1)["mechanism"])),
        ("an unknown reducer", "flag", _at(*flag, "reduce", to="later")),
        ("a reducer that does not fit", "flag", _at(*flag, "reduce", to="mean")),
        ("a report of another length", "flag", _at(*flag, "report_bytes", to=2)),
        ("a keep that breaks epsilon by one", "flag", _keep_more),
        ("a keep that is no better than a coin", "flag", _at(*flag, "mechanism", "parameters", "keep", to=str(2**63))),
        ("a parameter as a number", "flag", _at(*flag, "mechanism", "parameters", "keep", to=2**53 - 1)),
        ("a parameter with a zero in front", "flag", _zero_in_front),
        ("a parameter more", "flag", _at(*flag, "mechanism", "parameters", "colour", to="1")),
        ("a mechanism with a member more", "flag", _at(*flag, "mechanism", "colour", to="red")),
        ("an epsilon below what runs", "flag", _at(*flag, "epsilon", to="0.9")),
        ("an epsilon above the largest", "flag", _at(*flag, "epsilon", to="31")),
        ("an epsilon that is not in its shortest form", "flag", _at(*flag, "epsilon", to="1.0")),
        ("a share of nothing", "flag", _at(*flag, "share", to="0")),
        ("a share above one", "flag", _at(*flag, "share", to="1.5")),
        ("a share threshold that does not fit the share", "flag", _at(*flag, "share", to="0.5")),
        ("a share threshold as a number", "flag", _at(*flag, "share_threshold", to=1)),
        ("memoize", "flag", _at(*flag, "memoize", to=True)),
        ("enabled is null", "flag", _at(*flag, "enabled", to=None)),
        ("a min_batch of one", "flag", _at(*flag, "min_batch", to=1)),
        ("a min_batch above a million", "flag", _at(*flag, "min_batch", to=1_000_001)),
        ("a description that is null", "flag", _at(*flag, "description", to=None)),
        ("a day that does not exist", "flag", _at(*flag, "expires", to="2027-02-29")),
        ("a day without dashes", "flag", _at(*flag, "expires", to="20270228")),
        ("a missing that the type does not have", "flag", _at(*flag, "missing", to="yes")),
        ("bounds the wrong way round", "number", _at(*number, "bounds", to=["100", "0"])),
        ("bounds that are numbers", "number", _at(*number, "bounds", to=[0, 100])),
        ("a missing out of bounds", "number", _at(*number, "missing", to="101")),
        ("a unit of nothing", "number", _at(*number, "unit", to="")),
        ("a unit of 21 characters", "number", _at(*number, "unit", to="a" * 21)),
        ("a unit with a space before it", "number", _at(*number, "unit", to=" ms")),
        *(
            (f"a unit with U+{place:04X}", "number", _at(*number, "unit", to=f"m{chr(place)}s"))
            for place in _NOT_IN_A_UNIT
        ),
        ("a value twice", "word", _at(*word, "values", to=["x", "x", "y"])),
        ("a value that is not composed", "word", _at(*word, "values", to=["x", "y", "e\u0301"])),
        ("a value that is empty", "word", _at(*word, "values", to=["x", "y", ""])),
        ("a value with a line end", "word", _at(*word, "values", to=["x", "y", "a\nb"])),
        ("a value more than its mechanism has", "word", _at(*word, "values", to=["x", "y", "z", "zz"])),
        ("an `other` that is no value", "word", _at(*word, "other", to="z")),
        *(
            (f"no {name}", "word", _less(*word, name))
            for name in ("id", "type", "values", "other", "epsilon", "mechanism", "report_bytes", "reduce", "share")
        ),
        *(
            (f"no {name}", "number", _less(*number, name))
            for name in ("bounds", "share_threshold", "missing", "memoize", "min_batch", "enabled", "expires")
        ),
    ]
    for what, name, change in changes:
        yield what, [name], _changed(change, name)
    yield "a name in capitals", ["Flag"], _changed(_at(*flag, "name", to="Flag"))
    edited = _at(*word, "values", to=["x", "y", "z"])
    yield "an edit under the old id of the metric", ["word"], _changed(edited, "word", new_metric_ids=False)
    all_faulty = lambda d: [metric.update(type="later") for metric in d["metrics"]]  # noqa: E731  as short as the others
    yield "all metrics are of a later version", list(_NAMES), _changed(all_faulty, *_NAMES)
    poor = lambda d: (d["metrics"][0].update(type="later"), d["collection"].update(device_epsilon="2"))  # noqa: E731
    yield "a refused metric spends nothing", ["flag"], _changed(poor, *_NAMES)


def _document(place: int) -> dict[str, Any]:
    metric: dict[str, Any] = Codebook.from_toml(_TOML).metrics[place].document()
    return metric


def _keep_more(document: dict[str, Any]) -> None:
    parameters = document["metrics"][0]["mechanism"]["parameters"]
    parameters["keep"] = str(int(parameters["keep"]) + 1)


def _zero_in_front(document: dict[str, Any]) -> None:
    parameters = document["metrics"][0]["mechanism"]["parameters"]
    parameters["keep"] = "0" + parameters["keep"]
