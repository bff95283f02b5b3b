"""Opening of reports on all cores: one HPKE open each, in processes, because two threads are slower than one.

A process gets a slice of a spooled batch and returns the nonces and payloads that are valid in it. Whatever a slice
holds can spoil only its own reports.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, TypeVar

from hubbub.errors import CannotOpen
from hubbub.mechanisms import Mechanism
from hubbub.sealing import Opener
from hubbub.wire import NONCE_BYTES, BatchHeader, ReportHeader

__all__ = ["Opened", "Pool", "Slice", "open_slice", "slices", "tally_parts", "tally_payloads"]

T = TypeVar("T")

SLICE = 2_000
"""Reports per task: about a seventh of a second, so that cores finish together and few bytes travel at once."""
TALLIED = 20_000
"""Fewest reports that one task counts together, if there are that many."""
_ATTEMPTS = 3
PERIOD_BYTES = 4
"""A plaintext starts with its period, big-endian; see `hubbub.wire`."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Some consecutive reports of a spooled batch, and what is needed to open them."""

    path: Path
    start: int
    count: int
    header: BatchHeader
    mechanism: Mechanism[Any]
    private_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Opened:
    """The valid reports of a slice: their nonces and their payloads, end to end, and what was wrong with the rest."""

    nonces: bytes
    payloads: bytes
    invalid: dict[str, int]


def slices(path: Path, header: BatchHeader, mechanism: Mechanism[Any], private_key: bytes) -> list[Slice]:
    """The sealed reports in a file, as slices."""
    return [
        Slice(path, first * header.size, min(SLICE, header.count - first), header, mechanism, private_key)
        for first in range(0, header.count, SLICE)
    ]


def open_slice(part: Slice) -> Opened:
    """Open every report of a slice. Damaged or impossible ones, and those of other periods, are counted and left out.

    The loop does as little as possible between two opens; everything else is done for all reports at once.
    """
    with part.path.open("rb") as file:
        file.seek(part.start)
        data = file.read(part.count * part.header.size)
    size, header = part.header.size, ReportHeader(part.header.metric, part.header.period, part.header.key)
    opened, opening = list[bytes](), Opener(part.private_key).open
    for at in range(0, len(data), size):
        try:
            opened.append(opening(header, data[at : at + size]))
        except CannotOpen:
            continue
    return _sorted_out(opened, part, len(data) // size)


def _sorted_out(opened: list[bytes], part: Slice, count: int) -> Opened:
    """The valid ones among plaintexts of one length, by the rules of `Plaintext.decode` and of the mechanism."""
    import numpy as np

    invalid = Counter({"cannot-open": count - len(opened)})
    length = PERIOD_BYTES + NONCE_BYTES + part.mechanism.report_bytes
    if not opened or len(opened[0]) != length:  # sealed reports of one size have plaintexts of one size
        invalid["malformed"] = len(opened)
        return Opened(b"", b"", dict(+invalid))
    table = np.frombuffer(b"".join(opened), np.uint8).reshape(-1, length)
    in_period = (table[:, :PERIOD_BYTES] == np.frombuffer(part.header.period.to_bytes(PERIOD_BYTES), np.uint8)).all(1)
    _, possible = part.mechanism.decode_many(np.ascontiguousarray(table[:, PERIOD_BYTES + NONCE_BYTES :]))
    invalid["wrong-period"] = int((~in_period).sum())
    invalid["malformed"] = int((in_period & ~possible).sum())
    valid = table[in_period & possible]
    nonces, payloads = valid[:, PERIOD_BYTES : PERIOD_BYTES + NONCE_BYTES], valid[:, PERIOD_BYTES + NONCE_BYTES :]
    return Opened(nonces.tobytes(), payloads.tobytes(), dict(+invalid))


def tally_parts(mechanism: Mechanism[Any], payloads: Sequence[bytes]) -> list[tuple[Mechanism[Any], bytes]]:
    """Payloads grouped into tasks for `tally_payloads`.

    Each has at least as many reports as a tally has counts, so that the tallies are not larger than what was opened.
    """
    least = mechanism.report_bytes * max(TALLIED, mechanism.cells)
    parts, waiting, size = list[tuple[Mechanism[Any], bytes]](), list[bytes](), 0
    for piece in payloads:
        waiting.append(piece)
        size += len(piece)
        if size >= least:
            parts.append((mechanism, b"".join(waiting)))
            waiting, size = [], 0
    if size:
        parts.append((mechanism, b"".join(waiting)))
    return parts


def tally_payloads(part: tuple[Mechanism[Any], bytes]) -> bytes:
    """The tally of payloads that `open_slice` found valid."""
    import numpy as np

    mechanism, payloads = part
    reports, _ = mechanism.decode_many(np.frombuffer(payloads, np.uint8).reshape(-1, mechanism.report_bytes))
    return mechanism.tally(reports).to_bytes()


class Pool:
    """Worker processes, started when first needed, and again after one of them died."""

    def __init__(self, processes: int | None = None) -> None:
        self._processes = processes or os.cpu_count() or 1
        self._executor: ProcessPoolExecutor | None = None

    async def map(self, work: Callable[[T], Any], parts: Sequence[T]) -> list[Any]:
        """The result for every part, in order. A process that died is replaced, and the work is done again."""
        for attempt in range(_ATTEMPTS):
            executor, futures = self._running(), []
            try:
                futures = [executor.submit(work, part) for part in parts]
                return [await asyncio.wrap_future(future) for future in futures]
            except BrokenProcessPool:
                self._drop(executor)
                if attempt + 1 == _ATTEMPTS:
                    raise
            finally:
                for future in futures:
                    future.cancel()
        raise AssertionError("unreachable")

    def close(self) -> None:
        """End the processes. Their unfinished work is lost, and done again from the spool."""
        if self._executor is not None:
            self._drop(self._executor)

    def _running(self) -> ProcessPoolExecutor:
        if self._executor is None:
            self._executor = ProcessPoolExecutor(
                self._processes, mp_context=get_context("spawn"), initializer=_start_worker
            )
        return self._executor

    def _drop(self, executor: ProcessPoolExecutor) -> None:
        executor.shutdown(wait=True, cancel_futures=True)
        if self._executor is executor:
            self._executor = None


def _start_worker() -> None:
    """Let a worker leave Ctrl-C to its parent, and end when the parent does, however that ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(0)
