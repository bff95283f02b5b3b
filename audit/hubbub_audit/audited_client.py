"""A real client with its own state file, whose network, clock and shuffler the audit controls."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hubbub.bundle import BundledCodebook, SealingKey, sign
from hubbub.codebook import Codebook
from hubbub.sealing import Opener, new_private_key, public_key_of
from hubbub.trust_anchor import anchor_of
from hubbub.wire import Plaintext, ReportHeader, decode_report, decode_upload
from hubbub_client import Client
from hubbub_client._http.transport import Answer, CannotReach
from hubbub_client.testing import FakeClock, MemoryTransport, Request

__all__ = ["Device", "a_device", "fast_folder", "lost_answer", "refused"]

_YEARS = 20 * 365 * 86_400


class Device:
    """A device on which everything from `record` to the network is as shipped, including the randomness."""

    def __init__(self, codebook: Codebook, folder: Path) -> None:
        self.codebook, self.folder = codebook, folder
        self.clock = FakeClock(period=str(codebook.collection.calendar))
        self._identity = Ed25519PrivateKey.generate()
        self._keys = {1: new_private_key()}
        self._sequence = 0
        self.transport = MemoryTransport(self._bundle())
        self.client = self._started()

    def record(self, metric: str, value: object) -> None:
        outcome = self.client.record(metric, value)
        if outcome.value != "recorded":
            raise RuntimeError(f"the client did not take a value of {metric}: {outcome.value}")

    def restart(self) -> None:
        """End the app and start it again on the same files."""
        self.client.close()
        self.client = self._started()

    def revoke(self) -> None:
        """Serve a bundle in which the sealing key is revoked and replaced."""
        self._keys[len(self._keys) + 1] = new_private_key()
        self.transport.bundle = self._bundle()

    def open(self, report: bytes) -> tuple[ReportHeader, Plaintext]:
        header, sealed = decode_report(report)
        return header, Plaintext.decode(Opener(self._keys[header.key]).open(header, sealed))

    def uploads(self) -> list[bytes]:
        """Every report in every request, acknowledged or not, in order."""
        posts = [request for request in self.transport.requests if request.method == "POST"]
        return [report for request in posts for report in decode_upload(request.body)]

    def close(self) -> None:
        self.client.close()

    def _started(self) -> Client:
        client = Client(
            "https://shuffler.invalid",
            trust=anchor_of(self._identity),
            consent=True,
            state_dir=self.folder,
            max_epsilon=None,
            min_period=None,
            strict=True,
            background=False,
            clock=self.clock,
            pace=self.clock.pace,
            transport=self.transport,
        )
        client.flush(0)
        return client

    def _bundle(self) -> bytes:
        now = int(self.clock.now)
        self._sequence = max(now, self._sequence + 1)
        newest = max(self._keys)
        keys = [
            SealingKey(number, public_key_of(private), 0, 2**31, "active" if number == newest else "revoked")
            for number, private in self._keys.items()
        ]
        return sign(
            self._identity,
            collection=self.codebook.collection.name,
            codebooks=[BundledCodebook(0, self.codebook.compiled())],
            keys=keys,
            now=now,
            lifetime=_YEARS,
            max_age=_YEARS,
            last=None,
            sequence=self._sequence,
        )


@contextmanager
def a_device(codebook: Codebook) -> Iterator[Device]:
    """A device in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="hubbub-audit-", dir=fast_folder()) as folder:
        device = Device(codebook, Path(folder))
        try:
            yield device
        finally:
            device.close()


def fast_folder() -> str | None:
    """The folder for the audit's files: in memory if possible, since the disk is not under test."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108  file names below it are random


def lost_answer(device: Device) -> Callable[[Request], Answer]:
    """The shuffler takes the reports, but its answer is lost."""

    def answer(request: Request) -> Answer:
        device.transport.accept(request)
        raise CannotReach("connection reset")

    return answer


def refused(reason: str) -> Callable[[Request], Answer]:
    """The shuffler refuses all reports, for this reason."""

    def answer(request: Request) -> Answer:
        count = len(decode_upload(request.body))
        listed: list[dict[str, Any]] = [{"index": index, "reason": reason} for index in range(count)]
        return 200, {"content-type": "application/json"}, json.dumps({"failures": listed}).encode()

    return answer
