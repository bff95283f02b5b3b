"""Traces about what a shuffler answers."""

from __future__ import annotations

from typing import Any

from scripts.vectors.traces.script import Script, failure, problem
from scripts.vectors.traces.world import BOTH, ONE_FLAG, ONE_STEADY, SECOND, bundle, key_of, toml_of

__all__ = ["answers"]


def answers() -> list[Script]:
    revoked = bundle("revoked after a refusal", toml_of(ONE_FLAG, ONE_STEADY), keys=(key_of(state="revoked"),))

    def answered(name: str, *given: Any) -> Script:
        return Script(name, BOTH).flush().record("flag", True).answers(*given).flush(now=True)

    def steady(name: str, *given: Any) -> Script:
        return Script(name, BOTH).flush().next_day().answers(*given).flush(now=True)

    return [
        answered("429 and a pause", problem("rate-limited", retry_after="60"))
        .wait(59 * SECOND)
        .flush(now=True)
        .wait(2 * SECOND)
        .flush(now=True),
        steady(
            "429 and a pause for what is always reported: it holds for both lanes",
            problem("rate-limited", retry_after="60"),
        )
        .record("flag", True)
        .wait(59 * SECOND)
        .flush(now=True)
        .wait(2 * SECOND)
        .flush(now=True),
        answered("503 without a pause", problem("overloaded")).flush(now=True).flush(now=True),
        answered("a page that asks to log in", {"status": 200, "type": "text/html", "body": "<html>"}).flush(now=True),
        answered("refused for good", failure("wrong-length")).flush(now=True).record("flag", True).flush(now=True),
        answered("413 for one report", problem("too-large")).flush(now=True),
        answered("413 by a proxy", {"status": 413, "type": "text/html", "body": ""}).flush(now=True),
        answered("unknown key for what is not always reported: no fetch shows it", failure("unknown-key"))
        .wait(SECOND)
        .flush(now=True),
        Script("unknown key: the bundle is fetched at once, and says that it is revoked", BOTH)
        .flush()
        .next_day()
        .flush()
        .serve(revoked)
        .answers(failure("unknown-key"))
        .flush(now=True)
        .flush(now=True),
        steady("unknown key, and no newer bundle", failure("unknown-key")).flush(now=True),
        answered("period in the future", failure("period-in-future")).flush(now=True),
    ]
