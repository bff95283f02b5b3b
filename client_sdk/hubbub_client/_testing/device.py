"""A device under test: a client whose network, clock and consent the test controls."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from hubbub.codebook import Codebook
from hubbub_client._testing.clock import FakeClock
from hubbub_client._testing.in_memory_shuffler import MemoryTransport, SentReport, codebook_of
from hubbub_client.client import Client, Outcome

__all__ = ["Device", "Recorded"]

_ADDRESS = "https://telemetry.example.com"


class Recorded(NamedTuple):
    """One call of `record`, as the app made it."""

    metric: str
    value: object
    outcome: Outcome


class Device:
    """A real client with a shuffler in memory, a fake clock and no thread. It is strict, so that a mistake is an error.

    Everything between `record` and the network is as in a shipped app: the same file, ledger, randomness and sealing.
    `options` are further arguments of `Client`.
    """

    def __init__(self, codebook: Codebook | Path | str, state_dir: Path | str, **options: Any) -> None:
        codebook = codebook_of(codebook)
        self.clock = FakeClock(period=str(codebook.collection.calendar))
        self.transport = MemoryTransport.serving(codebook, self.clock)
        self.consent = True
        """What the person answers; a test may change it at any time."""
        self.recorded: list[Recorded] = []
        """The values that the app recorded: the one thing to assert on that is not random."""
        self._settings = {
            "trust": self.transport.trust,
            "consent": lambda: self.consent,
            "state_dir": state_dir,
            "strict": True,
            "background": False,
            "clock": self.clock,
            "pace": self.clock.pace,
            "transport": self.transport,
            **options,
        }
        self.client = self._started()

    def reports_sent(self, metric: str | None = None) -> list[SentReport]:
        """Send all reports that are due, without their random delay, and return all reports that ever arrived.

        Metrics that take the first value are due at once. For the others, let the period end: `next_period`.
        """
        self.client.flush(0, now=True)
        return self.transport.reports_sent(metric)

    def next_period(self, count: int = 1) -> None:
        """Let one or more periods end. Reports that are due are sent on the way, as a running app would send them,
        because reports that wait for longer than their period's grace are dropped. To skip time, move the clock."""
        for _ in range(count):
            self.client.flush(0, now=True)
            self.clock.next_period()
            self.client.flush(0)

    def restart(self) -> Client:
        """Let the app end and start again with the same files. Returns the new client, which `client` is from now
        on."""
        self.client.close()
        self.client = self._started()
        return self.client

    def close(self) -> None:
        """Close the client."""
        self.client.close()

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _started(self) -> Client:
        client = _Watched(self.recorded, _ADDRESS, **self._settings)
        client.flush(0)  # so that it has its bundle, like an app that has run before
        return client


class _Watched(Client):
    """A client that also keeps a list of what is recorded."""

    def __init__(self, recorded: list[Recorded], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._recorded = recorded

    def record(self, name: str, value: object) -> Outcome:
        outcome = super().record(name, value)
        self._recorded.append(Recorded(name, value, outcome))
        return outcome
