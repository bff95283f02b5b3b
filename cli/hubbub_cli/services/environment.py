"""Which variables of a service `hubbub up` passes on to it, and which it decides itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["DECIDED", "DECIDED_FOR_BOTH", "PassedOn", "passed_on"]

DECIDED = {
    "shuffler": {"aggregator", "ca_file", "forward_token", "reuse_port", "trust"},
    "aggregator": {
        *("codebook", "identity", "shuffler_address", "shuffler_floor", "shuffler_token", "shuffler_token_next"),
        "single_operator",
    },
}
"""What the two services must agree on, or what is true by how they are run here."""
DECIDED_FOR_BOTH = {"host", "port", "state_dir", "storage", "storage_replicas", "tls_certificate", "tls_key"}
"""They are here, on loopback, on embedded storage."""


class PassedOn(NamedTuple):
    settings: dict[str, str]
    """By name without its prefix, in capitals. One that does not exist is among them: the service says so."""
    ignored: list[str]
    """Variables without effect, as they are written."""


def passed_on(service: str, environment: Mapping[str, str]) -> PassedOn:
    """Of these variables, those of one service. Their names may be written either way."""
    prefix, decided = f"HUBBUB_{service.upper()}_", DECIDED[service] | DECIDED_FOR_BOTH
    found: dict[str, str] = {}
    ignored = []
    for variable, value in environment.items():
        name = variable.upper()
        if not name.startswith(prefix):
            continue
        name = name.removeprefix(prefix)
        if {name.lower(), name.lower().removesuffix("_file")} & decided:
            ignored.append(variable)
        else:
            found[name] = value
    return PassedOn(found, sorted(ignored))
