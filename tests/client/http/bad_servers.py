"""Servers on loopback that behave badly; and certificates and a proxy for those that behave well."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from hubbub_client import Transport
from hubbub_client._http.transport import CannotReach
from hubbub_client.testing import Request
from tests.support.patience import PATIENCE

DRIP = 0.05
"""Seconds between two bytes of a server that never quite stops."""


@dataclass
class Visit:
    """One connection, as a server sees it."""

    socket: socket.socket
    over: threading.Event
    """Set when the test is: nobody hangs for longer than that."""
    posted: list[bytes]
    heads: list[bytes]

    def request(self) -> Request | None:
        """The next request; None when the device has gone."""
        received = b""
        while b"\r\n\r\n" not in received:
            piece = self.socket.recv(65_536)
            if not piece:
                return None
            received += piece
        head, _, body = received.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): text.strip() for name, _, text in (line.partition(":") for line in lines)}
        while len(body) < int(headers.get("content-length", 0)):
            piece = self.socket.recv(65_536)
            if not piece:
                return None
            body += piece
        self.heads.append(head)
        method, path, _ = first.split(" ")
        if method == "POST":
            self.posted.append(body)
        return Request(method, path, headers, body)

    def hang(self) -> None:
        self.over.wait(60)

    def drip(self, data: bytes) -> None:
        for byte in data:
            if self.over.wait(DRIP):
                return
            self.socket.sendall(bytes([byte]))

    def reset(self) -> None:
        """Break the connection instead of closing it."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


Mood: TypeAlias = Callable[[Visit], None]


