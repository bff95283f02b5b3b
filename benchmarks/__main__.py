"""`make bench`: every benchmark, as ratios to a limit measured in the same run."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import accounting, batch, client, dashboard, estimate, ingest, randomize, shuffler_storage, simulate
from benchmarks import open as opening
from benchmarks.mechanisms import ours as mechanisms


def main() -> None:
    parts: dict[str, Callable[[], None]] = {
        "randomize one value": randomize.main,
        "mechanisms by default (`make bench-mechanisms`: beside other libraries)": mechanisms.main,
        "SDK: import, record, reduce, randomize, seal": client.main,
        "accounting": accounting.main,
        "simulate": simulate.main,
        "shuffler: ingest": ingest.main,
        "shuffler: storage, empty and full": shuffler_storage.main,
        "shuffler: prepare a batch": batch.main,
        "aggregator: open and accumulate": opening.main,
        "aggregator: estimate": estimate.main,
        "aggregator: dashboard": dashboard.main,
    }
    for title, run in parts.items():
        print(f"\n== {title}\n")
        run()


if __name__ == "__main__":
    main()
