"""Reasons for a developer why a codebook or a bundle is not used, in one sentence each, with what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hubbub.errors import BadSignature, ExpiredBundle, MalformedBundle, RolledBackBundle, UntrustedBundle
from hubbub.number_format import plain
from hubbub.period import duration_text

if TYPE_CHECKING:
    from hubbub.codebook import Codebook
    from hubbub.errors import BundleError
    from hubbub_client._budget.device_limits import Limits
    from hubbub_client._codebooks.in_force import Page
    from hubbub_client._http.transport import CannotReach

__all__ = ["no_answer", "why_bundle_refused", "why_codebook_refused", "why_no_bundle"]


_NOTHING_YET = "nothing is collected yet, and values wait in memory"


def why_codebook_refused(page: Page, limits: Limits) -> str:
    """Why this device's own limits exclude a page."""
    codebook = page.codebook
    if codebook is None or page.refusal is None:
        return ""
    since = ""
    if page.first_period:
        since = f"from {codebook.collection.calendar.period(page.first_period).label} on, "
    return f"{since}nothing is collected ({page.refusal}): {_RULES[page.refusal](codebook, limits)}"


def _not_pinned(codebook: Codebook, limits: Limits) -> str:
    pinned = " or ".join(sorted(limits.pinned or ()))
    return (
        f"the codebook is {codebook.id.hex()}, and pin= allows only {pinned}: pin the id that "
        "`hubbub codebook compile` and `hubbub up` print"
    )


def _short_period(codebook: Codebook, limits: Limits) -> str:
    length, least = codebook.collection.calendar, duration_text(limits.min_period)
    return (
        f"the codebook's periods of {length} are shorter than this client's min_period of {least}: "
        "pass min_period=None to Client for a trial, or give the codebook a longer period"
    )


def _over_budget(codebook: Codebook, limits: Limits) -> str:
    name = (
        "max_epsilon" if limits.max_epsilon is not None and codebook.spent > limits.max_epsilon else "lifetime_epsilon"
    )
    limit = limits.max_epsilon if name == "max_epsilon" else limits.lifetime_epsilon
    return (
        f"the codebook spends epsilon {plain(codebook.spent)} in a period, more than this client's {name} of "
        f"{plain(limit or 0)}: pass a larger {name} to Client, or give the metrics less epsilon"
    )


_RULES = {"not_pinned": _not_pinned, "short_period": _short_period, "over_budget": _over_budget}


def why_bundle_refused(error: BundleError, origin: str, anchors: tuple[str, ...]) -> str:
    """Why a bundle is not used. `origin` is the address that served it, or state_dir."""
    return f"nothing is sent ({type(error).__name__}): {_bundle_refused(error, origin, anchors)}"


def _bundle_refused(error: BundleError, origin: str, anchors: tuple[str, ...]) -> str:
    match error:
        case UntrustedBundle():
            trusted = f"trust= names {' and '.join(anchors)}" if anchors else "state_dir trusts the first signer it met"
            remedy = (
                "pass the line that `hubbub up` or the aggregator prints"
                if anchors
                else "if the server was set up anew, use a new state_dir"
            )
            return f"the codebook of {origin} is signed by another key, while {trusted}: {remedy}"
        case BadSignature() | MalformedBundle():
            return (
                f"what {origin} holds is not a bundle with a valid signature: check the address, "
                "and what is between this machine and the shuffler"
            )
        case ExpiredBundle():
            return (
                f"the bundle of {origin} has expired: check this machine's clock, then the "
                "shuffler's and the aggregator's"
            )
        case RolledBackBundle():
            return (
                f"{origin} holds an older bundle than state_dir has seen, or another one of "
                "the same number: if the server was set up anew, use a new state_dir"
            )
    return f"the bundle of {origin} is refused"


def why_no_bundle(error: CannotReach, address: str, *, has_bundle: bool) -> str:
    """Why a bundle could not be fetched, for an app that goes on."""
    then = "no newer codebook, and no report can be sent now" if has_bundle else _NOTHING_YET
    return f"{then}: {no_answer(error, address)}; the SDK tries again"


def no_answer(error: CannotReach, address: str) -> str:
    """What came from this address instead of a bundle, and what to do about it."""
    reason = str(error)
    if reason.startswith("http-"):
        return (
            f"{address} answers {reason.removeprefix('http-')} instead of a bundle: "
            "check that this is the shuffler's address, and that the shuffler reaches the aggregator"
        )
    return (
        f"{address} cannot be reached ({reason}): "
        "start the shuffler (on this machine: `hubbub up`), or check address, proxy and ca_file"
    )
