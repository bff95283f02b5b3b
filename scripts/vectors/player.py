"""The player of traces: a device that lives through a list of events, seen from outside only."""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hubbub.bundle import entity_tag
from hubbub.codebook import Codebook
from hubbub.randomness import Randomness
from hubbub.sealing import Opener
from hubbub.wire import Plaintext, decode_report, decode_upload
from hubbub_client import Client
from hubbub_client._http.transport import CannotReach
from hubbub_client.testing import Pace
from scripts.vectors.streams import Recorded, stream

__all__ = ["Player", "coins_stream"]

_STREAM = 4_096
GENERAL_OUTCOMES = {"short_period": "over_budget", "not_pinned": "disabled"}
"""The word of the traces for an outcome that a device may name more exactly: see tests/vectors/README.md."""
_ADDRESS = "https://telemetry.example.com"


def coins_stream(trace: str, purpose: str, subject: str, number: int) -> bytes:
    """The bits of one private coin."""
    return stream(f"{trace}:{purpose}:{subject}:{number}", _STREAM)


class _Coins:
    """Each coin has a stream of its own, from its beginning each time."""

    def __init__(self, trace: str) -> None:
        self._trace = trace

    def of(self, purpose: str, subject: str, number: int) -> Randomness:
        return Recorded(coins_stream(self._trace, purpose, subject, number))


class _Values(Randomness):
    """The bits for reducing and randomizing: a new stream for each event."""

    def __init__(self, trace: str) -> None:
        self._trace, self._now = trace, Recorded(b"")

    def begin(self, event: int) -> None:
        self._now = Recorded(stream(f"{self._trace}:value:{event}", _STREAM))

    def bits(self, count: int) -> int:
        return self._now.bits(count)


class _FrontDoor:
    """A shuffler that serves the bundle it is told to, answers uploads as it is told to, and notes all requests."""

    def __init__(self, private_keys: Mapping[str, str]) -> None:
        self._openers = {int(key): Opener(bytes.fromhex(private)) for key, private in private_keys.items()}
        self.bundle: bytes | None = None
        self.offline = False
        self.answers = deque[dict[str, Any] | None]()
        self.requests: list[dict[str, Any]] = []
        self._sent = set[bytes]()

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Any:
        if method == "GET":
            noted: dict[str, Any] = {"get": path}
            answer: dict[str, Any] | None = self._of_bundle(headers)
        else:
            noted = {"post": path, "reports": [self._opened(report) for report in decode_upload(body)]}
            answer = self.answers.popleft() if self.answers else {"status": 202, "body": ""}
        if self.offline:
            answer = None
        self.requests.append(noted | {"status": answer["status"] if answer else None})
        if answer is None:
            raise CannotReach("no network")
        named = {"content-type": "type", "retry-after": "retry_after", "etag": "etag"}
        found = {header: answer[name] for header, name in named.items() if name in answer}
        content = answer["body"]
        return answer["status"], found, content if isinstance(content, bytes) else content.encode()

    def _of_bundle(self, headers: Mapping[str, str]) -> dict[str, Any]:
        if self.bundle is None:
            return {"status": 503, "body": ""}
        tag = entity_tag(self.bundle)
        if headers.get("if-none-match") == tag:
            return {"status": 304, "etag": tag, "body": ""}
        return {"status": 200, "etag": tag, "body": self.bundle}

    def _opened(self, report: bytes) -> dict[str, Any]:
        """What the aggregator reads in a report, and whether exactly these bytes were sent before."""
        header, sealed = decode_report(report)
        plaintext = Plaintext.decode(self._openers[header.key].open(header, sealed))
        again = report in self._sent
        self._sent.add(report)
        return {
            "metric": header.metric.hex(),
            "period": plaintext.period,
            "key": header.key,
            "nonce": plaintext.nonce.hex(),
            "payload": plaintext.payload.hex(),
            "again": again,
        }


