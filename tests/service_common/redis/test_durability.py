"""Durability settings of Redis: each one that is missing is a fault, in the words of the service that would lose."""

from __future__ import annotations

import logging

import pytest

from hubbub_service_common.redis.durability import SETTINGS, Durability, Stakes, faults
from hubbub_service_common.storage.kinds_and_errors import StorageError

SOUND = dict(zip(SETTINGS, ("yes", "always", "no", "noeviction", "2"), strict=True))
STAKES = Stakes("PARCELS", "PARCELS MAY GO")
ONE, TWO = ("one", 1), ("two", 2)


def test_sound_settings_have_no_fault() -> None:
    assert faults(SOUND, STAKES, 2) == []


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("appendonly", "no", "LOSES ACKNOWLEDGED PARCELS. Set appendonly yes"),
        ("appendfsync", "everysec", "has appendfsync everysec: A CRASH LOSES ACKNOWLEDGED PARCELS"),
        ("no-appendfsync-on-rewrite", "yes", "DURING A REWRITE LOSES ACKNOWLEDGED PARCELS"),
        ("maxmemory-policy", "allkeys-lru", "allkeys-lru: PARCELS MAY GO. Set noeviction"),
        ("min-replicas-to-write", "1", "set min-replicas-to-write 2"),
    ],
)
def test_each_wrong_setting_is_one_fault_that_says_what_to_set(name: str, value: str, words: str) -> None:
    (fault,) = faults({**SOUND, name: value}, STAKES, 2)
    assert words in fault


def test_settings_that_are_hidden_are_a_fault() -> None:
    (fault,) = faults(None, STAKES, 0)
    assert "does not let us see its settings" in fault


def test_each_change_of_each_server_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    known = Durability(logging.getLogger("test"), STAKES, 0)
    late = {**SOUND, "appendfsync": "no"}
    held = []
    with caplog.at_level(logging.INFO):
        for servers in ({ONE: SOUND, TWO: SOUND}, {ONE: late, TWO: SOUND}, {ONE: late, TWO: late}, {TWO: SOUND}):
            for _ in range(2):
                known.saw(servers)
            held.append(known.holds)
    assert held == [True, False, False, True]
    said = [(record.levelname, record.getMessage()[:14]) for record in caplog.records]
    assert said == [("WARNING", "Redis at one:1"), ("WARNING", "Redis at two:2"), ("INFO", "Redis at two:2")]


class Flaky:
    """Servers, one of which breaks a connection or hides what it is set to."""

    def __init__(self, answers: list[bool]) -> None:
        self._answers = answers

    def primaries(self) -> list[tuple[str, int]]:
        return [ONE]

    def ask(self, _node: tuple[str, int], *parts: str) -> list[bytes]:
        if parts[0] == "PING":
            return [b"PONG"]
        if not self._answers.pop(0):
            raise StorageError
        return [parts[2].encode(), SOUND[parts[2]].encode()]


def test_a_connection_that_breaks_is_no_server_that_hides_its_settings() -> None:
    for answers, holds in (([False] + [True] * 5, True), ([True, False] + [True] * 5, True), ([False] * 2, False)):
        known = Durability(logging.getLogger("test"), STAKES, 0)
        known.look(Flaky(answers))
        assert known.holds == holds
