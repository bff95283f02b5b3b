"""The admin listener of both services: it answers those who have its token, present or next, and no one else."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any, cast

import httpx2
import pytest

from hubbub_aggregator.operations.admin_listener import create_admin as of_the_aggregator
from hubbub_aggregator.settings import Settings as Aggregator
from hubbub_service_common.http.tokens import Tokens
from hubbub_shuffler.operations.admin_listener import create_admin as of_the_shuffler
from hubbub_shuffler.operations.metrics import Sources
from hubbub_shuffler.settings import Settings as Shuffler

TOKEN, NEXT = "a-token-of-an-operator", "the-next-token-of-an-operator"
NOTHING = cast(Any, None)
"""In place of a service: nothing is asked here that needs one."""


def shuffler(**given: object) -> Any:
    settings = Shuffler.load(**given)
    tokens = Tokens.of(settings.admin_token, settings.admin_token_next)
    return of_the_shuffler(Sources(*[NOTHING] * 5), NOTHING, tokens)


def aggregator(**given: object) -> Any:
    settings = Aggregator.load(**given)
    return of_the_aggregator(NOTHING, Tokens.of(settings.admin_token, settings.admin_token_next))


async def ask(app: Any, path: str, *headers: tuple[str, str], method: str = "GET") -> httpx2.Response:
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://admin") as client:
        return await client.request(method, path, headers=list(headers))


def bearer(token: str) -> tuple[str, str]:
    return "Authorization", f"Bearer {token}"


@pytest.mark.parametrize("service", [shuffler, aggregator])
@pytest.mark.parametrize("hashed", [False, True])
async def test_both_tokens_are_valid_also_as_digests(service: Callable[..., Any], hashed: bool) -> None:
    given = [f"sha256:{sha256(token.encode()).hexdigest()}" if hashed else token for token in (TOKEN, NEXT)]
    app = service(admin_token=given[0], admin_token_next=given[1])
    for right in (TOKEN, NEXT):
        assert (await ask(app, "/healthz", bearer(right))).status_code == 200
        assert (await ask(app, "/healthz", bearer(right), method="HEAD")).status_code == 200
    wrong = [[], [bearer(TOKEN[:-1])], [bearer(TOKEN), bearer(TOKEN)], [("Authorization", TOKEN)]]
    for headers in [*wrong, [bearer(given[0])]] if hashed else wrong:
        for path in ("/healthz", "/readyz", "/metrics", "/openapi.json", "/nowhere"):
            refused = await ask(app, path, *headers)
            assert (refused.status_code, refused.json()["type"]) == (401, "urn:hubbub:problem:unauthorized")
            assert refused.headers["www-authenticate"] == "Bearer"
            assert TOKEN not in refused.text


@pytest.mark.parametrize("service", [shuffler, aggregator])
async def test_without_a_token_everyone_is_answered_and_by_both_services_alike(service: Callable[..., Any]) -> None:
    assert (await ask(service(), "/healthz")).text == '{"ok":true}'
    document = (await ask(service(), "/openapi.json")).json()
    assert {"/healthz", "/readyz", "/metrics"} <= set(document["paths"])
    assert not [path for path in document["paths"].values() if "401" in path["get"]["responses"]]
    refused = await ask(service(), "/metrics", method="POST")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET")
