"""Errors before and after, at one release target: the last section of docs/explanation/accuracy.md.

    .venv/bin/python -m scripts.accuracy_at_release_target FOLDER        replaces that section only

Before: the largest epsilon of those on the page, as written by hand, whose release meets the target, with the mechanism
that has the least variance at it. After: what `epsilon = "auto"` takes for the same crowd without a cap. Errors are
measured on the same data, with the same honest fraction.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hubbub.accounting import honest_reports
from hubbub.accounting.release_choice import choose_for_release
from hubbub.accounting.release_target import Target
from hubbub.simulation import Column, Crowd, InsecureBulkRandomness
from hubbub_cli.terminal.round_up import above

if TYPE_CHECKING:
    from hubbub.codebook import Codebook, Metric
    from hubbub_cli.simulator.outcome_text_and_json import Outcome

__all__ = ["HEADING", "REPEATS", "main", "section"]

HEADING = "\n## At one release target\n"
_BEFORE = """
What choosing the local epsilon from the release target is worth, at eps 1 and delta 1e-8 with 90 % of reports honest.
*Before*: the largest epsilon of the tables above whose release meets the target, with its mechanism. *After*: what
`epsilon = "auto"` takes without a cap: the same guarantee of the release, and a larger eps0, which is all that holds if
shuffler and aggregator collude. That is [the trade](near-the-limit.md). Errors as above, {repeats} repeats, {fewer}
for lists of more than {many} values. The words are left out: their 65,536 estimates take long. Metrics without
`missing` count on the devices that have a value, less 2 %. With {repeats} repeats the error of a single
number is itself uncertain by a sixth. Made by `python -m scripts.accuracy_at_release_target`.
"""
REPEATS = 20
_LEFT_OUT = ("words_en",)


def section(data: Mapping[str, Any], repeats: int) -> Iterator[str]:
    """The section, line by line. `data`: the data sets by name."""
    from scripts.make_accuracy_table import FEWER, MANY, SIZES

    yield HEADING + _BEFORE.format(repeats=repeats, fewer=FEWER, many=MANY)
    yield "| metric | devices | before | error | after | error | times smaller |"
    yield "|---|---|---|---|---|---|---|"
    for name, found in data.items():
        if name in _LEFT_OUT:
            continue
        for metric in found.values:
            for size in SIZES:
                yield _row(name, found, metric, size, repeats)


def _row(name: str, data: Any, metric: str, size: int, repeats: int) -> str:
    from scripts.make_accuracy_table import codebook

    book = codebook(name, 1, data.lists)
    written, rules = book.metric(metric), book.collection
    reports = _expected(written, data, size)
    target = Target(rules.release_epsilon, rules.release_delta, honest_reports(reports, rules.honest_fraction), reports)
    before = _by_hand(name, data.lists, metric, target) or written
    after = replace(written, mechanism=choose_for_release(written.values.domain, target).mechanism)
    one, other = (_measured(book, made, data, size, repeats) for made in (before, after))
    print(f"{name} {metric} {size}: {one.scores.rms / other.scores.rms:.2f}", file=sys.stderr)
    cells = (
        f"`{name}.{metric}`",
        f"{size:,}",
        *(_cells(before, one)),
        *(_cells(after, other)),
        f"{one.scores.rms / other.scores.rms:.2g}",
    )
    return f"| {' | '.join(cells)} |"


def _expected(metric: Metric, data: Any, size: int) -> int:
    """Reports to count on. Without `missing`, a device that has no value sends none; 2 % are left to chance."""
    values = data.values[metric.name]
    chances = data.chances or [1.0] * len(values)
    held = sum(chance for value, chance in zip(values, chances, strict=True) if value is not None)
    share = held / sum(chances)
    return size if metric.missing is not None or share == 1 else int(0.98 * share * size)


def _by_hand(name: str, lists: Mapping[str, Sequence[str]], metric: str, target: Target) -> Metric | None:
    """The metric with the largest epsilon of the page that meets the target; None if none does."""
    from scripts.make_accuracy_table import EPSILONS, codebook

    made = (codebook(name, epsilon, lists).metric(metric) for epsilon in sorted(EPSILONS, reverse=True))
    return next((one for one in made if target.meets(one.mechanism)), None)


def _measured(book: Codebook, metric: Metric, data: Any, size: int, repeats: int) -> Outcome:
    from scripts.make_accuracy_table import measure

    column = Column.of(metric, data.values[metric.name])
    held = column.held(Crowd([column]).draw(size, InsecureBulkRandomness(size), data.chances))
    return measure(book, metric, column, held, size, repeats)


def _cells(metric: Metric, outcome: Outcome) -> tuple[str, str]:
    error = f"{100 * outcome.scores.rms:.2g} pt" if outcome.share else f"{outcome.scores.rms:.3g}"
    promise = above(outcome.verdict.guarantee.epsilon, 2)
    return f"`{metric.mechanism.name}`, eps0 {float(Fraction(metric.epsilon)):g}", f"{error}, eps {promise}"


def main() -> None:
    from scripts.make_accuracy_table import DATASETS, ROOT

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the data is")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    given = parser.parse_args()
    made = "\n".join(section({name: read(given.folder) for name, read in DATASETS.items()}, given.repeats))
    page = ROOT / "docs" / "explanation" / "accuracy.md"
    page.write_text(page.read_text().partition(HEADING)[0].rstrip("\n") + f"\n{made}\n")


if __name__ == "__main__":
    main()
