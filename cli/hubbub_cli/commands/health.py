"""`hubbub health`: whether the services on this machine are ready, for supervisors and containers."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping

import click

__all__ = ["address_of", "health"]

DEFAULTS = {"shuffler": 8701, "aggregator": 8702}
"""Default ports, as in the settings of the services (a test compares). Loading those takes longer than the request."""
_ANYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104  replaced here, never listened on


@click.command()
@click.argument("service", required=False, type=click.Choice(sorted(DEFAULTS)))
@click.option("--alive", is_flag=True, help="Check only that the process answers, not that it is ready.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=5.0,
    show_default=True,
    help="Seconds to wait for an answer.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout.")
def health(service: str | None, alive: bool, timeout: float, as_json: bool) -> None:
    """Say whether SERVICE is ready; exit code 0 if it is.

    Without a SERVICE, at least one has to run here, and each that runs has to be ready. Address and certificate come
    from the environment: HUBBUB_SHUFFLER_HOST, _PORT and _TLS_CERTIFICATE, and the same for the aggregator.
    """
    found = {
        name: _ask(name, "/healthz" if alive else "/readyz", timeout)
        for name in ([service] if service else sorted(DEFAULTS))
    }
    running = {name: said for name, said in found.items() if said is not None}
    if not running:
        asked = " or ".join(f"{name} at {address_of(name, os.environ)}" for name in found)
        raise click.ClickException(f"no answer from {asked}")
    if as_json:
        said = {
            name: {"ok": not trouble, **({"detail": trouble} if trouble else {})} for name, trouble in running.items()
        }
        click.echo(json.dumps({"ok": not any(running.values()), "services": said}, indent=2))
        if any(running.values()):
            raise click.exceptions.Exit(1)
        return
    for name, trouble in running.items():
        if not trouble:
            click.echo(f"{name}: {'alive' if alive else 'ready'}")
    if any(running.values()):
        raise click.ClickException("; ".join(f"the {name} {trouble}" for name, trouble in running.items() if trouble))


def address_of(service: str, environ: Mapping[str, str]) -> str:
    """The address at which this process reaches the service that these variables describe."""
    prefix = f"HUBBUB_{service.upper()}_"
    host = environ.get(f"{prefix}HOST", "")
    host = _ANYWHERE.get(host) or (f"[{host}]" if ":" in host else host)
    scheme = "https" if environ.get(f"{prefix}TLS_CERTIFICATE") else "http"
    return f"{scheme}://{host}:{environ.get(f'{prefix}PORT') or DEFAULTS[service]}"


def _ask(service: str, path: str, timeout: float) -> str | None:
    """Why the service is not ready; empty if it is, None if nothing listens there."""
    try:
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if certificate := os.environ.get(f"HUBBUB_{service.upper()}_TLS_CERTIFICATE"):
            handlers.append(urllib.request.HTTPSHandler(context=_only(certificate)))
        with urllib.request.build_opener(*handlers).open(address_of(service, os.environ) + path, timeout=timeout):
            return ""
    except urllib.error.HTTPError as error:
        with error:
            return _words(error.read(65_536)) or f"answers {error.code}"
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        return None if isinstance(reason, ConnectionRefusedError) else f"does not answer: {reason}"
    except http.client.HTTPException:
        return "does not answer in HTTP"


def _only(certificate: str) -> ssl.SSLContext:
    """Trust this one certificate: the name in it is the public one, not the one that is asked here."""
    context = ssl.create_default_context(cafile=certificate)
    context.check_hostname = False
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    return context


def _words(body: bytes) -> str:
    try:
        return f"is not ready: {json.loads(body)['detail']}"
    except (ValueError, KeyError, TypeError):
        return ""
