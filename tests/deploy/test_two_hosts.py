"""Two operators on two hosts, and devices on a third: what README promises of them, in real network namespaces.

Each service has its own user, state directory, tokens and certificate; an authority made here vouches for the names.
A cable leads from the devices to the shuffler and another one from the shuffler to the aggregator: there is no third.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from hubbub.codebook import Codebook
from tests.client.http.bad_servers import Authority
from tests.deploy.network_namespaces import ROOT, Host, Lab, lab, why_not
from tests.e2e.test_path import seconds_to_load
from tests.support.compiled import write_compiled
from tests.support.patience import PATIENCE, wait_for
from tests.support.unwrapped import unwrapped

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "never"),
    pytest.mark.timeout(900),
]

SHUFFLER, AGGREGATOR, DEVICE, ANALYST = 64_101, 64_102, 64_103, 64_104
"""Users, none of whom has a name or a right here."""
HUBBUB = Path(sys.executable).parent / "hubbub"
DEVICES = Counter(light=60, dark=45, sepia=30, other=15)
CROWD = 100
"""Fewest reports that leave a shuffler together, unless its operator says otherwise."""
TOML = """
[collection]
name = "two-hosts"
period = "10s"
grace = "{grace}s"
forward_horizon = "1h"
device_epsilon = 30
release = {{ epsilon = 30, delta = 1e-8 }}
honest_fraction = 1

[metrics.theme]
type = "category"
values = ["light", "dark", "sepia", "other"]
epsilon = 30
"""
"""At epsilon 30 a report lies once in about 10^13: what comes out must be what went in."""


def say(text: str) -> None:
    """For who wants to see it: pytest -s."""
    sys.stdout.write(f"\n{text}\n")


@dataclass(frozen=True)
class Deployment:
    """The hosts as their operators have set them up, both services ready."""

    lab: Lab
    device: Host
    shuffler: Host
    aggregator: Host
    authority: Authority
    anchor: str
    forward_token: str
    analyst_token: str
    codebook: Codebook

    def file(self, owner: int, name: str, content: str) -> Path:
        """A file that nobody but its owner can read."""
        path = self.lab.folder / name
        path.touch(0o600)
        path.write_text(content)
        os.chown(path, owner, owner)
        return path

    def certificate(self, owner: int, name: str) -> dict[str, str]:
        certificate, key = self.authority.write([name])
        certificate.chmod(0o644)
        key.chmod(0o600)
        os.chown(key, owner, owner)
        return {"TLS_CERTIFICATE": str(certificate), "TLS_KEY": str(key)}

    def query(self, *arguments: str, token: str, ca: Path | None) -> tuple[int, str]:
        """`hubbub query`, as an analyst who has an account on the aggregator's host."""
        environment = {"HUBBUB_ADDRESS": "https://aggregator:8702", "HUBBUB_TOKEN": token}
        environment |= {"SSL_CERT_FILE": str(ca)} if ca else {}
        return self.aggregator.run([HUBBUB, "query", *arguments], user=ANALYST, environment=environment, needs=[ROOT])

    def report(self, values: list[str], now: float, *, ca: Path | None, name: str, patience: float = 30) -> Any:
        """Devices, through the SDK."""
        state = self.lab.folder / f"devices-{name}"
        state.mkdir(mode=0o700)
        os.chown(state, DEVICE, DEVICE)
        given = {
            "address": "https://shuffler:8701",
            "trust": self.anchor,
            "ca_file": ca and str(ca),
            "state": str(state),
            "now": now,
            "metric": "theme",
            "values": values,
            "patience": patience,
        }
        script = ROOT / "tests" / "deploy" / "devices.py"
        code, said = self.device.run([sys.executable, script, json.dumps(given)], user=DEVICE, needs=[ROOT])
        assert code == 0, said
        return json.loads(said)

    def log(self, name: str) -> str:
        return (self.lab.folder / f"{name}.log").read_text()


def service(
    stack: ExitStack, lab_: Lab, host: Host, name: str, user: int, settings: dict[str, str], log: str = ""
) -> dict[str, str]:
    """Start a service, with its state in a directory that only its user can enter; its environment."""
    state = lab_.folder / f"{log or name}-state"
    state.mkdir(mode=0o700)
    os.chown(state, user, user)
    environment = {
        f"HUBBUB_{name.upper()}_{key}": value for key, value in {**settings, "STATE_DIR": str(state)}.items()
    }
    written = stack.enter_context((lab_.folder / f"{log or name}.log").open("wb"))
    process = host.start([HUBBUB, name], user=user, environment=environment, log=written, needs=[ROOT])
    stack.callback(process.wait, PATIENCE)
    stack.callback(process.terminate)
    return environment


def healthy(host: Host, name: str, user: int, environment: dict[str, str]) -> bool:
    return host.run([HUBBUB, "health", name], user=user, environment=environment, needs=[ROOT])[0] == 0


