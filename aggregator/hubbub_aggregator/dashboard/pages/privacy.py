"""The privacy page: the most that someone could learn, then what was released and what it cost together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hubbub.period import Calendar
from hubbub_aggregator.dashboard import formatting, privacy_charts
from hubbub_aggregator.dashboard.api_client import Problem
from hubbub_aggregator.dashboard.guarantee_pictures import Pair
from hubbub_aggregator.dashboard.mechanism_wording import of_version
from hubbub_aggregator.dashboard.pages.privacy_guesses import (
    Guesses,
    guesses,
    newest_pairs,
    trade_off_figure,
    whole_history,
)
from hubbub_aggregator.dashboard.what_can_be_learned import at_most, believed
from hubbub_aggregator.models.ledger import LedgerAnswer
from hubbub_aggregator.models.release import ReleaseList

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hubbub.mechanisms import Mechanism
    from hubbub_aggregator.dashboard.chart_style import Spec
    from hubbub_aggregator.dashboard.pages.page_context import Figure, Site
    from hubbub_aggregator.models.ledger import LedgerEntry
    from hubbub_aggregator.models.metrics import MetricList, MetricVersion, NamedMetric
    from hubbub_aggregator.models.release import ReleaseModel

__all__ = ["PrivacyPage", "chosen_metric", "epsilon_spec", "ledger_spec", "posterior_spec", "privacy_page"]

HONEST, COLLUDING = "everything so far, honest shuffler", "everything so far, if they collude"
HONEST_PERIOD, COLLUDING_PERIOD = "one period, honest shuffler", "one period, if they collude"
_LEDGER_PERIODS = 400
"""Most periods that are drawn: more than a year of days. The table has the newest of them."""
_DOTS = 12
"""Most points that are drawn on a line with a value for each period."""
_RELEASES = 30
_SIZES = 13
_BEFORE = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9)


@dataclass(frozen=True, slots=True)
class Belief:
    """What someone believed before, and the most that they may believe after."""

    before: str
    honest: str
    colluding: str


@dataclass(frozen=True, slots=True)
class Chosen:
    """One metric, looked at closely."""

    metric: NamedMetric
    guesses: Guesses
    releases: list[ReleaseModel]
    newest: ReleaseModel
    epsilons: Figure | None
    sizes: list[tuple[str, str]]
    posterior: Figure
    beliefs: list[Belief]


@dataclass(frozen=True, slots=True)
class PrivacyPage:
    collection: str
    metrics: list[str]
    ledger: LedgerAnswer | None
    is_working: bool
    """The ledger is being computed, and will be here soon."""
    course: Figure | None
    chosen: Chosen | None
    each: list[Guesses]
    """Every metric that was released in the newest period; what gives away most comes first."""
    period: str | None
    """The newest one with a release."""
    trade_off: Figure | None
    error_picture: str
    """Address of the picture of error over the local epsilon; empty in a file of its own."""
    history: Guesses | None
    """Everything that a device has ever reported."""
    single_operator: bool
    device_epsilon: str
    honest_fraction: str
    length: str


async def privacy_page(
    site: Site, ledger: Callable[[Site], Awaitable[LedgerAnswer | None]], metric: str | None
) -> PrivacyPage:
    """`ledger` asks for the ledger, or gives None if composing it takes longer than a reader wants to wait."""
    listing, status, codebook = await site.listing(), await site.status(), await site.codebook()
    chosen_metric(listing, metric)  # refuses an unknown name before anything is computed
    pairs = [] if status.last_release is None else await newest_pairs(site, status.last_release)
    metric = metric or next((pair.name for pair in pairs if chosen_metric(listing, pair.name)), None)
    known, target = await ledger(site), float(codebook.collection.release_epsilon)
    chosen = await _chosen(site, listing, metric, target)
    course = None
    if known is not None and known.over_time:
        spec = _course(known)
        course = await site.drawer.run(site.figure, spec, "ledger", _ledger_caption(known), "all")
    return PrivacyPage(
        collection=listing.collection,
        metrics=[one.name for one in listing.metrics if _has_releases(one)],
        ledger=known,
        is_working=known is None and any(map(_has_releases, listing.metrics)),
        course=course,
        chosen=chosen,
        each=[guesses(pair) for pair in pairs],
        period=status.last_release,
        trade_off=trade_off_figure(site, pairs, chosen.metric.name, target) if pairs and chosen else None,
        error_picture=""
        if chosen is None or site.links.in_one_file
        else site.links.chart("error", chosen.metric.name, "svg"),
        history=None if known is None or known.total is None else whole_history(known.total),
        single_operator=status.single_operator,
        device_epsilon=formatting.epsilon(float(codebook.collection.device_epsilon)),
        honest_fraction=formatting.share(float(codebook.collection.honest_fraction), 0),
        length=formatting.length(listing.period),
    )


async def ask_ledger(site: Site) -> LedgerAnswer:
    return await site.api.ask(LedgerAnswer, "/v1/privacy", periods=_LEDGER_PERIODS)


async def ledger_spec(site: Site) -> Spec:
    known = await ask_ledger(site)
    if not known.over_time:
        raise Problem(404, "nothing-released", "There is no such chart.", "Nothing has been released yet.")
    return _course(known)


async def epsilon_spec(site: Site, name: str) -> Spec:
    version, newest, target = await _newest(site, name)
    found = await site.drawer.run(_epsilons, version, newest, target)
    if found is None:
        raise Problem(404, "not-found", "There is no such chart.", "This software does not know the mechanism.")
    return found[0]


async def posterior_spec(site: Site, name: str) -> Spec:
    _, newest, _ = await _newest(site, name)
    return _posterior(newest)


def chosen_metric(listing: MetricList, name: str | None) -> NamedMetric | None:
    """The metric that was asked for, or the first with a release; None if there is none."""
    with_releases = [metric for metric in listing.metrics if _has_releases(metric)]
    if name is None:
        return with_releases[0] if with_releases else None
    found = next((metric for metric in listing.metrics if metric.name == name), None)
    if found is None:
        raise Problem(404, "not-found", "There is no such metric.", "Choose one from the list.")
    return found if _has_releases(found) else None


def _has_releases(metric: NamedMetric) -> bool:
    return metric.versions[-1].released_periods > 0


async def _releases(site: Site, listing: MetricList, metric: NamedMetric) -> list[ReleaseModel]:
    """The newest releases of the id that the name has now, newest first."""
    calendar, version = Calendar.parse(listing.period), metric.versions[-1]
    assert version.first is not None  # noqa: S101  it has releases
    assert version.last is not None  # noqa: S101  likewise
    first = max(calendar.boundary(version.first), calendar.boundary(version.last) - _RELEASES + 1)
    since = calendar.period(first).label
    found = await site.api.ask(ReleaseList, "/v1/releases", metric=metric.name, since=since, limit=200)
    return found.releases[::-1]


async def _newest(site: Site, name: str) -> tuple[MetricVersion, ReleaseModel, float]:
    listing = await site.listing()
    metric = chosen_metric(listing, name)
    if metric is None:
        raise Problem(404, "nothing-released", "There is no such chart.", "Nothing has been released for this metric.")
    target = float((await site.codebook()).collection.release_epsilon)
    return metric.versions[-1], (await _releases(site, listing, metric))[0], target


async def _chosen(site: Site, listing: MetricList, name: str | None, target: float) -> Chosen | None:
    metric = chosen_metric(listing, name)
    releases = [] if metric is None else await _releases(site, listing, metric)
    if metric is None or not releases:
        return None
    return await site.drawer.run(_looked_at, site, metric, releases, target)


def _looked_at(site: Site, metric: NamedMetric, releases: list[ReleaseModel], target: float) -> Chosen:
    newest = releases[0]
    found = _epsilons(metric.versions[-1], newest, target)
    epsilons = None
    if found is not None:
        caption = (
            f"{metric.name}: ε of one release against the honest reports in its batch, at δ = "
            f"{formatting.delta(newest.delta)}; now {formatting.count(newest.honest_reports)} reports, ε "
            f"{formatting.epsilon(newest.epsilon)}"
        )
        epsilons = site.figure(found[0], "epsilon", caption, metric.name)
    even = _belief(0.5, newest)
    caption = (
        f"{metric.name}: what someone may believe about one device after a release, at most and at least, against "
        f"what they believed before; even odds become {even.honest} at most, {even.colluding} if they collude"
    )
    return Chosen(
        metric=metric,
        guesses=guesses(Pair(metric.name, newest.local_epsilon, newest.epsilon, newest.delta)),
        releases=releases,
        newest=newest,
        epsilons=epsilons,
        sizes=[] if found is None else [(formatting.count(n), formatting.epsilon(e)) for n, e in found[1]],
        posterior=site.figure(_posterior(newest), "posterior", caption, metric.name),
        beliefs=[_belief(before, newest) for before in _BEFORE],
    )


def _course(known: LedgerAnswer) -> Spec:
    rows: list[Spec] = []

    def add(entries: list[LedgerEntry], honest: str, colluding: str) -> None:
        step = -(-len(entries) // _DOTS)
        for left, entry in zip(range(len(entries) - 1, -1, -1), entries, strict=True):
            for label, number in ((honest, entry.epsilon), (colluding, entry.if_collusion.epsilon)):
                rows.append(
                    {
                        "t": entry.name,
                        "label": label,
                        "v": number,
                        "shown": left % step == 0,
                        "text": f"{entry.name}, {label}: ε {formatting.epsilon(number)}",
                    }
                )

    add(known.over_time, HONEST, COLLUDING)
    add(known.per_period, HONEST_PERIOD, COLLUDING_PERIOD)
    return privacy_charts.ledger(rows, [HONEST, COLLUDING, HONEST_PERIOD, COLLUDING_PERIOD])


def _ledger_caption(known: LedgerAnswer) -> str:
    total = known.total
    assert total is not None  # noqa: S101  there is a course
    return (
        "What a device that took part in everything has lost, period by period and in all: now ε "
        f"{formatting.epsilon(total.epsilon)} with an honest shuffler, "
        f"ε {formatting.epsilon(total.if_collusion.epsilon)} if they collude"
    )


def _epsilons(
    version: MetricVersion, newest: ReleaseModel, target: float
) -> tuple[Spec, list[tuple[int, float]]] | None:
    mechanism = of_version(version)
    if mechanism is None:
        return None
    now = newest.honest_reports
    low, high = math.log10(max(10, min(now, version.min_batch or now) / 4)), math.log10(max(1_000_000, now * 4))
    sizes = sorted({round(10 ** (low + k * (high - low) / (_SIZES - 1))) for k in range(_SIZES)})
    points = [(size, certified(mechanism, size, newest.delta)) for size in sizes]
    rows = [
        {"n": n, "e": e, "text": f"{formatting.count(n)} honest reports: ε {formatting.epsilon(e)}"} for n, e in points
    ]
    mark = {
        "n": now,
        "e": newest.epsilon,
        "text": f"now {formatting.count(now)} honest reports: ε {formatting.epsilon(newest.epsilon)}",
    }
    return privacy_charts.epsilons(rows, local=newest.local_epsilon, now=mark, target=target), points


@lru_cache(maxsize=4096)
def certified(mechanism: Mechanism[Any], reports: int, delta: float) -> float:
    """The accountant's epsilon, remembered: a point takes a few hundredths of a second."""
    from hubbub.accounting import guarantee

    return guarantee(mechanism, reports, delta).epsilon


def _posterior(newest: ReleaseModel) -> Spec:
    labels = ["if they collude", "honest shuffler"]
    rows = []
    for label, epsilon in zip(labels, (newest.local_epsilon, newest.epsilon), strict=True):
        for step in range(51):
            before = step / 50
            low, high = believed(before, -epsilon), believed(before, epsilon)
            rows.append(
                {
                    "prior": before,
                    "low": low,
                    "high": high,
                    "label": label,
                    "shown": step % 5 == 0 and 0 < step < 50,
                    "text": f"{label}: from {formatting.share(before, 0)} to at most {formatting.share(high)}, "
                    f"at least {formatting.share(low)}",
                }
            )
    return privacy_charts.posterior(rows, labels)


def _belief(before: float, newest: ReleaseModel) -> Belief:
    honest, colluding = (at_most(believed(before, epsilon)) for epsilon in (newest.epsilon, newest.local_epsilon))
    return Belief(formatting.share(before, 0), honest, colluding)
