"""Settings of the whole test run: how hypothesis draws, which tests go first, and what the summary must say.

Hypothesis draws the same examples each time in `make test`, and new ones in `make test-full`.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from pathlib import PurePath

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.browser.chromium import NO_BROWSER
from tests.docs.blocks import counted
from tests.full import mark_repetition

settings.register_profile(
    "steady",
    max_examples=30,  # "explore" draws a hundred
    derandomize=True,  # which examples there are depends on the test alone, and none is kept from run to run
    deadline=None,  # a busy machine is no failure
    suppress_health_check=[HealthCheck.too_slow],  # likewise
    print_blob=True,
)
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("steady")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """What runs tests that are coroutines: the event loop that the services have, and no other."""
    return "asyncio"


@pytest.hookimpl(tryfirst=True)  # before `-m` leaves out what is marked
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that mostly wait, for periods of real services to end, go first: the others use the processor meanwhile."""
    mark_repetition(items, whole=not any("::" in each for each in config.args))
    first = ["e2e", "faults", "browser"]
    items.sort(key=lambda item: first.index(name) if (name := item.path.parent.name) in first else len(first))


class _FilesTogether(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no type information
    """What tests share is made once: those of a file are run by one worker, and those of all files with one browser,
    one dashboard or one set of metric types.
    """

    def _split_scope(self, nodeid: str) -> str:
        path = PurePath(nodeid.partition("::")[0])
        return str(path.parent if path.parent.name in ("browser", "dashboard", "metric_types") else path)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _FilesTogether | None:
    return _FilesTogether(config, log) if config.getoption("dist") == "loadscope" else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    """Tests that did not run for want of a browser are no green tests: say it last, where everybody looks."""
    yield
    skipped = terminalreporter.stats.get("skipped", [])
    unseen = sum(NO_BROWSER in str(report.longrepr) for report in skipped)
    if unseen:
        terminalreporter.write_line(f"{unseen} BROWSER TESTS DID NOT RUN. {NO_BROWSER}", red=True, bold=True)
    passed = [getattr(report, "nodeid", "") for report in terminalreporter.stats.get("passed", [])]
    if any(name.startswith("tests/docs/") for name in passed):
        run, marked = counted()
        typed = sum("test_running.py::test_what" in name or "tutorial_leads" in name for name in passed)
        terminalreporter.write_line(
            f"Documentation: of {run + marked} blocks to type in {marked} say why they can't run here; the others were "
            + (f"run, on {typed} pages." if typed else "read, and the tutorial's first ones run: test-full runs all.")
        )


def pytest_collection_finish() -> None:
    """What collecting has made stays until the end: no later collection of garbage looks through all of it again."""
    gc.collect()
    gc.freeze()
