"""Proxies and certificates: TLS is verified end to end, also through a proxy."""

from __future__ import annotations

import base64
import os
import socket
import ssl
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hubbub.errors import InvalidParameter
from hubbub_client import Client
from hubbub_client._http.dns import Address
from hubbub_client._http.proxy import proxy_from, proxy_of
from hubbub_client._http.transport import Answer, CannotReach, HttpTransport, check_address
from tests.client.http.bad_servers import (
    Authority,
    Server,
    Visit,
    answers,
    healthy,
    never_answers,
    never_reads,
    running,
    tunnels_to,
)
from tests.client.world import TRUST, World, no_network, opened
from tests.support.patience import PATIENCE, within

NAME = "telemetry.example.test"
IN_TIME = 8.0
"""Seconds for what has to give up after half a one; without that limit it would after ten."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def server(world: World, authority: Authority) -> Iterator[Server]:
    """A shuffler with a good certificate, also for a name that leads nowhere."""
    with running(healthy(world.transport), authority.issue(["localhost", "127.0.0.1", NAME])) as server:
        yield server


@pytest.fixture
def proxy(server: Server) -> Iterator[Server]:
    with running(tunnels_to(server.port)) as proxy:
        yield proxy


def device(world: World, address: str, **more: Any) -> Client:
    options = {"trust": TRUST, "consent": True, "state_dir": world.directory, "clock": world.time}
    return Client(address, **{**options, "background": False, **more})


def ask(transport: HttpTransport) -> Answer:
    with transport:
        return transport.request("GET", "/v1/bundle", {}, b"")


def nowhere(host: str, _port: int) -> list[Address]:
    """The name of a server behind a proxy is for the proxy to look up."""
    raise AssertionError(f"{host} was looked up on the device")


# -- TLS ----------------------------------------------------------------------------------------


def test_a_report_goes_out_under_an_authority_of_ones_own(world: World, server: Server, authority: Authority) -> None:
    address = f"https://localhost:{server.port}"
    transport = HttpTransport(address, ca_file=authority.pem)
    client = device(world, address, transport=transport)
    client.record("theme", "dark")
    assert client.flush(PATIENCE, now=True)
    client.close()
    transport.close()
    assert len(world.transport.reports) == 1
    assert server.visits == 1  # one connection, one handshake


def test_the_authorities_of_the_environment_are_believed_as_openssl_does(
    world: World, server: Server, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.pem))
    address = f"https://localhost:{server.port}"
    with device(world, address) as client:
        client.record("theme", "dark")
        assert client.flush(PATIENCE, now=True)
    assert len(world.transport.reports) == 1


def test_an_authority_of_ones_own_is_believed_instead_of_the_systems(
    server: Server, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.pem))
    other = Authority(tmp_path, "other")
    with pytest.raises(CannotReach, match="CERTIFICATE_VERIFY_FAILED"):
        ask(HttpTransport(f"https://localhost:{server.port}", ca_file=other.pem))


@pytest.mark.parametrize(
    ("names", "days", "says"),
    [
        (["localhost"], -1, "expired"),
        (["elsewhere.example.test"], 1, "mismatch"),
        (["*.localhost"], 1, "mismatch"),
        (["127.0.0.2"], 1, "mismatch"),
    ],
)
def test_a_certificate_that_does_not_fit_gets_not_a_byte_and_the_report_waits(
    world: World, server: Server, authority: Authority, names: list[str], days: int, says: str
) -> None:
    address = f"https://localhost:{server.port}"
    good, server.tls = server.tls, authority.issue(names, days=days)
    transport = HttpTransport(address, ca_file=authority.pem)
    client = device(world, address, transport=transport)
    client.record("theme", "dark")

    with pytest.raises(CannotReach, match=says):
        ask(transport)
    assert not client.flush(0.5, now=True)
    assert server.heads == []

    server.tls = good
    assert client.flush(PATIENCE, now=True)
    client.close()
    transport.close()
    assert len(world.transport.reports) == 1


def test_a_certificate_nobody_vouches_for_gets_not_a_byte(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does any switch of the environment change that."""
    monkeypatch.setenv("PYTHONHTTPSVERIFY", "0")
    with pytest.raises(CannotReach, match="CERTIFICATE_VERIFY_FAILED"):
        ask(HttpTransport(f"https://localhost:{server.port}"))
    assert server.heads == []


