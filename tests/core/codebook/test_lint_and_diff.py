"""Lint and diff of codebooks: what is unwise, and what a change means."""

from __future__ import annotations

import inspect
import json
import re
from datetime import date

import pytest

from hubbub.accounting.min_batch_sizes import with_batch_sizes
from hubbub.canonical import Json
from hubbub.codebook import Change, Codebook, Diff, diff, lint
from hubbub.errors import Finding
from hubbub.usual_device_limits import USUAL_MAX_EPSILON
from hubbub_client import Client
from tests.support.paths import ROOT

EXAMPLE = (ROOT / "examples" / "metrics.toml").read_text(encoding="utf-8")
TODAY = date(2027, 1, 1)
_TWO = """
[collection]
name = "photo-app"
period = "1d"
device_epsilon = 4
release = {{ epsilon = 0.5, delta = 1e-8 }}

[metrics.{}]
type = "boolean"
epsilon = 1

[metrics.{}]
type = "boolean"
epsilon = 1
"""


def warnings(text: str, *, today: date = TODAY, devices: int | None = None) -> dict[str, Finding]:
    found = lint(Codebook.from_toml(text), today=today, file="my.toml", devices=devices)
    assert all(f.file == "my.toml" and f.problem and f.fix for f in found)
    return {f.key: f for f in found}


def changed(*edits: tuple[str, str]) -> Diff:
    new = EXAMPLE
    for old_text, new_text in edits:
        assert old_text in new
        new = new.replace(old_text, new_text)
    return diff(Codebook.from_toml(EXAMPLE), Codebook.from_toml(new))


def test_the_example_has_one_warning_and_that_on_purpose() -> None:
    """A start that did not happen took no time: any `missing` would move the mean."""
    assert list(warnings(EXAMPLE)) == ["metrics.startup_ms.missing"]


@pytest.mark.parametrize(
    ("old", "new", "key", "fix"),
    [
        ('owner = "performance@example.com"', "", "metrics.startup_ms.owner", "add owner"),
        ('description = "Whether the dark theme is on"', "", "metrics.dark_mode.description", "add description"),
        ("expires = 2027-06-30", "", "metrics.theme.expires", "add expires"),
        ("expires = 2027-06-30", "expires = 2027-01-01", "metrics.theme.expires", "remove the metric"),
        ('other = "other"', "", "metrics.theme.other", 'add other = "other"'),
        ('missing = "light"', "", "metrics.theme.missing", "add missing"),
        ("delta = 1e-8", "delta = 1e-3", "collection.release.delta", "1e-8"),
        ("device_epsilon = 4.0", "device_epsilon = 20", "metrics.theme.epsilon", "8 or less"),
    ],
)
def test_what_is_unwise_is_warned_of_with_a_fix(old: str, new: str, key: str, fix: str) -> None:
    text = EXAMPLE.replace(old, new).replace(
        "epsilon = 2.0", "epsilon = 9" if key.endswith("theme.epsilon") else "epsilon = 2"
    )

    assert fix in warnings(text)[key].fix


COUNTED = """
[collection]
name = "photo-app"
period = "1d"
device_epsilon = 4
release = { epsilon = 0.5, delta = 1e-8 }
[metrics.m]
type = "mean"
bounds = [0, 50]
epsilon = 1
reduce = "count"
description = "How often it was opened"
owner = "team@example.com"
expires = 2027-06-30
"""


@pytest.mark.parametrize(
    ("text", "key", "problem", "fix"),
    [
        (COUNTED, "missing", "stays silent", "add missing = 0, reported"),
        (COUNTED + "missing = 3", "missing", "when nothing was recorded, but `missing` says", "write missing = 0"),
        (COUNTED.replace("[0,", "[1,"), "reduce", "outside the metric's bounds", "choose bounds that include 0"),
        (COUNTED.replace("[0,", "[1,") + "missing = 1", "reduce", "outside the metric's bounds", "declare missing = 0"),
        (COUNTED.replace('"count"', '"sum"'), "missing", "stays silent", "add missing = VALUE"),
    ],
)
def test_a_count_of_nothing_is_nought(text: str, key: str, problem: str, fix: str) -> None:
    """One warning for one thing."""
    ((found_key, found),) = warnings(text).items()
    assert found_key == f"metrics.m.{key}"
    assert problem in found.problem
    assert fix in found.fix


