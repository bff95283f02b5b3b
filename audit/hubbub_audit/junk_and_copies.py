"""Attack by junk and by copies of honest reports: do they raise the crowd that a release is certified for?

Any sender can add bytes that do not open, and reports that were sealed before. A real aggregator gets batches with and
without them. With junk, no batch may be released that is refused without it, and no number that a guarantee rests on
may rise. A batch that the aggregator opened and refused was still read, so the ledger must list it.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from hubbub.accounting.min_batch_sizes import with_batch_sizes
from hubbub.codebook import Codebook
from hubbub.randomness import SystemRandomness
from hubbub.sealing import Sealer
from hubbub.wire import BATCH_TYPE, BatchHeader, Plaintext, ReportHeader, sealed_bytes
from hubbub_aggregator.app import create_app
from hubbub_aggregator.main import build
from hubbub_aggregator.service import Aggregator
from hubbub_aggregator.settings import Settings
from hubbub_audit.audited_client import fast_folder
from hubbub_audit.findings import Attack, Finding
from hubbub_client._randomizing.draw import draw
from hubbub_service_common.clock.trusted_clock import TrustedClock

__all__ = ["junk"]

_MINIMUM = 60
_CODEBOOK = f"""
[collection]
name = "junk"
period = "1d"
device_epsilon = 1
release = {{ epsilon = 0.9, delta = 1e-6 }}
honest_fraction = 0.9
[metrics.crashed]
type = "boolean"
epsilon = 1
min_batch = {_MINIMUM}
"""
_NOW = 20_800 * 86_400.0 + 3_600
_VALID = (40, _MINIMUM - 6, _MINIMUM - 1, _MINIMUM, _MINIMUM + 20)
"""Numbers of distinct valid reports: a crowd far too small, some just too small, and some large enough."""


def junk(batches: int) -> Attack:
    """Pad crowds of several sizes with junk and copies, each size `batches` times."""

    def run(_: float) -> list[Finding]:
        rng = SystemRandomness()
        with _an_aggregator() as aggregator:
            alone = {valid: aggregator.verdict(valid) for valid in _VALID}
            padded = [
                (alone[valid], aggregator.verdict(valid, copies=rng.below(40), noise=rng.below(60) + _MINIMUM))
                for valid in _VALID
                for _number in range(batches)
            ]
            unread = aggregator.opened_and_refused() - aggregator.counted_in_ledger()
        risen = max((after.honest - before.honest for before, after in padded if before.honest), default=0)
        carried = sum(after.released and not before.released for before, after in padded)
        return [
            Finding(
                "poisoning",
                "aggregator",
                "junk and copies in a batch",
                "neither raises the honest count of a release, nor releases a crowd that is too small",
                0.0,
                float(max(risen, 0) + carried),
                "beaten" if risen > 0 or carried else "holds",
                "any additional report in the honest count shows, and any release",
                trials=len(padded),
                detail=f"honest reports gained: {max(risen, 0)}; small crowds released: {carried}",
            ),
            Finding(
                "time",
                "aggregator",
                "batches that were opened and refused",
                "the ledger omits nothing that the aggregator has read",
                0.0,
                float(unread),
                "beaten" if unread else "holds",
                "any batch that is missing shows",
                trials=len(padded),
                detail=f"missing in the ledger: {unread}",
            ),
        ]

    return Attack("poisoning", "aggregator", 0, run)


@dataclass(frozen=True, slots=True)
class _Verdict:
    released: bool
    honest: int
    """Reports that the guarantee rests on; 0 without a release."""


class _Clock:
    now = _NOW

    def __call__(self) -> float:
        return self.now


class _Here:
    """Opens batches in this process."""

    async def map(self, work: Callable[[Any], Any], parts: Sequence[Any]) -> list[Any]:
        return [work(part) for part in parts]

    def close(self) -> None:
        pass


@dataclass
class _Aggregator:
    """A real aggregator, with the audit in place of the shuffler. Each batch has its own period."""

    service: Aggregator
    clock: _Clock
    opened: int = 0

    def verdict(self, valid: int, copies: int = 0, noise: int = 0) -> _Verdict:
        """The verdict on a batch of `valid` honest reports, freshly sealed copies of them, and noise."""
        self.clock.now += 86_400
        self.service.tick()
        metric = self.service.codebooks.newest.metric("crashed")
        period = metric.calendar.index_at(self.clock.now)
        key = next(key for key in self.service.ring.published(self.clock.now) if key.covers(period))
        header = BatchHeader(
            metric.id, period, key.id, valid + copies + noise, sealed_bytes(metric.mechanism.report_bytes)
        )
        rng, sealer = SystemRandomness(), Sealer(key.public_key)
        drawn = [draw(metric, True, rng) for _ in range(valid)]
        sealed = [
            sealer.seal(ReportHeader(metric.id, period, key.id), Plaintext(period, one.nonce, one.payload).encode())
            for one in [*drawn, *(drawn[at % valid] for at in range(copies))]
        ]
        body = header.encode() + b"".join([*sealed, *(os.urandom(header.size) for _ in range(noise))])
        return asyncio.run(self._settled(os.urandom(16), body))

    async def _settled(self, id_: bytes, body: bytes) -> _Verdict:
        inside = httpx2.ASGITransport(create_app(self.service))
        async with httpx2.AsyncClient(transport=inside, base_url="http://aggregator.invalid") as http:
            path = f"/v1/batches/{id_.hex()}"
            (await http.put(path, content=body, headers={"Content-Type": BATCH_TYPE})).raise_for_status()
            await self.service.accumulator.drain()
            answer = (await http.get(path)).json()
        release = self.service.storage.release(id_)
        self.opened += release is None and answer["valid"] is not None
        return _Verdict(release is not None, 0 if release is None else json.loads(release.record)["honest_reports"])

    def opened_and_refused(self) -> int:
        """Batches that the aggregator did not release, but for which it stated the number of valid reports."""
        return self.opened

    def counted_in_ledger(self) -> int:
        async def asked() -> int:
            inside = httpx2.ASGITransport(create_app(self.service))
            async with httpx2.AsyncClient(transport=inside, base_url="http://aggregator.invalid") as http:
                return int((await http.get("/v1/privacy")).json()["opened_and_refused"])

        return asyncio.run(asked())


@contextmanager
def _an_aggregator() -> Iterator[_Aggregator]:
    with tempfile.TemporaryDirectory(prefix="hubbub-audit-", dir=fast_folder()) as folder:
        codebook = Path(folder) / "codebook.json"
        codebook.write_bytes(with_batch_sizes(Codebook.from_toml(_CODEBOOK)).to_bytes())
        # constructed, not loaded, so that no environment variable can change an audit
        settings = Settings.model_construct(codebook=codebook, state_dir=Path(folder) / "state")
        clock = _Clock()
        service = build(settings, TrustedClock.set_by(clock))
        service.pool = service.accumulator.pool = _Here()  # type: ignore[assignment]  # has the methods of a pool that are used
        try:
            yield _Aggregator(service, clock)
        finally:
            service.storage.close()
