"""One history: the operations of a script happen in a world, one after another, and the oracle judges each step."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import random
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import ExitStack, suppress
from contextvars import copy_context
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hubbub.bundle import sign
from hubbub.codebook import Codebook
from hubbub.errors import HubbubError, InvalidParameter
from hubbub.low_order import has_low_order
from hubbub.sealing import Sealer, public_key_of
from hubbub.simulation.randomness import InsecureRandomness
from hubbub.wire import REPORTS_TYPE, Plaintext, ReportHeader, decode_upload, encode_report, encode_upload
from hubbub_aggregator.main import DATABASE
from hubbub_aggregator.operations.backup_and_restore import backup, restore
from hubbub_service_common.storage.kinds_and_errors import StorageError
from tests.support.codebooks import IDENTITY
from tests.world import operations as op
from tests.world.codebooks import EDITS, GRACE, HORIZON, PERIOD, START, book, write_codebook
from tests.world.devices import Device, KeyedCoins, Life, tear
from tests.world.event_loop import PROCESS, Idle, WorldLoop, acting
from tests.world.network import ODD, Answer, Faults, Lost, Request, ask
from tests.world.oracle import Oracle, Wrong
from tests.world.process import Killed, Machine, Process
from tests.world.seams import InlinePool, seams
from tests.world.site import AggregatorSite, ShufflerSite

if TYPE_CHECKING:
    from hubbub.bundle_body import Body
    from hubbub_client import Client
    from tests.world.redis_in_world import WorldRedis

__all__ = ["ROUNDS", "History", "play"]

ROUNDS = 60
"""Ticks of every service within which everything settles, once the faults are over."""
VALUES = {"key": "abcd", "target": "abcd", "plain": (False, True), "small": (False, True)}


@lru_cache
def _codebook(compiled: bytes) -> Codebook:
    return Codebook.from_compiled(compiled)


def play(script: op.Script, redis: WorldRedis | None = None) -> History:
    """Live through a script, and through the time after it until everything has settled. `Wrong` if something is."""
    history = History(script.world, redis)
    try:
        for number, operation in enumerate(script.operations):
            history.at = number
            history.do(operation)
        history.at = len(script.operations)
        history.finish()
    finally:
        history.close()
    return history


class History:
    """A world as it is now."""

    def __init__(self, world: op.World, redis: WorldRedis | None) -> None:
        self.world, self.at = world, 0
        self.loop = WorldLoop(random.Random(f"order {world.seed}"), START)
        self._tasks: list[Any] = []
        self.loop.set_task_factory(self._task)
        self.rng = random.Random(f"values {world.seed}")
        self.oracle = Oracle()
        self.trace = hashlib.sha256()
        """Of everything that is sent: equal for two runs of one script."""
        self._stack = ExitStack()
        self.home = Path(tempfile.mkdtemp(prefix="hubbub-world-"))
        self._stack.callback(shutil.rmtree, self.home, ignore_errors=True)
        self.redis = redis if world.storage == "redis" else None
        self.redis_offset = 0.0
        if world.storage == "redis":
            assert redis is not None, "a world on Redis needs a server"
            redis.reset(lambda: self.loop.now + self.redis_offset)
        self._stack.enter_context(seams(self.loop, world.seed, self.oracle.sealed, self.redis))
        logging.disable(logging.CRITICAL)
        self._stack.callback(logging.disable, logging.NOTSET)
        for edit in range(len(EDITS)):
            for metric in book(edit).metrics:
                self.oracle.learn(metric, metric.min_batch or 2)
        self.faults = {"up": Faults(), "forward": Faults()}
        self.delayed: list[Callable[[], Coroutine[Any, Any, Any]]] = []
        self.sent: list[tuple[str, bytes]] = []
        """Bodies of uploads that left a device."""
        self.hostile: dict[int, str] = {}
        self.backups: dict[int, tuple[Path, set[bytes]]] = {}
        self.crowds = 0
        self._open()

    def _task(self, loop: Any, coroutine: Any, **named: Any) -> Any:
        task = asyncio.Task(coroutine, loop=loop, **named)
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # those of dead processes never end
        self._tasks.append(task)
        return task

    def _open(self) -> None:
        world, home = self.world, self.home
        on_redis = self.redis
        count = world.aggregators if on_redis is not None else 1
        codebook = write_codebook(home / "codebook.json")
        pool = InlinePool(self.oracle.opens)
        self.aggregators = [
            AggregatorSite(number, self.loop, world.seed, home / f"a{number}", codebook, on_redis, pool)
            for number in range(max(1, count))
        ]
        self.shufflers: list[ShufflerSite] = []
        for number in range(max(1, world.shufflers)):
            directory = home / f"s{number}"
            directory.mkdir()
            file = None if on_redis is not None else (home / "s0" if world.shared else directory) / "reports.sqlite"
            self.shufflers.append(ShufflerSite(number, self.loop, world.seed, directory, file, on_redis, self._forward))
        for site in (*self.aggregators, *self.shufflers):
            if not site.start():
                raise Wrong("died", f"{site.name} does not start")
        self.devices = [self._device(number) for number in range(world.devices)]
        for aggregator in self.aggregators:
            self.house(aggregator)
        for shuffler in self.shufflers:
            self.refresh(shuffler)

    def _device(self, number: int) -> Device:
        machine = Machine(f"d{number}", self.loop)
        lives = []
        for twin in (0, 1):
            seed = f"{self.world.seed} d{number} {twin}"
            name = f"d{number}" + "'" * twin
            coins = KeyedCoins(f"{self.world.seed} d{number}")
            lives.append(Life(name, machine, self.loop, self.home / name, seed, coins, self._up))
        return Device(number, (lives[0], lives[1]))

    # -- operations

    def do(self, operation: op.Operation) -> None:
        """One operation, and then the oracle."""
        self.trace.update(f"{op.written(operation)} {self.loop.now:.3f}\n".encode())
        getattr(self, "_" + type(operation).__name__.lower())(operation)
        self.check()

    def check(self) -> None:
        """What must hold at any time."""
        for site in self.aggregators:
            if site.up is not None:
                with suppress(StorageError), acting(None):
                    self._with_oracle(site, self.oracle.look)
                if self.redis is not None:
                    break
        for device in self.devices:
            self._compare(device)

    def _with_oracle(self, site: AggregatorSite, look: Callable[[Any], None]) -> None:
        """Look into a storage as nobody: neither its process's faults nor its steps count."""
        process = site.process
        assert process is not None
        for connection in process.connections:
            connection._of = None  # type: ignore[attr-defined]  # ours
        try:
            look(site.service.storage)
        finally:
            for connection in process.connections:
                connection._of = process  # type: ignore[attr-defined]

    def _pass(self, given: op.Pass) -> None:
        self.loop.pass_to(self.loop.now + max(0, given.seconds))

    def _setclock(self, given: op.SetClock) -> None:
        if given.party == "r":
            self.redis_offset += given.by
        elif given.party.startswith("d"):
            if self.devices:
                self._device_at(int(given.party[1:])).lives[0].machine.offset += given.by  # twins share it
        else:
            self._site(given.party).machine.offset += given.by

    # devices

    def _device_at(self, number: int) -> Device:
        return self.devices[number % len(self.devices)]

    def _values(self, metric: str, value: int, twin: int) -> object:
        values = VALUES[metric]
        return values[(value + twin) % len(values)]

    def _record(self, given: op.Record) -> None:
        if not self.devices:
            return
        device = self._device_at(given.device)
        for twin, life in enumerate(device.lives):
            if twin and given.value % 2 and given.metric in {"key", "target"}:
                life.act(lambda _client: None)
                continue  # the twin records nothing, which must not show where there is a `missing`
            value = self._values(given.metric, given.value, twin)
            life.act(lambda client, value=value: client.record(given.metric, value))  # type: ignore[misc]

    def _flush(self, given: op.Flush) -> None:
        if not self.devices:
            return
        device = self._device_at(given.device)
        before = self.loop.now
        for life in device.lives:
            life.shuffler = given.shuffler
            life.act(lambda client: client.flush(0, now=bool(given.hurry)))
        if self.loop.now != before:
            device.comparable = False  # the second twin lives a little later
        self._account(device)

    def _fork(self, given: op.Fork) -> None:
        self._other_process(given, "fork")

    def _second(self, given: op.Second) -> None:
        self._other_process(given, "second")

    def _other_process(self, given: op.Fork | op.Second, how: str) -> None:
        if not self.devices:
            return
        device = self._device_at(given.device)
        device.comparable = device.comparable and how == "second"
        before = self.loop.now
        for twin, life in enumerate(device.lives):
            life.shuffler = given.shuffler
            value = self._values(given.metric, given.value, twin)

            def what(client: Client, value: object = value) -> None:
                client.record(given.metric, value)
                client.flush(0, now=True)

            getattr(life, how)(what)
        if self.loop.now != before:
            device.comparable = False

    def _consent(self, given: op.Consent) -> None:
        if self.devices:
            for life in self._device_at(given.device).lives:
                life.consent = bool(given.given)

    def _disable(self, given: op.Disable) -> None:
        if self.devices:
            for life in self._device_at(given.device).lives:
                life.act(lambda client: client.disable() if given.on else client.enable())

    def _copydevice(self, given: op.CopyDevice) -> None:
        if self.devices:
            for life in self._device_at(given.device).lives:
                life.copy()

    def _putbackdevice(self, given: op.PutBackDevice) -> None:
        if self.devices:
            for life in self._device_at(given.device).lives:
                life.put_back(witness=bool(given.witness))

    def _tornpage(self, given: op.TornPage) -> None:
        if given.party.startswith("d"):
            if self.devices:
                device = self._device_at(int(given.party[1:] or 0))
                device.comparable = False  # which page is which depends on what was recorded: the page says so
                device.lives[0].tear(given.page)
        elif self.redis is None and given.party.startswith("s"):
            site = self._site(given.party)
            assert isinstance(site, ShufflerSite)
            sharing = [each for each in self.shufflers if each.group == site.group]
            for each in sharing:
                each.kill()
            self.oracle.media = True
            assert site.file is not None
            tear(site.file, given.page)
            for each in sharing:
                each.start()

    def _compare(self, device: Device) -> None:
        """Twins look the same for as long as they were answered the same."""
        if not device.comparable:
            return
        first, second = (self._steady(life) for life in device.lives)
        for (one, said), (other, told) in zip(first, second, strict=False):
            if one != other:
                raise Wrong("twins", f"{device.name}: {one} or {other}")
            if said != told:
                device.comparable = False
                return
        if len(first) != len(second):
            raise Wrong("twins", f"{device.name}: {len(first)} or {len(second)} requests")
        for life in device.lives:
            life.seen.clear()

    def _steady(self, life: Life) -> list[Any]:
        """Requests of the steady lane: those that carry a metric without `missing` come only where one was recorded."""
        plain = {id_ for id_, metric in self.oracle.metrics.items() if metric.missing is None}
        return [each for each in life.seen if not any(id_ in plain for id_, *_ in each[0].reports)]

    def _account(self, device: Device) -> None:
        for life in device.lives:
            if life.client is None:
                continue
            spent = {
                key: float(next(m.epsilon for m in self.oracle.metrics.values() if m.name == key[1]))
                for key in self.oracle.drawn
                if key[0] == life.name
            }
            with acting(life.process), suppress(Killed, HubbubError):
                account = life.client.ledger()
                if account.complete and account.spent < sum(spent.values()) * 0.999:
                    raise Wrong("device-ledger", f"{life.name}: {account.spent} of {sum(spent.values())}")

    # crowds, copies, junk

    def _body(self, shuffler: ShufflerSite) -> Body | None:
        if shuffler.able is None:
            return None
        with acting(shuffler.up):
            relayed = shuffler.parts.bundles.current
        return None if relayed is None else relayed.bundle.body

    def _crowd(self, given: op.Crowd) -> None:
        site = self.shufflers[given.shuffler % len(self.shufflers)]
        body = self._body(site)
        if body is None:
            return
        period = int(self.loop.now // PERIOD) - given.back
        reports = self._reports(body, given.metric, period, given.count)
        if reports:
            self._send_crowd(site, encode_upload(reports))

    def _reports(self, body: Body, name: str, period: int, count: int) -> list[bytes]:
        """Fresh reports of as many devices, each with a value of its own."""
        codebook, key = body.in_force(period), body.key_for(period)
        header = next((one for one in codebook.metrics if one.name == name), None) if codebook else None
        if key is None or header is None or not header.enabled:
            return []
        metric = self.oracle.metrics[header.id]
        sealer, about = Sealer(key.public_key), ReportHeader(header.id, period, key.id)
        reports = []
        for _ in range(max(0, min(count, 60))):
            self.crowds += 1
            rng = InsecureRandomness(self.rng.getrandbits(64))
            value = metric.input_of(metric.recorded(self.rng.choice(VALUES[name])))
            payload = metric.mechanism.encode(metric.mechanism.randomize(value, rng))
            plaintext = Plaintext(period, self.rng.randbytes(16), payload)
            reports.append(encode_report(about, sealer.seal(about, plaintext.encode())))
        return reports

    def _send_crowd(self, site: ShufflerSite, body: bytes) -> None:
        request = Request("POST", "/v1/reports", (("content-type", REPORTS_TYPE),), body)
        self.sent.append(("crowd", body))
        self._deliver_up(site, request, self.faults["up"])

    def _sent_at(self, back: int) -> list[bytes]:
        if not self.sent:
            return []
        _, body = self.sent[-1 - back % len(self.sent)]
        with suppress(HubbubError):
            return decode_upload(body)
        return []

    def _replay(self, given: op.Replay) -> None:
        site = self.shufflers[given.shuffler % len(self.shufflers)]
        if reports := self._sent_at(given.back):
            self._deliver_up(site, _posted(encode_upload(reports)), self.faults["up"])

    def _reseal(self, given: op.Reseal) -> None:
        site = self.shufflers[given.shuffler % len(self.shufflers)]
        body = self._body(site)
        if body is None:
            return
        again = []
        for report in self._sent_at(given.back):
            content = self.oracle.contents.get(report[22:])
            key = body.key_for(content.header.period) if content else None
            if content is None or key is None or key.id != content.header.key:
                continue
            plaintext = Plaintext(content.header.period, content.nonce, content.payload).encode()
            sealer = Sealer(key.public_key)
            again += [
                encode_report(content.header, sealer.seal(content.header, plaintext))
                for _ in range(max(1, min(given.times, 5)))
            ]
        if again:
            self.sent.append(("reseal", encode_upload(again)))
            self._deliver_up(site, _posted(encode_upload(again)), self.faults["up"])

    def _junk(self, given: op.Junk) -> None:
        site = self.shufflers[given.shuffler % len(self.shufflers)]
        body = self._body(site)
        period = int(self.loop.now // PERIOD)
        codebook, key = (body.in_force(period), body.key_for(period)) if body else (None, None)
        header = next((one for one in codebook.metrics if one.name == given.metric), None) if codebook else None
        if header is None or key is None:
            return
        about, sealer = ReportHeader(header.id, period, key.id), Sealer(key.public_key)
        length, made = header.report_bytes, []
        for _ in range(max(1, min(given.count, 60))):
            nonce = self.rng.randbytes(16)
            match given.kind:
                case "garbage":
                    made.append(encode_report(about, self.rng.randbytes(length + 68)))
                case "wrong-period":
                    plaintext = Plaintext(period + 1, nonce, bytes(length)).encode()
                    made.append(encode_report(about, sealer.seal(about, plaintext)))
                case "impossible":
                    plaintext = Plaintext(period, nonce, b"\xff" * length).encode()
                    made.append(encode_report(about, sealer.seal(about, plaintext)))
                case "malformed":
                    made.append(self.rng.randbytes(self.rng.randrange(1, 120)))
                case "other-key":
                    stranger = public_key_of(self.rng.randbytes(32))
                    assert not has_low_order(stranger)
                    plaintext = Plaintext(period, nonce, bytes(length)).encode()
                    made.append(encode_report(about, Sealer(stranger).seal(about, plaintext)))
        self._deliver_up(site, _posted(encode_upload(made)), self.faults["up"])

    # network

    def _net(self, given: op.Net) -> None:
        kinds = [given.kind] * max(1, min(given.count, 5))
        self.faults[given.hop].coming.extend(kinds)
        if given.hop == "up":
            for device in self.devices:
                for life in device.lives:
                    life.faults.coming.extend(kinds)

    def _deliver(self, given: op.Deliver) -> None:
        if self.delayed:
            late = self.delayed.pop(-1 if given.newest else 0)
            task = self.loop.create_task(late())
            with suppress(Idle):
                self.loop.drive(task.done)

    def _hostilebundle(self, given: op.HostileBundle) -> None:
        self.hostile[given.shuffler % len(self.shufflers)] = given.kind

    def _up(self, life: Life, request: Request) -> Answer | None:
        """A request of a client of the SDK."""
        site = self.shufflers[life.shuffler % len(self.shufflers)]
        if request.method == "POST":
            self.oracle.leaves_device(life.name, decode_upload(request.body))
            self.sent.append((life.name, request.body))
        return self._deliver_up(site, request, life.faults)

    def _deliver_up(self, site: ShufflerSite, request: Request, faults: Faults) -> Answer | None:
        """A request to a shuffler. What the sender hears is an acknowledgement, if it is one."""
        kind = faults.next()
        self.trace.update(request.body + (kind or "").encode())
        task = self.loop.create_task(self._upload(site, request, kind))
        try:
            self.loop.drive(task.done)
        except Idle:
            return None
        answer: Answer | None = task.result()
        if answer is not None and request.method == "POST" and kind not in {"corrupt", "odd-answer"}:
            self._hear(site, request, answer)
        return answer

    def _hear(self, site: ShufflerSite, request: Request, answer: Answer) -> None:
        if answer.status not in {200, 202}:
            return
        with suppress(HubbubError, ValueError):
            reports = decode_upload(request.body)
            failed = {each["index"] for each in json.loads(answer.body)["failures"]} if answer.status == 200 else set()
            self.oracle.acknowledges(site.group, [each for at, each in enumerate(reports) if at not in failed])

    async def _upload(self, site: ShufflerSite, request: Request, kind: op.Kind | None) -> Answer | None:
        served = site.served
        try:
            match kind:
                case "lose-request":
                    return None
                case "delay":
                    self.delayed.append(lambda: _quietly(ask(self.loop, served, request)))
                    return None
                case "corrupt":
                    request = _corrupted(request, self.rng)
                case "odd-answer":
                    return self.rng.choice(ODD)
                case "duplicate":
                    with suppress(Lost):
                        await ask(self.loop, served, request)
                case "cut" if request.body:
                    await _quietly(ask(self.loop, served, request, cut=True))
                    return None
            answer = await ask(self.loop, served, request)
        except Lost:
            return None
        return None if kind == "lose-answer" else answer

    async def _forward(self, shuffler: int, request: Request) -> Answer:
        """A request of a shuffler to its aggregator."""
        site = self.shufflers[shuffler]
        kind = self.faults["forward"].next()
        target = self.aggregators[shuffler % len(self.aggregators)]
        if request.method == "PUT":
            self.oracle.forwards(site.group, bytes.fromhex(request.path.rpartition("/")[2]), request.body)
        if request.path == "/v1/bundle" and (hostile := self.hostile.pop(shuffler, None)):
            forged = self._forged(hostile, site)
            if forged is not None:
                return Answer(200, {"etag": '"hostile"'}, forged)
        self.trace.update(request.path.encode() + request.body + (kind or "").encode())
        match kind:
            case "lose-request":
                raise Lost
            case "delay":
                self.delayed.append(lambda: _quietly(ask(self.loop, target.served, request)))
                raise Lost
            case "corrupt":
                request = _corrupted(request, self.rng)
            case "odd-answer":
                return self.rng.choice(ODD)
            case "duplicate":
                with suppress(Lost):
                    await ask(self.loop, target.served, request)
            case "cut" if request.body:
                await _quietly(ask(self.loop, target.served, request, cut=True))
                raise Lost
        answer = await ask(self.loop, target.served, request)
        if kind == "lose-answer":
            raise Lost
        return answer

    def _forged(self, kind: str, site: ShufflerSite) -> bytes | None:
        """A bundle with the aggregator's own signature that an honest one would never sign."""
        relayed = site.parts.bundles._newest
        if relayed is None:
            return None
        body = relayed.bundle.body
        period = int(self.loop.now // PERIOD)
        keys, codebooks, sequence = list(body.keys), list(body.codebooks), body.sequence + 1
        match kind:
            case "key":
                from dataclasses import replace

                other = public_key_of(self.rng.randbytes(32))
                keys = [replace(key, public_key=other) if key.covers(period) else key for key in keys]
            case "page":
                from hubbub.bundle import BundledCodebook

                codebooks.append(BundledCodebook(period, book(self.rng.randrange(1, len(EDITS))).compiled()))
            case "drop":
                keys = [key for key in keys if not key.covers(period)]
            case "older":
                sequence = max(0, body.sequence - 1)
        now = int(self.loop.now) if kind != "older" else min(int(self.loop.now), sequence)
        with suppress(HubbubError, ValueError):
            return sign(
                IDENTITY,
                collection=body.collection,
                codebooks=codebooks,
                keys=keys,
                now=now,
                lifetime=7 * 86_400,
                max_age=body.max_age,
                last=None,
                sequence=max(sequence, now),
                off=body.off,
            )
        return None

    # services

    def _site(self, party: str) -> Any:
        sites: Sequence[Any] = self.shufflers if party.startswith("s") else self.aggregators
        return sites[int(party[1:] or 0) % len(sites)]

    def begin(self, process: Process, work: Callable[[], Coroutine[Any, Any, Any]]) -> asyncio.Task[Any]:
        """Something that a process does by itself."""
        context = copy_context()
        context.run(PROCESS.set, process)
        with self.loop.running():
            task = self.loop.create_task(context.run(work), context=context)
        process.tasks.append(task)
        return task

    def drive(self, processes: Iterable[tuple[Process, asyncio.Task[Any]]]) -> None:
        """Until each of these is done, or its process is dead or stands still."""
        waiting = list(processes)
        with suppress(Idle):
            self.loop.drive(lambda: all(task.done() or p.dead or p.paused for p, task in waiting), patience=600.0)
        for process, task in waiting:
            if task.done() and not task.cancelled() and not process.dead:
                self._judge(process, task.exception())

    def _judge(self, process: Process, error: BaseException | None) -> None:
        """A job that ended with an error: its storage may fail, nothing else may."""
        if error is None or isinstance(error, StorageError | Killed | asyncio.CancelledError | OSError):
            return
        if isinstance(error, BaseExceptionGroup):
            for each in error.exceptions:
                self._judge(process, each)
            return
        raise Wrong("died", f"{process.name}: {type(error).__name__}: {error}") from error

    def _do(self, site: Any, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        process = site.able
        if process is not None:
            self.drive([(process, self.begin(process, work))])

    def refresh(self, site: ShufflerSite) -> None:
        async def work() -> None:
            await site.parts.bundles.refresh()
            await site.parts.bundles.hold()

        self._do(site, work)

    def tick(self, site: ShufflerSite) -> None:
        self._do(site, site.parts.batcher.tick)

    def house(self, site: AggregatorSite) -> None:
        async def work() -> None:
            await asyncio.to_thread(site.service.tick)

        self._do(site, work)

    def drain(self, site: AggregatorSite) -> None:
        self._do(site, site.service.accumulator.drain)

    def _refresh(self, given: op.Refresh) -> None:
        self.refresh(self.shufflers[given.shuffler % len(self.shufflers)])

    def _tick(self, given: op.Tick) -> None:
        self.tick(self.shufflers[given.shuffler % len(self.shufflers)])

    def _house(self, given: op.House) -> None:
        self.house(self.aggregators[given.aggregator % len(self.aggregators)])

    def _drain(self, given: op.Drain) -> None:
        self.drain(self.aggregators[given.aggregator % len(self.aggregators)])

    def _together(self, _: op.Together) -> None:
        jobs: list[tuple[Process | None, Callable[[], Coroutine[Any, Any, Any]]]]
        jobs = [(site.able, site.parts.batcher.tick) for site in self.shufflers if site.able]
        jobs += [(site.able, site.service.accumulator.drain) for site in self.aggregators if site.able]
        self.drive([(process, self.begin(process, work)) for process, work in jobs if process is not None])

    # operators

    def _command(self, given: Any, work: Callable[[AggregatorSite], object]) -> None:
        """A command beside the service, on its storage."""
        site = self.aggregators[given.aggregator % len(self.aggregators)]
        if site.able is not None:
            with acting(site.up), suppress(InvalidParameter, StorageError, Killed):
                work(site)

    def _now(self, site: AggregatorSite) -> float:
        return site.machine.wall()

    def _rotate(self, given: op.Rotate) -> None:
        self._command(given, lambda site: site.service.ring.rotate(self._now(site)))

    def _revoke(self, given: op.Revoke) -> None:
        def work(site: AggregatorSite) -> None:
            period = int(self.loop.now // PERIOD) + max(0, given.ahead)
            for key in site.service.storage.sealing_keys():
                if key.covers(period) and not key.revoked:
                    self.oracle.revoked.add(key.id)
                    site.service.ring.revoke(key.id, self._now(site))

        self._command(given, work)

    def _switch(self, given: op.Switch) -> None:
        self._command(given, lambda site: site.service.codebooks.switch(given.metric, off=bool(given.off)))

    def _publish(self, given: op.Publish) -> None:
        self._command(given, lambda site: site.service.codebooks.publish(book(given.edit), self._now(site), None))

    def _backup(self, given: op.Backup) -> None:
        site = self.aggregators[given.aggregator % len(self.aggregators)]
        if self.redis is None and site.able is not None:
            file = self.home / f"backup-{self.at}"
            with acting(None), suppress(InvalidParameter):
                backup(site.database, file, identity=site.directory / "identity.key" if given.keys else None)
                self.backups[site.number] = file, set(self.oracle.releases)

    def _restore(self, given: op.Restore) -> None:
        site = self.aggregators[given.aggregator % len(self.aggregators)]
        if site.number not in self.backups:
            return
        site.kill()
        for file in site.directory.glob(f"{DATABASE}*"):
            file.unlink()
        bodies = [each.parts.bundles._newest for each in self.shufflers if each.up]
        relayed = max((each for each in bodies if each), key=lambda each: each.bundle.body.sequence, default=None)
        with acting(None):
            file, _ = self.backups[site.number]
            restore(file, site.directory, DATABASE, self._now(site), relayed.raw if relayed else None, max_age=600)
        if site.start():
            keys = site.service.storage.sealing_keys()
            self.oracle.revoked |= {key.id for key in keys if key.revoked}
            with acting(None):
                self._with_oracle(site, self.oracle.restored)

    # faults of processes

    def _processes(self, party: str) -> list[Process]:
        if party.startswith("d"):
            if not self.devices:
                return []
            device = self._device_at(int(party[1:] or 0))
            device.comparable = False  # a step of one twin is not the same step of the other
            return [process for life in device.lives if (process := life.process) is not None]
        process = self._site(party).up
        return [] if process is None else [process]

    def _crash(self, given: op.Crash) -> None:
        for process in self._processes(given.party):
            if given.steps <= 0:
                process.kill()
            else:
                process.dies_in = given.steps
        if given.party.startswith("d") and self.devices and given.steps <= 0:
            for life in self._device_at(int(given.party[1:] or 0)).lives:
                life.kill()

    def _start(self, given: op.Start) -> None:
        if not given.party.startswith("d"):
            self._site(given.party).start()

    def _pause(self, given: op.Pause) -> None:
        if not given.party.startswith("d"):
            for process in self._processes(given.party):
                process.stops_in = max(0, given.steps)

    def _resume(self, given: op.Resume) -> None:
        if given.party.startswith("d"):
            return
        process = self._site(given.party).up
        if process is not None:
            self._wake(process)

    def _wake(self, process: Process) -> None:
        process.stops_in, process.paused = None, False
        running = [task for task in process.tasks if not task.done()]
        process.tasks = running
        self.drive([(process, task) for task in running])

    def _fail(self, given: op.Fail) -> None:
        for process in self._processes(given.party):
            process.fails_in, process.fails_done = max(0, given.calls), bool(given.done)

    def _full(self, given: op.Full) -> None:
        if given.party == "r" and self.redis is not None:
            self.redis.set_full(bool(given.on))
        elif given.party.startswith("d"):
            for process in self._processes(given.party):
                process.full = bool(given.on)
        elif self.redis is None and given.party != "r":
            site = self._site(given.party)
            site.full = bool(given.on)
            if site.up is not None:
                site.up.full = site.full

    # -- the end

    def finish(self) -> None:
        """The faults end. Everything settles within ROUNDS ticks, and then all must add up."""
        for faults in self.faults.values():
            faults.coming.clear()
        for device in self.devices:
            for life in device.lives:
                life.faults.coming.clear()
                if life.process is not None:
                    life.process.dies_in = life.process.fails_in = None
                    life.process.full = False
                life.machine.offset = 0.0
        self.hostile.clear()
        self.redis_offset = 0.0
        if self.redis is not None:
            self.redis.set_full(False)
        for site in (*self.aggregators, *self.shufflers):
            site.machine.offset, site.full = 0.0, False
            process = site.up
            if process is not None:
                process.dies_in = process.fails_in = process.stops_in = None
                process.full = False
                self._wake(process)
            if not site.start():
                raise Wrong("unsettled", f"{site.name} does not start although nothing is wrong any more")
        self.check()
        for number in range(ROUNDS):
            self.round()
            if self._settled():
                break
            self._wait(number)
        else:
            raise Wrong("unsettled", self._left())
        self._keys()
        self._add_up()

    def round(self) -> None:
        for aggregator in self.aggregators:
            self.house(aggregator)
        for shuffler in self.shufflers:
            self.refresh(shuffler)
            self.tick(shuffler)
        for aggregator in self.aggregators:
            self.drain(aggregator)
        self.check()

    def _wait(self, number: int) -> None:
        """Until something can be due: a verdict after seconds, a bucket when it closes."""
        waiting = self._waiting()
        soon = min(waiting, default=0.0)
        if number % 4 < 2:
            self.loop.pass_to(self.loop.now + 61.0)
        elif soon > self.loop.now:
            self.loop.pass_to(soon + 1.0)
        else:
            self.loop.pass_to(self.loop.now + 900.0)

    def _waiting(self) -> list[float]:
        """When the buckets close of which anything is on its way."""
        found: list[float] = []
        for site in self._groups():
            overview = self._peek(site)
            found += [float(bucket.closes_at) for bucket in overview.waiting]
            if any(overview.batches.values()) or overview.held:
                found.append(self.loop.now)
        return found

    def _groups(self) -> list[ShufflerSite]:
        """One shuffler of each storage."""
        return list({site.group: site for site in self.shufflers}.values())

    def _peek(self, site: ShufflerSite) -> Any:
        with acting(site.up):
            return site.storage.blocking.overview()

    def _settled(self) -> bool:
        with acting(self.aggregators[0].up):
            pending = self.aggregators[0].service.storage.pending()
        return not self._waiting() and not pending

    def _left(self) -> str:
        found = [f"{site.name}: {self._peek(site)}" for site in self._groups()]
        with acting(self.aggregators[0].up):
            found.append(f"{len(self.aggregators[0].service.storage.pending())} batches have no verdict")
        return "; ".join(found)

    def _keys(self) -> None:
        """The present period and the coming ones have a key, or had one that was revoked too late to be replaced."""
        for site in self.aggregators:
            self.house(site)
        period = int(self.loop.now // PERIOD)
        with acting(self.aggregators[0].up):
            service = self.aggregators[0].service
            keys = service.storage.sealing_keys()
            for each in range(period, period + service.ring.ahead + 1):
                if not any(key.covers(each) for key in keys):
                    raise Wrong("no-key", f"period {each - period:+d} has no key")

    def _add_up(self) -> None:
        site = self.aggregators[0]
        with acting(None):
            self._with_oracle(site, self._reckon)

    def _reckon(self, storage: Any) -> None:
        batches = {id_: batch for id_ in self.oracle.forwarded if (batch := storage.batch(id_)) is not None}
        self.oracle.settle(batches, self._over)
        self.oracle.ledger(storage)

    def _over(self, period: int) -> bool:
        """Whether a period's horizon is past, in true time."""
        return (period + 1) * PERIOD + GRACE + HORIZON <= self.loop.now

    def close(self) -> None:
        for device in getattr(self, "devices", []):
            for life in device.lives:
                life.kill()
        for site in (*getattr(self, "shufflers", []), *getattr(self, "aggregators", [])):
            site.kill()
        for task in self._tasks:
            if not task.done():
                with suppress(BaseException):
                    task.get_coro().close()
        self._tasks.clear()
        self.loop.close()
        self._stack.close()


def _posted(body: bytes) -> Request:
    return Request("POST", "/v1/reports", (("content-type", REPORTS_TYPE),), body)


def _corrupted(request: Request, rng: random.Random) -> Request:
    if not request.body:
        return request
    body = bytearray(request.body)
    body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
    return Request(request.method, request.path, request.headers, bytes(body))


async def _quietly(request: Coroutine[Any, Any, Answer]) -> None:
    with suppress(Lost):
        await request
