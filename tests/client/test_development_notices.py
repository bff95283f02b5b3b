"""Notices for developers: each cause once, on stderr, with what to do; in production and about values nothing."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hubbub.trust_anchor import anchor_of
from hubbub_client import Client, Outcome, UnknownMetric, WrongValue
from hubbub_client._development_notices import forget_notices, notify
from hubbub_client.testing import Device, MemoryTransport
from tests.client.world import DAY, START, TOML, World, codebook, failures, no_network, problem, served, signed
from tests.support.codebooks import STRANGER

LOCAL = "http://127.0.0.1:8701"
SECRET = "a-very-private-word"  # noqa: S105  a value to look for
MINUTES = TOML.replace('period = "1d"', 'period = "1m"')
OF_NOBODY = "0" * 32


@pytest.fixture(autouse=True)
def _a_new_process() -> Iterator[None]:
    forget_notices()
    yield
    forget_notices()


def local(world: World, **changes: Any) -> Client:
    """A client whose shuffler is said to be on this machine."""
    settings: dict[str, Any] = {
        "trust": None,
        "consent": True,
        "state_dir": world.directory,
        "clock": world.time,
        "transport": world.transport,
        "pace": world.time.pace,
        "background": False,
    }
    return Client(LOCAL, **{**settings, **changes})


def a_day(world: World, client: Client) -> None:
    """What an app does from one day to the next."""
    client.flush(0, now=True)
    for value in (SECRET, SECRET):
        client.record("theme", value)
    world.time.go_to(START + DAY + 1)
    client.flush(0, now=True)
    client.record("theme", SECRET)
    client.close()


def stranger(world: World) -> None:
    world.transport.bundle = signed(identity=STRANGER)


def offline(world: World) -> None:
    world.transport.offline = True


def expired(world: World) -> None:
    world.transport.bundle = signed(now=START - 40 * DAY)


def changed_on_the_way(world: World) -> None:
    world.transport.bundle = b"<html>Please log in</html>"


def short(world: World) -> None:
    world.transport.bundle = signed(MINUTES)


def no_page(world: World) -> None:
    world.transport.script.extend([lambda _: (404, {}, b"")] * 9)


def nothing(_: World) -> None:
    pass


TRUST_OF_ANOTHER = {"trust": anchor_of(STRANGER)}
ID = codebook().id.hex()
CAUSES: dict[str, tuple[Callable[[World], None], dict[str, Any], str, str]] = {
    "short period": (short, {}, "(short_period)", "min_period=None"),
    "not pinned": (
        nothing,
        {"pin": OF_NOBODY},
        f"{codebook().id.hex()}, and pin= allows only {OF_NOBODY}",
        "pin the id",
    ),
    "too much for a day": (
        nothing,
        {"max_epsilon": 1},
        "epsilon 3 in a period, more than this client's",
        "max_epsilon",
    ),
    "too much for ever": (nothing, {"lifetime_epsilon": 1}, "(over_budget)", "pass a larger lifetime_epsilon"),
    "no budget left": (nothing, {"lifetime_epsilon": 4}, "metric 'theme' is not collected", "client.ledger()"),
    "wrong anchor": (nothing, TRUST_OF_ANOTHER, "(UntrustedBundle)", "pass the line that `hubbub up`"),
    "expired bundle": (expired, {}, "(ExpiredBundle)", "check this machine's clock"),
    "no bundle": (changed_on_the_way, {}, "(MalformedBundle)", "check the address"),
    "no server": (offline, {}, "cannot be reached", "`hubbub up`"),
    "another server": (no_page, {}, "answers 404 instead of a bundle", "the shuffler's address"),
    "no consent": (nothing, {"consent": False}, "there is no consent", "consent="),
    "consent that is no bool": (nothing, {"consent": lambda: "yes"}, "returned no bool but str", "only True is a yes"),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_each_cause_is_named_once_with_what_to_do(cause: str, world: World, capsys: pytest.CaptureFixture[str]) -> None:
    prepare, changes, why, remedy = CAUSES[cause]
    prepare(world)
    for _ in range(2):
        a_day(world, local(world, **changes))
    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith("hubbub: ") for line in lines)
    about = [line for line in lines if why in line]
    assert len(about) == 1, lines
    assert remedy in about[0]
    assert len(lines) == len(set(lines)) <= 2  # the second one: values that waited for a codebook were lost
    assert SECRET not in "".join(lines)


@pytest.mark.parametrize("cause", CAUSES)
def test_with_a_shuffler_elsewhere_nothing_is_said(cause: str, world: World, capfd: pytest.CaptureFixture[str]) -> None:
    prepare, changes, _, _ = CAUSES[cause]
    prepare(world)
    a_day(world, world.client(**changes))
    assert capfd.readouterr().err == ""


def test_a_strict_client_says_it_wherever_its_shuffler_is(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    short(world)
    client = world.ready(strict=True, min_period="1h")
    assert client.record("theme", "dark") is Outcome.SHORT_PERIOD
    assert "(short_period)" in capsys.readouterr().err


def test_switches_of_the_person_are_named(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = local(world)
    client.disable()
    assert client.record("theme", SECRET) is Outcome.DISABLED
    assert "client.enable()" in capsys.readouterr().err
    forget_notices()
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    assert client.flush(0) is False
    assert "DO_NOT_TRACK is set" in capsys.readouterr().err


def test_mistakes_are_named_unless_they_are_raised(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    client, strict = local(world), local(world, strict=True)
    client.flush(0)
    strict.flush(0)
    for _ in range(3):
        client.record("them", SECRET)
        client.record("startup_ms", SECRET)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "hubbub: no metric is named 'them': did you mean 'theme'?",
        "hubbub: metric 'startup_ms' takes numbers other than NaN, but was given a value of type str",
    ]
    forget_notices()
    with pytest.raises(UnknownMetric):
        strict.record("them", SECRET)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("limits", [{"min_period": "1w"}, {"max_epsilon": 1}, {"pin": OF_NOBODY}])
def test_strict_finds_mistakes_under_a_codebook_that_is_not_used(world: World, limits: dict[str, Any]) -> None:
    client, lenient = world.ready(strict=True, **limits), world.ready(**limits)
    for metric, value, error in (("them", "dark", UnknownMetric), ("theme", 3, WrongValue)):
        with pytest.raises(error):
            client.record(metric, value)
        assert lenient.record(metric, value) not in (Outcome.INVALID, Outcome.RECORDED)
    assert client.record("theme", "dark") is lenient.record("theme", "dark")


def test_strict_finds_mistakes_in_the_testing_kit_whatever_the_period(tmp_path: Path) -> None:
    with Device(MINUTES, tmp_path) as device:
        with pytest.raises(UnknownMetric, match="did you mean 'theme'"):
            device.client.record("them", "dark")
        assert device.client.record("theme", "dark") is Outcome.SHORT_PERIOD


def test_reports_that_cannot_be_delivered_are_explained(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    client = local(world)
    client.flush(0)
    client.record("theme", "dark")
    for answer in (no_network, problem("period-in-future"), failures((0, "period-closed"))):
        world.transport.script.append(answer)
        client.flush(0, now=True)
    assert [line.split(":")[1].split(",")[0].strip() for line in capsys.readouterr().err.splitlines()] == [
        "reports cannot be delivered",
        "the shuffler says that a report's period has not begun",
        "reports were dropped",
    ]


def test_what_the_app_s_own_logging_shows_is_not_repeated(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    handler = logging.StreamHandler(sys.stderr)
    logger = logging.getLogger("hubbub_client")
    logger.addHandler(handler)
    try:
        local(world).flush(0)
        client = local(world)
        client.flush(0)
        client.record("them", "dark")
    finally:
        logger.removeHandler(handler)
    assert capsys.readouterr().err == "no metric is named 'them': did you mean 'theme'?\n"


def test_a_full_pipe_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b"x" * 65_536)
    except BlockingIOError:
        os.set_blocking(writing, True)
    full = os.fdopen(writing, "w")
    monkeypatch.setattr(sys, "stderr", full)
    notify("full", "this would hang")
    os.close(reading)
    full.close()  # would fail if the notice were still in it: no one reads this pipe


@pytest.mark.parametrize("stream", [None, io.StringIO()], ids=["none", "closed"])
def test_without_a_stderr_nothing_fails(world: World, stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if stream is not None:
        stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    assert local(world, consent=False).record("theme", "dark") is Outcome.DISABLED


def test_notices_over_http_name_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    transport = MemoryTransport.serving(MINUTES)
    with served(transport) as address:
        client = Client(address, trust=None, consent=True, state_dir=tmp_path, background=False)
        client.flush(5)
        assert client.record("theme", "dark") is Outcome.SHORT_PERIOD
        client.close()
    assert capsys.readouterr().err.count("short_period") == 1
