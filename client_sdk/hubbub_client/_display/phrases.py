"""Phrases of previews and ledgers, in which both SDKs speak to people. What is in braces is filled in.

`python -m scripts.make_typescript` writes them for the TypeScript SDK.
"""

from __future__ import annotations

__all__ = ["PHRASES", "phrase"]

PHRASES = {
    # a preview
    "queued": "Reports that wait to be sent: {count}",
    "report": "  {metric}, {period}: says {says}{epsilon}",
    "report's epsilon": " (epsilon {epsilon})",
    "report's time": "    not before {time}; {why}",
    "report of no metric": "it will be dropped",
    "pending": "Values on this device, to be randomized: {count}",
    "value": "  {metric}, {period}: {reduce} of {recorded} is {value}, randomized from {time}",
    "collected": "What is collected: {what}",
    "not known yet": "not known yet",
    "without consent": "nothing, as there is no consent",
    "refused": "What the codebook asks; nothing of it is collected ({why}): {count}",
    "with consent": "What would be collected with consent; nothing is collected now: {count}",
    "metric": "  {name}{off}: {description}",
    "off": " (switched off)",
    "no description": "no description",
    "metric's settings": "    [{type}, {reduce} per {period}, {mechanism}, epsilon {epsilon}]",
    # what a report says
    "no value": "no to every value",
    "some values": "yes to {names}{more}, no to all others",
    "more values": " and {count} more",
    "bytes": "the bytes {bytes}",
    "more bytes": "{bytes}… ({count} in all)",
    # a ledger
    "spent": "Charged today: epsilon {today}{of_day}. Ever: {ever}{of_ever}.",
    "limit": " of {limit}",
    "incomplete": "More may have been spent: a state file was damaged, or cannot be read now.",
    "account": "  {name}: {charged}, {made}",
    "charged": "epsilon {epsilon} charged",
    "nothing charged": "nothing charged",
    "no report": "no reports made",
    "one report": "1 report made",
    "reports": "{count} reports made",
    "decision": "    {start} to {end}: {decision}{epsilon}",
    "decision's epsilon": ", epsilon {epsilon}",
}


def phrase(name: str, /, **filled: object) -> str:
    return PHRASES[name].format(**filled)
