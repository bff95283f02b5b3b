"""`python -m benchmarks.mechanisms`: measure, print, and renew the page with --write."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.mechanisms.claims import claims
from benchmarks.mechanisms.page import page
from benchmarks.mechanisms.plots import draw
from benchmarks.mechanisms.run import Found, everything

DOCS = Path(__file__).parent.parent.parent / "docs"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mechanisms", description=__doc__)
    parser.add_argument("--write", action="store_true", help="renew the page in docs/explanation, and its pictures")
    parser.add_argument("--save", type=Path, help="save the figures in this file")
    parser.add_argument("--figures", type=Path, help="use the figures of an earlier run from this file")
    asked = parser.parse_args()
    found = Found.load(asked.figures) if asked.figures else everything()
    if asked.save:
        found.save(asked.save)
    text = page(found)
    print(text)
    if asked.write:
        (DOCS / "explanation" / "mechanism-comparison.md").write_text(text)
        draw(found, DOCS / "images")
    sys.exit(not all(claim.holds for claim in claims(found)))


if __name__ == "__main__":
    main()
