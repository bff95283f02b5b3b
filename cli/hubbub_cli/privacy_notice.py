"""The part of an app's privacy notice that follows from its codebook: each question in plain words, as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hubbub_cli.markdown_escape import plain

if TYPE_CHECKING:
    from hubbub_aggregator.dashboard.pages.what_is_collected import Collected, CollectedPage

__all__ = ["markdown"]

_LISTED = 50
"""Values of a list that are named at most: people read a notice."""


def markdown(page: CollectedPage) -> str:
    """The questions that are switched on, and what all of them together may cost a device."""
    questions = "\n\n".join(map(_question, page.metrics)) or "Nothing is collected at the moment."
    off = f"\n\nSwitched off at the moment: {', '.join(map(plain, page.off))}." if page.off else ""
    return (
        f"{questions}{off}\n\n"
        f"Your device answers each question at most {page.often}. All of them together may cost it at most "
        f"ε {page.device_epsilon} {page.within}; it counts this itself.\n"
    )


def _question(metric: Collected) -> str:
    values = [*metric.values, *metric.more]
    listed = ", ".join(map(plain, values[:_LISTED]))
    rest = len(values) + metric.rest - _LISTED
    what = metric.what + (f" {listed}{f' and {rest:,} more' if rest > 0 else ''}." if values else "")
    often = metric.often
    if metric.missing is not None:
        often += (
            f" A device with nothing to say reports “{plain(metric.missing)}”, so that having nothing to say does not "
            "show."
        )
    else:
        often += " A device with nothing to say stays silent, which can be seen."
    if metric.share is not None:
        often += f" Only {metric.share} of devices take part, by a private coin."
    hidden = (
        f"{metric.hiding} Whatever is sent, it is at most {metric.odds} times as likely from one answer as from "
        f"another (ε {metric.epsilon})."
    )
    lines = [
        f"### {plain(metric.name)}",
        "",
        plain(metric.description) or "**The codebook does not describe this question: add a `description`.**",
        "",
        f"- **What is asked:** {what}",
        f"- **How often:** {often}",
        f"- **How your answer is hidden:** {hidden}",
    ]
    if metric.owner:
        lines.append(f"- **Who asks:** {plain(metric.owner)}")
    if metric.public:
        lines.append("- **Who sees the result:** Everyone: it is published.")
    if metric.expires is not None:
        lines.append(f"- **Until:** {metric.expires}")
    return "\n".join(lines)