class Player:
    """Plays one trace and writes beside each event what follows from it."""

    def __init__(self, trace: dict[str, Any], world: Mapping[str, Any], directory: Path) -> None:
        self._trace, self._world, self._directory = trace, world, directory
        self._values, self._door = _Values(trace["name"]), _FrontDoor(world["private_keys"])
        self._now, self._passed = trace["starts_at"], 0
        self._consent, self._settings = True, dict(trace["settings"])
        self._account: dict[str, Any] = {"spent": "0", "spent_today": "0", "waiting": 0, "decisions": {}}
        self._values.begin(-1)
        self._client = self._started()

    def played(self) -> list[dict[str, Any]]:
        """The events with what follows from each."""
        after = []
        for place, event in enumerate(self._trace["events"]):
            self._values.begin(place)
            given = {name: member for name, member in event.items() if name != "then"}
            then = self._after(given) | self._changes()
            after.append(given | ({"then": then} if then else {}))
        self._client.close()
        return after

    def _after(self, event: dict[str, Any]) -> dict[str, Any]:
        match event:
            case {"do": "wait", "milliseconds": passed}:
                self._now, self._passed = self._now + passed, self._passed + passed
            case {"do": "set the clock", "to": now}:
                self._now = now
            case {"do": "serve", "bundle": name}:
                self._door.bundle = self._world["bundles"][name].encode("ascii")
            case {"do": "answer uploads", "with": answers}:
                self._door.answers.extend(answers)
            case {"do": "cut the network" | "mend the network" as what}:
                self._door.offline = what == "cut the network"
            case {"do": "give consent" | "withdraw consent" as what}:
                self._consent = what == "give consent"
            case {"do": "record", "metric": metric, "value": value}:
                outcome = self._client.record(metric, value).value
                return {"outcome": GENERAL_OUTCOMES.get(outcome, outcome)}
            case {"do": "flush" | "flush now" as what}:
                return self._flushed(now=what == "flush now")
            case {"do": "disable" | "enable" as what}:
                getattr(self._client, what)()
            case {"do": "restart" | "clear the state" as what}:
                self._restart(clear=what == "clear the state")
            case _:
                raise ValueError(f"no such event: {event}")
        return {}

    def _restart(self, *, clear: bool) -> None:
        self._client.close()
        if clear:
            shutil.rmtree(self._directory)
        self._client = self._started()

    def _flushed(self, *, now: bool) -> dict[str, Any]:
        self._door.requests.clear()
        done = self._client.flush(0, now=now)
        return {"requests": list(self._door.requests), "nothing_left": done}

    def _changes(self) -> dict[str, Any]:
        """What is new in the account since the event before."""
        account, stats = self._client.ledger(), self._client.stats()
        found: dict[str, Any] = {
            "spent": f"{account.spent:.10g}",
            "spent_today": f"{account.spent_today:.10g}",
            "waiting": stats.get("outbox", 0),
        }
        decisions = {
            (metric.name, entry.start, entry.end): {
                "decision": entry.decision.value,
                "epsilon": f"{entry.epsilon:.10g}",
            }
            for metric in account.metrics
            for entry in metric.periods
        }
        before = self._account
        changed = {name: value for name, value in found.items() if value != before[name]}
        new = [
            {"metric": name, "start": start, "end": end, **decision}
            for (name, start, end), decision in sorted(decisions.items())
            if before["decisions"].get((name, start, end)) != decision
        ]
        self._account = {**found, "decisions": decisions}
        return changed | ({"decisions": new} if new else {})

    def _started(self) -> Client:
        settings = self._settings
        shipped = settings.get("codebook")
        return Client(
            _ADDRESS,
            trust=self._world["trust"],
            consent=lambda: self._consent,
            state_dir=self._directory,
            codebook=Codebook.from_compiled(shipped.encode("ascii")) if shipped else None,
            pin=settings.get("pin"),
            max_epsilon=_number(settings.get("max_epsilon")),
            lifetime_epsilon=_number(settings.get("lifetime_epsilon")),
            min_period=settings.get("min_period"),
            strict=False,
            background=False,
            clock=lambda: self._now / 1000,
            rng=self._values,
            coins=_Coins(self._trace["name"]),
            transport=self._door,
            pace=Pace(monotonic=lambda: self._passed / 1000, sleep=self._sleep),
        )

    def _sleep(self, seconds: float) -> None:
        self._after({"do": "wait", "milliseconds": round(1000 * seconds)})


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)
