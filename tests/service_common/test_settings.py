"""Settings of both services: refused by the same rules, and listed in the same order."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from hubbub.errors import InvalidParameter
from hubbub_aggregator.settings import Settings as Aggregator
from hubbub_service_common.settings import ServiceSettings
from hubbub_shuffler.settings import Settings as Shuffler

TOKEN = "a-token-that-nobody-must-see"  # noqa: S105  it opens nothing
DIGEST = f"sha256:{sha256(TOKEN.encode()).hexdigest()}"
SERVICES = [pytest.param(settings, id=settings.service) for settings in (Shuffler, Aggregator)]
TOKENS = [
    (settings, name)
    for settings, names in {
        Shuffler: ["admin_token", "admin_token_next", "forward_token"],
        Aggregator: [
            *["admin_token", "admin_token_next", "shuffler_token", "shuffler_token_next"],
            *["analyst_token", "analyst_token_next"],
        ],
    }.items()
    for name in names
]


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in list(os.environ):
        if name.startswith("HUBBUB_"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize(("settings", "name"), TOKENS)
def test_every_token_is_held_to_the_same_rules_and_named_when_it_breaks_one(settings: Any, name: str) -> None:
    for wrong in (TOKEN[:15], f"{TOKEN} {TOKEN}", f"{TOKEN}\n", f"{TOKEN}\u00e9", "sha256:0123456789abcdef", ""):
        with pytest.raises(InvalidParameter, match=rf"{settings.service} .*\b{name}: ") as refused:
            settings.load(**{name: wrong})
        assert not wrong or wrong not in str(refused.value)
    assert getattr(settings.load(**{name: TOKEN}), name).get_secret_value() == TOKEN


@pytest.mark.parametrize(("settings", "name"), TOKENS)
def test_a_token_that_callers_show_may_be_a_digest_and_one_that_we_show_may_not(settings: Any, name: str) -> None:
    if name == "forward_token":
        with pytest.raises(InvalidParameter, match=r"forward_token: .*write the token itself"):
            settings.load(forward_token=DIGEST)
    else:
        assert getattr(settings.load(**{name: DIGEST}), name).get_secret_value() == DIGEST


@pytest.mark.parametrize("settings", SERVICES)
@pytest.mark.parametrize("number", ["inf", "-inf", "nan"])
def test_no_number_is_infinite(settings: Any, number: str) -> None:
    with pytest.raises(InvalidParameter, match="lease"):
        settings.load(lease=number)


@pytest.mark.parametrize("settings", SERVICES)
@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"admin_port": 9_000, "admin_host": "0.0.0.0"}, "set admin_token"),  # noqa: S104  it is refused
        ({"admin_port": 9_000, "admin_host": "::"}, "set admin_token"),
        ({"admin_port": 9_000, "port": 9_000}, "same port"),
        ({"tls_key": "key.pem"}, "tls_certificate"),
        ({"tls_certificate": "chain.pem"}, "tls_key"),
        ({"storage": f"mysql://:{TOKEN}@host/0"}, "storage: .*write redis://"),
        ({"storage": f"redis+tls://:{TOKEN}@host/0"}, "storage: .*write redis://"),
        ({"log_format": "xml"}, "log_format"),
        ({"shutdown_timeout": 0, "admin_port": 70_000}, "admin_port: .*; shutdown_timeout: "),
    ],
)
def test_what_would_be_unsafe_or_cannot_work_is_named_and_no_secret_is_shown(
    settings: Any, given: dict[str, object], wrong: str
) -> None:
    with pytest.raises(InvalidParameter, match=wrong) as refused:
        settings.load(**given)
    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize("settings", SERVICES)
def test_listeners_of_one_port_on_two_addresses_or_on_any_port_are_no_fault(settings: Any) -> None:
    settings.load(port=9_000, admin_port=9_000, admin_host="127.0.0.2")
    settings.load(port=0, admin_port=0)
    settings.load(admin_host="10.0.0.1")  # it does not listen


AGAIN = ("host", "port", "state_dir", "storage", "body_timeout")
"""What both have and each declares for itself."""


@pytest.mark.parametrize("settings", SERVICES)
def test_a_service_lists_its_own_settings_before_those_that_both_have(settings: type[ServiceSettings]) -> None:
    names = [name for name, _, _ in settings.table()]
    common = [name for name, _ in ServiceSettings.fields() if name not in AGAIN]
    assert names[-len(common) :] == common
    assert sorted(names) == sorted(settings.model_fields)
    assert all(text for _, _, text in settings.table())
