"""The TLS certificate of a service: new connections get a renewed one, and running connections stay open.

The server's own context is never changed: a certificate and key that do not fit would leave it with neither. Instead,
each handshake is pointed to a context with the newest pair, in OpenSSL's callback for the server name (which is also
called if the client gives none). Half a pair never makes a context.
"""

from __future__ import annotations

import logging
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from hubbub.errors import InvalidParameter
from hubbub_service_common.process.file_reload import Renewal

__all__ = ["Certificate"]


class Loads(Protocol):
    """The part of a server's configuration that is used here."""

    ssl: ssl.SSLContext | None

    def load(self) -> None: ...


class Certificate:
    """A certificate chain and its key, in PEM."""

    def __init__(self, chain: Path, key: Path, log: logging.Logger) -> None:
        self.chain, self.key = chain, key
        self.renewal = Renewal(chain, key, take=self._take, log=log)
        self.expires = _end(chain)
        """Unix time at which the first certificate of the chain expires; None if that can't be read."""
        self._newest: ssl.SSLContext | None = None

    def prepare(self, server: Loads) -> None:
        """Have a server load the files, and use the newest pair for its handshakes from then on.

        InvalidParameter if the files can't be used.
        """
        try:
            server.load()
        except OSError as error:
            raise InvalidParameter(f"can't serve TLS with {self.chain} and {self.key}: {error.strerror}") from None
        if server.ssl is not None:
            server.ssl.sni_callback = self._point

    def _point(self, handshake: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        if self._newest is not None:
            handshake.context = self._newest

    def _take(self) -> str:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.chain, self.key, password="")  # so that it never asks at a terminal
        self._newest, self.expires = context, _end(self.chain)
        until = "" if self.expires is None else f", valid until {datetime.fromtimestamp(self.expires, UTC):%Y-%m-%d}"
        return f"the certificate in {self.chain}{until}"


def _end(chain: Path) -> float | None:
    from cryptography import x509

    try:
        certificates = x509.load_pem_x509_certificates(chain.read_bytes())
    except (OSError, ValueError):
        return None
    return min(each.not_valid_after_utc.timestamp() for each in certificates)