@dataclass
class Server:
    """Something that listens. Its mood can change, and it can go away and come back under the same address."""

    mood: Mood
    tls: ssl.SSLContext | None = None
    host: str = "127.0.0.1"
    port: int = 0
    posted: list[bytes] = field(default_factory=list)
    """The body of every POST that was read."""
    heads: list[bytes] = field(default_factory=list)
    visits: int = 0

    def __post_init__(self) -> None:
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    @property
    def address(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{name}:{self.port}"

    def start(self) -> None:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        self._listener = socket.create_server((self.host, self.port), family=family)
        self.port = self._listener.getsockname()[1]
        self._spawn(self._accept, self._listener)

    def go_away(self) -> None:
        """Stop listening; visits under way go on."""
        with suppress(OSError):  # it may have gone before
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in accept
        self._listener.close()

    def stop(self) -> None:
        self._over.set()
        self.go_away()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()

    def _spawn(self, run: Callable[[socket.socket], None], argument: socket.socket) -> None:
        thread = threading.Thread(target=run, args=(argument,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                self.visits += 1
                self._spawn(self._receive, connection)

    def _receive(self, connection: socket.socket) -> None:
        # Whatever goes wrong here is what the device or the test wanted.
        with connection, suppress(OSError, ValueError):
            connection.settimeout(30)
            if self.tls is not None:
                connection = self.tls.wrap_socket(connection, server_side=True)
            with connection:
                self.mood(Visit(connection, self._over, self.posted, self.heads))


@contextmanager
def running(mood: Mood, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1", port: int = 0) -> Iterator[Server]:
    """`port`: a reserved one for a server that comes back under its address, as another may take that meanwhile."""
    server = Server(mood, tls, host, port)
    server.start()
    try:
        yield server
    finally:
        server.stop()


# -- moods --------------------------------------------------------------------------------------


def healthy(transport: Transport) -> Mood:
    """What a shuffler does: the front door in memory, over HTTP."""

    def mood(visit: Visit) -> None:
        while request := visit.request():
            try:
                status, headers, body = transport.request(request.method, request.path, request.headers, request.body)
            except CannotReach:
                return  # hang up
            head = "".join(f"{name}: {text}\r\n" for name, text in headers.items())
            visit.socket.sendall(f"HTTP/1.1 {status} x\r\ncontent-length: {len(body)}\r\n{head}\r\n".encode() + body)

    return mood


def says(data: bytes, then: Callable[[Visit], None] = lambda _: None) -> Mood:
    """Read each request, and answer with these bytes whatever it is."""

    def mood(visit: Visit) -> None:
        while visit.request():
            visit.socket.sendall(data)
            then(visit)

    return mood


def answers(status: int, *headers: str, body: bytes = b"<html>Please log in</html>", kind: str = "text/html") -> Mood:
    lines = [f"HTTP/1.1 {status} x", f"content-type: {kind}", f"content-length: {len(body)}", *headers, "", ""]
    return says("\r\n".join(lines).encode() + body)


def drips(data: bytes) -> Mood:
    def mood(visit: Visit) -> None:
        visit.request()
        visit.drip(data)

    return mood


def never_reads(visit: Visit) -> None:
    visit.hang()


def never_answers(visit: Visit) -> None:
    visit.request()
    visit.hang()


def hangs_up(visit: Visit) -> None:
    visit.request()


def hangs_up_at_once(_: Visit) -> None:
    pass


def resets(visit: Visit) -> None:
    visit.request()
    visit.reset()


def resets_at_once(visit: Visit) -> None:
    visit.reset()


def resets_in_its_answer(visit: Visit) -> None:
    visit.request()
    visit.socket.sendall(b"HTTP/1.1 202 Accepted\r\ncontent-le")
    visit.reset()


def refuses_unread(visit: Visit) -> None:
    """Answers 413 after the head alone and hangs up, as servers do with a body that they do not want."""
    visit.socket.recv(100)
    visit.socket.sendall(b"HTTP/1.1 413 x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    visit.over.wait(0.2)


def pours(visit: Visit) -> None:
    """An answer without end, as fast as it goes."""
    visit.request()
    visit.socket.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while not visit.over.is_set():
        visit.socket.sendall(bytes(65_536))


def never_gets_to_the_point(visit: Visit) -> None:
    """One provisional answer after the other."""
    visit.request()
    while not visit.over.is_set():
        visit.socket.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)
        visit.over.wait(DRIP)


# -- certificates -------------------------------------------------------------------------------


class Authority:
    """Someone who issues certificates; `pem` is the file by which to believe them."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory, self._key = directory, ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name} for tests")])
        self.pem = directory / f"{name}.pem"
        sign_only = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        certificate = (
            self._begun(self._name, self._key.public_key(), days=1)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(sign_only, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.pem.write_bytes(certificate.public_bytes(Encoding.PEM))

    def issue(self, names: Sequence[str], *, days: int = 1) -> ssl.SSLContext:
        """A server's side of TLS under these names, valid for so many days; a negative number: until then."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.write(names, days=days))
        return context

    def write(self, names: Sequence[str], *, days: int = 1) -> tuple[Path, Path]:
        """The same as files: certificate and key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server for tests")])
        certificate = (
            self._begun(subject, key.public_key(), days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        pem = self._directory / f"server-{certificate.serial_number:x}.pem"
        private = pem.with_suffix(".key")
        pem.write_bytes(certificate.public_bytes(Encoding.PEM))
        private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return pem, private

    def _begun(self, subject: x509.Name, key: ec.EllipticCurvePublicKey, days: int) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=10))
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(issuer, critical=False)
        )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


# -- a proxy ------------------------------------------------------------------------------------


def tunnels_to(port: int, relayed: list[bytes] | None = None) -> Mood:
    """A CONNECT proxy that leads every name to a port of this machine; `relayed` gets what passes it."""

    def mood(visit: Visit) -> None:
        request = visit.request()
        if request is None or request.method != "CONNECT":
            visit.socket.sendall(b"HTTP/1.1 405 x\r\ncontent-length: 0\r\n\r\n")
            return
        with socket.create_connection(("127.0.0.1", port)) as far:
            visit.socket.sendall(b"HTTP/1.1 200 Connection established\r\nvia: 1.1 tests\r\n\r\n")
            back = threading.Thread(target=_copy, args=(far, visit.socket, relayed), daemon=True)
            back.start()
            _copy(visit.socket, far, relayed)
            back.join(PATIENCE)

    return mood


def _copy(source: socket.socket, target: socket.socket, relayed: list[bytes] | None) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            if relayed is not None:
                relayed.append(data)
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
