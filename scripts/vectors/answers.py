"""tests/vectors/v1/answers.json: answers to an upload, and what they mean for each report in it."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from hubbub.refusals import REFUSALS
from hubbub.wire import decode_upload
from hubbub_client._http.transport import Answer, CannotReach
from hubbub_client._sending.upload import upload

__all__ = ["answers", "judged"]

_PROBLEM, _JSON = "application/problem+json", "application/json"
_OK = {"status": 202, "body": ""}


class _Given:
    """A transport that gives the answers of a case, one for each request, and counts the reports of each."""

    def __init__(self, given: list[dict[str, Any] | None]) -> None:
        self._given, self.sizes = deque(given), list[int]()

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:  # noqa: ARG002
        self.sizes.append(len(decode_upload(body)))
        answer = self._given.popleft()
        if answer is None:
            raise CannotReach("no network")
        named = {"content-type": "type", "retry-after": "retry_after"}
        found = {header: answer[name] for header, name in named.items() if name in answer}
        return answer["status"], found, answer["body"].replace("~", "a" * answer.get("letters", 0)).encode()


def answers() -> list[dict[str, Any]]:
    return [case | judged(case) for case in _cases()]


def judged(case: dict[str, Any]) -> dict[str, Any]:
    """How many reports each request had, what becomes of each report, and the pause in seconds that was asked for."""
    transport = _Given(case["answers"])
    made = upload(transport, [bytes([place]) for place in range(case["reports"])])
    return {
        "requests": transport.sizes,
        "verdicts": [
            {"action": verdict.action.value if verdict.action else "done", "reason": verdict.reason}
            for verdict in made.verdicts
        ],
        "retry_after": int(made.retry_after),
        "stop": made.blocked,
    }


def _case(what: str, reports: int, *given: dict[str, Any] | None) -> dict[str, Any]:
    return {"what": what, "reports": reports, "answers": list(given)}


def _problem(name: str, **more: Any) -> dict[str, Any]:
    refusal = REFUSALS[name]
    return {"status": refusal.status, "type": _PROBLEM, "body": json.dumps({"type": refusal.urn}), **more}


def _failures(*listed: Any, **more: Any) -> dict[str, Any]:
    return {"status": 200, "type": _JSON, "body": json.dumps({"failures": list(listed)}), **more}


def _failed(index: Any, reason: Any) -> dict[str, Any]:
    return {"index": index, "reason": reason}


def _cases() -> Iterator[dict[str, Any]]:
    yield _case("durable", 2, _OK)
    yield _case("202 with a body", 2, {"status": 202, "type": _JSON, "body": "{}"})
    yield _case("202 with a page", 1, {"status": 202, "type": "text/html", "body": "<html>"})
    for status in (200, 201, 204, 301, 302, 304):
        yield _case(f"{status} and nothing", 1, {"status": status, "body": ""})
    yield _case("no network", 2, None)
    yield from _of_each()
    yield from _of_requests()
    yield from _of_splits()
    yield from _of_pauses()
    yield from _of_lengths()


def _of_each() -> Iterator[dict[str, Any]]:
    """Lists of failures."""
    yield _case("no failure", 2, _failures())
    for name in REFUSALS:
        yield _case(f"one fails as {name}", 2, _failures(_failed(1, name)))
    yield _case("a type instead of a name", 1, _failures(_failed(0, REFUSALS["wrong-length"].urn)))
    yield _case("a reason that nobody knows", 2, _failures(_failed(0, "later-reason")))
    yield _case("all fail to be tried again", 2, _failures(_failed(0, "overloaded"), _failed(1, "rate-limited")))
    yield _case("members that nobody knows", 2, _failures(_failed(0, "wrong-length") | {"detail": "x"}))
    yield _case("one twice: the last counts", 1, _failures(_failed(0, "wrong-length"), _failed(0, "overloaded")))
    for what, entry in {
        "an index too large": _failed(2, "wrong-length"),
        "an index below zero": _failed(-1, "wrong-length"),
        "an index that is true": _failed(True, "wrong-length"),
        "an index as text": _failed("0", "wrong-length"),
        "an index with a point": _failed(0.5, "wrong-length"),
        "no index": {"reason": "wrong-length"},
        "no reason": {"index": 0},
        "a reason that is a number": _failed(0, 7),
        "a failure that is text": "wrong-length",
        "null": None,
    }.items():
        yield _case(f"a list with {what}", 2, _failures(_failed(1, "wrong-length"), entry))
    for body in ("", "{}", "[]", "null", "7", '{"failures":{}}', '{"failures":null}', '{"failures":[]', "<html>"):
        yield _case(f"200 with {body or 'nothing'}", 1, {"status": 200, "type": _JSON, "body": body})
    for type_ in ("application/json; charset=utf-8", " Application/JSON ", "text/html", "text/json", "", _PROBLEM):
        yield _case(f"200 as {type_!r}", 1, _failures(_failed(0, "wrong-length"), type=type_))


def _of_requests() -> Iterator[dict[str, Any]]:
    """Problem documents about the whole request."""
    for name in REFUSALS:
        if name not in ("malformed-upload", "too-large"):
            yield _case(f"refused as {name}", 2, _problem(name))
    yield _case("a problem with another status", 1, _problem("wrong-length", status=403))
    yield _case("a problem as 500", 1, _problem("wrong-length", status=500))
    yield _case("a problem as 200", 1, _problem("wrong-length", status=200))
    yield _case("a problem as 399", 1, _problem("wrong-length", status=399))
    yield _case("a problem with a character set", 1, _problem("wrong-length", type=f"{_PROBLEM}; charset=utf-8"))
    yield _case("a problem as application/json", 1, _problem("wrong-length", type=_JSON))
    for body in ("", "{}", "[]", '{"type":"wrong-length"}', '{"type":"about:blank"}', '{"type":7}', "<html>"):
        document = {"status": 400, "type": _PROBLEM, "body": body}
        yield _case(f"a problem that says {body or 'nothing'}", 1, document)
    later = {"status": 400, "type": _PROBLEM, "body": '{"type":"urn:hubbub:problem:later"}'}
    yield _case("a problem that nobody knows", 1, later)
    for status in (400, 401, 403, 404, 408, 410, 429, 500, 502, 503):
        yield _case(f"{status} with a page", 1, {"status": status, "type": "text/html", "body": "<html>"})


def _of_splits() -> Iterator[dict[str, Any]]:
    """Answers after which the reports are sent again in halves."""
    large, malformed = _problem("too-large"), _problem("malformed-upload")
    foreign = {"status": 413, "type": "text/html", "body": "<html>"}
    for what, answer in (("too-large", large), ("malformed-upload", malformed), ("a 413 of someone else", foreign)):
        yield _case(f"{what}, then the halves are taken", 5, answer, _OK, _OK)
        yield _case(f"{what} for one report", 1, answer)
        yield _case(f"{what} until one is left", 3, answer, answer, answer, _OK, _OK)
    yield _case("too-large, then the network fails", 4, large, None)
    yield _case("too-large, then the first half waits", 4, large, _problem("overloaded", retry_after="7"))
    yield _case("too-large, then half of the first half", 4, large, _failures(_failed(0, "overloaded")), _OK)
    yield _case("too-large, then the second half fails", 4, large, _OK, None)


def _of_pauses() -> Iterator[dict[str, Any]]:
    """Retry-After."""
    texts = ("0", "7", " 8 ", "3600", "3601", "99999999999999999999", "-1", "1.5", "1e3", "", "soon", "\u0667")
    for text in (*texts, "Wed, 21 Oct 2026 07:28:00 GMT"):
        yield _case(f"429 and Retry-After {text!r}", 1, _problem("rate-limited", retry_after=text))
    page = {"status": 503, "type": "text/html", "body": "<html>", "retry_after": "30"}
    yield _case("a pause on a page", 2, page)
    yield _case("a pause with a list of failures", 2, _failures(_failed(0, "overloaded"), retry_after="30"))
    yield _case("a pause with what is durable", 1, {**_OK, "retry_after": "30"})


def _of_lengths() -> Iterator[dict[str, Any]]:
    """JSON up to the longest that is read, and one byte more."""
    for answer, what in ((_failures(_failed(0, "wrong-length")), "200"), (_problem("wrong-length"), "a problem")):
        body = json.dumps(json.loads(answer["body"]) | {"x": "~"})
        for size in (2**18, 2**18 + 1):
            letters = size - len(body) + 1
            yield _case(f"{what} of {size} bytes", 1, answer | {"body": body, "letters": letters})
