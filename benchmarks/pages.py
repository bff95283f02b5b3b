"""Parts of docs/performance.md that a script renews, between marks: no figure is copied by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

__all__ = ["PAGE", "renew"]

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"


def renew(part: str, make: Callable[[str], str], page: Path = PAGE) -> Path:
    """Replace what stands between `<!-- part: begin -->` and `<!-- part: end -->` by what `make` makes of it."""
    begin, end = f"<!-- {part}: begin -->", f"<!-- {part}: end -->"
    before, found, rest = page.read_text().partition(begin)
    old, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"{page.name} has no part between {begin} and {end}")
    page.write_text(f"{before}{begin}\n{make(old.strip())}\n{end}{after}")
    return page