def test_an_address_in_numbers_is_verified_like_a_name(server: Server, authority: Authority) -> None:
    assert ask(HttpTransport(f"https://127.0.0.1:{server.port}", ca_file=authority.pem))[0] == 200
    server.tls = authority.issue(["localhost"])
    with pytest.raises(CannotReach, match="mismatch"):
        ask(HttpTransport(f"https://127.0.0.1:{server.port}", ca_file=authority.pem))


def test_an_address_of_the_sixth_version_works(world: World, authority: Authority) -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has none")
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has none")
    for tls in (None, authority.issue(["::1"])):
        with running(healthy(world.transport), tls, host="::1") as server:
            assert ask(HttpTransport(server.address, ca_file=authority.pem))[0] == 200
            assert f"Host: [::1]:{server.port}".encode() in server.heads[0]


def test_an_old_version_of_tls_is_not_spoken(server: Server, authority: Authority) -> None:
    assert server.tls is not None
    server.tls.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1 is deprecated"):
        server.tls.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
        server.tls.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(CannotReach, match="SSL"):
        ask(HttpTransport(f"https://localhost:{server.port}", ca_file=authority.pem))


def test_a_handshake_that_hangs_is_left_in_time(world: World, authority: Authority) -> None:
    with within(IN_TIME), running(never_reads) as silent, pytest.raises(CannotReach, match=r"Timeout|timed out"):
        ask(HttpTransport(f"https://localhost:{silent.port}", ca_file=authority.pem, timeout=0.5))
    assert world.transport.requests == []


def test_a_handshake_or_a_tunnel_that_drips_is_left_in_time(authority: Authority) -> None:
    def handshake(visit: Visit) -> None:
        visit.drip(b"\x16\x03\x03\x40\x00\x02" + bytes(2_000))

    def tunnel(visit: Visit) -> None:
        visit.request()
        visit.drip(b"HTTP/1.1 200 x\r\n" + b"x: y\r\n" * 90)

    with running(handshake) as server, running(tunnel) as proxy:
        for address, way in ((f"https://localhost:{server.port}", ""), (f"https://{NAME}", proxy.address)):
            with within(IN_TIME), pytest.raises(CannotReach, match=r"Timeout|timed out"):
                ask(HttpTransport(address, ca_file=authority.pem, proxy=way, timeout=0.5))


def test_an_answer_whose_end_tls_does_not_vouch_for_is_no_answer(authority: Authority) -> None:
    """Whoever is on the way can end a connection. A taken report and the beginning of a page would look the same."""

    def cut_off(visit: Visit) -> None:
        visit.request()
        visit.socket.sendall(b"HTTP/1.1 202 Accepted\r\n\r\n")

    with running(cut_off, authority.issue(["localhost"])) as server, pytest.raises(CannotReach, match="EOF"):
        ask(HttpTransport(f"https://localhost:{server.port}", ca_file=authority.pem, timeout=PATIENCE))


def test_a_server_without_tls_is_no_answer(authority: Authority) -> None:
    def plain_answer(visit: Visit) -> None:
        visit.socket.recv(65_536)
        visit.socket.sendall(b"HTTP/1.1 400 Speak plainly\r\ncontent-length: 0\r\n\r\n")

    with running(plain_answer) as plain, pytest.raises(CannotReach, match="SSL"):
        ask(HttpTransport(f"https://localhost:{plain.port}", ca_file=authority.pem, timeout=PATIENCE))


def test_a_file_without_authorities_is_refused_when_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("")
    for name in ("missing.pem", "empty.pem"):
        with pytest.raises(InvalidParameter, match=name):
            HttpTransport("https://localhost", ca_file=tmp_path / name)


