"""The proxy of a connection: the one that the app names, or the environment's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from urllib.parse import unquote, urlsplit

from hubbub.errors import InvalidParameter

__all__ = ["Proxy", "proxy_from", "proxy_of"]


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy that is asked for a tunnel: it learns the destination, and nothing of the content."""

    host: str
    port: int
    credentials: str | None = field(default=None, repr=False)
    """user:password."""

    @property
    def authorization(self) -> str | None:
        """The value of Proxy-Authorization."""
        from base64 import b64encode

        return None if self.credentials is None else "Basic " + b64encode(self.credentials.encode()).decode()


def proxy_from(written: str) -> Proxy:
    """The proxy at this address. Raises InvalidParameter if it is not an address, or of an unsupported kind.

    The message does not show the address, as there may be a password in it.
    """
    try:
        parts = urlsplit(written if "://" in written else f"http://{written}")
        host, port = parts.hostname, parts.port
    except ValueError:  # not chained: it quotes what it takes for the port, which may be the start of a password
        raise InvalidParameter("the proxy is not an address: write it like http://proxy.example.com:3128") from None
    if parts.scheme != "http":
        raise InvalidParameter(
            f"a {parts.scheme}:// proxy is not supported: use an http:// one, which tunnels TLS as it is"
        )
    if not host:
        raise InvalidParameter("the proxy has no host name: write it like http://proxy.example.com:3128")
    credentials = None
    if parts.username is not None:
        credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return Proxy(host, port or 80, credentials)


def proxy_of(environ: Mapping[str, str], host: str, port: int) -> Proxy | None:
    """The environment's proxy for an https address: HTTPS_PROXY, or else ALL_PROXY, unless NO_PROXY lists the address.

    Lower case names are read first, as is usual. A proxy that cannot be used raises InvalidParameter: the person who
    named it may rely on it, so the SDK must not decide to bypass it.
    """
    named = _read(environ, "https_proxy") or _read(environ, "all_proxy")
    if not named or _is_exempt(host, port, _read(environ, "no_proxy")):
        return None
    return proxy_from(named)


def _read(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name, environ.get(name.upper(), "")).strip()


def _is_exempt(host: str, port: int, listed: str) -> bool:
    return any(_matches(entry.strip().lower(), host.lower(), port) for entry in listed.split(",") if entry.strip())


def _matches(entry: str, host: str, port: int) -> bool:
    """An entry is a name with all its subdomains, an address or a network, with or without a port; * is everything."""
    if entry == "*":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        name, _, only_port = entry.partition(":")
        name = name.removeprefix("*").lstrip(".")
        return only_port in ("", str(port)) and bool(name) and (host == name or host.endswith("." + name))
    for written, rest in ((entry, ""), entry.rsplit(":", 1) if ":" in entry else (entry, "")):
        try:
            if address in ip_network(written.strip("[]"), strict=False) and rest in ("", str(port)):
                return True
        except ValueError:
            continue
    return False
