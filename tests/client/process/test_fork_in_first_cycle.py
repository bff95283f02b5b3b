"""Forks in the middle of the parent's first cycle: the child delivers, and no inherited lock holds it up.

The moments of the short tests are chosen: in the middle of an import, of the reading of a codebook, of a handshake. Of
the long one they are anywhere in the pass.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import pytest

from hubbub.codebook import Codebook
from hubbub.mechanisms import Bins, Bounds, Categories, registered
from hubbub_client.testing import MemoryTransport
from tests.client.http.bad_servers import Authority, healthy, running
from tests.client.state.test_processes import check_one_randomization
from tests.client.world import TRUST, forks, opened, signed
from tests.support.paths import ROOT

CHILDREN = 10
TOML = """
[collection]
name = "forks"
period = "1d"
grace = "1s"
device_epsilon = 40
release = { epsilon = 30, delta = 1e-8 }
""" + "".join(
    f"""
[metrics.own{number}]
type = "boolean"
epsilon = 4
min_batch = 100
"""
    for number in range(CHILDREN)
)
NAMES = {metric.id: metric.name for metric in Codebook.from_toml(TOML).metrics}
IMPORTS = ["hubbub.codebook", "cryptography.hazmat.primitives.hpke", "encodings.idna"]

pytestmark = forks


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def check_that_children_deliver(way: str, directory: Path, authority: Authority | None, moments: Sequence[str]) -> None:
    """Under an authority: over TLS."""
    transport = MemoryTransport(signed(TOML))
    tls = authority.issue(["localhost"]) if authority else None
    with running(healthy(transport), tls) as server:
        address = f"https://localhost:{server.port}" if authority else f"http://localhost:{server.port}"
        pem = str(authority.pem) if authority else ""
        run = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.client.process.fork_in_first_cycle",
                way,
                address,
                str(directory),
                pem,
                *moments,
            ],
            cwd=ROOT,
            input=TRUST,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    assert json.loads(run.stdout) == [0] * len(moments), "a child hung (-9), or delivered nothing (3)"
    check_one_randomization(transport)
    arrived = {NAMES[opened(report)[0].metric] for report in transport.reports}
    assert arrived == {f"own{number}" for number in range(len(moments))}


@pytest.mark.everyday("sender")
@pytest.mark.parametrize("way", ["sender", "flush"])
def test_a_child_that_is_forked_while_a_thread_imports_what_a_pass_needs_delivers(way: str, tmp_path: Path) -> None:
    check_that_children_deliver(way, tmp_path, None, IMPORTS)


def test_a_child_that_is_forked_while_a_thread_reads_a_codebook_or_shakes_hands_delivers(
    tmp_path: Path, authority: Authority
) -> None:
    check_that_children_deliver("flush", tmp_path, authority, ["handshake", "reading"])


def _moments() -> Iterator[list[str]]:
    """Fifty first passes, each forked at ten moments."""
    rng = random.Random(18)
    for _ in range(50):
        yield [f"{seconds:.4f}" for seconds in sorted(rng.uniform(0, 0.6) for _ in range(CHILDREN))]


@pytest.mark.full
@pytest.mark.parametrize("seed", range(50))
def test_children_that_are_forked_at_five_hundred_moments_of_a_first_pass_deliver(
    seed: int, tmp_path: Path, authority: Authority
) -> None:
    moments = list(_moments())[seed]
    check_that_children_deliver(("sender", "flush")[seed % 2], tmp_path, authority if seed % 4 > 1 else None, moments)


QUESTIONS = (
    (Categories(4), 'type = "category"\nvalues = ["a", "b", "c", "d"]'),
    (Bounds(Fraction(0), Fraction(10)), 'type = "mean"\nbounds = [0, 10]'),
    (Bins(4), 'type = "distribution"\nbounds = [0, 10]\nbins = 4'),
)
EVERYTHING = """
[collection]
name = "everything"
period = "1d"
device_epsilon = 100
release = { epsilon = 50, delta = 1e-8 }

[metrics.flag]
type = "boolean"
epsilon = 1
missing = false
share = 0.5
min_batch = 1000

[metrics.size]
type = "mean"
bounds = [0, 8]
epsilon = 1
reduce = "max"
min_batch = 1000
""" + "".join(
    f"""
[metrics.{mechanism.replace("-", "_")}]
{next(text for domain, text in QUESTIONS if cls.fits(domain))}
epsilon = 1
mechanism = "{mechanism}"
min_batch = 1000
"""
    for mechanism, cls in registered().items()
    if mechanism != "rr" and not cls.needs_options
)
PASSES = """
import sys, time
from pathlib import Path
from hubbub_client import Client
from hubbub_client._process.preload_modules import load

address, trust, pem, directory, names = sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), sys.argv[5].split()
now = 20_800 * 86_400 + 1_000

def client(**more):
    return Client(address, trust=trust, consent=True, state_dir=directory, ca_file=pem, clock=lambda: now,
                  max_epsilon=None, background=False, **more)

def record(to):
    to.record("a name that nobody has", 1)
    to.record("flag", "not a flag")
    return {to.record(name, value).value for name in names for value in ("a", 3, True)}

first = client()
load()
before = set(sys.modules)
record(first)
assert first.flush(60), first.stats()
assert "recorded" in record(first)
for _ in range(3):
    now += 86_400
    assert first.flush(60, now=True), first.stats()
    record(first)
assert first.stats()["acknowledged"] > len(names), first.stats()
first.disable()
first.enable()
first.close()
record(client())
path = directory / "hubbub.sqlite3"
path.write_bytes(b"damaged" * 1_000)
last = client()
last.flush(60)
record(last)
last.close()
print(*sorted(set(sys.modules) - before))
"""


def test_a_pass_imports_nothing_that_was_not_loaded_before_it(tmp_path: Path, authority: Authority) -> None:
    """Whatever it randomizes, sends, refuses or puts aside. An import inside a function belongs on the list, too."""
    transport = MemoryTransport(signed(EVERYTHING))
    names = [metric.name for metric in Codebook.from_toml(EVERYTHING).metrics]
    with running(healthy(transport), authority.issue(["localhost"])) as server:
        address = f"https://localhost:{server.port}"
        arguments = [address, TRUST, str(authority.pem), str(tmp_path), " ".join(names)]
        run = subprocess.run(
            [sys.executable, "-c", PASSES, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
        )
    assert run.stdout == "\n"