@pytest.mark.parametrize(
    "address", ["http://telemetry.example.com", "http://10.0.0.1", "http://[2001:db8::1]:8080", "http://0.0.0.0"]
)
def test_nothing_is_sent_in_the_clear_to_another_machine(address: str) -> None:
    for refused in (HttpTransport, check_address):
        with pytest.raises(InvalidParameter, match="https"):
            refused(address)


@pytest.mark.parametrize(
    "address",
    [
        "https://host name",
        "https://host\r\nx: y",
        "https://host\n",
        "https://host/a path",
        "https://host/p\u00e4th",
        "https://host\x00",
        "https://host:port",
        "https://",
        "ftp://host",
    ],
)
def test_what_no_request_could_carry_is_no_address(address: str) -> None:
    with pytest.raises(InvalidParameter):
        check_address(address)


@pytest.mark.parametrize("who", ["alice:secret@", ":secret@", "alice:secret/@", "@"])
def test_nobody_logs_in_at_a_shuffler_and_no_message_has_the_password(who: str) -> None:
    with pytest.raises(InvalidParameter, match="user") as refused:
        check_address(f"https://{who}telemetry.example.com")
    assert "secret" not in "".join(traceback.format_exception(refused.value))


def test_a_host_name_in_any_script_is_written_as_it_travels() -> None:
    asked: list[str] = []

    def lookup(host: str, _port: int) -> list[Address]:
        asked.append(host)
        raise OSError("no such name")

    with pytest.raises(CannotReach):
        ask(HttpTransport("https://bücher.example.test", lookup=lookup, environ={}))
    assert asked == ["xn--bcher-kva.example.test"]
    with pytest.raises(InvalidParameter):
        HttpTransport("https://" + "ü" * 70)


# -- proxies ------------------------------------------------------------------------------------


