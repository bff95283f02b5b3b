"""`make bench`: every benchmark, as ratios to a limit measured in the same run."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import accounting, ingest, randomize
from benchmarks import open as opening


def main() -> None:
    parts: dict[str, Callable[[], None]] = {
        "randomize one value": randomize.main,
        "accounting": accounting.main,
        "shuffler: ingest": ingest.main,
        "aggregator: open and accumulate": opening.main,
    }
    for title, run in parts.items():
        print(f"\n== {title}\n")
        run()


if __name__ == "__main__":
    main()
