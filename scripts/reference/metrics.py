"""Prometheus metrics of both services, from the tables that the services expose."""

from __future__ import annotations

from typing import Any

from hubbub_aggregator.operations import metrics as aggregator
from hubbub_shuffler.operations import metrics as shuffler
from scripts.reference.markdown import anchored, code, table

__all__ = ["FAMILIES", "metrics", "undocumented"]

FAMILIES: dict[str, dict[str, Any]] = {"shuffler": shuffler.FAMILIES, "aggregator": aggregator.FAMILIES}


def full_name(service: str, name: str, kind: str) -> str:
    """The name of the metric when scraped."""
    return f"hubbub_{service}_{name}{'_total' * (kind == 'counter')}"


def metrics(service: str) -> str:
    """One row for each metric of a service."""
    return table(
        ["metric", "kind", "labels", "says"],
        [
            (
                anchored(code(full_name(service, name, family.kind)), "metric", service, name),
                family.kind,
                ", ".join(map(code, family.labels)),
                family.help,
            )
            for name, family in FAMILIES[service].items()
        ],
    )


def undocumented() -> list[str]:
    """Metrics without a help text."""
    return [f"{service}: {name}" for service, all_ in FAMILIES.items() for name, f in all_.items() if not f.help]
