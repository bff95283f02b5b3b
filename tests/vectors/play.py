"""Plays every vector file through the reference device, or through a spoiled copy of it.

`python -m tests.vectors.play` prints the cases that fail. `README.md` says what each file holds.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

VECTORS = Path(__file__).parent / "v1"
STREAM = 4096

Verdicts = Iterator[tuple[str, bool]]
"""The name of each case, and whether the device does what it says."""


@dataclass
class Stream:
    """The random bits of a case; all of them must be taken, and no more."""

    data: bytes
    used: int = 0

    def __call__(self, n: int) -> bytes:
        taken = self.data[self.used : self.used + n]
        if len(taken) < n:
            raise EOFError("the stream ends")
        self.used += n
        return taken

    @property
    def done(self) -> bool:
        return self.used == len(self.data)


def of_hex(text: str) -> Stream:
    return Stream(bytes.fromhex(text))


def stream_of(label: str) -> Stream:
    """The stream that a trace derives from a label."""
    blocks = (hashlib.sha256(f"{label}:{block}".encode()).digest() for block in range(STREAM // 32))
    return Stream(b"".join(blocks))


@cache
def vectors(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_bytes())


def seen_refusing(device: ModuleType, act: Callable[[], Any]) -> str | None:
    """The name of the error by which the device refuses; None if it does not."""
    try:
        act()
    except device.Refused as refused:
        return str(refused.error)
    return None


def refuses(device: ModuleType, act: Callable[[], Any]) -> bool:
    return seen_refusing(device, act) is not None


# The files


def answers(device: ModuleType, data: Any) -> Verdicts:
    for case in data:
        given, sizes = iter(case["answers"]), []

        def post(places: Sequence[int]) -> Any:
            sizes.append(len(places))  # noqa: B023
            answer = next(given)  # noqa: B023
            return None if answer is None else answer_of(device, answer)

        found, wait = device.delivered(range(case["reports"]), post)
        actions = ["done" if found[i] == "durable" else found[i] for i in range(case["reports"])]
        expected = [verdict["action"] for verdict in case["verdicts"]]
        same = (actions, sizes, wait) == (expected, case["requests"], case["retry_after"])
        yield case["what"], same and device.pointless(found, wait) == case["stop"]


def answer_of(device: ModuleType, given: Mapping[str, Any]) -> Any:
    names = {"type": "content-type", "retry_after": "retry-after"}
    headers = {header: given[name] for name, header in names.items() if name in given}
    body = given["body"]
    if isinstance(body, str):
        body = body.replace("~", "a" * given.get("letters", 0)).encode()
    return device.Answer(given["status"], headers, body)


def bundle(device: ModuleType, data: Any) -> Verdicts:
    envelope = bytes.fromhex(data["bundle"])
    accepted = device.verify(envelope, [data["trust"]], data["verifies_at"])
    yield "bundle", accepted.sequence == data["sequence"] and accepted.digest == data["body_sha256"]
    for period, key in data["key_of_period"].items():
        found = accepted.key_of(int(period))
        yield f"key of {period}", (found.id if found else None) == key
    late = seen_refusing(device, lambda: device.verify(envelope, [data["trust"]], data["expired_at"]))
    yield "expired", late == "ExpiredBundle"
    for case in data["cases"]:
        yield case["what"], bundle_case(device, case)


def bundle_case(device: ModuleType, case: Mapping[str, Any]) -> bool:
    envelope = bytes.fromhex(case["bytes"]) if "bytes" in case else case["text"].encode("ascii")
    if "letters" in case:
        envelope = envelope.replace(b"~", b"a" * case["letters"])
    seen = None if case["seen"] is None else (case["seen"]["sequence"], case["seen"]["body_sha256"])
    try:
        accepted = device.verify(envelope, case["trust"], case["clock"], seen)
    except device.Refused as refused:
        return bool(refused.error == case["error"])
    if case["error"] is not None or accepted.digest != case["body_sha256"] or accepted.sequence != case["sequence"]:
        return False
    keys = {period: accepted.key_of(int(period)) for period in case["key_of_period"]}
    if {period: key.id if key else None for period, key in keys.items()} != case["key_of_period"]:
        return False
    metrics = {period: accepted.outline_of(int(period)) for period in case["metrics_of_period"]}
    return bool(metrics == case["metrics_of_period"])


def canonical(device: ModuleType, data: Any) -> Verdicts:
    for case in data["documents"]:
        yield case["canonical"], device.canonical(case["document"]).decode() == case["canonical"]
    for case in data["texts"]:
        refused = refuses(device, partial(device.parse_canonical, bytes.fromhex(case["hex"])))
        yield case["shown"], refused != case["canonical"]


def claims(device: ModuleType, data: Any) -> Verdicts:
    for i, case in enumerate(data):
        d = case["domain"].get("size", 2)

        def check(case: Mapping[str, Any] = case, d: int = d) -> None:
            p = device.read_parameters(case["mechanism"], case["parameters"])
            device.check_claim(case["mechanism"], p, d, Fraction(case["epsilon"]))

        yield f"{i}: {case['mechanism']}, epsilon {case['epsilon']}", refuses(device, check) != case["holds"]


def codebook(device: ModuleType, data: Any) -> Verdicts:
    for i, case in enumerate(data):
        page = device.read_codebook(json.loads(case["compiled"]), bundled=False)
        ids = {metric["name"]: metric["id"] for metric in case["metrics"]}
        found = {name: metric.id for name, metric in page.metrics.items()}
        yield f"codebook {i}", page.id == case["codebook_id"] and found == ids and not page.refused


def draws(device: ModuleType, data: Any) -> Verdicts:
    for i, case in enumerate(data):
        take = of_hex(case["stream"])
        arguments = [[int(n) for n in a] if isinstance(a, list) else int(a) for a in case["arguments"]]
        result = case["result"]
        if isinstance(result, list):
            result = [int(one) for one in result]
        elif not isinstance(result, bool):
            result = int(result)
        if case["draw"] == "pick":  # the file has running sums, the page has weights
            sums = [0, *map(int, case["arguments"][0])]
            arguments = [[b - a for a, b in pairwise(sums)]]
        yield f"{i}: {case['draw']}", getattr(device, case["draw"])(take, *arguments) == result and take.done


def hpke(device: ModuleType, data: Any) -> Verdicts:
    suite = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)

    def opened(private: str, about: bytes, sealed: bytes) -> bytes:
        key = X25519PrivateKey.from_private_bytes(bytes.fromhex(private))
        return suite.decrypt(sealed, key, about)

    metric, key, text = data["metric"], data["key"], bytes.fromhex(data["plaintext"])
    about = device.info(metric, key)
    yield "info", about.hex() == data["info"]
    for sealed in data["sealed"]:
        yield "sealed", opened(data["private_key"], about, bytes.fromhex(sealed)) == text
    fresh = {device.seal(bytes.fromhex(data["public_key"]), about, text) for _ in range(2)}
    yield "fresh", len(fresh) == 2 and all(opened(data["private_key"], about, one) == text for one in fresh)
    for i, case in enumerate(data["exact"]):
        public, ephemeral = bytes.fromhex(case["public_key"]), bytes.fromhex(case["ephemeral_private_key"])
        about = device.info(case["metric"], case["key"])
        sealed = device.seal(public, about, bytes.fromhex(case["plaintext"]), ephemeral)
        yield f"exact {i}", sealed.hex() == case["sealed"] and about.hex() == case["info"]
    for point in data["public_keys_of_low_order"]:
        yield f"low order {point[:8]}", refuses(device, partial(device.seal, bytes.fromhex(point), b"", b""))


def periods(device: ModuleType, data: Any) -> Verdicts:
    for case in data["times"]:
        found = period_document(device, case, case["milliseconds"] / 1000)
        yield f"{case['seconds']} at {case['milliseconds']}", found == case["period"]
    for case in data["periods"]:
        length, index, grace = case["seconds"], case["index"], case["grace"]
        found = None
        if device.is_period(index, length):
            found = outline(device, index, length, grace)
        yield f"{length} of index {index}", found == case["period"]
    for case in data["lengths"]:
        length = case["seconds"]
        start = device.start_of(0, length) if device.is_length(length) else None
        yield f"length {length}", start == case["start_of_period_0"]


def outline(device: ModuleType, index: int, length: int, grace: int) -> dict[str, int]:
    end = device.end_of(index, length)
    return {"index": index, "start": device.start_of(index, length), "end": end, "closes_at": end + grace}


def period_document(device: ModuleType, case: Mapping[str, Any], time: float) -> dict[str, int] | None:
    try:
        index = device.period_of(time, case["seconds"])
    except device.Refused:
        return None
    return outline(device, index, case["seconds"], case["grace"])


def metric_of(device: ModuleType, case: Mapping[str, Any]) -> Any:
    """A metric that has no more than a mechanism."""
    domain, name = case["domain"], case["mechanism"]
    lower, upper = map(Fraction, domain.get("bounds", ("0", "1")))
    kind = "mean" if "bounds" in domain else "category"
    return device.Metric(
        id="",
        name="",
        type=kind,
        epsilon=Fraction(case["epsilon"]),
        mechanism=name,
        parameters=device.read_parameters(name, case["parameters"]),
        reduce="first",
        share_threshold=device.W,
        missing=None,
        enabled=True,
        expires=None,
        values=[str(i) for i in range(domain.get("size", 0))],
        other=None,
        lower=lower,
        upper=upper,
    )


def randomizer(device: ModuleType, data: Any) -> Verdicts:
    for i, case in enumerate(data):
        metric = metric_of(device, case)
        size = device.payload_bytes(metric.mechanism, metric.parameters, metric.d)
        for j, decided in enumerate(case["decisions"]):
            take, x = of_hex(decided["stream"]), decided["value"]
            if metric.type == "mean":
                x = Fraction(x)
            payload = device.randomize(metric, x, take)
            same = payload.hex() == decided["payload"] and take.done and len(payload) == size
            yield f"{i}.{j}: {case['mechanism']} of {decided['value']}", same


def received(device: ModuleType, data: Any) -> Verdicts:
    for case in data:
        try:
            page = device.read_codebook(json.loads(case["compiled"]), bundled=False)
        except device.Refused:
            yield case["what"], case["refused"] == "whole"
            continue
        used = {name: metric.id for name, metric in page.metrics.items()}
        yield case["what"], sorted(page.refused) == case["refused"] and used == case.get("used")


def reducers(device: ModuleType, data: Any) -> Verdicts:
    for i, case in enumerate(data):
        take = of_hex(case["stream"])
        means = case["of"] == "doubles"
        bounds = [Fraction(bound) for bound in case.get("bounds", ("0", "1"))]
        metric = metric_of(device, {"domain": {"bounds": bounds}, "mechanism": "duchi"} | DUCHI)
        state, after = None, []
        for value in case["values"]:
            v = device.taken(metric, float.fromhex(value)) if means else value
            state = json.loads(json.dumps(device.reduce(case["reduce"], state, v, take)))
            after.append({"count": state["n"], "value": device.reduced(case["reduce"], state)})
        expected = [one | {"value": float.fromhex(one["value"]) if means else one["value"]} for one in case["after"]]
        same = after[-len(expected) :] == expected  # some streams have bytes left over
        kinds = [type(one["value"]) for one in after] == [type(after[0]["value"])] * len(after)
        yield f"{i}: {case['reduce']} of {case['of']}", same and kinds


DUCHI = {"epsilon": "1", "parameters": {"keep": str(3 * 2**62)}}


def refusals(device: ModuleType, data: Any) -> Verdicts:
    yield "names", {case["name"] for case in data} == set(device.REFUSALS)
    for case in data:
        same = device.REFUSALS.get(case["name"]) == case["action"]
        yield case["name"], same and device.PROBLEM + case["name"] == case["type"]


def wire(device: ModuleType, data: Any) -> Verdicts:
    for i, case in enumerate(data["reports"]):
        nonce, payload = bytes.fromhex(case["nonce"]), bytes.fromhex(case["payload"])
        text = device.plaintext(case["period"], nonce, payload)
        whole = device.report(case["metric"], case["period"], case["key"], bytes.fromhex(case["sealed"]))
        yield f"report {i}", (text.hex(), whole.hex()) == (case["plaintext"], case["report"])
    for i, case in enumerate(data["uploads"]):
        made = device.upload([bytes.fromhex(one) for one in case["reports"]])
        yield f"upload {i}", made.hex() == case["upload"]
    for case in data["long_reports"]:
        if case["upload_sha256"] is not None:
            long = bytes.fromhex(case["start"]).ljust(case["bytes"], b"\0")
            found = hashlib.sha256(device.upload([long])).hexdigest()
            yield f"upload of {case['bytes']} bytes", found == case["upload_sha256"]
    for case in data["requests"]["cases"]:
        sizes = [size for size, number in case["sizes"] for _ in range(number)]
        made = [len(request) for request in device.in_requests(sizes)]
        yield f"requests of {case['sizes']}", made == case["requests"]


# The traces


class Door:
    """A front door that serves the bundle it was told to, answers uploads as it was told to, and notes requests."""

    def __init__(self, device: ModuleType, private_keys: Mapping[str, str]) -> None:
        self.device = device
        self.keys = {int(i): X25519PrivateKey.from_private_bytes(bytes.fromhex(k)) for i, k in private_keys.items()}
        self.bundle: bytes | None = None
        self.offline = False
        self.answers: list[Any] = []
        self.requests: list[dict[str, Any]] = []
        self.sent: set[bytes] = set()

    def __call__(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Any:
        path = url.removeprefix(ADDRESS)
        if method == "GET":
            noted: dict[str, Any] = {"get": path}
            answer: dict[str, Any] | None = self.of_bundle(headers)
        else:
            if headers["Content-Type"] != "application/vnd.hubbub.reports":
                raise ValueError("another media type")
            noted = {"post": path, "reports": list(self.opened(body))}
            answer = self.answers.pop(0) if self.answers else {"status": 202, "body": ""}
        if self.offline:
            answer = None
        self.requests.append(noted | {"status": answer["status"] if answer else None})
        return None if answer is None else answer_of(self.device, answer)

    def of_bundle(self, headers: Mapping[str, str]) -> dict[str, Any]:
        if self.bundle is None:
            return {"status": 503, "body": ""}
        if headers.get("If-None-Match") == f'"{hashlib.sha256(self.bundle).hexdigest()[:32]}"':
            return {"status": 304, "body": ""}
        return {"status": 200, "body": self.bundle}

    def opened(self, body: bytes) -> Iterator[dict[str, Any]]:
        """What is in each report, and whether these bytes were sent before."""
        suite = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
        while body:
            size = int.from_bytes(body[:2], "big")
            one, body = body[2 : 2 + size], body[2 + size :]
            metric, key = one[1:17].hex(), one[21]
            about = b"hubbub-01 report\0" + one[1:17] + bytes.fromhex("002000010001") + one[21:22]
            try:
                text = suite.decrypt(one[22:], self.keys[key], about)
            except InvalidTag as error:
                raise ValueError("a report does not open") from error
            if one[0] != 1 or one[17:21] != text[:4]:
                raise ValueError("a report has another header")
            yield {
                "metric": metric,
                "period": int.from_bytes(text[:4], "big"),
                "key": key,
                "nonce": text[4:20].hex(),
                "payload": text[20:].hex(),
                "again": one in self.sent,
            }
            self.sent.add(one)


ADDRESS = "https://telemetry.example.com"
LISTED = 10
"""Decisions of a metric that the account of the trace shows, the newest ones."""


class Player:
    """Lives through the events of a trace, and says what follows from each."""

    def __init__(self, device: ModuleType, trace: Mapping[str, Any], world: Mapping[str, Any]) -> None:
        self.module, self.trace, self.world = device, trace, world
        self.now = trace["starts_at"]
        self.consent = True
        self.off = False
        self.door = Door(device, world["private_keys"])
        self.storage: dict[str, Any] = {}
        self.stream = stream_of(f"{trace['name']}:value:-1")
        self.account: dict[str, Any] = {"spent": "0", "spent_today": "0", "waiting": 0, "decisions": {}}
        self.device = self.started()

    def started(self) -> Any:
        settings, number = self.trace["settings"], Fraction
        limits = self.module.Limits(
            pin=frozenset([settings["pin"]]) if "pin" in settings else None,
            min_period=3600 if settings.get("min_period") == "1h" else 1,
            max_epsilon=number(settings["max_epsilon"]) if "max_epsilon" in settings else None,
            lifetime_epsilon=number(settings["lifetime_epsilon"]) if "lifetime_epsilon" in settings else None,
        )
        shipped = settings.get("codebook")
        return self.module.Device(
            address=ADDRESS,
            anchors=[self.world["trust"]],
            transport=self.door,
            clock=lambda: self.now / 1000,
            values=self.take,
            coins=lambda purpose, subject, n: stream_of(f"{self.trace['name']}:{purpose}:{subject}:{n}"),
            storage=json.loads(json.dumps(self.storage)),
            limits=limits,
            consent=lambda: self.consent and not self.off,
            shipped=self.module.read_codebook(json.loads(shipped), bundled=False) if shipped else None,
        )

    def take(self, n: int) -> bytes:
        return self.stream(n)

    def play(self) -> Iterator[tuple[int, Mapping[str, Any], dict[str, Any]]]:
        """For each event: its number, what the trace says of it, and what the device did."""
        for i, event in enumerate(self.trace["events"]):
            self.stream = stream_of(f"{self.trace['name']}:value:{i}")
            then = self.after(event) | self.changes()
            yield i, event, then

    def after(self, event: Mapping[str, Any]) -> dict[str, Any]:
        match event["do"]:
            case "wait":
                self.now += event["milliseconds"]
            case "set the clock":
                self.now = event["to"]
            case "serve":
                self.door.bundle = self.world["bundles"][event["bundle"]].encode("ascii")
            case "answer uploads":
                self.door.answers += event["with"]
            case "cut the network" | "mend the network" as what:
                self.door.offline = what.startswith("cut")
            case "give consent" | "withdraw consent" as what:
                self.consent = what.startswith("give")
            case "record":
                return {"outcome": self.device.record(event["metric"], event["value"])}
            case "flush" | "flush now" as what:
                self.door.requests = []
                self.device.cycle(flush=True, hurry=what == "flush now")
                left = self.device.left(hurry=what == "flush now")
                return {"requests": self.door.requests, "nothing_left": not left}
            case "disable" | "enable" as what:
                self.off = what == "disable"
                if self.off:
                    self.device.forget()
            case "restart" | "clear the state" as what:
                self.device.settle_all()
                self.storage = self.device.storage if what == "restart" else {}
                self.device = self.started()
            case _:
                raise ValueError(f"no such event: {event}")
        return {}

    def changes(self) -> dict[str, Any]:
        """What is new in the account."""
        ledger, day = self.device.storage["ledger"], self.now // 86_400_000
        charged = [entry for entry in ledger if entry["decision"] in ("charged", "spent")]
        today = sum((Fraction(entry["epsilon"]) for entry in charged if entry["day"] == day), Fraction(0))
        found: dict[str, Any] = {
            "spent": f"{float(sum(Fraction(entry['epsilon']) for entry in charged)):.10g}",
            "spent_today": f"{float(today):.10g}",
            "waiting": len(self.device.storage["outbox"]),
        }
        decisions = {
            (entry["metric"], entry["start"], entry["end"]): {
                "decision": entry["decision"],
                "epsilon": f"{float(Fraction(entry['epsilon'])):.10g}",
            }
            for name in {entry["metric"] for entry in ledger}
            for entry in sorted(
                (entry for entry in ledger if entry["metric"] == name), key=lambda entry: int(entry["start"])
            )[-LISTED:]
        }
        before = self.account
        changed = {name: value for name, value in found.items() if value != before[name]}
        new = [
            {"metric": name, "start": start, "end": end, **decision}
            for (name, start, end), decision in sorted(decisions.items())
            if before["decisions"].get((name, start, end)) != decision
        ]
        self.account = found | {"decisions": decisions}
        return changed | ({"decisions": new} if new else {})


def ledger(device: ModuleType, data: Any) -> Verdicts:
    for trace in data["traces"]:
        for i, event, then in Player(device, trace, data).play():
            same = then == event.get("then", {})
            if not same and "-v" in sys.argv:
                print(f"{event}\n   FOUND {then}", file=sys.stderr)  # noqa: T201
            yield f"{trace['name']}: event {i}", same
            if not same:
                break


FILES: dict[str, Callable[[ModuleType, Any], Verdicts]] = {
    f"{play.__name__}.json": play
    for play in (
        canonical,
        periods,
        draws,
        hpke,
        wire,
        refusals,
        answers,
        reducers,
        codebook,
        received,
        claims,
        bundle,
        randomizer,
        ledger,
    )
}


def failures(device: ModuleType, folder: Path = VECTORS, only: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """File and case of each failure. An exception ends a file."""
    for name, play in FILES.items():
        if only and name not in only:
            continue
        case = "the first case"
        try:
            for case, same in play(device, vectors(folder, name)):
                if not same:
                    yield name, case
        except Exception as error:  # noqa: BLE001
            yield name, f"{type(error).__name__} after {case}: {error}"


def main() -> None:
    from tests.vectors import reference_device

    folder = Path(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1][0] != "-" else VECTORS
    only = [name for name in sys.argv[2:] if name[0] != "-"]
    for name, case in failures(reference_device, folder, only):
        print(f"{name}: {case}")  # noqa: T201


if __name__ == "__main__":
    main()
