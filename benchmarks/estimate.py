"""CPU time of an estimate over a long list and many batches, in one process, against the limit of one second.

The store is a real one: a hundred periods of 65,536-valued randomized response, each batch of another size. The
question comes over HTTP, as an analyst's does. A hundred guarantees are composed in the background as batches are
released; this is shown separately, and a question that comes before it is done waits for it. The memory of the answer,
compared with that of the same question about one batch, shows whether tallies are summed as they are read.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

import httpx2
import numpy as np

from benchmarks.table import Row, at_most, show
from hubbub.accounting.min_batch_sizes import with_batch_sizes
from hubbub.codebook import Codebook
from hubbub.mechanisms import Tally
from hubbub.wire import BatchHeader
from hubbub_aggregator.analysis.precompute_guarantees import warm
from hubbub_aggregator.app import create_app
from hubbub_aggregator.intake.batch_guarantee import promise_of
from hubbub_aggregator.intake.batch_record import release_record
from hubbub_aggregator.main import build
from hubbub_aggregator.service import Aggregator
from hubbub_aggregator.settings import Settings
from hubbub_aggregator.storage import Accepted, Batch

VALUES, BATCHES, LIMIT = 65_536, 100, 1.0
CODEBOOK = f"""
[collection]
name = "bench"
period = "1d"
device_epsilon = 6.0
release = {{ epsilon = 0.5, delta = 1e-6 }}

[metrics.long]
type = "category"
mechanism = "krr"
values = {json.dumps([f"value {index}" for index in range(VALUES)])}
epsilon = 6.0
"""


def fill(service: Aggregator) -> None:
    """A release for each period, with counts drawn from the law of the mechanism."""
    metric = service.codebooks.newest.metric("long")
    first = service.codebooks.first_period
    governed = service.codebooks.governing(metric.id, first)
    assert governed is not None
    rng = np.random.default_rng(1)
    shares = 1 / np.arange(1, VALUES + 1)
    law = float(metric.mechanism.q) + shares / shares.sum() * float(metric.mechanism.p - metric.mechanism.q)  # type: ignore[attr-defined]  # krr has both
    for number in range(BATCHES):
        reports = 100_000 + 997 * number
        cells = rng.multinomial(reports, law / law.sum()).astype(np.int64)
        header = BatchHeader(metric.id, first + number, 0, reports, 70)
        batch = Batch(os.urandom(16), header, os.urandom(32), "pending")
        promise = promise_of(service.storage, governed, header, reports)
        record = release_record(batch, governed, promise, {})
        tally = Tally(metric.mechanism.fingerprint, reports, cells).to_bytes()
        service.storage.admit(batch)
        assert service.storage.accept(batch.id, 0, Accepted(reports, {}, tally, b"", record))


def ask(app: Any, path: str, **headers: str) -> tuple[float, httpx2.Response]:
    """CPU seconds of one answer, and the answer."""

    async def go() -> httpx2.Response:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://aggregator") as http:
            return await http.get(path, headers=headers)

    start = time.process_time()
    answer = asyncio.run(go())
    return time.process_time() - start, answer


def peak(app: Any, path: str) -> int:
    """The most bytes that Python and numpy hold while answering."""
    tracemalloc.start()
    ask(app, path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def rows(*, long: bool = False) -> list[Row]:  # noqa: ARG001  only one size, which the limit is for
    """Answers compared with the limit, work in the background, and memory."""
    with tempfile.TemporaryDirectory() as folder:
        codebook = Path(folder) / "codebook.json"
        codebook.write_bytes(with_batch_sizes(Codebook.from_toml(CODEBOOK)).to_bytes())
        service = build(Settings(codebook=codebook, state_dir=Path(folder) / "state", processes=1))
        try:
            fill(service)
            app = create_app(service)
            path = "/v1/metrics/long/estimate"
            label = service.codebooks.collection.calendar.period
            first = service.codebooks.first_period
            single = f"{path}?from={label(first).label}&to={label(first + 1).label}"
            ask(app, f"{single}&top=1")  # libraries load
            questions = {
                "first answer": path,
                "asked again": path,
                "other confidence": f"{path}?confidence=0.99",
                "ten largest": f"{path}?top=10",
                "as CSV": f"{path}?format=csv",
            }
            start = time.process_time()
            warm(service, set(service.storage.spans()))
            scale = f"{VALUES:,} values, {BATCHES} batches"
            found = [Row(f"{scale}: composing, in the background", time.process_time() - start, "s of CPU")]
            for name, question in questions.items():
                seconds, answer = ask(app, question)
                assert answer.status_code == 200, answer.text
                found.append(Row(f"{scale}: {name}", seconds, "s of CPU", "limit", LIMIT, at_most(1)))
            seconds, answer = ask(app, path, **{"If-None-Match": ask(app, path)[1].headers["etag"]})
            assert answer.status_code == 304
            found.append(Row(f"{scale}: nothing has changed", seconds, "s of CPU", "limit", LIMIT, at_most(1)))
            many, one = peak(app, path), peak(app, single)
        finally:
            service.close()
    found.append(Row(f"{scale}: peak memory of an answer", many / 2**20, "MiB", "over one batch", one / 2**20))
    return found


def main() -> None:
    print(show(rows(long=True)))


if __name__ == "__main__":
    main()
