"""What each command prints at 80 columns, kept in tests/cli/screens: `python -m tests.cli.screens_at_80` renews it.

A screen is stdout and stderr as a terminal shows them, from the real entry point. What differs from run to run, such
as keys, is replaced by signs of the same length.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import numpy as np

from hubbub.codebook import Codebook
from hubbub.period import Calendar, Period
from hubbub_aggregator.service import Aggregator
from hubbub_cli import api_client
from hubbub_cli.all_commands import hubbub
from hubbub_cli.commands import codebook, demo, keys, query, up
from hubbub_cli.main import _run
from hubbub_cli.services.processes import Services
from tests.aggregator.served import served_by_http
from tests.browser.crowd import Crowd
from tests.browser.sites import start
from tests.docs.blocks import ROOT
from tests.support.compiled import compiled

__all__ = ["FOLDER", "WIDTH", "commands", "kept", "printed", "renewed"]

FOLDER = Path(__file__).parent / "screens"
WIDTH = 80
GAME = ROOT / "examples" / "game" / "metrics.toml"
FLIGHTS = ROOT / "cli" / "hubbub_cli" / "data" / "flights.toml"
_NOW = 1_800_007_200
"""15 January 2027, 10:00 UTC: the clock of the aggregator that is asked stands still there."""
_SECONDS = 10
_FIRST = _NOW // _SECONDS - 9
_LONG = [f"a camera that has a long name, number {number}" for number in range(30)]
_HARD = f"""
[metrics.{"m" * 64}]
type = "boolean"
epsilon = 0.5
missing = false
description = "A metric with the longest name that there is, and a description that does not fit a line either"

[metrics.camera]
type = "category"
values = {json.dumps(_LONG)}
epsilon = 1.0
missing = "{_LONG[0]}"
"""
_BINS = """
[metrics.open_ms]
type = "distribution"
bounds = [1, 10000]
bins = 16
edges = "log"
unit = "ms"
epsilon = 2.0
description = "How long it took to open a photo"
"""


@dataclass(frozen=True)
class _Stand:
    """What `hubbub demo` knows of its services, with an aggregator in this process."""

    aggregator: str
    frozen: Codebook
    floor: int = 100


# -- one command --------------------------------------------------------------------------------


def printed(*arguments: str, **environment: str) -> str:
    """What a terminal shows after this command: both streams, and the exit code if it is not 0."""
    raw = io.BytesIO()
    screen = io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("HUBBUB", "NO_COLOR"))}
    code: Any = 0
    with (
        patch.dict(os.environ, {**kept, "COLUMNS": str(WIDTH), **environment}, clear=True),
        patch.object(api_client, "own_command", lambda: "hubbub"),
        patch.object(query, "own_command", lambda: "hubbub"),
        patch.object(sys, "argv", ["hubbub", *arguments]),
        redirect_stdout(screen),
        redirect_stderr(screen),
    ):
        try:
            _run()
        except SystemExit as ended:
            code = ended.code
    shown = raw.getvalue().decode()
    return shown if not code else f"{shown}(exit code {code})\n"


def commands(group: click.Command = hubbub, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Each command with its subcommands, as typed after `hubbub`."""
    yield path
    if isinstance(group, click.Group):
        for name, below in sorted(group.commands.items()):
            yield from commands(below, (*path, name))


def _name_help_alike(group: click.Group) -> None:
    """click keeps a command's help option from its first run. Other tests run commands without their group, which would
    leave -h out here."""
    for command in group.commands.values():
        command.context_settings["help_option_names"] = hubbub.context_settings["help_option_names"]
        if isinstance(command, click.Group):
            _name_help_alike(command)


_name_help_alike(hubbub)


# -- all of them --------------------------------------------------------------------------------


def renewed() -> dict[str, str]:
    """Every screen by its name."""
    clocks = [patch.object(module, "wall", lambda: float(_NOW)) for module in (codebook, keys)]
    with tempfile.TemporaryDirectory() as folder, chdir(folder), ExitStack() as stopped:
        for clock in clocks:
            stopped.enter_context(clock)
        return {**_helps(), **_without_services(), **_of_an_aggregator(Path(folder))}