@pytest.fixture(scope="module")
def deployed() -> Iterator[Deployment]:
    with lab() as here, ExitStack() as stack:
        device, shuffler, aggregator = here.host("device"), here.host("shuffler"), here.host("aggregator")
        here.network("device", "shuffler")
        here.network("shuffler", "aggregator")
        toml = TOML.format(grace=min(60, max(30, ceil(12 * seconds_to_load()))))
        codebook = write_compiled(here.folder / "codebook.json", toml)
        authority = Authority(here.folder)

        # The aggregator's operator makes the identity, and tells the other one its public half.
        state = here.folder / "identity"
        state.mkdir(mode=0o700)
        os.chown(state, AGGREGATOR, AGGREGATOR)
        made = [str(HUBBUB), "keys", "anchor", "--make", "--state-dir", str(state)]
        code, said = aggregator.run(made, user=AGGREGATOR, needs=[ROOT])
        assert code == 0, said
        forward, analyst = secrets.token_hex(32), secrets.token_hex(32)
        deployment = Deployment(
            here, device, shuffler, aggregator, authority, said.strip(), forward, analyst, Codebook.load(codebook)
        )

        # The one that the shuffler sends is known to the aggregator by its digest only.
        digest = f"sha256:{hashlib.sha256(forward.encode()).hexdigest()}\n"
        at_the_aggregator = service(
            stack,
            here,
            aggregator,
            "aggregator",
            AGGREGATOR,
            {
                "CODEBOOK": str(codebook),
                "HOST": "10.77.1.2",
                "IDENTITY": str(state / "identity.key"),
                "SHUFFLER_TOKEN_FILE": str(deployment.file(AGGREGATOR, "aggregator.shuffler-token", digest)),
                "ANALYST_TOKEN_FILE": str(deployment.file(AGGREGATOR, "aggregator.analyst-token", f"{analyst}\n")),
                **deployment.certificate(AGGREGATOR, "aggregator"),
            },
        )
        wait_for(lambda: healthy(aggregator, "aggregator", AGGREGATOR, at_the_aggregator), step=0.5)
        at_the_shuffler = service(
            stack,
            here,
            shuffler,
            "shuffler",
            SHUFFLER,
            {
                "HOST": "0.0.0.0",  # noqa: S104  all addresses of a host that has two
                "AGGREGATOR": "https://aggregator:8702",
                "CA_FILE": str(authority.pem),
                "TRUST_FILE": str(deployment.file(SHUFFLER, "shuffler.trust", f"{deployment.anchor}\n")),
                "FORWARD_TOKEN_FILE": str(deployment.file(SHUFFLER, "shuffler.forward-token", f"{forward}\n")),
                **deployment.certificate(SHUFFLER, "shuffler"),
            },
        )
        wait_for(lambda: healthy(shuffler, "shuffler", SHUFFLER, at_the_shuffler), step=0.5)
        yield deployment


def test_devices_report_over_tls_and_the_estimates_are_what_they_said(deployed: Deployment) -> None:
    collection = deployed.codebook.collection
    period = collection.calendar.at(time.time())
    values = [value for turn in range(DEVICES["light"]) for value, count in DEVICES.items() if turn < count]
    told = deployed.report(values, time.time(), ca=deployed.authority.pem, name="all")
    say(f"{len(values)} devices, in period {period.label}: {told['counts']}")
    truth = Counter(told["acknowledged"])  # a machine that is too busy may have closed the period before the last ones
    assert truth.total() >= CROWD

    def released() -> bool:
        code, said = deployed.query("--json", token=deployed.analyst_token, ca=deployed.authority.pem)
        assert code == 0, said
        return bool(json.loads(said)["metrics"][0]["versions"][0]["released_periods"])

    wait_for(released, patience=collection.grace + 10 + PATIENCE, step=1)
    code, said = deployed.query("theme", "--json", token=deployed.analyst_token, ca=deployed.authority.pem)
    assert code == 0, said
    answer = json.loads(said)["segments"][0]
    found = {row["value"]: row["estimate"] * answer["reports"] for row in answer["values"]}
    say(deployed.query("theme", token=deployed.analyst_token, ca=deployed.authority.pem)[1])
    assert answer["reports"] == truth.total()
    assert found == pytest.approx(truth, abs=1e-3)


LOOK = """
import os, sys, pathlib
for name in sys.argv[1:]:
    path = pathlib.Path(name)
    try:
        seen = sorted(os.listdir(path)) if path.is_dir() else path.read_bytes()[:8]
    except PermissionError as error:
        print("refused", name)
    else:
        print("READ", name, seen)
"""


