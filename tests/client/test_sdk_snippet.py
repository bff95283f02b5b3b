"""The SDK snippet works with the codebook that it is printed for: it runs, every value counts, and nothing is amiss."""

from __future__ import annotations

import inspect
import re
import time
from fractions import Fraction
from pathlib import Path

import pytest

from hubbub.codebook import Codebook
from hubbub.period import Calendar
from hubbub.sdk_snippet import sdk_snippet
from hubbub.usual_device_limits import USUAL_MAX_EPSILON, USUAL_MIN_PERIOD
from hubbub_client import Client, Outcome
from hubbub_client._development_notices import forget_notices
from hubbub_client.testing import MemoryTransport
from tests.client.world import served
from tests.support.patience import wait_for

BOOLEAN = '\n[metrics.dark_mode]\ntype = "boolean"\nepsilon = {epsilon}\nmissing = false\n'
MEAN = '\n[metrics.startup_ms]\ntype = "mean"\nbounds = [0, 5000]\nepsilon = {epsilon}\nmissing = 0\n'
CATEGORY = '\n[metrics.theme]\ntype = "category"\nvalues = ["light", "da\\"rk", "ü"]\nepsilon = {epsilon}\n'
LONG = f'\n[metrics.{"m" * 40}]\ntype = "category"\nvalues = ["{"v" * 40}", "b"]\nepsilon = {{epsilon}}\n'


def toml(period: str, *metrics: str, epsilon: str = "1.0") -> str:
    head = f'[collection]\nname = "app"\nperiod = "{period}"\ngrace = "1d"\ndevice_epsilon = 30\n'
    head += "release = { epsilon = 0.5, delta = 1e-8 }\n"
    return head + "".join(metric.format(epsilon=epsilon) for metric in metrics)


CASES = {
    "minutes": toml("10m", BOOLEAN, MEAN, CATEGORY),
    "a short period that spends much": toml("1m", BOOLEAN, epsilon="6"),
    "hours": toml("1h", BOOLEAN, MEAN, CATEGORY),
    "days": toml("1d", BOOLEAN, MEAN, CATEGORY),
    "weeks": toml("1w", MEAN),
    "more than a day's usual epsilon": toml("1d", BOOLEAN, MEAN, epsilon="4.00004"),
    "long names": toml("1d", LONG),
}


def run(snippet: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Outcome]:
    """Type the snippet in, and return what became of each value."""
    outcomes: dict[str, Outcome] = {}

    class Watched(Client):
        def record(self, name: str, value: object) -> Outcome:
            outcomes[name] = super().record(name, value)
            return outcomes[name]

    monkeypatch.chdir(folder)
    monkeypatch.setattr("hubbub_client.Client", Watched)
    forget_notices()
    exec(compile(snippet, "snippet", "exec"), {})  # noqa: S102  it is ours, and is printed to be run
    return outcomes


def in_a_period_that_lasts(seconds: str) -> None:
    """Wait for a period that does not end while a test runs."""
    calendar = Calendar.parse(seconds)
    wait_for(lambda: calendar.at(time.time()).end - time.time() > 10, step=0.2)


@pytest.mark.parametrize("written", CASES.values(), ids=CASES.keys())
def test_every_value_of_the_snippet_counts(
    written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    codebook, transport = Codebook.from_toml(written), MemoryTransport.serving(written)
    in_a_period_that_lasts(str(codebook.collection.calendar))
    with served(transport) as address:
        snippet = sdk_snippet(codebook, address, transport.trust)
        outcomes = run(snippet, tmp_path, monkeypatch)
    assert outcomes == {metric.name: Outcome.RECORDED for metric in codebook.metrics}
    printed = capsys.readouterr()
    assert printed.err == ""
    for metric in codebook.metrics:
        assert re.search(rf"^  {metric.name}, \d", printed.out, re.MULTILINE), printed.out
    assert max(map(len, snippet.splitlines())) <= 76
    assert ("min_period=None" in snippet) == (codebook.collection.calendar.seconds < 3_600)


def test_without_what_it_adds_the_codebook_would_be_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """So the test above can fail; and a developer who leaves it out reads why on stderr."""
    for written, argument, word in (
        (CASES["minutes"], "min_period=None", Outcome.SHORT_PERIOD),
        (CASES["more than a day's usual epsilon"], "max_epsilon=", Outcome.OVER_BUDGET),
    ):
        transport = MemoryTransport.serving(written)
        with served(transport) as address:
            snippet = sdk_snippet(Codebook.from_toml(written), address, transport.trust)
            lines = [line for line in snippet.splitlines() if argument not in line or "client" in line]
            (folder := tmp_path / word).mkdir()
            outcomes = run("\n".join(lines), folder, monkeypatch)
        assert set(outcomes.values()) == {word}
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert f"({word})" in said
        assert argument.removesuffix("=") in said


def test_the_limits_are_those_of_the_client() -> None:
    defaults = inspect.signature(Client).parameters
    assert Fraction(defaults["max_epsilon"].default) == USUAL_MAX_EPSILON
    assert defaults["min_period"].default == USUAL_MIN_PERIOD
