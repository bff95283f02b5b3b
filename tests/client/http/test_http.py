"""The transport over real sockets: one connection per flush, nothing unbounded, no server without a certificate."""

from __future__ import annotations

import datetime
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from hubbub_client import Client
from hubbub_client._http.transport import Answer, CannotReach, HttpTransport
from tests.client.http.bad_servers import Visit, running
from tests.client.world import World, forks, no_network, served
from tests.support.patience import PATIENCE, within


def test_the_whole_way_over_http(world: World) -> None:
    with served(world.transport) as address:
        client = Client(
            address,
            trust=None,
            consent=True,
            state_dir=world.directory,
            clock=world.time,
            background=False,
        )
        client.record("theme", "dark")
        assert client.flush(PATIENCE, now=True)
        client.close()
    assert len(world.opened()) == 1
    assert [request.method for request in world.transport.requests] == ["GET", "POST"]  # one connection, each once


def test_an_address_may_have_a_path_that_tells_collections_apart(world: World) -> None:
    class Mounted:
        """The shuffler of one collection, below a path of its own."""

        def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
            collection, _, rest = path[1:].partition("/")
            assert collection == "photo-app"
            return world.transport.request(method, f"/{rest}", headers, body)

    with served(Mounted()) as address, HttpTransport(f"{address}/photo-app/") as transport:
        client = world.client(transport=transport)
        client.record("theme", "dark")
        assert client.flush(PATIENCE, now=True)
        client.close()
    assert [request.path for request in world.transport.requests] == ["/v1/bundle", "/v1/reports"]


def test_a_kept_connection_that_the_server_closed_is_opened_again(world: World) -> None:
    with served(world.transport) as address, HttpTransport(address) as transport:
        assert transport.request("GET", "/v1/bundle", {}, b"")[0] == 200
        world.transport.script.append(no_network)  # the server hangs up without an answer
        assert transport.request("GET", "/v1/bundle", {}, b"")[0] == 200


@pytest.mark.parametrize("address", ["http://127.0.0.1:9", "https://name.invalid"])
def test_no_server_is_no_answer(address: str) -> None:
    with pytest.raises(CannotReach):
        HttpTransport(address, timeout=2).request("GET", "/v1/bundle", {}, b"")


def test_a_server_that_never_answers_is_left_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        transport = HttpTransport(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.2)
        with within(5), pytest.raises(CannotReach):
            transport.request("GET", "/v1/bundle", {}, b"")


@forks
def test_a_forked_child_does_not_share_its_parents_connection() -> None:
    """Else each could get the answer to the other, and forget a report that was not taken."""

    def who_are_you(visit: Visit) -> None:
        while request := visit.request():
            visit.over.wait(0.1)
            name = request.headers["x-name"].encode()
            visit.socket.sendall(b"HTTP/1.1 200 x\r\ncontent-length: %d\r\n\r\n" % len(name) + name)

    program = """
import os, sys
from hubbub_client._http.transport import HttpTransport

transport = HttpTransport(sys.argv[1], timeout=100)

def is_answered(name):
    return transport.request("GET", "/", {"x-name": name}, b"")[2] == name.encode()

assert is_answered("before")
child = os.fork()
right = is_answered("parent" if child else "child") and is_answered("parent" if child else "child")
if not child:
    os._exit(not right)
assert os.waitpid(child, 0)[1] == 0
assert right
"""
    with running(who_are_you) as server:
        finished = subprocess.run([sys.executable, "-c", program, server.address], timeout=PATIENCE, check=False)
        assert finished.returncode == 0
        assert server.visits == 2  # and the parent keeps its own


def test_no_time_limit_is_too_long(world: World) -> None:
    with served(world.transport) as address, HttpTransport(address, timeout=float("inf")) as transport:
        assert transport.request("GET", "/v1/bundle", {}, b"")[0] == 200


def test_an_endless_or_cut_off_answer_is_no_answer() -> None:
    heads = [b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort", b"HTTP/1.1 200 OK\r\n\r\n" + bytes(9 * 2**20)]
    for head in heads:
        with socket.create_server(("127.0.0.1", 0)) as server:

            def answer(server: socket.socket = server, head: bytes = head) -> None:
                connection, _ = server.accept()
                with connection:
                    connection.recv(65_536)
                    try:
                        connection.sendall(head)
                    except ConnectionError:
                        return  # the device has had enough

            thread = threading.Thread(target=answer)
            thread.start()
            with pytest.raises(CannotReach):
                HttpTransport(f"http://127.0.0.1:{server.getsockname()[1]}").request("GET", "/", {}, b"")
            thread.join(5)


def test_a_server_whose_certificate_nobody_vouches_for_gets_not_a_byte(tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, None)
    )
    pem = tmp_path / "server.pem"
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    pem.write_bytes(private + certificate.public_bytes(Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    received: list[bytes] = []

    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                try:
                    with context.wrap_socket(connection, server_side=True) as secure:
                        received.append(secure.recv(65_536))
                except OSError:
                    return  # the device broke off the handshake

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(CannotReach, match="CERTIFICATE_VERIFY_FAILED"):
            HttpTransport(f"https://localhost:{server.getsockname()[1]}").request("GET", "/v1/bundle", {}, b"")
        thread.join(5)
    assert b"".join(received) == b""
