"""Generated parts of docs/performance.md, between marks, so that no figure is copied by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

__all__ = ["PAGE", "renew"]

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"


def renew(part: str, make: Callable[[str], str], page: Path = PAGE) -> Path:
    """Replace the text between `<!-- part: begin -->` and `<!-- part: end -->` by what `make` returns for it."""
    begin, end = f"<!-- {part}: begin -->", f"<!-- {part}: end -->"
    before, found, rest = page.read_text().partition(begin)
    old, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"{page.name} has no part between {begin} and {end}")
    page.write_text(f"{before}{begin}\n{make(old.strip())}\n{end}{after}")
    return page
