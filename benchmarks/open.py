"""Opening and accumulating a batch, compared with the library's bare HPKE open of the same reports on the same cores.

The floor is one X25519 exchange and one AES-GCM open per report. What the aggregator adds (reading the spool, decoding,
duplicates, tally, accounting, commit) must be small in comparison.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from multiprocessing import active_children
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from benchmarks.table import Row, at_least, show
from hubbub.accounting.min_batch_sizes import with_batch_sizes
from hubbub.codebook import Codebook
from hubbub.randomness import SystemRandomness
from hubbub.sealing import Sealer
from hubbub.wire import BatchHeader, Plaintext, ReportHeader
from hubbub_aggregator.intake.open_reports import Pool
from hubbub_aggregator.main import build
from hubbub_aggregator.service import Aggregator
from hubbub_aggregator.settings import Settings
from hubbub_aggregator.storage import Batch

REPORTS = 30_000
ROUNDS = 3
GOAL = 0.85
CODEBOOK = """
[collection]
name = "bench"
period = "1d"
device_epsilon = 5.0
release = { epsilon = 0.5, delta = 1e-8 }

[metrics.coin]
type = "category"
values = ["a", "b", "c", "d"]
epsilon = 1.0
mechanism = "krr"

[metrics.page]
type = "category"
values = {pages}
epsilon = 4.0
mechanism = "linear-hash"
""".replace("{pages}", str([f"page {number}" for number in range(65_536)]))
METRICS = {"coin": "4 values, krr", "page": "65,536 values, linear-hash"}


def bare(part: tuple[bytes, bytes, list[bytes]]) -> int:
    """Open the reports with the library alone."""
    private, info, sealed = part
    suite = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
    key = X25519PrivateKey.from_private_bytes(private)
    return sum(len(suite.decrypt(one, key, info)) > 0 for one in sealed)


def sealed_reports(service: Aggregator, name: str, count: int) -> tuple[BatchHeader, list[bytes], bytes]:
    """A batch of honest reports, and the key they open with."""
    metric = service.codebooks.newest.metric(name)
    period = service.codebooks.collection.calendar.index_at(service.clock.now())
    key = next(key for key in service.storage.sealing_keys() if key.covers(period))
    assert key.private_key is not None
    header = ReportHeader(metric.id, period, key.id)
    sealer = Sealer(key.public_key)
    payload = metric.mechanism.encode(metric.mechanism.randomize(1, SystemRandomness()))
    reports = [sealer.seal(header, Plaintext(period, os.urandom(16), payload).encode()) for _ in range(count)]
    return BatchHeader(metric.id, period, key.id, count, len(reports[0])), reports, key.private_key


def cpu_seconds() -> float:
    """CPU time of this process and its workers so far. On a shared machine wall time says little."""
    ticks = os.sysconf("SC_CLK_TCK")
    spent = time.process_time()
    for worker in active_children():
        user, system = Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        spent += (int(user) + int(system)) / ticks
    return spent


async def measure(service: Aggregator, pool: Pool, cores: int, name: str, count: int) -> tuple[float, float]:
    """Reports per CPU-second, bare and as the aggregator does it: the median of a few rounds each."""
    header, reports, private = sealed_reports(service, name, count)
    info = b"hubbub-01 report\0" + header.metric + bytes([0, 32, 0, 1, 0, 1, header.key])
    share = 2_000
    parts = [(private, info, reports[at : at + share]) for at in range(0, count, share)]
    await pool.map(bare, [(private, info, reports[:10])] * cores * 4)  # processes start, libraries load
    floor: list[float] = []
    whole: list[float] = []
    for _ in range(ROUNDS + 1):  # libraries load in the first round
        start = cpu_seconds()
        assert sum(await pool.map(bare, parts)) == count
        floor.append(count / (cpu_seconds() - start))

        batch = Batch(os.urandom(16), header, os.urandom(32), "pending", spooled(service, reports))
        service.storage.admit(batch)
        start = cpu_seconds()
        await service.accumulator.settle(batch)
        whole.append(count / (cpu_seconds() - start))
        _, reports, _ = sealed_reports(service, name, count)
        parts = [(private, info, reports[at : at + share]) for at in range(0, count, share)]
    accepted = [one for one in service.storage.releases() if one.tally and one.metric == header.metric]
    assert len(accepted) == ROUNDS + 1
    return statistics.median(floor[1:]), statistics.median(whole[1:])


def spooled(service: Aggregator, reports: list[bytes]) -> str:
    with service.spool.upload(sum(map(len, reports))) as upload:
        for report in reports:
            upload.write(report)
        upload.sync()
        upload.kept = True
    return upload.name


def rows(*, long: bool = False) -> list[Row]:
    """Reports opened, accumulated and committed per CPU-second, compared with the bare open."""
    reports = REPORTS if long else REPORTS // 2
    cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        codebook = Path(folder) / "codebook.json"
        codebook.write_bytes(with_batch_sizes(Codebook.from_toml(CODEBOOK)).to_bytes())
        service = build(Settings(codebook=codebook, state_dir=Path(folder) / "state", processes=cores))
        try:
            found = {name: asyncio.run(measure(service, service.pool, cores, name, reports)) for name in METRICS}
        finally:
            service.close()
    return [
        Row(f"open and accumulate: {METRICS[name]}", whole, "per CPU-second", "bare HPKE open", floor, at_least(GOAL))
        for name, (floor, whole) in found.items()
    ]


def main() -> None:
    print(show(rows(long=True)))


if __name__ == "__main__":
    main()
