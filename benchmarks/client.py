"""Cost of the SDK for its host: importing, recording, reducing, randomizing, sealing; compared with the bare library.

Two limits are measured in the same run: importing the two libraries that the SDK needs (goal: the SDK's import below
1.5 times that), and the library's own HPKE seal (goal: at least 0.9 of its rate). Figures are CPU time, each the least
of several alternating rounds, as other work on the machine can only add to it. A record also has a goal in wall time:
well below a millisecond.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from benchmarks.table import Row, at_least, at_most, show
from hubbub.bundle import BundledCodebook, SealingKey, sign
from hubbub.codebook import Codebook
from hubbub.randomness import SystemRandomness
from hubbub.sealing import Sealer, new_private_key, public_key_of
from hubbub.trust_anchor import anchor_of
from hubbub.wire import Plaintext, ReportHeader
from hubbub_client import Client
from hubbub_client._randomizing.draw import draw
from hubbub_client._sending.seal_and_send import seal
from hubbub_client.testing import MemoryTransport

IMPORTS = "import http.client, cryptography.hazmat.primitives.hpke"
IMPORT_GOAL = 1.5
SEAL_GOAL = 0.9
RECORD_GOAL = 1_000.0
START = 20_800 * 86_400.0
TOML = """
[collection]
name = "bench"
period = "1d"
device_epsilon = 8
release = { epsilon = 0.5, delta = 1e-8 }

[metrics.dark_mode]
type = "boolean"
epsilon = 1
min_batch = 100

[metrics.theme]
type = "category"
values = ["light", "dark", "sepia", "other"]
epsilon = 2
min_batch = 100

[metrics.startup_ms]
type = "mean"
bounds = [0, 5000]
epsilon = 1
mechanism = "laplace"
min_batch = 100
"""
VALUES: dict[str, bool | str | float] = {"dark_mode": True, "theme": "dark", "startup_ms": 812.0}


# -- importing ----------------------------------------------------------------------------------


def import_cost(statements: Sequence[str], rounds: int = 9) -> list[float]:
    """CPU seconds of each statement in a fresh interpreter, minus those of an interpreter that does nothing.

    Byte code exists already, as in any installation.
    """
    with tempfile.TemporaryDirectory() as byte_code:
        found = [
            [_cpu_seconds(statement, byte_code) for statement in ("pass", *statements)]
            for _ in range(rounds + 1)  # the first round makes the byte code
        ]
    nothing, *least = map(min, zip(*found[1:], strict=True))
    return [seconds - nothing for seconds in least]


def _cpu_seconds(statement: str, byte_code: str) -> float:
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    child = subprocess.Popen([sys.executable, "-c", statement], env={**environment, "PYTHONPYCACHEPREFIX": byte_code})
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{statement!r} failed in a fresh interpreter")
    return usage.ru_utime + usage.ru_stime


# -- one call -----------------------------------------------------------------------------------


def microseconds(
    calls: dict[str, Callable[[], object]], times: int, clock: Callable[[], float], rounds: int = 9
) -> dict[str, float]:
    """For each call the least of several rounds, in which the calls take turns."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = clock()
            for _ in range(times):
                call()
            found[name].append((clock() - start) / times * 1e6)
    return {name: min(each) for name, each in found.items()}


def bundle_of(codebook: Codebook, identity: Ed25519PrivateKey) -> bytes:
    return sign(
        identity,
        collection=codebook.collection.name,
        codebooks=[BundledCodebook(0, codebook.compiled())],
        keys=[SealingKey(1, public_key_of(new_private_key()), 0, 2**31)],
        now=int(START),
        lifetime=10 * 86_400,
        max_age=86_400,
        last=None,
    )


