"""Problem documents: the same answer on every way out, and nothing of the request in the answer or in the log."""

from __future__ import annotations

import json
import logging
from collections.abc import MutableMapping
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from starlette.responses import PlainTextResponse

from hubbub.refusals import REFUSALS, Refused
from hubbub_service_common.http.fastapi_app import create_api
from hubbub_service_common.http.problem_documents import (
    NOT_HTTP,
    ProblemDocument,
    ProblemHandlers,
    problem_answers,
    send_problem,
)

LOG = logging.getLogger("hubbub_test")


async def sent(refused: Refused, *, close: bool, allow: str | None = None) -> tuple[int, dict[str, str], bytes]:
    messages: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        messages.append(message)

    await send_problem(send, refused, close=close, allow=allow)
    start, body = messages
    return start["status"], {name.decode(): value.decode() for name, value in start["headers"]}, body["body"]


@pytest.mark.parametrize("name", sorted(REFUSALS))
async def test_a_refusal_is_the_same_on_every_way_out(name: str) -> None:
    refused = Refused(name, "what is wrong", retry_after=7)
    made = ProblemDocument.of(refused, allow="POST")
    status, headers, body = await sent(refused, close=False, allow="POST")
    response = made.response()
    head, _, raw_body = made.raw().partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    assert status == response.status_code == REFUSALS[name].status
    assert first.startswith(f"HTTP/1.1 {status} ")
    assert body == response.body == raw_body
    assert json.loads(body) == refused.document()
    raw = dict(line.split(": ") for line in lines if line != "connection: close")
    assert raw.pop("date").endswith(" GMT")  # the server adds it to the others
    assert headers == dict(response.headers) == raw
    assert headers["content-type"] == "application/problem+json"
    assert headers["content-length"] == str(len(body))
    assert headers["cache-control"] == "no-store"
    assert headers["retry-after"] == "7"
    assert headers.get("www-authenticate") == ("Bearer" if name == "unauthorized" else None)
    assert headers.get("allow") == ("POST" if name == "method-not-allowed" else None)
    assert "connection: close" in lines
    assert (await sent(refused, close=True))[1]["connection"] == "close"


def test_what_is_no_request_gets_a_whole_answer_too() -> None:
    head, _, body = NOT_HTTP.raw().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert f"content-length: {len(body)}".encode() in head
    assert json.loads(body)["status"] == 400
    assert b"\r\ndate: " in head


def failing() -> tuple[FastAPI, list[str]]:
    counted: list[str] = []
    handlers = ProblemHandlers(
        LOG,
        challenge="Bearer, Basic",
        refused=lambda refused: counted.append(refused.refusal.name),
        missing=lambda request: PlainTextResponse("a page", 404) if request.url.path == "/page" else None,
    )
    api = create_api("test", handlers, FastAPI)

    @api.get("/refused")
    def refused() -> None:
        raise Refused("unauthorized", "who are you?")

    @api.get("/number/{number}")
    def number(number: int) -> int:
        return number

    @api.get("/bug")
    def bug() -> None:
        raise ValueError("what a caller sent")

    return api, counted


async def ask(api: FastAPI, method: str, path: str) -> httpx2.Response:
    transport = httpx2.ASGITransport(api, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
        return await client.request(method, path)


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("GET", "/refused", "unauthorized"),
        ("GET", "/number/canary", "invalid-query"),
        ("GET", "/canary", "not-found"),
        ("POST", "/refused", "method-not-allowed"),
        ("GET", "/bug", "internal-error"),
    ],
)
async def test_every_error_behind_the_framework_is_counted_and_repeats_nothing(
    method: str, path: str, name: str
) -> None:
    api, counted = failing()
    answer = await ask(api, method, path)
    assert (answer.status_code, answer.json()["type"]) == (REFUSALS[name].status, REFUSALS[name].urn)
    assert counted == [name]
    assert "canary" not in answer.text
    assert answer.headers.get("www-authenticate") == ("Bearer, Basic" if name == "unauthorized" else None)
    assert answer.headers.get("allow") == ("GET" if name == "method-not-allowed" else None)


async def test_who_looks_for_a_page_may_get_one() -> None:
    api, counted = failing()
    assert (await ask(api, "GET", "/page")).text == "a page"
    assert not counted


async def test_a_bug_is_logged_by_its_type_and_place_and_never_by_its_text(caplog: pytest.LogCaptureFixture) -> None:
    answer = await ask(failing()[0], "GET", "/bug")
    assert "internal error: ValueError at test_problem_documents.py:" in caplog.text
    assert "what a caller sent" not in caplog.text + answer.text


def test_answers_of_one_status_are_described_together() -> None:
    found = problem_answers("overloaded", "no-bundle", "not-found")
    assert set(found) == {503, 404}
    assert set(found[503]["content"]["application/problem+json"]["examples"]) == {"overloaded", "no-bundle"}
    assert "overloaded: " in found[503]["description"]
    assert "no-bundle: " in found[503]["description"]
