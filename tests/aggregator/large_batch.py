"""One large batch through the whole service, in its own process. Prints the peak memory in MB as JSON."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import active_children, get_context
from pathlib import Path

import httpx2

from hubbub.sealing import Sealer
from hubbub.wire import BATCH_TYPE, BatchHeader, Plaintext, ReportHeader
from hubbub_aggregator.app import create_app
from hubbub_aggregator.main import build
from hubbub_aggregator.settings import Settings
from tests.support.compiled import write_compiled

CODEBOOK = """
[collection]
name = "large"
period = "1d"
device_epsilon = 1.0
release = { epsilon = 2.0, delta = 1e-3 }

[metrics.flag]
type = "boolean"
epsilon = 1.0
"""
CHUNK = 10_000


def sealed(work: tuple[bytes, ReportHeader, int]) -> bytes:
    """So many reports, end to end."""
    public, header, count = work
    sealer = Sealer(public)
    texts = (Plaintext(header.period, os.urandom(16), bytes([n % 2])).encode() for n in range(count))
    return b"".join(sealer.seal(header, text) for text in texts)


def peak(process: int | str) -> float:
    """Largest resident memory so far, in MB."""
    (line,) = (line for line in Path(f"/proc/{process}/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


async def main(root: Path, count: int) -> None:
    write_compiled(root / "codebook.json", CODEBOOK)
    service = build(Settings(codebook=root / "codebook.json", state_dir=root / "state", processes=2))
    metric = service.codebooks.newest.metric("flag")
    period = service.codebooks.collection.calendar.index_at(service.clock.now())
    key = next(key for key in service.ring.published(service.clock.now()) if key.covers(period))
    header = BatchHeader(metric.id, period, key.id, count, 69)
    work = [
        (key.public_key, ReportHeader(metric.id, period, key.id), min(CHUNK, count - at))
        for at in range(0, count, CHUNK)
    ]
    body = root / "body"
    with body.open("wb") as file, ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        file.write(header.encode())
        for part in pool.map(sealed, work):
            file.write(part)

    def chunks() -> Iterator[bytes]:
        with body.open("rb") as file:
            while chunk := file.read(2**16):
                yield chunk

    async def stream() -> AsyncIterator[bytes]:
        for chunk in chunks():
            yield chunk

    transport = httpx2.ASGITransport(create_app(service))
    name = os.urandom(16).hex()
    async with httpx2.AsyncClient(transport=transport, base_url="http://here") as http:
        answer = await http.put(
            f"/v1/batches/{name}",
            content=stream(),
            headers={"Content-Type": BATCH_TYPE},
        )
        assert answer.status_code == 202, answer.text
        assert await service.accumulator.drain() == 0
        verdict = (await http.get(f"/v1/batches/{name}")).json()
    workers = [peak(worker.pid) for worker in active_children() if worker.pid is not None]
    found = {
        "valid": verdict["valid"],
        "service": peak("self"),
        "worker": max(workers),
        "spool": len(list((root / "state" / "spool").iterdir())),
    }
    service.close()
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
