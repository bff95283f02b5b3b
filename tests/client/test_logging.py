"""Logs and errors of the SDK: never a value in them, each thing once, and nothing where an app logs nothing."""

from __future__ import annotations

import logging
import sys
import traceback
from pathlib import Path

import pytest

from hubbub.errors import HubbubError
from hubbub_client import Outcome
from hubbub_client._recording.in_memory_queue import QueuedValue
from tests.client.world import TOML, World, signed

SECRET = "a-very-private-word"  # noqa: S105  a value to look for


def test_nothing_that_is_said_or_raised_names_a_value(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.transport.bundle = signed(TOML.replace('other = "other"\n', ""))
    caplog.set_level(logging.DEBUG)
    client = world.ready()
    strict = world.ready(strict=True)
    texts = []
    for metric in ("theme", "startup_ms", "them"):
        client.record(metric, SECRET)
        try:
            strict.record(metric, SECRET)
        except HubbubError as error:
            texts += [*traceback.format_exception(error), repr(error)]
    assert len(caplog.records) == 6
    assert {record.name for record in caplog.records} == {"hubbub_client"}
    assert SECRET not in "".join(texts) + caplog.text + repr(client.stats()) + repr(QueuedValue(0.0, "theme", SECRET))
    assert len(texts) > 3


def test_each_thing_is_said_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    client = world.ready()
    for _ in range(50):
        client.record("them", "dark")
    assert [record.getMessage() for record in caplog.records] == ["no metric is named 'them': did you mean 'theme'?"]


def test_an_app_without_logging_hears_nothing(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    import subprocess

    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from pathlib import Path\n"
        "from tests.client.world import World\n"
        "client = World(Path(sys.argv[1])).ready()\n"
        "print(client.record('them', 'dark'))\n"
    )
    root = Path(__file__).parent.parent.parent
    subprocess.run([sys.executable, "-c", code, str(world.directory)], check=True, cwd=root)
    assert capfd.readouterr() == ("invalid\n", "")


def test_an_error_of_our_own_is_counted_by_its_type_and_goes_no_further(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = world.ready()

    def broken(*_: object, **__: object) -> Outcome:
        raise ZeroDivisionError(SECRET)

    monkeypatch.setattr(client._intake, "take", broken)
    assert client.record("theme", SECRET) is Outcome.INVALID
    assert client.stats()["error:ZeroDivisionError"] == 1
    assert SECRET not in caplog.text
