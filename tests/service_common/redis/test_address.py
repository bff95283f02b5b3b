"""Addresses of Redis: TLS, users, options, and what is said about a wrong one, which is never the password."""

from __future__ import annotations

import datetime
import ipaddress
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hubbub_service_common.redis.address import Address
from hubbub_service_common.redis.client import RedisClient
from hubbub_service_common.storage.kinds_and_errors import StorageError
from tests.service_common.redis.backends import COUNT, count, new_key, opened, talking_to
from tests.support.patience import wait_for
from tests.support.ports import reserved_port
from tests.support.redis_server import SLOTS, executable, one_server

SECRET = "a-password-that-nobody-may-see"  # noqa: S105  it opens nothing


def refused(url: str) -> str:
    """What is said about an address that is wrong; the whole chain of errors is free of the password."""
    with pytest.raises(StorageError) as caught:
        RedisClient(url)
    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET not in f"{error!r} {error}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return str(caught.value)


@pytest.mark.parametrize("scheme", ["redis", "rediss", "redis+cluster", "rediss+cluster"])
@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ("/0?nosuch=1", "an option nosuch after its ?"),
        (f"/0?{SECRET}=1", "that has no known name"),
        (f"/0?{'x' * 60}=1", "that has no known name"),
        (f"/0?socket_timeout={SECRET}", "wrong value for its option socket_timeout"),
        ("/0?socket_timeout=0", "wrong value for its option socket_timeout"),
        ("/0?socket_timeout=-1", "wrong value for its option socket_timeout"),
        ("/0?socket_connect_timeout=nan", "wrong value for its option socket_connect_timeout"),
        ("/0?socket_keepalive=1&db=one", "wrong value for its option db"),
        ("/0?protocol=3", "the option protocol, which can't be set"),
        ("/0?decode_responses=true", "the option decode_responses, which can't be set"),
        ("/0?retry_on_timeout=true", "the option retry_on_timeout, which can't be set"),
        ("/0?retry_on_error=x", "the option retry_on_error, which can't be set"),
        ("/0?retry=3", "the option retry, which can't be set"),
        ("/0?parser_class=x", "the option parser_class, which can't be set"),
        ("/0?kwargs=x", "the option kwargs, which can't be set"),
        ("x/0", "malformed"),
        ("99999/0", "malformed"),
    ],
)
def test_what_is_wrong_with_an_address_is_named_without_its_password(scheme: str, rest: str, words: str) -> None:
    assert words in refused(f"{scheme}://user:{SECRET}@127.0.0.1:6379{rest}")


def test_a_wrong_value_for_tls_is_an_error_of_the_address() -> None:
    assert "TLS" in refused(f"rediss://:{SECRET}@127.0.0.1:6379/0?ssl_cert_reqs={SECRET}")
    assert "ssl_min_version" in refused(f"rediss://:{SECRET}@127.0.0.1:6379/0?ssl_min_version={SECRET}")
    assert "an option ssl_ca_certs" in refused(f"redis://:{SECRET}@127.0.0.1:6379/0?ssl_ca_certs=x")  # has no TLS


def test_no_representation_has_a_credential() -> None:
    url = f"redis://{SECRET}:{SECRET}@127.0.0.1:6379/0?password={SECRET}"
    assert SECRET not in f"{Address.parse(url, 1.0)!r} {RedisClient(url)!r} {Address.parse(url, 1.0)}"


def test_an_address_says_how_long_to_wait() -> None:
    client = RedisClient("redis://127.0.0.1:6379/0?socket_timeout=0.5", timeout=5.0)
    assert client._address.options["socket_timeout"] == 0.5
    assert client.wait_milliseconds < 500  # replicas are not waited for beyond that
    assert client._address.options["socket_connect_timeout"] == 5.0


def test_a_database_of_its_own_is_used(tmp_path: Path) -> None:
    with one_server(tmp_path) as server, opened(f"{server.url}/3") as three, opened(f"{server.url}?db=4") as four:
        key = new_key()
        assert [client.one(count(key)) for client in (three, four, three)] == [1, 1, 2]


# --- TLS --------------------------------------------------------------------------------------------------------


