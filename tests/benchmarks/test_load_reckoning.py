"""The check after a load run: a report that is lost, doubled or made up is found, and nothing else is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.load.figures import Figures, write_page
from benchmarks.load.plan import METRICS, Plan, refuse_other_hosts
from benchmarks.load.receipts import Fate, Receipts
from benchmarks.load.reckoning import Bucket, Reckoning, reckon
from benchmarks.load.tally import Tally

PLAN = Plan(users=4, seconds=10, rate=10)
PERIODS = (7, 8)


def all_acknowledged() -> Receipts:
    receipts = Receipts(PLAN)
    for period in PERIODS:
        receipts.sending(period, range(PLAN.reports))
        for identity in range(PLAN.reports):
            receipts.acknowledged(period, identity)
    return receipts


def all_counted(**changed: int) -> dict[tuple[int, int], Bucket]:
    """One of each value in every bucket, but for the first bucket's first value."""
    found = {}
    for metric in range(METRICS):
        for period in PERIODS:
            counts = [1] * PLAN.values
            if (metric, period) == (0, PERIODS[0]):
                counts[0] = changed.get("first", 1)
            found[metric, period] = Bucket("released", sum(counts), counts)
    return found


def test_a_run_in_which_every_acknowledged_report_counts_once_passes() -> None:
    found = reckon(all_acknowledged(), all_counted())
    assert found.holds, found.wrong
    assert found.acknowledged == found.counted == PLAN.reports * len(PERIODS)


def test_an_acknowledged_report_that_is_not_counted_is_lost() -> None:
    found = reckon(all_acknowledged(), all_counted(first=0))
    assert (found.lost, found.doubled, found.holds) == (1, 0, False)
    assert any(said.startswith("lost: metric 0, period 7, value 0") for said in found.wrong)


def test_a_report_that_is_counted_twice_is_doubled() -> None:
    found = reckon(all_acknowledged(), all_counted(first=2))
    assert (found.lost, found.doubled, found.holds) == (0, 1, False)


def test_a_lost_and_a_doubled_report_do_not_make_up_for_each_other() -> None:
    buckets = all_counted()
    counts = [2, 0, *[1] * (PLAN.values - 2)]
    buckets[0, 7] = Bucket("released", sum(counts), counts)
    found = reckon(all_acknowledged(), buckets)
    assert (found.lost, found.doubled) == (1, 1)


def test_a_report_that_was_refused_or_never_sent_must_not_count() -> None:
    receipts = all_acknowledged()
    receipts.fates[7][0] = Fate.REFUSED
    receipts.fates[7][1] = Fate.UNUSED
    found = reckon(receipts, all_counted())
    assert (found.uncalled_for, found.holds) == (2, False)


@pytest.mark.parametrize(("count", "fine"), [(0, True), (1, True), (2, False)])
def test_a_report_without_an_answer_counts_at_most_once(count: int, fine: bool) -> None:
    receipts = all_acknowledged()
    receipts.fates[7][0] = Fate.SENT
    found = reckon(receipts, all_counted(first=count))
    assert (found.unsure, found.lost, found.holds) == (1, 0, fine)


def test_reports_of_a_bucket_that_is_recorded_as_discarded_are_not_lost() -> None:
    gone = {**all_counted(), (0, 7): Bucket("discarded")}
    found = reckon(all_acknowledged(), gone)
    assert found.holds
    assert found.discarded == PLAN.values


@pytest.mark.parametrize("state", ["open", "not-released", "missing"])
def test_a_bucket_that_is_neither_released_nor_discarded_is_lost(state: str) -> None:
    found = reckon(all_acknowledged(), {**all_counted(), (0, 7): Bucket(state)})
    assert found.lost == PLAN.values


def test_a_period_that_nobody_asked_about_is_lost() -> None:
    """A check that looks at nothing must not pass."""
    assert reckon(all_acknowledged(), {}).lost == PLAN.reports * len(PERIODS)


def test_a_number_of_reports_that_does_not_match_its_values_is_wrong() -> None:
    found = reckon(all_acknowledged(), {**all_counted(), (0, 7): Bucket("released", 99, [1] * PLAN.values)})
    assert not found.holds


@pytest.mark.parametrize("invalid", [{"cannot-open": 2}, {"wrong-period": 1}, {"duplicate": 10**6}])
def test_reports_that_the_aggregator_finds_invalid_must_be_those_that_were_made_so(invalid: dict[str, int]) -> None:
    receipts = all_acknowledged()
    receipts.garbage["acknowledged"] = 1
    assert reckon(receipts, all_counted(), {"cannot-open": 1}).holds
    assert not reckon(receipts, all_counted(), invalid).holds