def record_costs(codebook: Codebook) -> list[Row]:
    """CPU and wall time of one record, of a real client with a file in a temporary directory."""
    identity = Ed25519PrivateKey.generate()
    with tempfile.TemporaryDirectory() as folder:
        client = Client(
            "https://telemetry.example.com",
            trust=anchor_of(identity),
            consent=True,
            state_dir=Path(folder),
            clock=lambda: START + 1_000.0,
            transport=MemoryTransport(bundle_of(codebook, identity)),
            background=False,
        )
        client.flush(0)
        calls: dict[str, Callable[[], object]] = {
            "record: into a mean": lambda: client.record("startup_ms", 812.0),
            "record: after the first": lambda: client.record("theme", "dark"),
            "record: an unknown metric": lambda: client.record("thme", "dark"),
        }
        cpu = microseconds(calls, 300, time.process_time)
        wall = {name: _wall(call) for name, call in calls.items()}
        client.close()
    found = []
    for name in calls:
        median, slow = wall[name]
        found.append(Row(name, median, "us", "its CPU time", cpu[name], at_most(RECORD_GOAL, "figure")))
        found.append(Row(f"{name}, 99 of 100", slow, "us", "the median", median))
    return found


def _wall(call: Callable[[], object]) -> tuple[float, float]:
    """Median and 99th percentile of one call, in microseconds of wall time."""
    found = []
    for _ in range(1_000):
        start = time.perf_counter()
        call()
        found.append((time.perf_counter() - start) * 1e6)
    return statistics.median(found), statistics.quantiles(found, n=100)[98]


def step_costs(codebook: Codebook) -> dict[str, float]:
    """Cost of reducing and randomizing, as the client does it."""
    rng = SystemRandomness()
    calls: dict[str, Callable[[], object]] = {}
    for metric in codebook.metrics:
        value = VALUES[metric.name]
        state = metric.reducer.add(None, value, rng)
        calls[f"reduce: {metric.reduce} of a {metric.type}"] = lambda m=metric, v=value, s=state: m.reducer.add(
            s, v, rng
        )  # type: ignore[misc]  # bound early on purpose
        calls[f"randomize: {metric.mechanism.name}"] = lambda m=metric, v=value: draw(m, v, rng)  # type: ignore[misc]  # as above
    return microseconds(calls, 2_000, time.process_time)


def seal_costs(codebook: Codebook) -> tuple[float, float]:
    """The library's bare seal of the same bytes, and the SDK's seal of a report, in microseconds of CPU."""
    rng = SystemRandomness()
    metric = codebook.metric("theme")
    drawn = draw(metric, "dark", rng)
    header = ReportHeader(metric.id, 20_800, 1)
    public = public_key_of(new_private_key())
    sealer, suite = Sealer(public), Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
    key = X25519PublicKey.from_public_bytes(public)
    plaintext = Plaintext(header.period, drawn.nonce, drawn.payload).encode()
    info = b"hubbub-01 report\0" + metric.id + bytes([0, 32, 0, 1, 0, 1, 1])
    found = microseconds(
        {"bare": lambda: suite.encrypt(plaintext, key, info), "ours": lambda: seal(header, drawn, sealer)},
        500,
        time.process_time,
        rounds=15,
    )
    return found["bare"], found["ours"]


def rows(*, long: bool = False) -> list[Row]:
    """Sealing compared with the library, the steps before it, recording, and importing."""
    codebook = Codebook.from_toml(TOML)
    bare, ours = seal_costs(codebook)
    found = [
        Row("SDK: seal a report", 1e6 / ours, "per CPU-second", "the library's seal", 1e6 / bare, at_least(SEAL_GOAL))
    ]
    found += [Row(f"SDK: {name}", cost, "us", "sealing it", ours) for name, cost in step_costs(codebook).items()]
    found += record_costs(codebook)
    statements = ["import hubbub_client", "from hubbub_client import Client"]
    floor, *sdk = import_cost([IMPORTS, *statements], rounds=9 if long else 7)
    for statement, cost in zip(statements, sdk, strict=True):
        found.append(
            Row(f"SDK: {statement}", 1e3 * cost, "ms", "importing its libraries", 1e3 * floor, at_most(IMPORT_GOAL))
        )
    return found


def main() -> None:
    print(show(rows(long=True)))


if __name__ == "__main__":
    main()
