"""`make bench`: every benchmark, as ratios to a limit measured in the same run."""

from __future__ import annotations

from benchmarks import accounting, randomize

if __name__ == "__main__":
    randomize.main()
    accounting.main()