def test_a_report_goes_through_the_proxy_of_the_environment(
    world: World, server: Server, proxy: Server, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy.address)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.pem))
    for name in ("https_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    client = device(world, f"https://{NAME}")
    client.record("theme", "dark")
    assert client.flush(PATIENCE, now=True)
    client.close()
    assert len(world.transport.reports) == 1
    assert (proxy.visits, server.visits) == (1, 1)


def test_the_proxy_learns_where_to_and_nothing_of_what_passes(
    world: World, server: Server, authority: Authority
) -> None:
    relayed: list[bytes] = []
    with running(tunnels_to(server.port, relayed)) as proxy:
        transport = HttpTransport(f"https://{NAME}:8443", proxy=proxy.address, ca_file=authority.pem, lookup=nowhere)
        status, _, bundle = ask(transport)
    assert (status, bundle) == (200, world.transport.bundle)
    assert proxy.heads == [f"CONNECT {NAME}:8443 HTTP/1.1\r\nHost: {NAME}:8443".encode()]
    passed = b"".join(relayed)
    assert len(passed) > len(bundle)
    for secret in (b"/v1/bundle", b"hubbub", bundle[:40]):
        assert secret not in passed


def test_a_proxy_that_opens_the_tunnel_to_itself_is_caught(world: World, authority: Authority, tmp_path: Path) -> None:
    """It has a certificate for the name, from an authority that the device does not know."""
    stranger = Authority(tmp_path, "stranger")
    with (
        running(healthy(world.transport), stranger.issue([NAME])) as false_server,
        running(tunnels_to(false_server.port)) as proxy,
        pytest.raises(CannotReach, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        ask(HttpTransport(f"https://{NAME}", proxy=proxy.address, ca_file=authority.pem))
    assert world.transport.requests == []


def test_a_proxy_is_told_who_asks_if_it_wants_to_know(proxy: Server, authority: Authority) -> None:
    written = f"http://alice:p%40ss%3A@127.0.0.1:{proxy.port}"
    assert ask(HttpTransport(f"https://{NAME}", proxy=written, ca_file=authority.pem))[0] == 200
    assert b"Proxy-Authorization: Basic " + base64.b64encode(b"alice:p@ss:") in proxy.heads[0].split(b"\r\n")


def test_a_password_is_in_no_message() -> None:
    """Nor in a traceback, that of a password with a slash in it included."""
    written = ["http://alice:secret@host:notaport", "https://alice:secret@host", "http://alice:secret@:1"]
    for address in [*written, "http://alice:secret/@host:1", "alice:secret?@host"]:
        with pytest.raises(InvalidParameter) as refused:
            proxy_from(address)
        assert "secret" not in "".join(traceback.format_exception(refused.value))
    assert "secret" not in repr(proxy_from("http://alice:secret@host:1"))


@pytest.mark.parametrize("status", [302, 403, 407, 502, 503])
def test_a_proxy_that_refuses_is_no_answer_and_is_not_gone_around(
    world: World, authority: Authority, status: int
) -> None:
    with running(answers(status)) as proxy, pytest.raises(CannotReach, match=str(status)):
        ask(HttpTransport(f"https://{NAME}", proxy=proxy.address, ca_file=authority.pem, lookup=nowhere))
    assert world.transport.requests == []


def test_a_proxy_that_hangs_is_left_in_time(authority: Authority) -> None:
    for mood in (never_reads, never_answers):
        with within(IN_TIME), running(mood) as proxy, pytest.raises(CannotReach, match="Timeout"):
            ask(HttpTransport(f"https://{NAME}", proxy=proxy.address, ca_file=authority.pem, timeout=0.5))


def test_a_proxy_that_is_down_is_no_answer(server: Server, authority: Authority) -> None:
    with pytest.raises(CannotReach):
        ask(HttpTransport(f"https://localhost:{server.port}", proxy="http://127.0.0.1:9", ca_file=authority.pem))
    assert server.visits == 0


def test_this_machine_is_reached_directly_unless_the_app_says_otherwise(
    world: World, server: Server, proxy: Server, authority: Authority
) -> None:
    everywhere = {"HTTPS_PROXY": proxy.address, "HTTP_PROXY": proxy.address, "ALL_PROXY": proxy.address}
    with running(healthy(world.transport)) as plain:
        ask(HttpTransport(plain.address, environ=everywhere))
    ask(HttpTransport(f"https://localhost:{server.port}", ca_file=authority.pem, environ=everywhere))
    assert proxy.visits == 0
    ask(HttpTransport(f"https://localhost:{server.port}", ca_file=authority.pem, proxy=proxy.address))
    assert proxy.visits == 1


def test_a_proxy_leads_also_to_plain_http_on_this_machine_if_the_app_says_so(world: World) -> None:
    with running(healthy(world.transport)) as plain, running(tunnels_to(plain.port)) as proxy:
        assert ask(HttpTransport(plain.address, proxy=proxy.address))[0] == 200
        assert proxy.heads[0].startswith(f"CONNECT 127.0.0.1:{plain.port} ".encode())
    with pytest.raises(InvalidParameter, match="another machine"):  # which it would mean to a proxy elsewhere
        HttpTransport(plain.address, proxy="http://alice:secret@proxy.example.com:3128")


def test_the_apps_word_wins_over_the_environments(server: Server, proxy: Server, authority: Authority) -> None:
    environment = {"HTTPS_PROXY": "http://127.0.0.1:9"}
    address = f"https://{NAME}"
    assert ask(HttpTransport(address, proxy=proxy.address, ca_file=authority.pem, environ=environment))[0] == 200
    direct = HttpTransport(
        address,
        proxy="",
        ca_file=authority.pem,
        environ=environment,
        lookup=lambda *_: [(socket.AF_INET, ("127.0.0.1", server.port))],
    )
    assert ask(direct)[0] == 200
    assert proxy.visits == 1


@pytest.mark.parametrize("kind", ["socks5", "socks5h", "socks4", "https", "quic"])
def test_a_proxy_of_another_kind_is_not_gone_around(authority: Authority, kind: str) -> None:
    """Whoever routes everything through one does not want to be seen without it."""
    written = f"{kind}://127.0.0.1:1080"
    with pytest.raises(CannotReach, match=f"{kind}:// proxy is not supported"):
        ask(HttpTransport(f"https://{NAME}", environ={"ALL_PROXY": written}, lookup=nowhere, ca_file=authority.pem))
    with pytest.raises(InvalidParameter, match=kind):
        HttpTransport(f"https://{NAME}", proxy=written)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"HTTPS_PROXY": "http://a:1"}, "a"),
        ({"https_proxy": "http://a:1", "HTTPS_PROXY": "http://b:1"}, "a"),
        ({"https_proxy": "", "HTTPS_PROXY": "http://b:1"}, None),
        ({"ALL_PROXY": "http://c:1"}, "c"),
        ({"ALL_PROXY": "socks5://c:1", "HTTPS_PROXY": "http://a:1"}, "a"),
        ({"HTTP_PROXY": "http://a:1"}, None),
        ({"HTTPS_PROXY": "a:1"}, "a"),
        ({"HTTPS_PROXY": "  "}, None),
    ],
)
def test_the_environment_names_the_proxy(environment: dict[str, str], expected: str | None) -> None:
    proxy = proxy_of(environment, NAME, 443)
    assert (proxy.host if proxy else None) == expected


