"""Attack on batches out of a real shuffler, and on the order of their reports.

Each batch goes through ingest, storage, batcher and forwarding as shipped, and is opened by the aggregator's code. The
device under attack uploads first, so a shuffler that keeps any part of the order of arrival gives the device away: by
the place of its report, by which report comes before which, or by which reports are neighbours.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hubbub.accounting import guarantee
from hubbub.randomness import SystemRandomness
from hubbub_audit.batch_likelihood_ratio import DELTA, batches, log_ratios, shuffle_finding
from hubbub_audit.confidence_bounds import binomial_tail
from hubbub_audit.distinguishing_events import best_event, by_score, halves, lost
from hubbub_audit.findings import Attack, Finding
from hubbub_audit.real_shuffler import MOST_BATCHES, Received, through_the_shuffler
from hubbub_audit.targets import Subject, codebook_of
from hubbub_client._randomizing.draw import Draw, draw

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hubbub.codebook import Metric

__all__ = ["SIZE", "shuffled"]

SIZE = 24
"""Reports in a batch: enough for shuffling to hide the device, few enough to make a thousand batches quickly."""
_CHOOSING = 10_000
"""Batches made without a shuffler, to choose the threshold."""


class _Side(NamedTuple):
    """All batches in which the device held one value."""

    payloads: NDArray[np.uint8]
    """Axes: batch, place in it, bytes."""
    places: NDArray[np.int64]
    """The place of each report. Axes: batch, order of upload."""


def shuffled(subject: Subject, trials: int, size: int = SIZE) -> Attack:
    """Replace one device's value in `trials` batches of each kind, through the shuffler."""

    def run(alpha: float) -> list[Finding]:
        pair = subject.worst_pair()
        third = [value for value in subject.mechanism.inputs() if value not in pair]
        hiding = third[0] if third else pair[1]
        way, event = _threshold(subject, pair, hiding, size)
        sides = _sides(subject, pair, hiding, trials, size)
        scores = [log_ratios(subject, side.payloads, pair, hiding) for side in sides]
        claimed = guarantee(subject.mechanism, size, DELTA).epsilon
        what = f"{size} reports, others hold {float(hiding):g}"
        whole = lost(event, scores[way], scores[1 - way], alpha, DELTA)
        return [
            shuffle_finding(subject, "batches of a real shuffler", claimed, whole, trials, 1, what),
            _by_place(subject, sides, pair, claimed, trials, alpha),
            _order(subject, sides, size, alpha),
        ]

    return Attack("shuffle", f"shuffler ({subject.label})", 5, run)


def _threshold(subject: Subject, pair: tuple[Any, Any], hiding: Any, size: int) -> tuple[int, Any]:
    """The direction and the event that prove most, on separate batches."""
    sides = [batches(subject, value, hiding, _CHOOSING, size, pair) for value in pair]
    found = [best_event(sides[way], sides[1 - way], [by_score], DELTA) for way in (0, 1)]
    proven = [lost(found[way], sides[way], sides[1 - way], 1e-3, DELTA) for way in (0, 1)]
    way = int(np.argmax(proven))
    return way, found[way]


def _sides(subject: Subject, pair: tuple[Any, Any], hiding: Any, trials: int, size: int) -> list[_Side]:
    """Both kinds of batches, randomly mixed, through the same shuffler."""
    codebook = codebook_of([subject])
    metric, rng = codebook.metrics[0], SystemRandomness()
    kinds = [kind for kind in (0, 1) for _ in range(trials)]
    mixed = [kinds[i] for i in np.argsort([rng.bits(62) for _ in kinds])]
    received: list[tuple[int, list[Draw], Received]] = []
    for start in range(0, len(mixed), MOST_BATCHES):
        part = mixed[start : start + MOST_BATCHES]
        sent = [_drawn(metric, subject, pair[kind], hiding, size, rng) for kind in part]
        received += zip(part, sent, through_the_shuffler(codebook, metric.id, sent), strict=True)
    return [_side([one for one in received if one[0] == kind]) for kind in (0, 1)]


def _drawn(metric: Metric, subject: Subject, held: Any, hiding: Any, size: int, rng: SystemRandomness) -> list[Draw]:
    """Draws of the device under attack first, then of the crowd."""
    return [draw(metric, subject.value_of(value), rng) for value in [held, *[hiding] * (size - 1)]]


