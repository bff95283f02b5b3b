"""Refusals of a Redis server: its error codes, and what the client does about each.

docs/design/redis-client.md shows this table; a test compares the two.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias

from redis import exceptions

__all__ = ["REFUSALS", "RULES", "Rule", "describe", "rule_of"]

REFUSALS = (exceptions.ResponseError, exceptions.BusyLoadingError)
"""The errors of redis-py that are an answer of the server. Its other errors mean that there was no answer."""

Action: TypeAlias = Literal["in-full", "elsewhere", "ask", "later", "fail"]


class Rule(NamedTuple):
    """What the client does about one error code."""

    action: Action
    """in-full: send the script's text. elsewhere: send the call at once to the node that has the slot now. ask: send it
    once to the node that the error names. later: try again after a pause. fail: raise StorageError."""
    meaning: str
    advice: str = ""
    """What the operator should do; appended to the error."""
    reconnect: bool = False
    """Whether the connection is closed, since the same name may lead to another server by now."""

    @property
    def passes(self) -> bool:
        """Whether the refusal may pass with time, as far as the code tells."""
        return self.action == "later" or self in (RULES["OOM"], RULES["NOREPLICAS"], RULES["MISCONF"])


RULES = {
    "NOSCRIPT": Rule("in-full", "the server does not know the script yet, or was restarted"),
    "MOVED": Rule("elsewhere", "the slot is another node's: after a failover or a move of slots"),
    "ASK": Rule("ask", "the slot is on its way to another node, and this key is there already"),
    "TRYAGAIN": Rule("later", "the keys of one call are on two nodes while their slot moves"),
    "CLUSTERDOWN": Rule("later", "the cluster has no majority, or no node has the slot: a failover may be under way"),
    "MASTERDOWN": Rule("later", "a replica has lost its primary", reconnect=True),
    "READONLY": Rule("later", "the server is a replica by now: a failover demoted it", reconnect=True),
    "LOADING": Rule("later", "the server was started a moment ago and reads its file"),
    "OOM": Rule("fail", "maxmemory is reached", "raise maxmemory, or find out why nothing leaves"),
    "NOREPLICAS": Rule(
        "fail", "fewer replicas are connected than min-replicas-to-write asks for", "bring its replicas back"
    ),
    "MISCONF": Rule("fail", "the server can't write its snapshot or its append-only file", "look at its disk"),
    "NOAUTH": Rule("fail", "no password was given", "put one into the address"),
    "WRONGPASS": Rule("fail", "the password is wrong", "correct it in the address"),
    "NOPERM": Rule("fail", "the account may not use this command or key", "see docs/how-to/redis.md for what it needs"),
}
"""By error code. All except OOM mean that nothing was done. A script that runs out of memory may have done a part of
its work, so it is not sent again automatically. Any other code is a failure without advice."""

_OTHER = Rule("fail", "")
_WRAPPED = re.compile(r"[:,] -?([A-Z]{3,}) ")
"""How Redis 6 reports the error of a command inside a script."""


def code_of(error: Exception) -> str:
    """The first word of a server's error."""
    text = str(error)
    code = getattr(error, "status_code", None) or text.partition(" ")[0]
    if code == "ERR" and (inside := _WRAPPED.search(text)) and inside[1] in RULES:
        return inside[1]
    return str(code)


def rule_of(error: Exception) -> Rule:
    """What to do about an answer that is an error."""
    return RULES.get(code_of(error), _OTHER)


def describe(error: Exception) -> str:
    """What went wrong and what to do about it, in words that repeat nothing of what was sent."""
    code = code_of(error)
    if code in RULES:
        rule = RULES[code]
        return f"Redis says {code}: {rule.meaning}" + (f"; {rule.advice}" if rule.advice else "")
    if isinstance(error, exceptions.AuthenticationError):
        return "Redis does not take these credentials: correct user and password in the address"
    text = str(error)
    if "with args" in text or "arguments" in text:  # the text may repeat the arguments
        text = text.partition(" ")[0]
    return f"{type(error).__name__}: {text[:200]}"
