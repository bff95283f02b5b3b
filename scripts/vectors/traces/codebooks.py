"""Traces about pins, edits and metrics that are switched off."""

from __future__ import annotations

from hubbub.codebook import Codebook
from scripts.vectors.traces.script import Script
from scripts.vectors.traces.world import BOTH, BOTH_TOML, FLAG, HOUR, ONE_FLAG, ONE_STEADY, bundle, reduced, toml_of

__all__ = ["codebooks"]


def codebooks() -> list[Script]:
    id_ = Codebook.from_toml(toml_of(ONE_FLAG)).id.hex()
    dearer = toml_of(ONE_FLAG.replace("epsilon = 1", "epsilon = 3"))
    edited = bundle("flag with epsilon 3", dearer)
    planned = bundle("flag with epsilon 3 from tomorrow on", toml_of(ONE_FLAG), dearer)
    disabled = bundle("flag not enabled", toml_of(ONE_FLAG + "enabled = false\n", ONE_STEADY))
    off = bundle("flag is off", BOTH_TOML, off=("flag",))
    steady_off = bundle("steady is off", BOTH_TOML, off=("steady",))
    on_again = bundle("nothing is off", BOTH_TOML, newer=2)
    last_day = bundle("flag expires today", toml_of(ONE_FLAG + "expires = 2026-12-13\n", ONE_STEADY))
    tomorrow = bundle("flag expires tomorrow", toml_of(ONE_FLAG + "expires = 2026-12-14\n", ONE_STEADY))
    gone = bundle("flag is gone", toml_of(ONE_STEADY))
    return [
        Script("a pin", FLAG, pin=id_).flush().record("flag", True).flush(now=True),
        Script("a pin that another codebook does not fit", edited, pin=id_)
        .flush()
        .record("flag", True)
        .flush(now=True),
        Script("a pinned codebook is edited", FLAG, pin=id_)
        .flush()
        .serve(planned)
        .next_day()
        .flush()
        .record("flag", True)
        .flush(now=True),
        Script("an edit that is published for tomorrow", FLAG)
        .flush()
        .serve(planned)
        .wait(2 * HOUR)
        .flush()
        .record("flag", True)
        .flush(now=True)
        .next_day()
        .flush()
        .record("flag", True)
        .flush(now=True),
        Script("an edit of a period that has begun: what is pinned cannot be sent", FLAG)
        .flush()
        .serve(edited)
        .wait(2 * HOUR)
        .flush()
        .record("flag", True)
        .flush(now=True)
        .next_day()
        .flush()
        .record("flag", True)
        .flush(now=True),
        Script("recorded before a period is pinned, by the edit", FLAG)
        .flush()
        .serve(edited)
        .next_day()
        .record("flag", True)
        .flush(now=True),
        Script("an edit that is planned", planned)
        .flush()
        .record("flag", True)
        .flush(now=True)
        .next_day()
        .record("flag", True)
        .flush(now=True),
        Script("a metric that is not enabled", disabled).flush().record("flag", True).next_day().flush(now=True),
        Script("a metric is switched off before it is drawn, and on again", BOTH)
        .flush()
        .record("flag", True)
        .serve(off)
        .wait(2 * HOUR)
        .flush(now=True)
        .record("flag", True)
        .serve(on_again)
        .next_day()
        .flush(now=True)
        .record("flag", True)
        .flush(now=True),
        Script("a metric is switched off while its report waits", BOTH)
        .flush()
        .record("flag", True)
        .flush()
        .serve(off)
        .wait(2 * HOUR)
        .flush(now=True)
        .serve(on_again)
        .wait(2 * HOUR)
        .flush(now=True),
        Script("a metric that is always reported is switched off", BOTH)
        .flush()
        .serve(steady_off)
        .next_day()
        .flush(now=True)
        .serve(on_again)
        .next_day()
        .flush(now=True)
        .next_day()
        .flush(now=True),
        Script("a metric on its last day", last_day).flush().record("flag", True).record("steady", True),
        Script("a metric on the day before", tomorrow)
        .flush()
        .record("flag", True)
        .flush(now=True)
        .next_day()
        .flush()
        .record("flag", True),
        Script("a metric goes while its value waits", BOTH)
        .flush()
        .record("flag", True)
        .serve(gone)
        .wait(2 * HOUR)
        .flush(now=True)
        .record("flag", True)
        .next_day()
        .flush(now=True)
        .record("flag", True),
        Script("unknown metrics and values that do not fit", FLAG)
        .flush()
        .record("flags", True)
        .record("flag", "yes", 1, None)
        .flush(now=True),
        Script("values out of bounds", bundle("numbers", toml_of(reduced("first"))))
        .flush()
        .record("value", -5, 20)
        .flush(now=True),
    ]