@pytest.mark.parametrize("text", [COUNTED + "missing = 0", COUNTED.replace("count", "sum") + "missing = 3"])
def test_what_is_declared_well_is_not_warned_of(text: str) -> None:
    assert warnings(text) == {}


def test_a_list_without_other_is_told_to_add_one() -> None:
    text = EXAMPLE.replace('other = "other"\n', "").replace('"sepia", "other"', '"sepia"')

    assert '"other" to values' in warnings(text)["metrics.theme.other"].fix


@pytest.mark.parametrize(
    ("devices", "share", "reached"), [(1_000, 1, True), (999, 1, False), (10_000, "0.1", True), (9_999, "0.1", False)]
)
def test_a_min_batch_out_of_reach_is_warned_of(devices: int, share: object, reached: bool) -> None:
    text = EXAMPLE.replace("missing = false", f"missing = false\nmin_batch = 1000\nshare = {share}")

    assert ("metrics.dark_mode.min_batch" not in warnings(text, devices=devices)) == reached


def test_a_min_batch_out_of_reach_says_how_many_devices_it_takes() -> None:
    text = EXAMPLE.replace("missing = false", "missing = false\nmin_batch = 1000\nshare = 0.3")

    assert "3334 devices" in warnings(text, devices=10)["metrics.dark_mode.min_batch"].fix


def test_a_metric_that_is_off_needs_no_reach() -> None:
    text = EXAMPLE.replace("missing = false", "missing = false\nmin_batch = 1000\nenabled = false")

    assert "metrics.dark_mode.min_batch" not in warnings(text, devices=10)


def test_an_open_min_batch_can_be_computed_for_the_lint() -> None:
    found = lint(
        Codebook.from_toml(EXAMPLE), today=TODAY, devices=400, min_batch_of=lambda m: 500 if m.name == "theme" else 300
    )

    assert [f.key for f in found if f.key.endswith("min_batch")] == ["metrics.theme.min_batch"]


# -- diff -----------------------------------------------------------------------------------------


def test_equal_codebooks_differ_in_nothing() -> None:
    same = changed()

    assert not same
    assert same.render() == "no change"


def test_an_added_and_a_removed_metric_are_told_apart() -> None:
    found = changed(("[metrics.dark_mode]", "[metrics.night_mode]"))

    assert [(m.name, m.effect) for m in found.metrics] == [("night_mode", "added"), ("dark_mode", "removed")]
    assert (found.metrics[0].old_id, found.metrics[1].new_id) == (None, None)


def test_another_order_changes_no_metric_but_the_codebook_and_is_shown() -> None:
    first, second = (
        with_batch_sizes(Codebook.from_toml(_TWO.format(*names)), "m.toml", lambda *_: 10) for names in ("ba", "ab")
    )
    found = diff(first, second)

    assert first.id != second.id
    assert [metric.id for metric in first.metrics] == [metric.id for metric in second.metrics]
    assert found.metrics == ()
    assert "order" in found.render()
    assert [(change.field, change.old, change.new) for change in found.collection] == [
        ("order", ["b", "a"], ["a", "b"])
    ]
    assert not diff(second, second)


def test_a_changed_meaning_is_a_new_segment_of_history() -> None:
    found = changed(('"sepia", "other"', '"sepia", "neon", "other"'))
    (theme,) = found.metrics

    assert theme.effect == "new id"
    assert theme.old_id != theme.new_id
    assert {change.field for change in theme.changes} >= {"values", "mechanism"}
    assert "new segment of history" in found.render()
    assert "count across both" in found.render()


def test_an_edited_remark_keeps_the_id() -> None:
    found = changed(('owner = "performance@example.com"', 'owner = "speed@example.com"'))
    (metric,) = found.metrics

    assert (metric.effect, metric.old_id) == ("edited", metric.new_id)
    assert "owner: performance@example.com -> speed@example.com" in found.render()
    assert "history goes on" in found.render()


