"""Problem types of the services: facts of each, from `hubbub.refusals` and the routes that name it."""

from __future__ import annotations

from hubbub.refusals import REFUSALS, Action
from scripts.reference.markdown import code, table
from scripts.reference.routes import operations

__all__ = ["DOES", "problem", "problems"]

DOES = {
    Action.RETRY: "keeps the reports and tries again, with growing pauses",
    Action.SPLIT: "halves the upload and sends the parts; a single report that is still refused is dropped",
    Action.REFETCH: "fetches the bundle; drops what was sealed to a revoked key, and tries again with the rest",
    Action.DROP: "drops the report; nothing is refunded to the budget",
}


def problems() -> str:
    """All problem types as one table, each linked to its section."""
    return table(
        ["type", "status", "title", "sender"],
        [(f"[`{r.urn}`](#{r.name})", str(r.status), r.title, r.action.value) for r in REFUSALS.values()],
    )


def problem(name: str) -> str:
    """The facts of one problem type."""
    refusal = REFUSALS[name]
    routes = [
        f"[`{o.method} {o.path}`](http-api.md#{o.anchor}) ({o.listener})" for o in operations() if name in o.refuses
    ]
    return table(
        ["", ""],
        [
            ("type", code(refusal.urn)),
            ("status", str(refusal.status)),
            ("title", refusal.title),
            ("the SDK then", f"{refusal.action.value}: {DOES[refusal.action]}"),
            ("named by", ", ".join(routes) or "any address, or a single report inside an upload"),
        ],
    )
