"""The client's classes mirror what the API answers: member by member, against its OpenAPI document."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

import hubbub_query
from hubbub_query import Comparison, Estimate, Ledger, MetricList, NumberDistribution, ReleaseList, Series
from hubbub_query.read_json import alias
from tests.aggregator.world import Site

ANSWERS = (Comparison, Estimate, Ledger, MetricList, NumberDistribution, ReleaseList, Series)


def classes(kind: Any) -> Iterator[Any]:
    """A dataclass and all that it is made of."""
    for inner in get_args(kind):
        yield from classes(inner)
    if dataclasses.is_dataclass(kind):
        yield kind
        for hint in get_type_hints(kind).values():
            yield from classes(hint)


CLASSES = {one.__name__: one for answer in ANSWERS for one in classes(answer)}


@pytest.fixture(scope="module")
def schemas(asked: Site) -> dict[str, Any]:
    """The API's own names end in Model or Answer where a plain one would clash."""
    found: dict[str, Any] = asked.app.openapi()["components"]["schemas"]
    return {name.removesuffix("Model").removesuffix("Answer"): schema for name, schema in found.items()}


def of_schema(schema: Mapping[str, Any]) -> Any:
    """The type that a schema describes, in plain values."""
    if "$ref" in schema:
        return ("object", schema["$ref"].rpartition("/")[2].removesuffix("Model").removesuffix("Answer"))
    if "anyOf" in schema:
        return frozenset(of_schema(one) for one in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return ("one of", frozenset(schema.get("enum", [schema.get("const")])))
    match schema.get("type"):
        case "array":
            items = schema.get("items") or schema["prefixItems"][0]
            return ("list", of_schema(items))
        case "object":
            more = schema["additionalProperties"]
            return ("mapping", "anything" if more is True else of_schema(more))
        case kind:
            return kind


def of_hint(hint: Any) -> Any:
    """The same of a type hint."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return frozenset(map(of_hint, inner))
    if origin is Literal:
        return ("one of", frozenset(inner))
    if origin is tuple:
        return ("list", of_hint(inner[0]))
    if origin is not None:
        return ("mapping", of_hint(inner[1]))
    if dataclasses.is_dataclass(hint):
        return ("object", hint.__name__)  # type: ignore[union-attr]  # a class
    plain = {str: "string", float: "number", int: "integer", bool: "boolean", type(None): "null", Any: "anything"}
    return plain[hint]


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_a_class_has_the_members_of_the_api_and_no_other(schemas: dict[str, Any], name: str) -> None:
    kind = CLASSES[name]
    described = schemas[name]["properties"]
    hints = get_type_hints(kind)
    assert {alias(one.name): of_hint(hints[one.name]) for one in dataclasses.fields(kind)} == {
        member: of_schema(schema) for member, schema in described.items()
    }
    needed = {alias(one.name) for one in dataclasses.fields(kind) if one.default is dataclasses.MISSING}
    assert needed == set(schemas[name]["required"])


def test_every_class_is_public_and_frozen() -> None:
    for name, kind in CLASSES.items():
        assert name in hubbub_query.__all__
        assert kind.__dataclass_params__.frozen
        assert not hasattr(kind, "__dict__") or "__slots__" in vars(kind)
