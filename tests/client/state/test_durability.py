"""Durability: what leaves is on disk before, threads and processes draw once, and little is loaded on a device."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hubbub.wire import decode_upload
from hubbub_client import Outcome
from hubbub_client._http.transport import Answer
from hubbub_client._sending.outbox import Lane, Outbox
from hubbub_client._sending.seal_and_send import Dispatch
from hubbub_client.testing import Request
from tests.client.world import DAY, START, World, problem, rows
from tests.repository.test_imports import HEAVY
from tests.support.paths import ROOT


def test_a_transaction_waits_for_the_disk_and_a_note_does_not(world: World) -> None:
    """No test here can cut the power; this is what stands between a spend and forgetting it then."""
    client = world.ready()
    with client._state.reading() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        assert connection.execute("PRAGMA secure_delete").fetchone() == (1,)
    with client._state.noting() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (1,)  # NORMAL
        assert connection.execute("PRAGMA secure_delete").fetchone() == (1,)


def test_spend_draw_and_sealed_bytes_are_on_disk_before_the_first_byte_leaves(world: World) -> None:
    client = world.ready()
    client.record("startup_ms", 9)
    world.time.now += DAY
    client.record("theme", "dark")
    on_disk: list[set[bytes]] = []

    def look(request: Request) -> Answer:
        other = sqlite3.connect(world.directory / "hubbub.sqlite3")
        on_disk.append({sealed for (sealed,) in other.execute("SELECT sealed FROM outbox")})
        assert other.execute("SELECT count(*) FROM ledger WHERE decision = 'spent'").fetchone() == (2,)
        other.close()
        return world.transport.accept(request)

    world.transport.script.extend([world.transport.accept, look])
    assert client.flush(0, now=True)
    assert on_disk == [set(decode_upload(world.transport.requests[-1].body))]


def test_of_two_processes_that_seal_one_report_the_first_wins(world: World) -> None:
    client = world.ready()
    client.record("theme", "dark")
    assert client.flush(0)
    assert client._cycle.codebooks.in_force is not None
    with client._state.reading() as connection:
        seen_by_both = Outbox.all(connection, Lane.OCCASIONAL)
    kept = []
    for _ in range(2):
        assert Dispatch(client._state)._seal(seen_by_both, client._cycle.codebooks.in_force) == 1
        with client._state.reading() as connection:
            kept += [report.sealed for report in Outbox.all(connection, Lane.OCCASIONAL)]
    assert kept[0] is not None
    assert kept[0] == kept[1]


def test_threads_and_clients_that_share_a_directory_randomize_once(world: World) -> None:
    clients = [world.ready() for _ in range(3)]
    with ThreadPoolExecutor(8) as pool:
        for day in range(5):
            world.time.now = START + day * DAY + 1
            outcomes = list(pool.map(lambda index: clients[index % 3].record("theme", "dark"), range(24)))
            assert set(outcomes) == {Outcome.RECORDED}
            assert all(pool.map(lambda client: client.flush(60, now=True), clients))

    drawn = {(header.period, plaintext.nonce) for header, plaintext in world.opened()}
    assert len(drawn) == len({period for period, _ in drawn}) == 5
    decided = [(name, decision) for name, _end, _start, decision, *_ in rows(world, "ledger")]
    assert decided == [("startup_ms", "charged")] * 5 + [("theme", "spent")] * 5
    assert sorted(rows(world, "totals")) == [("startup_ms", "5", 0), ("theme", "10", 5)]
    assert len(rows(world, "pins")) == 5


def test_threads_that_reduce_lose_no_value(world: World) -> None:
    clients = [world.ready() for _ in range(2)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda index: clients[index % 2].record("startup_ms", index), range(40)))
    assert all(client.flush(0) for client in clients)  # what found the file busy has waited in memory
    with clients[0]._state.reading() as connection:
        ((state,),) = connection.execute("SELECT state FROM reductions").fetchall()
    assert json.loads(state)["count"] == 40
    assert json.loads(state)["value"] == pytest.approx(19.5)


def test_one_flush_at_a_time_and_recording_goes_on_meanwhile(world: World) -> None:
    """A request that hangs holds no lock that `record` needs."""
    client = world.ready()
    client.record("theme", "dark")
    meanwhile: list[Outcome] = []

    def slow(request: Request) -> Answer:
        with ThreadPoolExecutor(1) as other:
            meanwhile.append(other.submit(client.record, "startup_ms", 3).result(60))
        return problem("overloaded")(request)

    world.transport.script.append(slow)
    client.flush(0, now=True)
    assert meanwhile == [Outcome.RECORDED]


def test_a_whole_report_from_a_bundle_loads_neither_numpy_nor_any_server_library(tmp_path: Path) -> None:
    vector = ROOT / "tests" / "vectors" / "v1" / "bundle.json"
    code = (
        "import json, sys\n"
        "from pathlib import Path\n"
        "from hubbub_client import Client\n"
        "from hubbub_client.testing import MemoryTransport\n"
        "vector = json.loads(Path(sys.argv[1]).read_bytes())\n"
        "door = MemoryTransport(bytes.fromhex(vector['bundle']))\n"
        "client = Client('http://localhost', trust=vector['trust'], consent=True, state_dir=Path(sys.argv[2]),\n"
        "                clock=lambda: vector['sequence'] + 1.0, transport=door, background=False)\n"
        "assert client.flush(0)\n"
        "assert client.record('dark_mode', True).value == 'recorded', client.stats()\n"
        "assert client.record('startup_ms', 812).value in ('recorded', 'not_in_share'), client.stats()\n"
        "assert client.flush(0, now=True)\n"
        "assert len(door.reports) == 1\n"
        "print(json.dumps(sorted(sys.modules)))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(vector), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert not {name.split(".")[0] for name in json.loads(run.stdout)} & HEAVY
