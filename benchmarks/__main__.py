"""`make bench`: every benchmark, as ratios to a limit measured in the same run."""

from __future__ import annotations

from benchmarks import randomize

if __name__ == "__main__":
    randomize.main()
