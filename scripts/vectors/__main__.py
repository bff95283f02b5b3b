"""Write all files of tests/vectors/v1: `python -m scripts.vectors`.

Version 1 must never change: run this to add cases, and look at the diff before committing it. Keys here are for these
files only.
"""

from __future__ import annotations

from scripts.vectors.files import FILES, text
from scripts.vectors.paths import VECTORS

if __name__ == "__main__":
    for name, made in FILES.items():
        (VECTORS / name).write_text(text(name, made()), encoding="ascii")
        print(f"wrote {name}")
