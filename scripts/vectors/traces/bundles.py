"""Traces about keys, and bundles that are refused or late."""

from __future__ import annotations

from typing import Any

from hubbub.codebook import Codebook
from scripts.vectors.traces.script import Script
from scripts.vectors.traces.world import BOTH, DAY, HOUR, ONE_FLAG, ONE_STEADY, STRANGER, TODAY, bundle, key_of, toml_of

__all__ = ["bundles"]


def bundles() -> list[Script]:
    toml = toml_of(ONE_FLAG, ONE_STEADY)
    tomorrow = TODAY + 1
    keyless = bundle("no key", toml, keys=())
    later = bundle("a key came later", toml, keys=(key_of(2),), newer=2)
    revoked = bundle("the key is revoked", toml, keys=(key_of(state="revoked"),))
    unknown = bundle("a key of an unknown suite", toml, keys=(key_of(suite="x-wing"),))
    both = bundle("a revoked key before a good one", toml, keys=(key_of(1, state="revoked"), key_of(2)))
    daily = bundle(
        "a key for each day", toml, keys=(key_of(1, 0, TODAY), key_of(2, tomorrow, tomorrow, state="pending"))
    )
    forged = bundle("by a stranger", toml, identity=STRANGER)
    short = bundle("for a day", toml, lifetime=86_400)
    newest = bundle("the newest", toml, newer=2)
    packaged = Codebook.from_toml(toml).to_bytes().decode("ascii")
    no_answer: list[Any] = [None]
    return [
        Script("a key that is added later", keyless)
        .flush()
        .record("flag", True)
        .flush(now=True)
        .serve(later)
        .wait(2 * HOUR)
        .flush(now=True)
        .next_day()
        .flush(now=True),
        Script("a key is revoked while a report waits", BOTH)
        .flush()
        .record("flag", True)
        .flush()
        .serve(revoked)
        .wait(2 * HOUR)
        .flush(now=True)
        .record("flag", True)
        .next_day()
        .flush(now=True),
        Script("a period keeps its key", BOTH).flush().serve(later).record("flag", True).wait(2 * HOUR).flush(now=True),
        Script("a key that is revoked and another one for the same period", BOTH)
        .flush()
        .record("flag", True)
        .flush()
        .serve(both)
        .wait(2 * HOUR)
        .flush(now=True)
        .next_day()
        .record("flag", True)
        .flush(now=True),
        Script("a key of an unknown suite", unknown)
        .flush()
        .record("flag", True)
        .flush(now=True)
        .next_day()
        .flush(now=True),
        Script("a key for each day", daily)
        .flush()
        .record("flag", True)
        .flush(now=True)
        .next_day()
        .record("flag", True)
        .flush(now=True)
        .next_day()
        .record("flag", True)
        .flush(now=True),
        Script("a bundle by a stranger", forged).flush().record("flag", True).serve(BOTH).flush(now=True),
        Script("a bundle by a stranger comes later", BOTH)
        .flush()
        .record("flag", True)
        .serve(forged)
        .wait(2 * HOUR)
        .flush(now=True)
        .serve(newest)
        .flush(now=True),
        Script("an older bundle comes back", newest)
        .flush()
        .record("flag", True)
        .serve(BOTH)
        .wait(2 * HOUR)
        .flush(now=True)
        .serve(newest)
        .flush(now=True),
        Script("a bundle that expires", short)
        .flush()
        .record("flag", True)
        .wait_until((TODAY + 1) * DAY)
        .flush(now=True)
        .record("flag", True)
        .serve(newest)
        .flush(now=True)
        .record("flag", True),
        Script("values that wait for a first bundle", None)
        .flush()
        .record("flag", True)
        .serve(BOTH)
        .flush(now=True)
        .record("flag", False),
        Script("values by the codebook that came with the app", None, codebook=packaged)
        .flush()
        .record("flag", True)
        .do("restart")
        .record("flag", False)
        .serve(BOTH)
        .flush(now=True),
        Script("no network for a day", BOTH)
        .flush()
        .record("flag", True)
        .do("cut the network")
        .flush(now=True)
        .next_day()
        .record("flag", True)
        .flush(now=True)
        .do("mend the network")
        .flush(now=True),
        Script("the answer is lost", BOTH)
        .flush()
        .record("flag", True)
        .answers(*no_answer)
        .flush(now=True)
        .flush(now=True),
    ]
