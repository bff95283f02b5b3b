"""The first part of the privacy page: each guarantee as how often someone who guesses is right at most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from hubbub_aggregator.dashboard import formatting
from hubbub_aggregator.dashboard.api_client import Problem
from hubbub_aggregator.dashboard.guarantee_pictures import Pair, hundred, trade_off
from hubbub_aggregator.dashboard.pages.page_context import Figure
from hubbub_aggregator.dashboard.vega_render import inline
from hubbub_aggregator.dashboard.what_can_be_learned import guessed_right
from hubbub_aggregator.models.release import ReleaseList

if TYPE_CHECKING:
    from hubbub_aggregator.dashboard.pages.page_context import Site
    from hubbub_aggregator.models.ledger import LedgerEntry

__all__ = ["Guess", "Guesses", "guess", "guesses", "newest_pairs", "trade_off_figure", "trade_off_svg", "whole_history"]


@dataclass(frozen=True, slots=True)
class Guess:
    """How often someone is right at most who guesses which of two answers a device gave."""

    right: str
    """Such as "52 out of 100"."""
    chance: float
    dots: Markup
    epsilon: float
    delta: float

    @property
    def is_vain(self) -> bool:
        """Whether the bound is so close to certainty that it promises nothing."""
        return self.chance > 0.99


@dataclass(frozen=True, slots=True)
class Guesses:
    """One metric's newest release: from what is published, and from the report itself."""

    name: str
    published: Guess
    colluding: Guess


def guess(epsilon: float, delta: float = 0.0) -> Guess:
    chance = guessed_right(epsilon, delta)
    right = formatting.out_of_hundred(chance)
    return Guess(right, chance, hundred(chance, f"right at most {right}; a coin is right 50 times"), epsilon, delta)


def guesses(pair: Pair) -> Guesses:
    return Guesses(pair.name, guess(pair.released, pair.delta), guess(pair.local))


def whole_history(total: LedgerEntry) -> Guesses:
    """The same for everything that a device has ever reported."""
    return Guesses(total.name, guess(total.epsilon, total.delta), guess(total.if_collusion.epsilon))


async def newest_pairs(site: Site, period: str) -> list[Pair]:
    """Both guarantees of each metric in this period, which has the newest release; what gives away most comes first."""
    found = await site.api.ask(ReleaseList, "/v1/releases", since=period, limit=1000)
    worst: dict[str, Pair] = {}
    for one in found.releases:
        pair = Pair(one.metric, one.local_epsilon, one.epsilon, one.delta)
        if one.metric not in worst or pair.released > worst[one.metric].released:
            worst[one.metric] = pair
    return sorted(worst.values(), key=lambda pair: (-pair.local, -pair.released, pair.name))


def trade_off_figure(site: Site, pairs: list[Pair], chosen: str, target: float | None) -> Figure:
    most = max(pairs, key=lambda pair: pair.local)
    caption = (
        f"Each point is a metric in the newest period. Its height above the foot is what the release gives away, its "
        f"place from left to right what a single report gives away: {most.name} has local ε "
        f"{formatting.epsilon(most.local)} and ε {formatting.epsilon(most.released)} in its crowd. Points "
        "that would overlap stand side by side"
    )
    svg = trade_off(pairs, chosen, target=target)
    return Figure(
        Markup(inline(svg.replace(' class="plot"', "", 1), caption, "tradeoff")),  # noqa: S704  drawn here, text escaped
        caption,
        "tradeoff",
        svg_address="" if site.links.in_one_file else site.links.chart("tradeoff", chosen, "svg"),
        png_address="" if site.links.in_one_file else site.links.chart("tradeoff", chosen, "png"),
    )


async def trade_off_svg(site: Site, name: str) -> str:
    """The picture as a separate file."""
    period = (await site.status()).last_release
    pairs = [] if period is None else await newest_pairs(site, period)
    if not pairs:
        raise Problem(404, "nothing-released", "There is no such chart.", "Nothing has been released yet.")
    return trade_off(pairs, name, target=float((await site.codebook()).collection.release_epsilon))
