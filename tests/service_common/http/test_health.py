"""Readiness: one document made of named checks. Each is asked once at a time, and none can hold up the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from hubbub_service_common.http.health import Health, Reason, add_health
from hubbub_service_common.http.problem_documents import ProblemHandlers
from hubbub_service_common.storage.kinds_and_errors import StorageError
from tests.service_common.http.test_problem_documents import LOG


async def fine() -> str | None:
    return None


async def wrong() -> str | None:
    return "the clock is wrong"


async def unreadable() -> str | None:
    raise StorageError("password is hunter2")


async def hangs() -> str | None:
    await asyncio.Event().wait()
    return None


async def answer(health: Health, path: str = "/readyz") -> httpx2.Response:
    api = FastAPI()
    ProblemHandlers(LOG).attach(api)
    add_health(api, health)

    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(api), base_url="http://any") as client:
        return await client.get(path)


async def test_all_checks_that_find_nothing_make_it_ready() -> None:
    found = await answer(Health("It can work.", {"one": fine, "other": fine}))
    assert (found.status_code, found.text) == (200, '{"ok":true}')


async def test_every_reason_is_listed_by_name_and_the_process_is_alive_all_the_same() -> None:
    health = Health("It can work.", {"one": fine, "clock": wrong, "storage": unreadable, "slow": hangs}, patience=0.05)
    found = await answer(health)
    assert (found.status_code, found.headers["content-type"]) == (503, "application/problem+json")
    assert int(found.headers["retry-after"]) > 0
    document = found.json()
    assert (document["ok"], document["type"]) == (False, "urn:hubbub:problem:not-ready")
    assert document["reasons"] == [
        {"name": "clock", "detail": "the clock is wrong"},
        {"name": "storage", "detail": "the storage can't be read or written now"},
        {"name": "slow", "detail": "the check of the slow takes too long"},
    ]
    assert (await answer(health, "/healthz")).json() == {"ok": True}


async def test_a_warning_is_told_and_leaves_the_service_ready() -> None:
    warnings = {"clock": lambda: "the clock is wrong", "certificate": lambda: None}
    told = [{"name": "clock", "detail": "the clock is wrong"}]
    found = await answer(Health("It can work.", {"one": fine}, warnings=warnings))
    assert (found.status_code, found.json()) == (200, {"ok": True, "warnings": told})
    found = await answer(Health("It can work.", {"one": unreadable}, warnings=warnings))
    assert (found.status_code, found.json()["ok"], found.json()["warnings"]) == (503, False, told)


async def test_a_check_that_hangs_is_asked_once_however_many_want_to_know() -> None:
    asked = 0

    def counted() -> Coroutine[Any, Any, str | None]:
        nonlocal asked
        asked += 1
        return hangs()

    health = Health("It can work.", {"storage": counted}, patience=0.01)
    first, second = await asyncio.gather(health.reasons(), health.reasons())
    assert first == second == [Reason("storage", "the check of the storage takes too long")]
    await health.reasons()
    assert asked == 1


async def test_a_bug_in_a_check_is_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    async def bug() -> str | None:
        raise RuntimeError("oops")

    with pytest.raises(RuntimeError):
        await answer(Health("It can work.", {"one": bug}))
    assert "internal error: RuntimeError at test_health.py" in caplog.text
