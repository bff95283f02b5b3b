"""Each randomizer in one paragraph, with the probabilities that really run.

A mechanism that is not in the table is described by what every mechanism has: its name, its epsilon and, where it is a
pure oracle, its p and q. Adding a sentence for it is adding one function here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from hubbub.mechanisms import Bounds, Categories, Mechanism, mechanism
from hubbub.problems import HubbubError
from hubbub_aggregator.dashboard.words import amount, count, epsilon, odds, probability
from hubbub_aggregator.models import MechanismModel, MetricVersion

__all__ = ["hiding", "of_version", "paragraph"]

AnyMechanism = Mechanism[Any]


def of_version(version: MetricVersion) -> AnyMechanism | None:
    """The mechanism itself, rebuilt from what the API says of it; None if this software does not know it."""
    return rebuilt(version.mechanism, version.value_count, version.bounds)


def rebuilt(model: MechanismModel, values: int, bounds: tuple[float, float] | None) -> AnyMechanism | None:
    try:
        domain = Categories(values) if bounds is None else Bounds(*(Fraction(repr(bound)) for bound in bounds))
        return mechanism(model.name).from_parameters(model.epsilon, domain, model.parameters)
    except HubbubError:
        return None


def paragraph(model: MechanismModel, found: AnyMechanism | None) -> str:
    """How it hides a value, for someone who reads the numbers."""
    said = hiding(found) if found is not None else ""
    return (
        f"{said} " if said else f"Each device randomizes its value with the mechanism {model.name} before sending it. "
    ) + (
        f"Whatever it sends, no value makes that report more than {odds(model.epsilon)} times as likely as another "
        f"value does: e to the power of its local ε, {epsilon(model.epsilon)} (mechanism {model.name}). The estimates "
        "undo this noise for the crowd, where it averages out; for one report nobody can."
    )


def hiding(found: AnyMechanism) -> str:
    """What a device does with its value, in a sentence or two; for everybody."""
    special = _WORDS.get(found.name)
    if special is not None:
        try:
            return special(found)
        except (AttributeError, KeyError, TypeError, ValueError, ZeroDivisionError):
            pass  # a mechanism that has changed since: the general words still hold
    return _general(found)


def _general(found: AnyMechanism) -> str:
    p, q = (_number(found, name) for name in ("p", "q"))
    if found.kind == "frequency" and p is not None and q is not None:
        return (
            f"Each device sends a randomized report: it speaks for the device's own value with probability "
            f"{probability(p)}, and for any given other value with probability {probability(q)}."
        )
    return (
        "Each device replaces its value by a random one, drawn so that every report could have come from every value."
    )


def _number(found: AnyMechanism, name: str) -> float | None:
    number = getattr(found, name, None)
    return float(number) if isinstance(number, Fraction | float | int) else None


def _p(found: Any) -> str:
    return probability(float(found.p))


def _q(found: Any) -> str:
    return probability(float(found.q))


def _ends(bounds: Bounds, word: str) -> str:
    return f"{amount(float(bounds.lower))} {word} {amount(float(bounds.upper))}"


def _yes_or_no(found: Any) -> str:
    return (
        f"Each device tells the truth with probability {_p(found)} and says the opposite with probability {_q(found)}; "
        "it tosses that coin itself, and nobody learns how it fell."
    )


def _one_of_many(found: Any) -> str:
    if found.domain.size == 2:
        return _yes_or_no(found)
    return (
        f"Each device tells the truth with probability {_p(found)}; otherwise it names one of the other "
        f"{count(found.domain.size - 1)} values, all equally likely. Nobody learns which of the two happened."
    )


def _matrix(found: Any) -> str:
    stay = [float(Fraction(column[x], 2**64)) for x, column in enumerate(found.columns)]
    low, high = probability(min(stay)), probability(max(stay))
    how = low if low == high else f"between {low} and {high}, depending on the value,"
    return (
        f"Each device draws one of {count(found.symbols)} answers from a table of probabilities that the codebook "
        f"states; its true value stands with probability {how} and is exchanged for another answer otherwise."
    )


def _unary(found: Any) -> str:
    return (
        f"Each device writes one bit for each of the {count(found.domain.size)} values and flips every bit at random: "
        f"the bit of its own value is 1 with probability {_p(found)}, every other bit with probability {_q(found)}."
    )


def _subset(found: Any) -> str:
    if found.count == 1:
        return _one_of_many(found)
    return (
        f"Each device sends a random set of {count(found.count)} of the {count(found.size)} values. Its own value is "
        f"in the set with probability {_p(found)}, any given other value with probability {_q(found)}."
    )


def _hashed(found: Any) -> str:
    return (
        f"Each device picks a random hash function that puts all values into {count(found.buckets)} groups, and sends "
        f"the function with a group. That is the group of its own value with probability {_p(found)}, otherwise one "
        "of the others, all equally likely; any given other value is in the group that is sent with probability "
        f"{_q(found)}."
    )


def _hadamard(found: Any) -> str:
    return (
        "Each device draws a row of a Hadamard matrix, which asks one yes-or-no question about its value, and answers "
        f"with a single bit: truly with probability {_p(found)}, else with the opposite. All answers together tell "
        "the shares."
    )


def _laplace(found: Any) -> str:
    fall = math.exp(-found.rate / found.scale)  # from each step of noise to the next
    bounds: Bounds = found.domain
    spread = math.sqrt(2 * fall) / (1 - fall) / found.steps * float(bounds.width)
    return (
        f"{_clamped(found)}, rounds it at random to one of {found.steps + 1} steps and adds discrete Laplace noise "
        f"with a standard deviation of about {amount(spread)}."
    )


def _duchi(found: Any) -> str:
    return (
        f"Each device sends only one of the two ends, {_ends(found.domain, 'or')}: it draws the end that its number "
        f"is nearer to more often, and then sends that end with probability {_p(found)}, the other one with "
        f"probability {_q(found)}."
    )


def _clamped(found: Any) -> str:
    return f"Each device clamps its number to {_ends(found.domain, 'to')}"


def _reach(found: Any) -> str:
    """The least and the largest number that a report may stand for."""
    low, width = found.domain.lower, found.domain.width
    least, most = (amount(float(low + width * place)) for place in (min(found.places), max(found.places)))
    return f"from {least} to {most}"


def _piecewise(found: Any) -> str:
    inside = Fraction(found.window * found.high, found.window * found.high + found.steps * found.stride * found.low)
    return (
        f"{_clamped(found)} and sends a random one of {count(found.symbols)} numbers {_reach(found)}: with probability "
        f"{probability(float(inside))} one of the {count(found.window)} in a window around its own, otherwise any "
        "other, all equally likely."
    )


def _hybrid(found: Any) -> str:
    windows = found.inner * (found.window * found.high + found.steps * found.stride * found.low)
    ends = found.outer * found.steps * (found.low + found.high)
    if not windows:
        truly = probability(float(Fraction(found.high, found.low + found.high)))
        return (
            f"{_clamped(found)}, draws one of the two ends, the nearer one more often, and sends with probability "
            f"{truly} that end, else the other one."
        )
    chance = probability(float(Fraction(windows, windows + ends)))
    return (
        f"{_clamped(found)} and sends a random one of {count(found.symbols)} numbers {_reach(found)}: with probability "
        f"{chance} one that is drawn more often from a window around its own, otherwise one of two ends, drawn at "
        "random with a lean to the nearer one."
    )


def _table(found: Any) -> str:
    return (
        f"{_clamped(found)} and sends one of {count(found.symbols)} numbers {_reach(found)}, drawn from a table of "
        f"probabilities that the codebook states. The table has a row for each of {found.steps + 1} steps between the "
        "bounds, and every row leans to its own step, but may give any of the numbers."
    )


_WORDS: Mapping[str, Callable[[Any], str]] = {
    "rr": _yes_or_no,
    "krr": _one_of_many,
    "matrix": _matrix,
    "sue": _unary,
    "oue": _unary,
    "subset": _subset,
    "hadamard": _hadamard,
    "linear-hash": _hashed,
    "olh": _hashed,
    "laplace": _laplace,
    "duchi": _duchi,
    "piecewise": _piecewise,
    "hybrid": _hybrid,
    "table": _table,
}