@pytest.mark.parametrize(
    ("listed", "host", "direct"),
    [
        ("telemetry.example.test", NAME, True),
        ("TELEMETRY.example.test", NAME, True),
        ("example.test", NAME, True),
        (".example.test", NAME, True),
        ("*.example.test", NAME, True),
        ("other, example.test ,more", NAME, True),
        ("*", NAME, True),
        ("example.test:443", NAME, True),
        ("example.test:444", NAME, False),
        ("ample.test", NAME, False),
        ("telemetry", NAME, False),
        ("", NAME, False),
        (" , ,", NAME, False),
        (".", NAME, False),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.0/8", "10.9.9.9", True),
        ("10.0.0.0/8", "11.9.9.9", False),
        ("10.0.0.1:443", "10.0.0.1", True),
        ("10.0.0.1:444", "10.0.0.1", False),
        ("2001:db8::/32", "2001:db8::5", True),
        ("[2001:db8::5]", "2001:db8::5", True),
        ("[2001:db8::5]:443", "2001:db8::5", True),
        ("[2001:db8::5]:444", "2001:db8::5", False),
        ("fe80::/10", "10.0.0.1", False),
        ("not/a/network", "10.0.0.1", False),
    ],
)
def test_what_the_environment_exempts_is_reached_directly(listed: str, host: str, direct: bool) -> None:
    environment = {"HTTPS_PROXY": "http://proxy:1", "NO_PROXY": listed}
    assert (proxy_of(environment, host, 443) is None) is direct


def test_a_connection_through_a_proxy_is_kept_like_any_other(
    world: World, server: Server, proxy: Server, authority: Authority
) -> None:
    with HttpTransport(f"https://{NAME}", proxy=proxy.address, ca_file=authority.pem) as transport:
        for _ in range(3):
            assert transport.request("GET", "/v1/bundle", {}, b"")[0] == 200
    assert (proxy.visits, server.visits, len(world.transport.requests)) == (1, 1, 3)


def test_after_a_proxy_recovers_the_same_bytes_arrive(world: World, server: Server, authority: Authority) -> None:
    with running(tunnels_to(server.port)) as proxy:
        transport = HttpTransport(f"https://{NAME}", proxy=proxy.address, ca_file=authority.pem, timeout=PATIENCE)
        client = device(world, f"https://{NAME}", transport=transport)
        assert client.flush(PATIENCE)
        client.record("theme", "dark")
        world.transport.script.append(no_network)  # the server breaks off without an answer
        proxy.mood = answers(502)
        assert not client.flush(0.5, now=True)
        transport.close()
        proxy.mood = tunnels_to(server.port)
        assert client.flush(PATIENCE, now=True)
        client.close()
        transport.close()
    assert len(set(server.posted)) == 1
    (report,) = world.transport.reports
    assert opened(report)


def test_what_the_process_environment_says_is_read_when_connecting(
    proxy: Server, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An app may set it after it has made its transport; os.environ is what everyone else reads."""
    transport = HttpTransport(f"https://{NAME}", ca_file=authority.pem)
    monkeypatch.setitem(os.environ, "https_proxy", proxy.address)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert ask(transport)[0] == 200
    assert proxy.visits == 1
