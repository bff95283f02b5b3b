"""Loopback hosts and seconds to wait: only this machine is local, and only a plain number is waited for."""

from __future__ import annotations

import pytest

from hubbub.loopback_host import is_loopback_host
from hubbub.refusals import seconds_to_wait


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_these_hosts_are_this_machine(host: str) -> None:
    assert is_loopback_host(host)


@pytest.mark.parametrize(
    "host",
    ["", "0.0.0.0", "::", "10.0.0.1", "[::1]", "127.0.0.1.example.com", "localhost.example.com", "127.1"],  # noqa: S104  none is listened on
)
def test_these_may_be_another(host: str) -> None:
    assert not is_loopback_host(host)


@pytest.mark.parametrize(
    ("header", "seconds"), [("0", 0.0), ("5", 5.0), (" 7 ", 7.0), ("99999", 60.0), ("9" * 400, 60.0)]
)
def test_a_number_of_seconds_is_taken_up_to_the_longest(header: str, seconds: float) -> None:
    assert seconds_to_wait(header, 60.0) == seconds


@pytest.mark.parametrize(
    "header",
    [None, "", "-1", "+1", "1.5", "1e3", "inf", "nan", "\u0663", "\u00b2", "Fri, 01 Jan 2027 00:00:00 GMT"],
)
def test_anything_else_asks_for_nothing(header: str | None) -> None:
    assert seconds_to_wait(header, 60.0) is None
