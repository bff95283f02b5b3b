"""`hubbub health`: ready, not ready or not there, also over TLS."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hubbub_aggregator.settings import Settings as AggregatorSettings
from hubbub_cli.all_commands import hubbub
from hubbub_cli.commands.health import DEFAULTS, address_of
from hubbub_shuffler.settings import Settings as ShufflerSettings
from tests.client.http.bad_servers import Authority, Visit, answers, never_answers, running
from tests.support.patience import PATIENCE, wait_for
from tests.support.ports import reserved_port

PROBLEM = b'{"type": "urn:hubbub:problem:not-ready", "title": "Not ready.", "detail": "no valid bundle is at hand"}'


@pytest.fixture(autouse=True)
def _nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    for service in DEFAULTS:
        monkeypatch.setenv(f"HUBBUB_{service.upper()}_PORT", str(reserved_port()))
        monkeypatch.delenv(f"HUBBUB_{service.upper()}_TLS_CERTIFICATE", raising=False)


def health(*arguments: str) -> Result:
    return CliRunner().invoke(hubbub, ["health", *arguments])


def test_the_ports_are_those_of_the_settings() -> None:
    shuffler, aggregator = ShufflerSettings.model_fields["port"], AggregatorSettings.model_fields["port"]
    assert {"shuffler": shuffler.default, "aggregator": aggregator.default} == DEFAULTS


@pytest.mark.parametrize(
    ("environ", "address"),
    [
        ({}, "http://127.0.0.1:8701"),
        ({"HOST": "0.0.0.0", "PORT": "99"}, "http://127.0.0.1:99"),  # noqa: S104  it is looked at, not listened on
        ({"HOST": "::"}, "http://[::1]:8701"),
        ({"HOST": "fd00::7", "TLS_CERTIFICATE": "/c.pem"}, "https://[fd00::7]:8701"),
        ({"HOST": "10.0.0.7"}, "http://10.0.0.7:8701"),
    ],
)
def test_the_address_is_the_one_the_service_listens_on(environ: dict[str, str], address: str) -> None:
    assert address_of("shuffler", {f"HUBBUB_SHUFFLER_{name}": value for name, value in environ.items()}) == address


def test_nothing_that_runs_is_not_healthy() -> None:
    said = health()
    assert said.exit_code == 1
    assert "no answer from aggregator at http://127.0.0.1:" in said.output
    assert health("shuffler").exit_code == 1


def test_either_service_is_asked_by_the_same_command(monkeypatch: pytest.MonkeyPatch) -> None:
    for service in DEFAULTS:
        with monkeypatch.context() as set_, running(answers(200, body=b'{"ok":true}')) as server:
            set_.setenv(f"HUBBUB_{service.upper()}_PORT", str(server.port))
            assert (health().exit_code, health().output) == (0, f"{service}: ready\n")
            assert health(service).exit_code == 0
            assert health(*(set(DEFAULTS) - {service})).exit_code == 1


def test_a_service_that_is_not_ready_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(answers(503, body=PROBLEM, kind="application/problem+json")) as server:
        monkeypatch.setenv("HUBBUB_SHUFFLER_PORT", str(server.port))
        said = health()
    assert (said.exit_code, said.output) == (
        1,
        "Error: the shuffler is not ready: no valid bundle is at hand\n",
    )


def test_one_that_is_not_ready_is_not_hidden_by_one_that_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(answers(503)) as ill, running(answers(200)) as well:
        monkeypatch.setenv("HUBBUB_SHUFFLER_PORT", str(ill.port))
        monkeypatch.setenv("HUBBUB_AGGREGATOR_PORT", str(well.port))
        said = health()
    assert said.exit_code == 1
    assert "aggregator: ready\n" in said.output
    assert "the shuffler answers 503" in said.output


def test_one_that_hangs_is_not_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(never_answers) as server:
        monkeypatch.setenv("HUBBUB_SHUFFLER_PORT", str(server.port))
        said = health("--timeout", "0.3")
    assert said.exit_code == 1
    assert "the shuffler does not answer: timed out" in said.output


def test_something_that_speaks_no_http_is_not_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    def alert_of_tls(visit: Visit) -> None:
        visit.request()
        visit.socket.sendall(b"\x15\x03\x03\x00\x02\x02\x46")

    with running(alert_of_tls) as server:
        monkeypatch.setenv("HUBBUB_SHUFFLER_PORT", str(server.port))
        said = health()
    assert (said.exit_code, said.output) == (1, "Error: the shuffler does not answer in HTTP\n")


SERVE = """
import logging
import sys
from pathlib import Path
from hubbub_service_common.http.certificate import Certificate
from hubbub_service_common.http.server import Server, listen, run, serve_together, server_config

async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})

certificate = Certificate(Path(sys.argv[1]), Path(sys.argv[2]), logging.getLogger())
config = server_config(app, shutdown_timeout=1, certificate=certificate)
with listen("127.0.0.1", int(sys.argv[3])) as listener:
    run(serve_together([Server(config, listener, print)], certificate.renewal.watch()))
"""


@contextmanager
def served(certificate: Path, key: Path, port: int) -> Iterator[None]:
    """An application that is always ready, as the services' own server serves it."""
    process = subprocess.Popen([sys.executable, "-c", SERVE, str(certificate), str(key), str(port)])

    def listens() -> bool:
        assert process.poll() is None
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_for(listens)
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE)


def test_over_tls_only_the_certificate_of_the_service_itself_is_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.write(["aggregator.example.com"])  # not a name by which we ask
    other, _ = authority.write(["aggregator.example.com"])
    port = reserved_port()
    monkeypatch.setenv("HUBBUB_AGGREGATOR_PORT", str(port))
    with served(certificate, key, port):
        monkeypatch.setenv("HUBBUB_AGGREGATOR_TLS_CERTIFICATE", str(certificate))
        assert (health().exit_code, health().output) == (0, "aggregator: ready\n")
        monkeypatch.setenv("HUBBUB_AGGREGATOR_TLS_CERTIFICATE", str(other))
        said = health()
        assert said.exit_code == 1
        assert "CERTIFICATE_VERIFY_FAILED" in said.output
        monkeypatch.delenv("HUBBUB_AGGREGATOR_TLS_CERTIFICATE")  # as in a shell that knows nothing of the service
        said = health()
        assert said.exit_code == 1
        assert "the aggregator does not answer" in said.output


def test_a_key_that_does_not_fit_the_certificate_is_said_in_one_line(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    (certificate, _), (_, key) = authority.write(["a"]), authority.write(["b"])
    ended = subprocess.run(
        [sys.executable, "-c", SERVE, str(certificate), str(key), "1"], capture_output=True, text=True, check=False
    )
    assert f"InvalidParameter: can't serve TLS with {certificate} and {key}" in ended.stderr