def _side(found: list[tuple[int, list[Draw], Received]]) -> _Side:
    payloads = np.array([[list(payload) for payload in received.payloads] for _, _, received in found], np.uint8)
    places = []
    for _, sent, received in found:
        at = {nonce: place for place, nonce in enumerate(received.nonces)}
        places.append([at[drawn.nonce] for drawn in sent])
    return _Side(payloads, np.array(places))


def _by_place(
    subject: Subject, sides: list[_Side], pair: tuple[Any, Any], claimed: float, trials: int, alpha: float
) -> Finding:
    """Guess from the one report at the place where the device's report was most often, as an adversary would who knows
    the shuffler's habits."""
    seen = [halves(side.places[:, 0]) for side in sides]
    place = Counter(np.concatenate([choose for choose, _ in seen]).tolist()).most_common(1)[0][0]
    scores = []
    for side in sides:
        chances = np.maximum(subject.likelihoods(side.payloads[:, place, :], pair), 1e-300)
        scores.append(halves(np.log(chances[:, 0] / chances[:, 1])))
    best = (0.0, 0, None)
    for way in (0, 1):
        event = best_event(scores[way][0], scores[1 - way][0], [by_score], DELTA)
        proven = lost(event, scores[way][0], scores[1 - way][0], 1e-3, DELTA)
        if event is not None and proven > best[0]:
            best = proven, way, event  # type: ignore[assignment]  # None before the first
    _, way, event = best
    observed = lost(event, scores[way][1], scores[1 - way][1], alpha, DELTA)
    finding = shuffle_finding(
        subject, "report at the likeliest place", claimed, observed, trials, 1, f"place {place} of the batch"
    )
    if finding.verdict == "beaten":
        return finding
    # With an honest shuffler there is nothing to find. Power is shown by what a kept order would prove.
    kept = _if_kept(subject, pair, trials, alpha)
    return Finding(
        **{
            **{name: getattr(finding, name) for name in Finding.__slots__},
            "verdict": "holds" if kept > claimed else "weak",
            "power": f"a kept order would prove {kept:.3g}",
        }
    )


def _if_kept(subject: Subject, pair: tuple[Any, Any], trials: int, alpha: float) -> float:
    """What the attack would prove if the device's report were always at the same place."""
    scores = []
    for value in pair:
        chances = np.maximum(subject.likelihoods(subject.payloads(value, trials), pair), 1e-300)
        scores.append(halves(np.log(chances[:, 0] / chances[:, 1])))
    proven = []
    for way in (0, 1):
        event = best_event(scores[way][0], scores[1 - way][0], [by_score], DELTA)
        proven.append(lost(event, scores[way][1], scores[1 - way][1], alpha, DELTA))
    return max(proven)


def _order(subject: Subject, sides: list[_Side], size: int, alpha: float) -> Finding:
    """Exact tests of a uniform order: every place equally likely, both orders equally likely, neighbours by chance."""
    places = np.concatenate([side.places for side in sides])
    choose, test = halves(places[:, 0])
    favourite = Counter(choose.tolist()).most_common(1)[0][0]
    count = len(places)
    tests = {
        f"place {favourite} for the first to arrive": (int((test == favourite).sum()), len(test), 1 / size),
        "the first to arrive before the last": (int((places[:, 0] < places[:, -1]).sum()), count, 0.5),
        "the first two to arrive side by side": (
            int((np.abs(places[:, 0] - places[:, 1]) == 1).sum()),
            count,
            2 / size,
        ),
    }
    surprises = {what: _surprise(binomial_tail(*given), alpha) for what, given in tests.items()}
    worst = max(surprises, key=lambda what: surprises[what])
    hits, of, chance = tests[worst]
    visible = 6.5 * math.sqrt(0.25 / count)
    return Finding(
        "shuffle",
        f"shuffler ({subject.label})",
        "place against order of arrival",
        "the order is uniform; 1 is the most that chance explains",
        1.0,
        surprises[worst],
        "beaten" if surprises[worst] > 1 else "holds",
        f"would see an order kept in {2 * visible:.0%} of batches",
        trials=count,
        tests=3,
        detail=f"{worst}: {hits} of {of}, by chance {chance:.3g}",
    )


def _surprise(tail: float, alpha: float) -> float:
    """Orders of magnitude of the tail, divided by those of the false-alarm rate: above one is an alarm."""
    return math.log(max(tail, 1e-300)) / math.log(alpha)
