"""Attack by an aggregator that splits crowds: into how many buckets can it cut the reports of one metric and period?

Its only means is the bundle. While a period runs it signs another one, with another id or key, or with many ids for one
metric, and serves different bundles to different processes of the shuffler. Each bucket would be a separate crowd, and
membership would depend on when a device fetched the bundle. Honest reports are sent under everything that was ever
listed, and the buckets into which a real shuffler takes them are counted. Revoking a key and switching a metric off
must still work.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import SecretStr

from hubbub.bundle import BundledCodebook, SealingKey, sign
from hubbub.codebook import Codebook
from hubbub.sealing import public_key_of
from hubbub.trust_anchor import anchor_of
from hubbub.wire import REPORTS_TYPE, ReportHeader, encode_report, encode_upload, sealed_bytes
from hubbub_audit.audited_client import fast_folder
from hubbub_audit.findings import Attack, Finding
from hubbub_shuffler.bundle.relay import Bundles
from hubbub_shuffler.in_process import in_process

__all__ = ["splitting"]

_PERIOD = 20_800
_NOW = _PERIOD * 86_400.0 + 3_600
_TOML = """
[collection]
name = "split"
period = "1d"
device_epsilon = 8
release = {{ epsilon = 1, delta = 1e-6 }}
[metrics.crashed]
type = "boolean"
epsilon = {epsilon}
enabled = {enabled}
min_batch = 2
"""
_EDITS = ("1", "1.1", "1.2")
_SKEW = 60.0


def splitting() -> Attack:
    """Offer every kind of bundle that could split a crowd, and count the buckets."""

    def run(_: float) -> list[Finding]:
        with tempfile.TemporaryDirectory(prefix="hubbub-audit-", dir=fast_folder()) as folder, _quiet():
            buckets, offered, powerless = asyncio.run(_attacked(Path(folder)))
        return [
            Finding(
                "shuffle",
                "shuffler",
                "bundles that split a crowd",
                "reports of one metric and period are in one bucket, whatever the aggregator signs",
                1.0,
                float(buckets),
                "beaten" if buckets > 1 else "holds" if buckets == 1 and not powerless else "weak",
                "any second bucket shows",
                trials=offered,
                detail=f"buckets of one metric and period: {buckets}"
                + (f"; not obeyed: {powerless}" * bool(powerless)),
            )
        ]

    return Attack("shuffle", "shuffler", 0, run)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the shuffler's log, which says why it refuses each bundle: here refusals are expected."""
    logger = logging.getLogger("hubbub_shuffler")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


async def _attacked(folder: Path) -> tuple[int, int, str]:
    """Number of buckets, number of bundles offered, and an honest change that was not taken, if any."""
    aggregator = _Aggregator()
    async with AsyncExitStack() as stack:
        one = await _a_process(stack, folder / "one", folder, aggregator)
        two = await _a_process(stack, folder / "two", folder, aggregator)
        taken: set[tuple[bytes, int]] = set()
        for bundle in _hostile(aggregator):
            aggregator.bundle = bundle
            for process in (one, two):
                await process.bundles.refresh()
                taken |= await process.admitted()
        powerless = ""
        for name, bundle in _honest(aggregator):
            aggregator.bundle = bundle
            await one.bundles.refresh()
            if await one.admitted():
                powerless = name
        return len(taken), aggregator.sequence, powerless


def _hostile(aggregator: _Aggregator) -> list[bytes]:
    """Bundles of the attack; the first one is honest."""
    codebooks = [_book(epsilon) for epsilon in _EDITS]
    first, other = _key(1), _key(2)
    gone = _key(1, revoked=True)
    return [
        aggregator.signed([(0, codebooks[0])], [first]),
        aggregator.signed([(0, codebooks[1])], [first]),
        aggregator.signed([(0, codebooks[0]), (_PERIOD, codebooks[2])], [first]),
        aggregator.signed([(_PERIOD - 2 + at, book) for at, book in enumerate(codebooks)], [first]),
        aggregator.signed([(0, codebooks[0])], [other]),
        aggregator.signed([(0, codebooks[0])], []),
        aggregator.signed([(0, codebooks[0])], [other]),
        aggregator.signed([(0, codebooks[0])], [gone, other]),
    ]


def _honest(aggregator: _Aggregator) -> list[tuple[str, bytes]]:
    """Honest changes. After each of them, no report may be taken."""
    key = _key(1)
    return [
        ("a metric that is switched off", aggregator.signed([(0, _book("1", on=False))], [key])),
        ("a revoked key", aggregator.signed([(0, _book("1"))], [_key(1, revoked=True), _key(3, _PERIOD + 1)])),
    ]


def _book(epsilon: str, *, on: bool = True) -> Codebook:
    return Codebook.from_toml(_TOML.format(epsilon=epsilon, enabled=str(on).lower()))


def _key(number: int, first: int = 0, *, revoked: bool = False) -> SealingKey:
    public = public_key_of(bytes([number] * 32))
    last = 2**31 if first else _PERIOD
    return SealingKey(number, public, first, last, "revoked" if revoked else "active")


class _Aggregator:
    """A dishonest aggregator, which signs any bundle."""

    def __init__(self) -> None:
        self._identity = Ed25519PrivateKey.generate()
        self.trust, self.bundle, self.sequence = anchor_of(self._identity), b"", 0

    def signed(self, codebooks: Sequence[tuple[int, Codebook]], keys: Sequence[SealingKey]) -> bytes:
        self.sequence += 1
        return sign(
            self._identity,
            collection="split",
            codebooks=[BundledCodebook(first, book.compiled()) for first, book in codebooks],
            keys=keys,
            now=int(_NOW) + self.sequence,
            lifetime=30 * 86_400,
            max_age=0,
            last=None,
        )

    async def __call__(self, _scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": self.bundle})


class _Process:
    """One process of a shuffler, with its own copy of the bundle and the shared storage."""

    def __init__(self, bundles: Bundles, device: httpx2.AsyncClient) -> None:
        self.bundles, self._device = bundles, device

    async def admitted(self) -> set[tuple[bytes, int]]:
        """The buckets of one metric name and period that take reports now: metric id and key."""
        size = sealed_bytes(_book("1").metrics[0].mechanism.report_bytes)
        found = set()
        for metric in [_book(epsilon).metrics[0].id for epsilon in _EDITS]:
            for key in (1, 2, 3):
                report = encode_report(ReportHeader(metric, _PERIOD, key), os.urandom(size))
                body, headers = encode_upload([report]), {"Content-Type": REPORTS_TYPE}
                answer = await self._device.post("/v1/reports", content=body, headers=headers)
                if answer.status_code == httpx2.codes.ACCEPTED:
                    found.add((metric, key))
        return found


async def _a_process(stack: AsyncExitStack, own: Path, shared: Path, aggregator: _Aggregator) -> _Process:
    storage = SecretStr(str(shared / "reports.sqlite"))
    process = in_process(
        aggregator,
        state_dir=own,
        trust=aggregator.trust,
        clock=lambda: _NOW,
        storage=storage,
        min_batch_floor=2,
        skew=_SKEW,
    )
    shuffler, devices = await stack.enter_async_context(process)
    return _Process(shuffler.bundles, devices)
