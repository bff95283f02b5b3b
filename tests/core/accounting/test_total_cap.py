"""The cap over time: no window of any schedule holds more than its total, and no page ends much sooner than it must."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from hubbub.accounting import compose, composed_delta
from hubbub.accounting.total_cap import Page, course, last_period, next_start, smallest_batches
from hubbub.codebook import Codebook
from hubbub.errors import CodebookError, InvalidParameter
from tests.core.accounting.oracles import with_one_more
from tests.support.codebooks import dark_mode, photo_app

FIRST = 20_000


def book(epsilon: float | None, over: str = "6d", batch: int = 300, local: float = 1.0) -> Codebook:
    total = None if epsilon is None else {"epsilon": epsilon, "delta": 1e-6, "over": over}
    made = photo_app(dark_mode(local, min_batch=batch), total=total, epsilon=8, honest_fraction=0.9)
    return Codebook.from_toml(made)


def lost(pages: Sequence[Page], first: int, last: int, epsilon: float) -> float:
    """δ of everything that the periods from `first` to `last` may release: each page ends where the next one begins."""
    batches = []
    for number, page in enumerate(pages):
        end = last if number + 1 == len(pages) else min(last, pages[number + 1].first - 1)
        end = end if page.last is None else min(end, page.last)
        times = end - max(first, page.first) + 1
        batches += [(*batch, times) for batch in page.batches if times > 0]
    return composed_delta(batches, epsilon) if batches else 0.0


def broken(pages: Sequence[Page], until: int) -> list[tuple[int, int]]:
    """Every window that holds a period of a page with a total, and more than this total."""
    found = []
    for number, page in enumerate(pages):
        if page.total is None:
            continue
        end = until if number + 1 == len(pages) else pages[number + 1].first - 1
        end = min(end, until) if page.last is None else min(end, page.last)
        epsilon, delta = float(page.total.epsilon), float(page.total.delta)
        found += [
            (number, start)
            for start in range(page.first - page.window + 1, end + 1)
            if lost(pages, start, start + page.window - 1, epsilon) > delta
        ]
    return found


def test_a_page_goes_on_for_as_long_as_its_batches_compose_within_the_total() -> None:
    codebook = book(1.0, over="365d")
    (batch,) = smallest_batches(codebook)
    assert batch[1] == 270  # nine tenths of min_batch are honest
    last = last_period([], codebook, FIRST)
    assert last is not None
    times = last - FIRST + 1
    assert 1 < times < 365
    assert compose([(*batch, times)], 1e-6).epsilon <= 1.0 < compose([(*batch, times + 1)], 1e-6).epsilon


def test_a_window_that_holds_less_than_the_total_never_ends() -> None:
    (batch,) = smallest_batches(book(1.0))
    enough = compose([(*batch, 6)], 1e-6).epsilon
    assert last_period([], book(enough + 1e-6), FIRST) is None
    assert last_period([], book(enough * 0.99), FIRST) == FIRST + 4
    assert last_period([], book(0.01), FIRST) == FIRST - 1
    assert last_period([Page(FIRST - 100, None, book(None))], book(None), FIRST) is None


@pytest.mark.everyday("2", "4")
@pytest.mark.parametrize("seed", range(8))
def test_no_window_of_any_schedule_holds_more_than_its_total(seed: int) -> None:
    """Pages of random sizes, totals and windows, one after the other, each published as an aggregator would."""
    rng = random.Random(seed)
    pages: list[Page] = []
    first = FIRST
    for _ in range(6):
        epsilon = rng.choice([None, 0.3, 0.5, 0.8])
        codebook = book(epsilon, f"{rng.randint(1, 9)}d", rng.choice([200, 500, 2000]), rng.choice([0.5, 1.0, 2.0]))
        last = last_period(pages, codebook, first)
        if last is not None and last < first:
            start = next_start(pages, codebook, first)
            if start is None:
                continue
            assert start > first
            assert last_period(pages, codebook, start - 1) == start - 2  # not a day later than it must be
            first, last = start, last_period(pages, codebook, start)
        if pages and (pages[-1].last is None or pages[-1].last >= first):
            pages[-1] = Page(pages[-1].first, first - 1, pages[-1].codebook)
        pages.append(Page(first, last, codebook))
        assert broken(pages, first + 40) == []
        first += rng.randint(1, 8)
    assert len(pages) > 2


def test_a_day_more_breaks_a_total_so_the_check_can_fail() -> None:
    codebook = book(0.5, "6d")
    last = last_period([], codebook, FIRST)
    assert last is not None
    assert broken([Page(FIRST, last, codebook)], FIRST + 40) == []
    assert broken([Page(FIRST, last + 1, codebook)], FIRST + 40)
    # planted: a page that starts while the one before it is still in the window, as if nothing had been spent
    assert broken([Page(FIRST, last, codebook), Page(last + 1, last + 1, codebook)], FIRST + 40)
    # planted: the honest part of a batch taken for the whole
    whole = Codebook.from_toml(photo_app(dark_mode(min_batch=270), epsilon=8, honest_fraction=1, delta=1e-6))
    assert smallest_batches(whole) == smallest_batches(codebook)


def test_a_page_without_a_total_of_its_own_keeps_that_of_the_page_before_it() -> None:
    capped, free = book(0.5, "6d"), book(None)
    last = last_period([], capped, FIRST)
    assert last == FIRST + 2
    pages = [Page(FIRST, last, capped)]
    assert last_period(pages, free, FIRST + 1) == last
    assert last_period(pages, free, last + 1) == last  # nothing more in these windows
    start = next_start(pages, free, last + 1)
    assert start == FIRST + 6  # the first capped day has left the window
    assert last_period(pages, free, last + 6) is None


def test_a_page_without_an_end_leaves_no_room_for_a_smaller_total() -> None:
    earlier = [Page(FIRST - 400, None, book(None))]
    assert last_period(earlier, book(0.3), FIRST) == FIRST - 1
    assert next_start(earlier, book(0.3), FIRST) is None
    assert next_start([], book(0.01), FIRST) is None


def test_pages_that_follow_each_other_in_long_windows_end_at_most_a_few_periods_early() -> None:
    codebook, heavier = book(3.0, "600d", 1000), book(3.0, "600d", 400)
    before, start = Page(FIRST, FIRST + 19, codebook), FIRST + 20
    last = last_period([before], heavier, start)
    assert last is not None
    assert start < last < FIRST + 599

    def all_in_one_window(end: int) -> float:
        return lost([before, Page(start, end, heavier)], FIRST, end, 3.0)

    assert all_in_one_window(last) <= 1e-6 < all_in_one_window(last + 3)


def test_the_loss_of_two_periods_is_below_what_was_promised_for_every_data_set_of_both() -> None:
    """Enumeration: four devices of two values, in each of two periods any values, one device different in both."""
    codebook = book(None, batch=4, local=1.0)
    honest = Codebook.from_toml(photo_app(dark_mode(1.0, min_batch=4), epsilon=8, honest_fraction=1))
    ((mechanism, reports),) = smallest_batches(honest)
    assert reports == 4
    assert smallest_batches(codebook)[0][1] == 3
    low, high = (float(p) for p in mechanism.amplification().binary or ())
    laws = [np.array([high, 1 - high]), np.array([low, 1 - low])]
    shown = []
    for others in combinations_with_replacement((0, 1), reports - 1):
        crowd = np.ones((1, 1))
        for x in others:
            crowd = with_one_more(crowd, laws[x])
        shown += [tuple(with_one_more(crowd, law).ravel() for law in order) for order in (laws, laws[::-1])]
    for epsilon in (0.2, 0.5, 0.9, 1.4):
        promised = composed_delta([(mechanism, reports, 2)], epsilon)
        worst = max(
            float(np.maximum(np.outer(a, c) - math.exp(epsilon) * np.outer(b, d), 0).sum())
            for (a, b), (c, d) in product(shown, repeat=2)
        )
        assert worst * (1 - 1e-8) <= promised


def test_the_course_says_when_it_stops() -> None:
    found = course(book(0.5, "30d"))
    assert found is not None
    assert found.periods == 3
    assert [number for number, _ in found.points] == [1, 3]
    assert found.points[-1][1].epsilon <= 0.5
    for_good = course(book(3.0, "30d"))
    assert for_good is not None
    assert for_good.periods is None
    assert [number for number, _ in for_good.points] == [1, 7, 30]
    assert course(book(None)) is None


def test_a_total_is_written_once_read_again_and_does_not_change_metrics_or_what_devices_read() -> None:
    capped, free = book(2.5, "1w"), book(None)
    assert [metric.id for metric in capped.metrics] == [metric.id for metric in free.metrics]
    assert capped.id != free.id
    again = Codebook.from_compiled(capped.to_bytes())
    assert (again, again.id, again.collection.total) == (capped, capped.id, capped.collection.total)
    assert str(again.collection.total) == "epsilon 2.5 at delta 1e-06 over 1w"
    device = Codebook.received(capped.to_bytes())
    assert (device.id, device.collection.total) == (capped.id, None)
    assert "notes" not in free.compiled()["collection"]  # type: ignore[operator]  # it is an object


@pytest.mark.parametrize(
    ("total", "said"),
    [
        ({"epsilon": 1.0, "delta": 1e-6}, "over"),
        ({"epsilon": 0, "delta": 1e-6, "over": "1w"}, "above 0"),
        ({"epsilon": 1.0, "delta": 1, "over": "1w"}, "below 1"),
        ({"epsilon": 1.0, "delta": 1e-6, "over": "a year"}, "duration"),
        ({"epsilon": 1.0, "delta": 1e-6, "over": "1w", "window": 3}, "no such key"),
        (3, "expected a table"),
    ],
)
def test_a_total_that_is_not_one_is_a_finding(total: object, said: str) -> None:
    with pytest.raises(CodebookError, match=said):
        Codebook.from_toml(photo_app(dark_mode(), total=total))


def test_a_compiled_total_that_cannot_be_read_is_refused_by_services_and_ignored_by_devices() -> None:
    import hubbub.codebook._codebook as module

    compiled = book(2.5, "1w").compiled()
    collection: dict[str, object] = compiled["collection"]  # type: ignore[assignment]  # it is an object
    collection["notes"] = {"total": {"epsilon": "2.5", "delta": "0.000001", "over": "1w"}}
    compiled["id"] = module._id({name: value for name, value in compiled.items() if name != "id"}).hex()
    with pytest.raises(CodebookError, match="not a cap over time"):
        Codebook.from_compiled(compiled)
    assert Codebook.received(compiled).metrics


def test_a_codebook_that_is_not_compiled_has_no_smallest_batch() -> None:
    with pytest.raises(InvalidParameter, match="no min_batch"):
        smallest_batches(Codebook.from_toml(photo_app(dark_mode())))
