"""The table of how many reports of a web site arrive: python -m scripts.make_arrival_table

It renews the table of docs/how-to/instrument-your-site.md. Visits are a Poisson process with a mean gap of g days, each
too short for anything to become due in it. A report is due at u, uniform between 0 and `delay` after the end of its
period, and arrives if there is a visit between then and `grace` after it. So the chance is the mean of
1 - exp(-(grace - u) / g) over u:

    1 - g / delay * (exp(-(grace - delay) / g) - exp(-grace / g))
"""

from __future__ import annotations

import re
import sys
from math import exp
from pathlib import Path

__all__ = ["PAGE", "arrives", "table"]

PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "instrument-your-site.md"
GAPS = {"twice a day": 0.5, "daily": 1.0, "every 3 days": 3.0, "weekly": 7.0, "monthly": 30.0}
"""Days between two visits, on average."""
GRACES = (1, 7, 14, 30)
HOUR = 1 / 24


def arrives(grace: float, delay: float, gap: float) -> float:
    """The chance that a report arrives, all in days."""
    return 1 - gap / delay * (exp(-(grace - delay) / gap) - exp(-grace / gap))


def table() -> str:
    """Markdown: one row for each grace, with the usual delay and with an hour."""
    lines = [f"| `grace` | `delay` | {' | '.join(GAPS)} |", "|---|---|" + "---|" * len(GAPS)]
    for grace in GRACES:
        for name, delay in ((f"{grace / 2:g}d, the default", grace / 2), ("1h", HOUR)):
            cells = " | ".join(f"{100 * arrives(grace, delay, gap):.0f} %" for gap in GAPS.values())
            lines.append(f"| {grace}d | {name} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    text, count = re.subn(r"\| `grace` \| `delay` \|.*?(?=\n\n)", table(), PAGE.read_text(), flags=re.DOTALL)
    if count != 1:
        sys.exit(f"{PAGE} must have the table exactly once")
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