def test_a_refusal_after_a_try_without_an_answer_leaves_the_report_in_doubt() -> None:
    receipts = Receipts(PLAN)
    for identity, tries in ((0, 1), (1, 2)):
        for number in range(tries):
            fresh = receipts.sending(7, [identity])
            if number == tries - 1:
                receipts.refused(7, identity, first_try=identity in fresh)
    assert (receipts.of(7)[0], receipts.of(7)[1]) == (Fate.REFUSED, Fate.SENT)


def test_receipts_and_counts_are_the_same_after_they_were_written_down(tmp_path: Path) -> None:
    receipts, tally = all_acknowledged(), Tally(uploads=3)
    receipts.garbage["unsure"] = 2
    receipts.save(tmp_path / "receipts")
    assert Receipts.load(tmp_path / "receipts", PLAN) == receipts
    tally.acknowledged(5)
    tally.save(tmp_path / "tally", times={})
    assert Tally.load(tmp_path / "tally") == (tally, {"times": {}})


@pytest.mark.parametrize(
    ("status", "name", "fault"),
    [
        (503, "overloaded", False),
        (503, "no-bundle", False),
        (503, None, True),
        (500, "internal-error", True),
        (404, None, False),
    ],
)
def test_only_a_503_with_its_name_is_an_error_that_a_service_may_give(
    status: int, name: str | None, fault: bool
) -> None:
    tally = Tally()
    tally.judge("shuffler", status, name)
    assert bool(tally.faults) is fault


@pytest.mark.parametrize(
    "wrong", [{"users": 3}, {"users": 501}, {"seconds": 3_601}, {"seconds": 1}, {"rate": 10**6}, {"shape": "flood"}]
)
def test_a_run_is_bounded_in_count_and_time(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="is"):
        Plan(**{"users": 10, "seconds": 60, **wrong})  # type: ignore[arg-type]  # wrong on purpose


def test_the_longest_run_seals_a_bounded_number_of_reports() -> None:
    plan = Plan(users=500, seconds=3_600, rate=20_000)
    assert plan.reports * plan.periods <= 4_000_000


@pytest.mark.parametrize("address", ["http://example.com", "http://10.0.0.1:80", "http://127.evil.example", "nothing"])
def test_load_is_made_on_this_machine_only(address: str) -> None:
    with pytest.raises(SystemExit, match="this machine only"):
        refuse_other_hosts(address)


def test_an_empty_reckoning_says_so() -> None:
    assert Reckoning().holds
    assert Reckoning(lost=1).holds is False


def test_a_runs_row_takes_the_place_of_an_older_one_of_its_kind_and_of_no_other(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text("".join(f"<!-- {part}: begin -->\n<!-- {part}: end -->\n" for part in ("load", "cpu", "size")))
    for users, shape, lost in ((20, "steady", 0), (30, "spike", 0), (40, "steady", 1)):
        plan = Plan(users=users, seconds=60, shape=shape)  # type: ignore[arg-type]  # one of the shapes
        write_page(figures(plan, lost), page)
    lines = [line for line in page.read_text().splitlines() if line.startswith("| sqlite")]
    assert len(lines) == 4, "a row and a row of CPU for each kind"
    assert page.read_text().count("| aggregator, on sqlite | 100.000 | 10 | 0 million |") == 1
    assert lines[2].startswith("| sqlite, spike | `make load USERS=30 ")
    assert lines[3].startswith("| sqlite, steady | `make load USERS=40 ")


@pytest.mark.parametrize(
    ("lost", "fault", "trouble", "passed"),
    [(0, False, False, True), (1, False, False, False), (0, True, False, False), (0, False, True, False)],
)
def test_a_run_passes_only_without_a_loss_a_fault_or_a_trouble(
    lost: int, fault: bool, trouble: bool, passed: bool
) -> None:
    assert figures(PLAN, lost, fault, trouble).passed is passed


def figures(plan: Plan, lost: int, fault: bool = False, trouble: bool = False) -> Figures:
    parts = dict.fromkeys(("shuffler", "aggregator", "redis", "locust"), 1.0)
    return Figures.of(
        plan,
        keeper="SQLite",
        when="2026-11-16",
        seconds=60.0,
        cpu_under_load=parts,
        cpu=parts,
        tally=Tally(faults=Counter({"shuffler: 500": 1} if fault else {})),
        times={},
        receipts=Receipts(plan),
        reckoning=Reckoning(acknowledged=10, lost=lost),
        invalid={},
        outage=[],
        troubles=["not settled"] * trouble,
    )
