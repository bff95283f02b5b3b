"""Environment variables that `hubbub up` passes on to a service, and those that it decides itself."""

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
"""Settings on which the two services must agree, or that follow from how they are run here."""
DECIDED_FOR_BOTH = {"host", "port", "state_dir", "storage", "storage_replicas", "tls_certificate", "tls_key"}
"""Both services run on this machine, on loopback, on embedded storage."""


class PassedOn(NamedTuple):
    settings: dict[str, str]
    """By name without prefix, in capitals. Unknown settings are included: the service reports them."""
    ignored: list[str]
    """Names of variables without effect, as written in the environment."""


def passed_on(service: str, environment: Mapping[str, str]) -> PassedOn:
    """The variables of one service. Their names may be in upper or lower case."""
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
