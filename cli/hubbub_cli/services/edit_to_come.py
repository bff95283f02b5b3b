"""An edited codebook that is not in force yet: from when the edit counts, why, and the way out for a trial."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hubbub_cli.services.own_command import own_command
from hubbub_cli.terminal.period_names import named

if TYPE_CHECKING:
    from hubbub.bundle_body import Body
    from hubbub.period import Period
    from hubbub_cli.services.processes import Services

__all__ = ["Waiting", "waiting"]

_CACHE_LIFETIMES = 2


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why what was started does not collect by the file that was given."""

    text: str
    begins: Period | None
    """The first period that the file counts in. None: none, as the file is older than what is in force."""


def waiting(services: Services, now: float) -> Waiting | None:
    """What the signed bundle says about the given codebook; None if it is in force, or if nothing can be learned."""
    body = services.bundle(now)
    if body is None:
        return None
    given = services.frozen
    pages = [page for page in body.codebooks if page.metrics]  # one without metrics only ends the one before it
    if not pages:
        return None
    newest, present = pages[-1], given.collection.calendar.index_at(now)
    if newest.document != given.compiled():
        return Waiting(_superseded(services), None)
    if len(body.codebooks) == 1 or newest.first_period <= present:
        return None
    begins = given.collection.calendar.period(newest.first_period)
    return Waiting(_edited(services, body, begins, now), begins)


def _edited(services: Services, body: Body, begins: Period, now: float) -> str:
    folder = _near(services)
    return (
        f"Not in force yet: the edit of {services.codebook.name} counts from {named(begins.label)} on "
        f"(in {_span(begins.start - now)}). Until then values are collected by the codebook before it, since devices "
        f"and the shuffler may keep that one for {_span(_CACHE_LIFETIMES * body.max_age)}. In a trial you need not "
        f"wait: stop, and start again with `--state-dir {folder}-2`, or delete {folder} first. Either way the trial "
        "begins without its numbers and with a new trust anchor."
    )


def _superseded(services: Services) -> str:
    return (
        f"Not in force: {services.codebook.name} is an older codebook, and {_near(services)} holds a later one, which "
        f"stays. `{own_command()} codebook publish {services.codebook.name} --state-dir {_near(services)}/aggregator` "
        f"puts this one back. In a trial, start again with `--state-dir {_near(services)}-2`."
    )


def _near(services: Services) -> str:
    """The state directory as people would type it here."""
    path = os.path.relpath(services.state_dir)
    return str(services.state_dir) if path.startswith(os.pardir) else path


def _span(seconds: float) -> str:
    """About how long: minutes, hours or days. The exact moment stands beside it."""
    minutes = max(1, math.ceil(seconds / 60))
    if minutes < 60:
        return f"{minutes} minute{'s' * (minutes != 1)}"
    hours = round(minutes / 60)
    if hours == 1:
        return "1 hour"
    return f"{hours} hours" if hours < 48 else f"{round(hours / 24)} days"