def test_another_period_changes_every_id() -> None:
    found = changed(('period = "1d"', 'period = "1w"'))

    assert [m.effect for m in found.metrics] == ["new id"] * 3
    assert "period: 1d -> 1w  (changes every id)" in found.render()


def test_a_changed_release_target_changes_no_metric() -> None:
    found = changed(("delta = 1e-8", "delta = 1e-9"))

    assert [change.field for change in found.collection] == ["release"]
    assert not found.metrics
    assert "how many reports a release needs" in found.render()
    assert "release: delta 0.00000001 -> 0.000000001  (" in found.render()  # and no epsilon, which stays


def mechanism(name: str, keep: str) -> dict[str, Json]:
    return {"name": name, "parameters": {"keep": keep}}


def test_a_change_of_a_list_or_a_mechanism_names_what_differs_in_full() -> None:
    long = [f"value {number}" for number in range(40)]
    said = str(Change("values", ["a", "b", *long[20:]], ["b", *long]))
    assert said == f"values: new: {', '.join(long[:8])} and 12 more; gone: a"
    assert str(Change("values", ["a", "b"], ["b", "a"])) == "values: a, b -> b, a"
    assert str(Change("bounds", [0, 20], [0, 50])) == "bounds: [0,20] -> [0,50]"
    keep = "8768971294881393556"
    krr, subset = (mechanism(name, keep) for name in ("krr", "subset"))
    assert str(Change("mechanism", krr, subset)) == "mechanism: krr -> subset"
    assert str(Change("mechanism", krr, mechanism("krr", keep + "1"))) == f"mechanism: keep {keep} -> {keep}1"


def test_the_budget_is_shown_before_and_after() -> None:
    found = changed(("epsilon = 2.0", "epsilon = 1.5"), ("device_epsilon = 4.0", "device_epsilon = 5"))

    assert found.render().endswith("budget per device and period: epsilon 4 of 4 -> 3.5 of 5")
    assert found.document()["budget"] == {
        "spent": {"old": "4", "new": "3.5"},
        "device_epsilon": {"old": "4", "new": "5"},
    }


def test_switching_a_metric_off_shows_in_the_budget() -> None:
    found = changed(("missing = false", "missing = false\nenabled = false"))

    assert re.search(r"enabled: true -> false", found.render())
    assert found.render().endswith("4 of 4 -> 3 of 4")


def test_a_diff_is_plain_json() -> None:
    found = changed(("epsilon = 2.0", "epsilon = 1.5"))

    assert json.loads(json.dumps(found.document())) == found.document()


def test_more_than_a_device_spends_in_a_day_is_warned_of() -> None:
    hourly = EXAMPLE.replace('period = "1d"', 'period = "1h"')
    assert "spend 96 a day" in warnings(hourly)["collection.device_epsilon"].problem


def test_the_day_that_the_lint_knows_is_the_one_that_a_client_keeps() -> None:
    default = inspect.signature(Client).parameters["max_epsilon"].default
    assert default == USUAL_MAX_EPSILON


LEVELS = """
[collection]
name = "game"
period = "1d"
device_epsilon = 4
release = { epsilon = 0.5, delta = 1e-8 }

[metrics.levels]
type = "mean"
bounds = [0, 30]
epsilon = 1
description = "%s"
"""


@pytest.mark.parametrize(
    ("description", "reduce"),
    [
        ("Number of levels finished", "sum"),
        ("How often the app was opened", "sum"),
        ("number of crashes per day", "sum"),
        ("Count of games won", "sum"),
        ("Difficulty of the last game", "last"),
        ("Size of the newest save", "last"),
        ("Number of open tabs", None),
        ("Number of installed fonts", None),
        ("Time to load a level", None),
        ("Minutes played in the last 7 days", None),
    ],
)
def test_a_reducer_that_the_description_contradicts_is_questioned(description: str, reduce: str | None) -> None:
    found = warnings(LEVELS % description).get("metrics.levels.reduce")
    assert (found.fix.split('"')[1] if found else None) == reduce
    if reduce:
        text = LEVELS % description + f'reduce = "{reduce}"'
        assert "metrics.levels.reduce" not in warnings(text), "the fix ends the warning"