def certificates(directory: Path) -> tuple[str, ...]:
    """An authority of our own, a certificate from it for loopback, and the options that make a server show it."""
    directory.mkdir()
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("ca", "server")}
    for name, key in keys.items():
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - day)
            .not_valid_after(now + day)
            .add_extension(x509.BasicConstraints(ca=name == "ca", path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
            )
        )
        if name == "ca":
            usage = dict.fromkeys(
                [
                    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
                    *("key_agreement", "encipher_only", "decipher_only"),
                ],
                False,
            )
            builder = builder.add_extension(x509.KeyUsage(key_cert_sign=True, crl_sign=True, **usage), critical=True)
        builder = builder.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
        ).add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(keys["ca"].public_key()), critical=False)
        made = builder.sign(keys["ca"], hashes.SHA256())
        (directory / f"{name}.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
        (directory / f"{name}.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
    named = {"cert-file": "server.pem", "key-file": "server.key", "ca-cert-file": "ca.pem"}
    files = [part for name, file in named.items() for part in (f"--tls-{name}", str(directory / file))]
    return (*files, "--tls-auth-clients", "no")


@pytest.fixture
def tls(tmp_path: Path) -> tuple[str, ...]:
    linked = subprocess.run(["ldd", executable()], capture_output=True, text=True, check=False).stdout
    if "libssl" not in linked:
        pytest.skip(f"{executable()} was built without TLS")
    return certificates(tmp_path / "certificates")


def test_a_server_with_tls_is_known_by_its_authority(tmp_path: Path, tls: tuple[str, ...]) -> None:
    """With a user and a password, too; by another authority it is not taken for ours."""
    port, authority = reserved_port(), tmp_path / "certificates" / "ca.pem"
    user = ("--user", "shuffler", "on", ">word", "~*", "+@all")
    with one_server(tmp_path / "redis", "--tls-port", str(port), *tls, *user) as server:
        key = new_key()
        with opened(f"rediss://shuffler:word@127.0.0.1:{port}/0?ssl_ca_certs={authority}") as client:
            assert client.one(COUNT((key,)), again=False) == 1
            with talking_to(server) as behind:
                behind.client_kill_filter(_type="normal", skipme=True)
            assert client.one(count(key), again=False) == 2
        for url, words in (
            (f"rediss://shuffler:{SECRET}@127.0.0.1:{port}/0", "CERTIFICATE_VERIFY_FAILED|certificate verify failed"),
            (f"rediss://shuffler:{SECRET}@localhost:{port}/0?ssl_ca_certs={authority}", "(?i)hostname mismatch"),
            (
                f"rediss://shuffler:{SECRET}@127.0.0.1:{port}/0?ssl_ca_certs=/nowhere",
                "(?i)no such file|ConnectionError",
            ),
            (f"rediss://shuffler:{SECRET}@127.0.0.1:{server.port}/0?socket_timeout=0.5", "Error"),
            (f"redis://shuffler:{SECRET}@127.0.0.1:{port}/0?socket_timeout=0.5", "Error"),
        ):
            with opened(url) as client, pytest.raises(StorageError, match=words) as caught:
                client.one(count(key))
            assert SECRET not in f"{caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r}"


def test_a_cluster_with_tls_is_reached_with_tls_everywhere(tmp_path: Path, tls: tuple[str, ...]) -> None:
    port, authority = reserved_port(), tmp_path / "certificates" / "ca.pem"
    options = ("--cluster-enabled", "yes", "--tls-cluster", "yes", "--tls-port", str(port), *tls)
    with one_server(tmp_path / "redis", *options) as server, talking_to(server) as behind:
        behind.execute_command("CLUSTER", "ADDSLOTS", *range(SLOTS))
        wait_for(lambda: b"cluster_state:ok" in behind.execute_command("CLUSTER", "INFO", NEVER_DECODE=True))
        with opened(f"rediss+cluster://127.0.0.1:{port}?ssl_ca_certs={authority}") as client:
            assert client.run([count(new_key()) for _ in range(5)], again=False) == [1] * 5
            assert client.primaries() == [("127.0.0.1", port)]