def kept() -> dict[str, str]:
    """The screens as they were when somebody last looked at them."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.txt"))}


def _helps() -> dict[str, str]:
    return {"-".join(("help", *path)): _typed(*path, "--help") for path in commands()}


def _without_services() -> dict[str, str]:
    """What needs files only."""
    Path("metrics.toml").write_text(GAME.read_text(encoding="utf-8"), encoding="utf-8")
    Path("hard.toml").write_text(_without_dates(GAME.read_text(encoding="utf-8")).partition("[metrics")[0] + _HARD)
    Path("new.toml").write_text(GAME.read_text(encoding="utf-8").replace("epsilon = 1.0", "epsilon = 0.5", 2))
    Path("wrong.toml").write_text(GAME.read_text(encoding="utf-8").replace("boolean", "bolean", 1))
    Path("devices.csv").write_text(
        "difficulty,levels,load_ms,opened_shop,crashed,active_a_week_ago,note\n"
        + "".join(f"{'easy' if n % 3 else 'hard'},{n % 9},{500 + n},{n % 2},{n % 10 == 0:d},1,x\n" for n in range(1000))
    )
    asked = {
        "codebook-check": ["codebook", "check", "metrics.toml", "--devices", "80"],
        "codebook-check-hard": ["codebook", "check", "hard.toml"],
        "codebook-check-wrong": ["codebook", "check", "wrong.toml"],
        "codebook-compile": ["codebook", "compile", "metrics.toml"],
        "codebook-compile-again": ["codebook", "compile", "new.toml"],
        "codebook-diff": ["codebook", "diff", "metrics.toml", "new.toml"],
        "plan": ["plan", "metrics.toml", "--devices", "2000"],
        "plan-too-few": ["plan", "metrics.toml", "--devices", "80"],
        "plan-hard": ["plan", "hard.toml", "--devices", "2000", "--periods", "30"],
        "plan-why": ["plan", "metrics.toml", "--devices", "2000", "--why"],
        "privacy": ["privacy", "--mechanism", "rr", "--epsilon", "1", "--reports", "1000", "--delta", "1e-8"],
        "mechanisms": ["mechanisms"],
        "select": ["select", "--type", "category", "--size", "30", "--epsilon", "1"],
        "simulate": ["simulate", "--codebook", "metrics.toml", "--data", "devices.csv", "--seed", "7"],
        "query-nothing": ["query", "--address", "http://127.0.0.1:1"],
        "client-js": ["client-js", "--write", "public"],
        "up-no-codebook": ["up", "--codebook", "none.toml"],
        "a-command-that-does-not-exist": ["qurey"],
        "a-command-without-its-group": ["check", "metrics.toml"],
        "no-command": [],
        "no-command-of-a-group": ["codebook"],
        "an-option-that-does-not-exist": ["plan", "metrics.toml", "--device", "20"],
    }
    found = {name: _typed(*arguments) for name, arguments in asked.items()}
    nowhere = {"HUBBUB_SHUFFLER_PORT": "1", "HUBBUB_AGGREGATOR_PORT": "1"}
    found["health-nothing"] = _typed("health", **nowhere)
    found["up"] = _welcome()
    return found


def _without_dates(text: str) -> str:
    return re.sub(r"(?m)^expires = .*\n", "", text)


def _welcome() -> str:
    """What `hubbub up` prints when both services are ready."""
    frozen = compiled(GAME.read_text(encoding="utf-8"))
    services = Services(Path(), Path("metrics.toml"), shuffler_port=8701, aggregator_port=8702)
    services.anchor = "ed25519:A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg"
    with (
        patch.dict(os.environ, {"COLUMNS": str(WIDTH)}),
        patch.object(Services, "clock_warning", lambda _: None),
        patch.object(Services, "bundle", lambda *_: None),
        patch.object(up, "own_command", lambda: "hubbub"),
    ):
        return up.welcome(frozen, services, float(_NOW), "http://127.0.0.1:8703") + "\n"


@contextmanager
def _released(folder: Path) -> Iterator[tuple[Aggregator, str]]:
    """An aggregator with five periods: of one nothing came, another one was too small, and one is open."""
    text = (
        _without_dates(GAME.read_text(encoding="utf-8")).replace("device_epsilon = 6.0", "device_epsilon = 12.0")
        + _HARD
        + _BINS
    )
    start(folder, text, (_FIRST - 1) * _SECONDS + 1.0).close()
    service = start(folder, text, float(_NOW), single_operator=True)
    crowd = Crowd(service.storage, service.codebooks)
    for number, period in enumerate((_FIRST, _FIRST + 1, _FIRST + 4)):
        for name, share in (("opened_shop", 0.15), ("crashed", 0.05 + 0.05 * number), ("active_a_week_ago", 0.002)):
            crowd.shares(name, period, np.array([1 - share, share]), 2000)
        crowd.shares("difficulty", period, np.array([0.3, 0.4, 0.2, 0.1]), 2000)
        crowd.numbers("load_ms", period, 800 + 50 * number, 250, 2000)
        crowd.numbers("levels", period, 4, 2, 2000)
        crowd.shares("camera", period, 1 / np.arange(1.0, 31), 6000)
        crowd.shares("open_ms", period, np.exp(-((np.arange(16) - 8.0 - number) ** 2) / 8), 4000)
    for metric in ("crashed", "difficulty"):
        crowd.discard(metric, _FIRST + 2)
    with served_by_http(service) as address:
        yield service, address
    service.close()


def _of_an_aggregator(folder: Path) -> dict[str, str]:
    ranges = [f"{_at(_FIRST)}..{_at(_FIRST + 1)}", f"{_at(_FIRST + 4)}..{_at(_FIRST + 5)}"]
    asked = {
        "query": [],
        "query-boolean": ["crashed"],
        "query-boolean-series": ["crashed", "--series"],
        "query-category": ["difficulty"],
        "query-category-series": ["difficulty", "--series"],
        "query-category-single": ["difficulty", "--top", "2", "--confidence", "0.99"],
        "query-mean": ["load_ms"],
        "query-mean-series": ["load_ms", "--series"],
        "query-near-zero": ["active_a_week_ago"],
        "query-long-list": ["camera"],
        "query-long-list-series": ["camera", "--series", "--top", "2"],
        "query-postprocessed": ["difficulty", "--postprocess", "norm_sub"],
        "query-distribution": ["open_ms", "--quantiles", "0.5,0.95"],
        "query-distribution-series": ["open_ms", "--series"],
        "query-compare-distribution": ["open_ms", "--compare", *ranges],
        "query-compare-boolean": ["crashed", "--compare", *ranges],
        "query-compare-mean": ["load_ms", "--compare", *ranges],
        "query-nothing-released": ["m" * 64],
        "query-misspelt": ["crashd"],
        "query-the-future": ["crashed", "--series", "--from", "2028-01-01"],
    }
    with ExitStack() as open_until_here:
        service, address = open_until_here.enter_context(_released(folder / "aggregator"))
        found = {name: _typed("query", *arguments, HUBBUB_ADDRESS=address) for name, arguments in asked.items()}
        found["report"] = _typed("report", "--metric", "crashed", HUBBUB_ADDRESS=address)
        found["demo"] = _demo(address, service)
    state = ["--state-dir", "aggregator/state"]
    after: dict[str, list[str]] = {
        "keys-list": ["keys", "list", *state],
        "keys-anchor": ["keys", "anchor", *state],
        "keys-rotate": ["keys", "rotate", *state],
        "keys-revoke": ["keys", "revoke", "1", *state],
        "codebook-publish": ["codebook", "publish", "new.toml", *state],
        "codebook-off": ["codebook", "off", "crashed", *state],
        "codebook-on": ["codebook", "on", "crashed", *state],
        "shuffler-held-nothing": ["shuffler", "held", "list", "--state-dir", "shuffler"],
        "aggregator-backup": ["aggregator", "backup", "backup.sqlite", *state],
    }
    return found | {name: _typed(*arguments) for name, arguments in after.items()}


def _at(period: int) -> str:
    return _calendar().period(period).label


def _calendar() -> Calendar:
    return Codebook.from_toml(GAME.read_text(encoding="utf-8")).collection.calendar


def _demo(address: str, service: Aggregator) -> str:
    """The numbers of `hubbub demo`, beside a truth."""
    stand: Any = _Stand(address, service.codebooks.newest)
    loaded = service.codebooks.newest
    periods: list[Period] = [_calendar().period(number) for number in (_FIRST, _FIRST + 1, _FIRST + 4)]
    held: dict[str, list[Any]] = {
        "crashed": [True] * 3 + [False] * 17,
        "difficulty": ["easy"] * 6 + ["normal"] * 8 + ["hard"] * 4 + ["other"] * 2,
        "load_ms": [850.0] * 20,
    }
    with patch.dict(os.environ, {"COLUMNS": str(WIDTH)}):
        rendered = []
        for name, values in held.items():
            crowds = {(name, period.index): values for period in periods}
            answer = demo._answer(stand, loaded.metric(name), crowds, periods)
            assert answer is not None
            rendered.append(demo._render(loaded.metric(name), answer))
        return "\n\n".join([*rendered, demo._discarded(stand, loaded.metric("camera"), 60)]) + "\n"


# -- what differs from run to run ---------------------------------------------------------------

_MASKS: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (r"ed25519:[\w-]{43}", lambda found: "ed25519:" + "A" * (len(found[0]) - 8)),
    (r"http://127\.0\.0\.1:(?!1\b|870)\d{4,5}", lambda _: "http://127.0.0.1:8702"),
    (r"\(\d+ kB;", lambda _: "(99 kB;"),
    (r"(?<=-)[0-9a-f]{12}(?=\.js)", lambda _: "0" * 12),
    (r"sha384-[\w+/]{64}", lambda _: "sha384-" + "A" * 64),
    (r"[\d,]+ bytes, [\d,]+ with gzip", lambda _: "55,000 bytes, 22,000 with gzip"),
)


def _typed(*arguments: str, **environment: str) -> str:
    shown = printed(*arguments, **environment)
    line = " ".join(f"'{word}'" if " " in word else word for word in arguments)
    return _masked(f"$ hubbub {line}".rstrip() + f"\n{shown}")


def _masked(text: str) -> str:
    for pattern, instead in _MASKS:
        text = re.sub(pattern, instead, text)
    return text


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    now = renewed()
    for gone in set(kept()) - set(now):
        (FOLDER / f"{gone}.txt").unlink()
    for name, shown in now.items():
        (FOLDER / f"{name}.txt").write_text(shown, encoding="utf-8")
    sys.stdout.write(f"{len(now)} screens in {FOLDER}\n")
