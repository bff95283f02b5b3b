"""Loopback hosts, which are always this machine: one rule for the SDK, both services and the command line."""

from __future__ import annotations

from ipaddress import ip_address

__all__ = ["is_loopback_host"]


def is_loopback_host(host: str) -> bool:
    """Whether this name or IP address, written without brackets and port, is certainly this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"  # a name server decides what any other name means
