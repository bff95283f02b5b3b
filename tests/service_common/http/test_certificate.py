"""Renewed certificates: used for new connections at once, never half of one, and no running connection ends."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvloop
from cryptography import x509

from hubbub.errors import InvalidParameter
from hubbub_service_common.http.certificate import Certificate
from hubbub_service_common.http.certificate_authorities import Authorities
from hubbub_service_common.http.server import Server, listen, server_config
from hubbub_service_common.process.file_reload import Renewal
from tests.aggregator.process import Served
from tests.aggregator.world import CODEBOOK
from tests.client.http.bad_servers import Authority
from tests.shuffler.process import ShufflerProcess
from tests.support import http
from tests.support.compiled import write_compiled
from tests.support.patience import PATIENCE, wait_for
from tests.support.ports import reserved_port

LOG = logging.getLogger("hubbub.test")
EXPIRES = "tls_certificate_expires_timestamp_seconds"
ASK = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def app(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


def replace(file: Path, content: bytes) -> None:
    """At once: nobody sees a part of it."""
    beside = file.with_suffix(".new")
    beside.write_bytes(content)
    beside.replace(file)


@dataclass
class Site:
    """A server whose certificate is renewed while it runs."""

    authority: Authority
    chain: Path
    key: Path

    def issue(self, days: int = 1) -> tuple[Path, Path]:
        return self.authority.write(["127.0.0.1", "localhost"], days=days)

    def put(self, pair: tuple[Path, Path]) -> None:
        replace(self.chain, pair[0].read_bytes())
        replace(self.key, pair[1].read_bytes())


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(Authority(tmp_path), tmp_path / "chain.pem", tmp_path / "key.pem")
    made.put(made.issue())
    return made


@asynccontextmanager
async def serving(certificate: Certificate) -> AsyncIterator[int]:
    with listen("127.0.0.1", 0) as listener:
        server = Server(server_config(app, certificate=certificate), listener, lambda _address: None)
        jobs = [asyncio.create_task(server.run_here()), asyncio.create_task(certificate.renewal.watch(every=0.01))]
        try:
            yield listener.getsockname()[1]
        finally:
            server.stop()
            jobs[1].cancel()
            await jobs[0]


@contextmanager
def connected(
    site: Site, port: int, name: str | None = "localhost", most: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
) -> Iterator[ssl.SSLSocket]:
    trusted = ssl.create_default_context(cafile=site.authority.pem)
    trusted.maximum_version = most
    trusted.check_hostname = name is not None
    with (
        socket.create_connection(("127.0.0.1", port), PATIENCE) as plain,
        trusted.wrap_socket(plain, server_hostname=name) as connection,
    ):
        yield connection


def shown(connection: ssl.SSLSocket) -> int:
    """The serial number of the certificate that the server proves itself with."""
    raw = connection.getpeercert(binary_form=True)
    assert raw is not None
    return x509.load_der_x509_certificate(raw).serial_number


def serial(file: Path) -> int:
    return x509.load_pem_x509_certificate(file.read_bytes()).serial_number


def answered(connection: ssl.SSLSocket) -> bool:
    connection.sendall(ASK)
    return connection.recv(1_000).startswith(b"HTTP/1.1 200")


def run(certificate: Certificate, scenario: Callable[[int], None]) -> None:
    async def main() -> None:
        async with serving(certificate) as port:
            await asyncio.to_thread(scenario, port)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as the services have it
        runner.run(main())


def test_a_renewed_certificate_is_for_new_connections_and_running_ones_go_on(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    certificate = Certificate(site.chain, site.key, LOG)
    first, renewed = serial(site.chain), site.issue(days=20)

    def look(port: int, *asked: Any) -> int:
        with connected(site, port, *asked) as connection:
            assert answered(connection)
            return shown(connection)

    def scenario(port: int) -> None:
        with connected(site, port) as running:
            assert answered(running)
            assert shown(running) == first
            site.put(renewed)
            wait_for(lambda: look(port) != first)
            assert answered(running)  # on the connection from before
            assert shown(running) == first
        for asked in ((None,), ("localhost", ssl.TLSVersion.TLSv1_2), (None, ssl.TLSVersion.TLSv1_2)):
            assert look(port, *asked) == serial(renewed[0])  # whether or not the client names whom it wants

    before = certificate.expires
    with caplog.at_level(logging.INFO):
        run(certificate, scenario)
    assert before is not None
    assert certificate.expires is not None
    assert round((certificate.expires - before) / 86_400) == 19
    ours = [record for record in caplog.records if record.name == LOG.name]
    (said,) = [record.getMessage() for record in ours if record.levelno == logging.INFO]
    assert said.startswith(f"taken without a restart: the certificate in {site.chain}, valid until 2")


def test_a_half_written_pair_is_left_alone_and_said_once_until_it_is_whole(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    certificate = Certificate(site.chain, site.key, LOG)
    first, (chain, key) = serial(site.chain), site.issue()

    def look(port: int) -> int:
        with connected(site, port) as connection:
            assert answered(connection)
            return shown(connection)

    def refused() -> list[str]:
        return [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR and r.name == LOG.name]

    def scenario(port: int) -> None:
        replace(site.chain, chain.read_bytes())  # the key is still the old one's
        wait_for(lambda: len(refused()) == 1)
        assert look(port) == first
        replace(site.key, key.read_bytes()[:50])
        wait_for(lambda: len(refused()) == 2)
        assert look(port) == first
        site.key.unlink()
        wait_for(lambda: len(refused()) == 3)
        assert look(port) == first
        replace(site.key, key.read_bytes())
        wait_for(lambda: look(port) == serial(chain))

    run(certificate, scenario)
    assert len(refused()) == 3
    assert "so what was there stays in force" in refused()[0]


def test_files_that_cannot_be_used_at_the_start_are_an_error_that_names_them(site: Site) -> None:
    site.key.write_bytes(site.issue()[1].read_bytes())
    with pytest.raises(InvalidParameter, match=f"can't serve TLS with {site.chain} and {site.key}: .*mismatch"):
        server_config(app, certificate=Certificate(site.chain, site.key, LOG))
    site.key.unlink()
    with pytest.raises(InvalidParameter, match=f"{site.key}: No such file"):
        server_config(app, certificate=Certificate(site.chain, site.key, LOG))


def test_the_end_of_a_chain_is_that_of_its_first_to_end(site: Site) -> None:
    long, short = site.issue(days=50)[0], site.issue(days=5)[0]
    site.chain.write_bytes(long.read_bytes() + short.read_bytes())
    assert Certificate(site.chain, site.key, LOG).expires == Certificate(short, site.key, LOG).expires
    site.chain.write_text("no certificate")
    assert Certificate(site.chain, site.key, LOG).expires is None


def test_what_changes_is_taken_when_it_has_come_to_rest(tmp_path: Path) -> None:
    file, taken = tmp_path / "file", list[str]()

    def take() -> str:
        taken.append(file.read_text())
        return "it"

    renewal = Renewal(file, take=take, log=LOG)
    for text, looks in (("a", 1), ("ab", 1), ("abc", 3), ("d", 2)):
        file.write_text(text)
        for _ in range(looks):
            renewal.look()
    assert taken == ["abc", "d"]


def test_an_authority_that_joins_the_file_is_believed_without_a_restart(tmp_path: Path) -> None:
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    file = tmp_path / "ca.pem"
    file.write_bytes(old.pem.read_bytes())
    authorities = Authorities(file, LOG)

    def believed(by: Authority) -> bool:
        """Whether a handshake with someone of this authority comes to its end."""
        to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = authorities.context.wrap_bio(to_client, to_server, server_hostname="localhost")
        server = by.issue(["localhost"]).wrap_bio(to_server, to_client, server_side=True)
        for side in (client, server, client):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError:
                return False
        return client.cipher() is not None

    assert (believed(old), believed(new)) == (True, False)
    file.write_bytes(new.pem.read_bytes())
    for _ in range(2):
        authorities.renewal.look()
    assert (believed(old), believed(new)) == (True, True)  # the old one until the next start
    file.write_text("nonsense")
    for _ in range(2):
        authorities.renewal.look()
    assert believed(new)


def shown_at(address: str, believed: Path) -> int:
    """The certificate for a new connection to a service."""
    host, port = address.removeprefix("https://").split(":")
    with (
        socket.create_connection((host, int(port)), PATIENCE) as plain,
        ssl.create_default_context(cafile=believed).wrap_socket(plain, server_hostname=host) as connection,
    ):
        return shown(connection)


def metric(admin: str, name: str) -> float:
    found = re.search(rf"^hubbub_\w+_{name} (\S+)$", http.get(f"{admin}/metrics").text, re.MULTILINE)
    assert found, name
    return float(found[1])


@pytest.mark.full
def test_both_services_change_over_to_another_authority_without_a_restart(tmp_path: Path) -> None:
    """Two processes of a shuffler on one port and an aggregator, as they are run; all look by themselves."""
    write_compiled(tmp_path / "codebook.json", CODEBOOK)
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    names = ["127.0.0.1"]
    both = tmp_path / "both.pem"
    both.write_bytes(old.pem.read_bytes() + new.pem.read_bytes())
    ca = tmp_path / "ca.pem"
    ca.write_bytes(old.pem.read_bytes())
    sites = {name: Site(old, tmp_path / f"{name}.pem", tmp_path / f"{name}.key") for name in ("s", "a")}
    for site in sites.values():
        site.put(old.write(names))
    port, admins = reserved_port(), [reserved_port() for _ in range(3)]
    aggregator = Served(
        tmp_path / "aggregator.log",
        codebook=tmp_path / "codebook.json",
        state_dir=tmp_path / "aggregator",
        port=0,
        admin_port=admins[0],
        tls_certificate=sites["a"].chain,
        tls_key=sites["a"].key,
        bundle_max_age=1,
    )
    with ExitStack() as open_:
        open_.enter_context(aggregator)
        shufflers = [
            open_.enter_context(
                ShufflerProcess(
                    tmp_path / f"shuffler-{number}",
                    aggregator.address,
                    tmp_path / f"shuffler-{number}.log",
                    port=str(port),
                    reuse_port="true",
                    admin_port=str(admins[1 + number]),
                    ca_file=str(ca),
                    tls_certificate=str(sites["s"].chain),
                    tls_key=str(sites["s"].key),
                    bundle_refresh="0.5",
                )
            )
            for number in range(2)
        ]
        logs = [tmp_path / "aggregator.log", *(shuffler.log for shuffler in shufflers)]
        wait_for(lambda: all(http.get(f"{each.admin}/readyz").status_code == 200 for each in shufflers))
        before = [metric(f"http://127.0.0.1:{admin}", EXPIRES) for admin in admins]
        replace(ca, both.read_bytes())
        wait_for(lambda: all("taken without a restart: the authorities" in log.read_text() for log in logs[1:]))
        for site in sites.values():
            site.put(new.write(names, days=30))
        wait_for(lambda: all("taken without a restart: the certificate" in log.read_text() for log in logs))
        for name, address in (("s", shufflers[0].address), ("a", aggregator.address)):
            for _ in range(20):  # of either process
                assert shown_at(address, new.pem) == serial(sites[name].chain)
        for admin, was in zip(admins, before, strict=True):
            assert round((metric(f"http://127.0.0.1:{admin}", EXPIRES) - was) / 86_400) == 29
        for shuffler in shufflers:
            assert http.get(f"{shuffler.admin}/readyz").status_code == 200
            assert "no new bundle" not in shuffler.log.read_text()
            assert shuffler.stop() == 0
        assert aggregator.stop() == 0
