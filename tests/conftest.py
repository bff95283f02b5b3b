"""What no test run may leave unsaid."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.browser.chromium import NO_BROWSER


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    """Tests that did not run for want of a browser are no green tests: say it last, where everybody looks."""
    yield
    skipped = terminalreporter.stats.get("skipped", [])
    unseen = sum(NO_BROWSER in str(report.longrepr) for report in skipped)
    if unseen:
        terminalreporter.write_line(f"{unseen} BROWSER TESTS DID NOT RUN. {NO_BROWSER}", red=True, bold=True)
