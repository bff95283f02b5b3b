"""HTTP interface of both services, from their own OpenAPI documents."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from fastapi import FastAPI

from hubbub.refusals import PROBLEM_TYPE, REFUSALS
from hubbub_aggregator.app import create_app
from hubbub_aggregator.operations import admin_listener as of_the_aggregator
from hubbub_shuffler.app import public_api
from hubbub_shuffler.operations import admin_listener as of_the_shuffler
from hubbub_shuffler.operations.metrics import Sources
from scripts.reference.markdown import code, slug, table

__all__ = ["Operation", "documents", "operations", "routes", "undocumented"]

_NONE = cast(Any, None)
"""Stands in for a service: its routes are only described here, not called."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One HTTP method of one path."""

    listener: str
    method: str
    path: str
    told: dict[str, Any]

    @property
    def anchor(self) -> str:
        return slug(self.listener, self.method, self.path)

    @property
    def refuses(self) -> list[str]:
        """Names of the problems that the route may answer with."""
        return [name for answer in self.told["responses"].values() for name in _names(answer)]


@cache
def documents() -> dict[str, dict[str, Any]]:
    """The OpenAPI document of each listener."""
    made: dict[str, FastAPI] = {
        "shuffler": public_api(_NONE, _NONE, _NONE),
        "shuffler, admin": of_the_shuffler.admin_api(Sources(*[_NONE] * 5), _NONE, "unauthorized"),
        "aggregator": create_app(_NONE),
        "aggregator, admin": of_the_aggregator.admin_api(_NONE, "unauthorized"),
    }
    return {listener: api.openapi() for listener, api in made.items()}


@cache
def operations() -> list[Operation]:
    """The operations of all listeners, in the order of the documents."""
    return [
        Operation(listener, method.upper(), path, told)
        for listener, document in documents().items()
        for path, methods in document["paths"].items()
        for method, told in methods.items()
    ]


def routes(listener: str) -> str:
    """A section for each route of a listener."""
    listener = listener.replace("-", ", ")
    return "\n\n".join(_section(operation) for operation in operations() if operation.listener == listener)


def undocumented() -> list[str]:
    """Routes and parameters without a description."""
    found = [f"{o.method} {o.path}" for o in operations() if not o.told.get("description")]
    for operation in operations():
        named = operation.told.get("parameters", [])
        found += [f"{operation.method} {operation.path}: {p['name']}" for p in named if not p.get("description")]
    return found


def _section(operation: Operation) -> str:
    told = operation.told
    parts = [
        f"({operation.anchor})=",
        f"### `{operation.method} {operation.path}`",
        told.get("description", ""),
        f"For: {_caller(operation)}.",
    ]
    if body := told.get("requestBody"):
        parts.append(f"Body: {', '.join(map(code, body['content']))}.")
    if named := told.get("parameters"):
        rows = [(code(p["name"]), p["in"], _takes(p), p.get("description", "")) for p in named]
        parts.append(table(["parameter", "in", "takes", "meaning"], rows))
    answers = [(status, _answer(answer)) for status, answer in sorted(told["responses"].items())]
    parts += [table(["status", "answer"], answers), *_examples(told)]
    return "\n\n".join(part for part in parts if part)


def _caller(operation: Operation) -> str:
    if operation.listener.endswith(", admin"):
        return "the operator (`admin_token` as a bearer token, unless on loopback)"
    schemes = {name for way in operation.told.get("security", []) for name in way}
    if "analyst" in schemes:
        return "analysts (`analyst_token` as a bearer token, or as the password of HTTP Basic)"
    return "the shuffler (`shuffler_token` as a bearer token)" if "shuffler" in schemes else "anyone"


def _takes(parameter: dict[str, Any]) -> str:
    schema = parameter["schema"]
    kinds = [kind for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null"]
    said = [_kind(kind) for kind in kinds]
    if parameter.get("required"):
        said.append("required")
    elif schema.get("default") is not None:
        said.append(f"default {code(json.dumps(schema['default']).strip(chr(34)))}")
    if (example := parameter.get("example")) is not None:
        said.append(f"such as {code(example)}")
    return ", ".join(said)


def _kind(schema: dict[str, Any]) -> str:
    if values := schema.get("enum"):
        return " or ".join(map(code, values))
    limits = [f"{schema[name]:g}" for name in ("minimum", "maximum") if name in schema]
    return f"{schema.get('type', '')} {' to '.join(limits)}".strip()


def _names(answer: dict[str, Any]) -> list[str]:
    """The problems that an answer stands for, named by its examples or its description."""
    content = answer.get("content", {}).get(PROBLEM_TYPE)
    if content is None:
        return []
    told = content.get("examples") or re.findall(r"([a-z][a-z-]+): ", answer["description"])
    return [name for name in told if name in REFUSALS]


def _answer(answer: dict[str, Any]) -> str:
    if names := _names(answer):
        return "; ".join(f"[`{name}`](problems.md#{name}): {REFUSALS[name].title}" for name in names)
    said = answer["description"].replace("Successful Response", "The answer.")
    kinds = ", ".join(map(code, answer.get("content", {})))
    headers = ", ".join(map(code, answer.get("headers", {})))
    return " ".join(filter(None, [said, kinds, f"with {headers}" if headers else ""]))


def _examples(told: dict[str, Any]) -> list[str]:
    found = []
    for status, answer in sorted(told["responses"].items()):
        content = answer.get("content", {}).get("application/json", {})
        if (example := content.get("example")) is not None:
            shown = json.dumps(example, indent=2, ensure_ascii=False)
            found.append(f"::::{{dropdown}} An answer with {status}\n```json\n{shown}\n```\n::::")
            break  # the same for 200 and 202
    return found