@pytest.mark.parametrize(
    ("user", "own", "others"), [(SHUFFLER, "shuffler", "aggregator"), (AGGREGATOR, "aggregator", "shuffler")]
)
def test_neither_operator_can_read_what_the_other_one_keeps(
    deployed: Deployment, user: int, own: str, others: str
) -> None:
    folder, host = deployed.lab.folder, deployed.lab.hosts[own]
    key_files = {name: _key_of(deployed, name) for name in (own, others)}
    for whose, word in ((own, "READ"), (others, "refused")):
        state = folder / f"{whose}-state"
        inside = sorted(path for path in state.rglob("*") if path.is_file())
        assert inside
        tokens = sorted(folder.glob(f"{whose}.*token"))
        assert tokens
        more = [folder / "identity", folder / "identity" / "identity.key"] if whose == "aggregator" else []
        names = [str(path) for path in (state, *inside, *tokens, key_files[whose], *more)]
        code, said = host.run([sys.executable, "-c", LOOK, *names], user=user)
        say(f"{own}'s user on {own}'s host looks at what is {whose}'s:\n{said}")
        assert code == 0, said
        assert [line.split()[0] for line in said.splitlines()] == [word] * len(names)


def _key_of(deployed: Deployment, name: str) -> Path:
    owner = {"shuffler": SHUFFLER, "aggregator": AGGREGATOR}[name]
    return next(path for path in deployed.lab.folder.glob("server-*.key") if path.stat().st_uid == owner)


def test_a_device_has_no_way_to_the_aggregator(deployed: Deployment) -> None:
    connect = "import socket; socket.create_connection(('10.77.1.2', 8702), 5)"
    code, said = deployed.device.run([sys.executable, "-c", connect], user=DEVICE)
    assert code != 0
    assert "Network is unreachable" in said
    assert deployed.shuffler.run([sys.executable, "-c", connect], user=SHUFFLER) == (0, "")


def test_without_the_authority_a_device_sends_nothing(deployed: Deployment) -> None:
    told = deployed.report(["dark"], time.time(), ca=None, name="without", patience=0)
    say(f"a device that does not know the authority: {told['counts']}")
    assert told["counts"]["bundle:CannotReach"]
    assert not told["acknowledged"]
    greet = (
        "import socket, ssl; ssl.create_default_context().wrap_socket("
        "socket.create_connection(('shuffler', 8701)), server_hostname='shuffler')"
    )
    code, said = deployed.device.run([sys.executable, "-c", greet], user=DEVICE)
    assert code != 0
    assert "CERTIFICATE_VERIFY_FAILED" in said


def test_without_the_authority_a_shuffler_gets_no_bundle_and_is_not_ready(deployed: Deployment) -> None:
    with ExitStack() as stack:
        settings = {
            "PORT": "8711",
            "AGGREGATOR": "https://aggregator:8702",
            "TRUST": deployed.anchor,
            "FORWARD_TOKEN": deployed.forward_token,
        }
        environment = service(stack, deployed.lab, deployed.shuffler, "shuffler", SHUFFLER, settings, "mistaken")
        wait_for(lambda: "CERTIFICATE_VERIFY_FAILED" in deployed.log("mistaken"))
        health = [str(HUBBUB), "health", "shuffler"]
        code, said = deployed.shuffler.run(health, user=SHUFFLER, environment=environment, needs=[ROOT])
    say(said)
    assert code == 1
    assert "the shuffler is not ready" in said


PUT = """
import ssl, sys, urllib.error, urllib.request
request = urllib.request.Request("https://aggregator:8702/v1/batches/" + "00" * 16, b"x", method="PUT")
request.add_header("Authorization", "Bearer " + sys.argv[1])
try:
    urllib.request.urlopen(request, context=ssl.create_default_context(cafile=sys.argv[2]))
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""


def test_a_wrong_token_is_refused_and_the_right_one_is_heard(deployed: Deployment) -> None:
    put = [sys.executable, "-c", PUT]
    ca = str(deployed.authority.pem)
    for wrong in (secrets.token_hex(32), deployed.analyst_token):
        code, said = deployed.shuffler.run([*put, wrong, ca], user=SHUFFLER)
        assert code == 0, said
        assert said.startswith("401 "), said
        assert "urn:hubbub:problem:unauthorized" in said
    code, said = deployed.shuffler.run([*put, deployed.forward_token, ca], user=SHUFFLER)
    assert said.startswith("4"), said
    assert not said.startswith("401 "), said  # it was let in, and one byte is no batch


def test_analysts_need_their_own_token_and_the_authority(deployed: Deployment) -> None:
    code, said = deployed.query(token=deployed.forward_token, ca=deployed.authority.pem)
    assert code == 1
    assert "the one in HUBBUB_TOKEN is not" in unwrapped(said)
    code, said = deployed.query(token=deployed.analyst_token, ca=None)
    assert code == 1
    assert "CERTIFICATE_VERIFY_FAILED" in said


def test_no_address_of_a_device_is_in_any_state_or_log(deployed: Deployment) -> None:
    kept = [path for path in deployed.lab.folder.rglob("*") if path.is_file()]
    looked = [path for path in kept if "-state/" in str(path) or path.suffix == ".log"]
    assert len(looked) > 4
    for path in looked:
        assert b"10.77.0.1" not in path.read_bytes(), path
