"""What a pass needs is loaded here, all at once, before the first one: the one moment of it that a fork waits for.

A child that is forked while another thread imports a module finds that module locked for ever. So passes import
nothing by themselves: a test compares. Neither the import of this package nor the making of a client loads these.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from hubbub_client._fork import no_fork

__all__ = ["MODULES", "load"]

MODULES = (
    "cryptography.exceptions",
    "cryptography.hazmat.backends.openssl.backend",  # which its own functions import at their first call
    "cryptography.hazmat.primitives.asymmetric.ed25519",
    "cryptography.hazmat.primitives.asymmetric.x25519",
    "cryptography.hazmat.primitives.hpke",
    "encodings.idna",  # by which the system looks up a name
    "hubbub.codebook",
    "logging",
)
"""And what these import."""


@cache
def load() -> None:
    """Load them, unless that was done."""
    with no_fork():
        for name in MODULES:
            import_module(name)
        from hubbub.metric_types import registered

        registered()  # each type is a module: a codebook that comes later may have any of them
