"""The routes of the API, for people to read: made from the OpenAPI document, which programs read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["ApiRoute", "ApiRoutes", "Parameter", "api_routes"]


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    words: str
    default: str
    """As a caller would write it; empty if there is none."""


@dataclass(frozen=True, slots=True)
class ApiRoute:
    """One method of one address."""

    method: str
    path: str
    paragraphs: list[str]
    token: str
    """Whose token it asks for, if one is set; empty if nobody's."""
    parameters: list[Parameter]
    is_table: bool
    """Whether it also answers in CSV and Arrow."""


@dataclass(frozen=True, slots=True)
class ApiRoutes:
    analyst: list[ApiRoute]
    """What people and programs ask."""
    others: list[ApiRoute]
    """What shufflers, devices and supervisors ask."""


def api_routes(document: Mapping[str, Any]) -> ApiRoutes:
    found = list(_routes(document))
    analyst = [route for route in found if route.token == "analyst"]  # noqa: S105  the name of a scheme
    return ApiRoutes(analyst, [route for route in found if route not in analyst])


def _routes(document: Mapping[str, Any]) -> Iterator[ApiRoute]:
    for path, methods in document["paths"].items():
        for method, said in methods.items():
            answered = said["responses"].get("200", {}).get("content", {})
            yield ApiRoute(
                method=method.upper(),
                path=path,
                paragraphs=[_plain(part) for part in said.get("description", "").split("\n\n")],
                token=next((name for scheme in said.get("security", ()) for name in scheme), ""),
                parameters=[_parameter(one) for one in said.get("parameters", ()) if one["in"] != "header"],
                is_table="text/csv" in answered,
            )


def _parameter(said: Mapping[str, Any]) -> Parameter:
    default = said["schema"].get("default")
    written = str(default).lower() if isinstance(default, bool) else str(default)
    choices = ", ".join(said["schema"].get("enum", ()))
    words = _plain(said.get("description", "")) + (f" One of {choices}." if choices else "")
    return Parameter(said["name"], words, "" if default is None else written)


def _plain(words: str) -> str:
    """Words without their line breaks and their marks of code."""
    return " ".join(words.replace("`", "").split())
