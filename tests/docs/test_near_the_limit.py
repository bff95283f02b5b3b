"""The page on how close a crowd comes to a trusted server: its rows are what the code gives, and its claims hold."""

from __future__ import annotations

from fractions import Fraction

import pytest

from hubbub.mechanisms import Bounds, Categories
from hubbub.mechanisms._exact_arithmetic import LARGEST_EPSILON
from scripts.make_mean_limit import Programme, spread
from scripts.make_release_table import CAPS, CROWDS, EPSILONS, HONEST, MEAN, PAGE, SIZES, choice


def rows(table: str) -> list[list[str]]:
    text = PAGE.read_text().partition(f"<!-- table: {table} -->")[2].partition("<!-- end of table -->")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.strip().splitlines()[2:]]


def test_the_table_has_a_row_for_each_list_crowd_target_and_cap() -> None:
    assert len(rows("frequencies")) == len(SIZES) * len(CROWDS) * len(EPSILONS) * len(CAPS)
    assert len(rows("means")) == len(CROWDS) * len(EPSILONS) * len(CAPS)


def test_without_a_cap_a_crowd_is_within_155_hundredths_of_the_central_gaussian() -> None:
    found = [
        float(row[7]) for row in rows("frequencies") if row[3] == "none" and 16 <= int(row[0].replace(",", "")) <= 1024
    ]
    assert len(found) == 18
    assert max(found) <= 1.55


@pytest.mark.parametrize(
    ("size", "devices", "epsilon"), [(2, 10**4, 1), (128, 10**6, 1), (1024, 10**5, Fraction(1, 2))]
)
def test_rows_of_the_table_are_what_is_chosen(size: int, devices: int, epsilon: Fraction) -> None:
    (row,) = (
        row for row in rows("frequencies") if row[:4] == [f"{size:,}", f"{float(epsilon):g}", f"{devices:,}", "none"]
    )
    whole, part = (choice(Categories(size), devices, Fraction(epsilon), LARGEST_EPSILON, honest) for honest in HONEST)
    assert row[4:8] == [
        f"{float(whole.mechanism.epsilon):g}",
        whole.chosen.title,
        f"{whole.error:.3g}",
        f"{whole.error / whole.central:.2f}",
    ]
    assert row[9:] == [
        f"{float(part.mechanism.epsilon):g}",
        f"{part.error:.3g}",
        f"{part.error / part.central:.2f}",
    ]
    assert whole.certified.epsilon <= epsilon
    assert part.certified.reports == devices * 9 // 10


def test_no_channel_of_as_small_a_spread_is_far_better_than_the_table() -> None:
    """On a coarse grid. The limit is a lower one, so it must be below what any mechanism has."""
    made = choice(MEAN, 10**4, Fraction(1), LARGEST_EPSILON, Fraction(1)).mechanism
    own, variance = spread(made), made.typical_variance() / 4
    limit = Programme(own, 20, 5).bound()
    assert variance / 1.3**2 < limit < variance
    # a tenth of the spread allows less, so the programme does depend on it
    assert Programme(own / 10, 20, 5).bound() > 2 * limit


def test_the_page_says_how_far_a_mean_could_be_improved() -> None:
    found = rows("limit of means")
    assert {row[0] for row in found} == {"0.5", "1"}
    assert all(1 < float(row[5]) < 1.3 and 1 < float(row[7]) < 1.3 for row in found)
    assert Bounds(Fraction(0), Fraction(1)) == MEAN
