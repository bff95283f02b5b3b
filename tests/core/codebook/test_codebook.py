"""The codebook file: a right one is resolved, and every fault is found with its place, its problem and its fix."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.accounting.min_batch_sizes import with_batch_sizes
from hubbub.canonical import digest
from hubbub.codebook import COLLECTION, RELEASE, Codebook, Metric, metric_keys
from hubbub.errors import CodebookError, Finding, InvalidParameter, InvalidValue
from hubbub.mechanisms import Categories, mechanism, registered
from hubbub.metric_types import LATER, metric_type
from hubbub.metric_types import registered as registered_types
from hubbub.randomness import WORD, SystemRandomness
from hubbub.reduce import MOST_REMEMBERED, REDUCERS
from tests.support.paths import ROOT

COLLECTION_TOML = """
[collection]
name = "photo-app"
period = "1d"
device_epsilon = 4
release = { epsilon = 0.5, delta = 1e-8 }
"""


def codebook(metric: str, collection: str = COLLECTION_TOML) -> Codebook:
    return Codebook.from_toml(f"{collection}\n[metrics.m]\n{metric}", file="my.toml")


def metric(text: str) -> Metric:
    return codebook(text).metric("m")


def findings(text: str) -> dict[str, Finding]:
    """What is wrong, by key."""
    with pytest.raises(CodebookError) as caught:
        Codebook.from_toml(text, file="my.toml")
    found = caught.value.findings
    assert all(f.file == "my.toml" and f.problem and f.fix for f in found)
    assert all(f"my.toml: {f.key}" in str(caught.value) for f in found if f.key)
    return {f.key: f for f in found}


def metric_findings(text: str) -> dict[str, Finding]:
    return {key.removeprefix("metrics.m."): f for key, f in findings(f"{COLLECTION_TOML}\n[metrics.m]\n{text}").items()}


BOOLEAN = 'type = "boolean"\nepsilon = 1\n'
THEME = 'type = "category"\nvalues = ["light", "dark", "sépia", "other"]\nepsilon = 2\n'
MEAN = 'type = "mean"\nbounds = [10, 50]\nepsilon = 1\n'


# -- reading --------------------------------------------------------------------------------------


def test_the_example_reads_as_the_design_says() -> None:
    example = Codebook.load(ROOT / "examples" / "metrics.toml")

    assert [m.name for m in example.metrics] == ["dark_mode", "startup_ms", "theme"]
    assert example.collection.device_epsilon == example.spent == 4
    assert example.collection.release_delta == Fraction(1, 10**8)
    assert example.metric("dark_mode").expires == date(2027, 6, 30)
    assert example.metric("startup_ms").mechanism.name == "laplace"


def test_what_is_left_out_has_the_documented_default() -> None:
    read = codebook(BOOLEAN)
    only = read.metric("m")

    assert read.collection.grace == read.collection.calendar.seconds
    assert read.collection.forward_horizon == 7 * 86_400
    assert read.collection.honest_fraction == Fraction(9, 10)
    assert (only.mechanism.name, only.reduce, only.share, only.missing) == ("rr", "first", Fraction(1), None)
    assert (only.enabled, only.min_batch, only.description, only.owner, only.expires) == (True, None, "", "", None)
    assert metric(THEME).reduce == "first"
    assert metric(MEAN).reduce == "mean"


def test_a_decimal_means_itself_and_not_the_float_next_to_it() -> None:
    assert metric('type = "boolean"\nepsilon = 0.3').epsilon == Fraction(3, 10)


def test_three_times_a_third_of_the_budget_is_within_it() -> None:
    """In floats 0.1 + 0.2 is above 0.3."""
    metrics = "".join(f'[metrics.{n}]\ntype = "boolean"\nepsilon = {e}\n' for n, e in [("a", "0.1"), ("b", "0.2")])

    assert Codebook.from_toml(COLLECTION_TOML.replace("= 4", "= 0.3") + metrics).spent == Fraction(3, 10)


def test_a_mechanism_is_chosen_by_name_with_options_or_by_variance() -> None:
    assert metric(THEME + 'mechanism = "krr"').mechanism.name == "krr"
    assert metric(MEAN + 'mechanism = { name = "laplace", steps = 64 }').mechanism.parameters()["steps"] == 64
    assert metric(THEME).mechanism.domain == Categories(4)


def test_a_matrix_is_written_with_a_row_for_each_report() -> None:
    asymmetric = metric(BOOLEAN + 'mechanism = { name = "matrix", matrix = [[0.7, 0.4], [0.3, 0.6]] }').mechanism

    assert asymmetric.likelihood(0, 1) == pytest.approx(0.4)
    assert asymmetric.likelihood(1, 0) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("share", "threshold"), [("1", WORD), ("0.5", WORD // 2), ("0.3", 3 * WORD // 10), ("1e-30", 1)]
)
def test_a_share_is_an_integer_threshold_rounded_down_but_never_to_nobody(share: str, threshold: int) -> None:
    assert metric(BOOLEAN + f"share = {share}").share_threshold == threshold


def test_a_metric_that_is_off_costs_nothing() -> None:
    assert codebook('type = "boolean"\nepsilon = 30\nenabled = false').spent == 0


def test_an_open_min_batch_can_be_filled_in_and_changes_no_metric_id() -> None:
    read = Codebook.from_toml(COLLECTION_TOML + f"[metrics.a]\n{BOOLEAN}min_batch = 7\n[metrics.b]\n{BOOLEAN}")

    filled = read.with_min_batch(lambda _: 500)

    assert [m.min_batch for m in filled.metrics] == [7, 500]
    assert [m.id for m in filled.metrics] == [m.id for m in read.metrics]


def in_this_order(*names: str) -> Codebook:
    """Two metrics as they would be served, listed in this order."""
    text = COLLECTION_TOML + "".join(f'[metrics.{name}]\ntype = "boolean"\nepsilon = 1\n' for name in names)
    return with_batch_sizes(Codebook.from_toml(text), "my.toml", lambda *_: 10)


def test_metrics_are_shown_in_the_order_of_the_file_and_compiled_by_name() -> None:
    served = in_this_order("zeta", "alpha", "mid")
    again = Codebook.from_compiled(served.to_bytes())

    for known in (served, again):
        assert [metric.name for metric in known.in_file_order] == ["zeta", "alpha", "mid"]
        assert [metric.name for metric in known.metrics] == ["alpha", "mid", "zeta"]
    assert again.to_bytes() == served.to_bytes()
    fewer: Any = replace(again, metrics=again.metrics[1:]).compiled()["collection"]
    assert fewer["notes"] == {"order": ["zeta", "mid"]}


def test_an_order_by_name_is_left_out() -> None:
    served = in_this_order("alpha", "zeta").compiled()
    assert b"notes" not in in_this_order("alpha", "zeta").to_bytes()
    assert [metric.name for metric in Codebook.from_compiled(served).in_file_order] == ["alpha", "zeta"]


@pytest.mark.parametrize(
    "order", [None, 7, "zeta", {}, [], [7, None], ["gone", "zeta"], ["zeta", "zeta", "alpha"], ["zeta"]]
)
def test_whatever_a_codebook_says_of_its_order_it_is_read(order: Any) -> None:
    document: dict[str, Any] = dict(in_this_order("alpha", "zeta").compiled())
    del document["id"]
    document["collection"] = {**document["collection"], "notes": {"order": order}}
    document["id"] = digest("hubbub-01 codebook", document)[:16].hex()
    found = Codebook.from_compiled(document)

    is_asked = isinstance(order, list) and "zeta" in order
    assert [metric.name for metric in found.in_file_order] == (["zeta", "alpha"] if is_asked else ["alpha", "zeta"])
    assert found.compiled() == document


def test_an_unknown_metric_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InvalidParameter, match="did you mean 'theme'"):
        Codebook.load(ROOT / "examples" / "metrics.toml").metric("themes")


# -- values ---------------------------------------------------------------------------------------


def test_a_boolean_becomes_a_bit() -> None:
    assert [metric(BOOLEAN).input_of(value) for value in (False, True)] == [0, 1]
    assert [metric(BOOLEAN).label_of(index) for index in (0, 1)] == ["no", "yes"]


@pytest.mark.parametrize("value", [0, 1, 1.0, "true", None, math.nan, [True]])
def test_a_boolean_metric_refuses_what_is_not_a_bool(value: object) -> None:
    with pytest.raises(InvalidValue, match=r"pass bool\(\.\.\.\)"):
        metric(BOOLEAN).input_of(value)


def test_a_category_becomes_its_index_in_any_unicode_form() -> None:
    theme = metric(THEME)

    assert [theme.input_of(value) for value in ("light", "dark", "sépia", "se\u0301pia", "other")] == [0, 1, 2, 2, 3]
    assert [theme.label_of(index) for index in range(4)] == ["light", "dark", "sépia", "other"]


def test_an_unknown_category_becomes_other_where_there_is_one() -> None:
    theme = metric(THEME + 'other = "other"')

    assert theme.recorded("neon") == "other"
    assert theme.input_of("neon") == 3
    assert theme.input_of("\ud800") == 3


def test_an_unknown_category_without_other_is_refused_with_the_nearest_value() -> None:
    with pytest.raises(InvalidValue, match=r"did you mean 'light'.*`other`"):
        metric(THEME).input_of("ligth")


@pytest.mark.parametrize("value", [0, None, True, b"light", 1.5])
def test_a_category_metric_refuses_what_is_not_a_string_even_with_other(value: object) -> None:
    with pytest.raises(InvalidValue, match="takes strings"):
        metric(THEME + 'other = "other"').input_of(value)


@given(st.integers() | st.floats(allow_nan=False))
def test_any_number_becomes_one_within_bounds(value: float) -> None:
    assert 10 <= metric(MEAN).input_of(value) <= 50


@pytest.mark.parametrize(
    ("value", "given_to_mechanism"),
    [
        (30, 30),
        (10, 10),
        (50, 50),
        (9.99, 10),
        (51, 50),
        (math.inf, 50),
        (-math.inf, 10),
        (10**400, 50),
        (-(10**400), 10),
    ],
)
def test_a_number_outside_bounds_is_clamped(value: float, given_to_mechanism: float) -> None:
    assert metric(MEAN).input_of(value) == given_to_mechanism


@pytest.mark.parametrize("value", [math.nan, None, "30", True, False, [30], Decimal(30), 3j])
def test_a_mean_metric_refuses_what_is_not_a_number(value: object) -> None:
    with pytest.raises(InvalidValue, match="record nothing"):
        metric(MEAN).input_of(value)


@given(
    st.lists(st.integers() | st.floats(allow_nan=False), min_size=1, max_size=8),
    st.sampled_from(metric_type("mean").reducers),
)
def test_whatever_numbers_are_recorded_one_within_bounds_is_randomized(values: list[float], reduce: str) -> None:
    number, rng, state = metric(MEAN + f'reduce = "{reduce}"'), SystemRandomness(), None
    for value in values:
        state = number.reducer.add(state, number.recorded(value), rng)
    assert state is not None

    reduced = number.input_of(number.reducer.result(state))

    assert 10 <= reduced <= 50
    number.mechanism.randomize(reduced, rng)


def test_parts_of_a_sum_are_not_clamped_each() -> None:
    total = metric(MEAN + 'reduce = "sum"')

    assert total.recorded(3) == 3


@pytest.mark.parametrize(
    ("text", "missing", "index"),
    [
        (BOOLEAN + "missing = true", True, 1),
        (THEME + 'missing = "se\u0301pia"', "sépia", 2),
        (MEAN + "missing = 12.3", Fraction(123, 10), Fraction(123, 10)),
    ],
)
def test_what_is_reported_when_nothing_was_recorded_is_a_value_of_the_metric(
    text: str, missing: Any, index: Any
) -> None:
    assert metric(text).missing == missing
    assert metric(text).input_of(metric(text).missing) == index


# -- findings -------------------------------------------------------------------------------------


def test_every_fault_is_found_in_one_go() -> None:
    text = """
    colection = 1
    [collection]
    name = "Photo App"
    period = "7h"
    release = { epsilon = 0.5, delta = 2 }
    [metrics.Theme]
    type = "category"
    values = ["a", "a", "", 3, "x\\u0000"]
    epsilon = "1"
    [metrics.b]
    type = "mean"
    bounds = [3, 1]
    epsilon = 1
    redcue = "sum"
    """

    assert set(findings(text)) == {
        "colection",
        "collection.name",
        "collection.period",
        "collection.device_epsilon",
        "collection.release.delta",
        "metrics.Theme",
        "metrics.Theme.values[1]",
        "metrics.Theme.values[2]",
        "metrics.Theme.values[3]",
        "metrics.Theme.values[4]",
        "metrics.Theme.epsilon",
        "metrics.b.bounds",
        "metrics.b.redcue",
    }


@pytest.mark.parametrize(
    ("text", "key", "problem", "fix"),
    [
        (BOOLEAN + "epsilom = 1", "epsilom", "no such key", "did you mean 'epsilon'"),
        (BOOLEAN + "zzz = 1", "zzz", "no such key", "use one of type, epsilon"),
        ("epsilon = 1", "type", "missing", "add type"),
        ('type = "boolean"', "epsilon", "missing", "add epsilon"),
        ('type = "bool"\nepsilon = 1', "type", "is not one of", "did you mean 'boolean'"),
        ('type = "strings"\nepsilon = 1', "type", "not supported yet", "wait"),
        (BOOLEAN + "memoize = true", "memoize", "not supported yet", "remove it"),
        ('type = "boolean"\nepsilon = nan', "epsilon", "finite", "0.0001 to 30"),
        ('type = "boolean"\nepsilon = inf', "epsilon", "finite", "0.0001 to 30"),
        ('type = "boolean"\nepsilon = 0', "epsilon", "between", "0.0001 to 30"),
        ('type = "boolean"\nepsilon = -1', "epsilon", "between", "0.0001 to 30"),
        ('type = "boolean"\nepsilon = true', "epsilon", "expected a number", "0.0001 to 30"),
        ('type = "boolean"\nepsilon = 1e999999999', "epsilon", "exponent", "0.0001 to 30"),
        ('type = "boolean"\nepsilon = 0.' + "1" * 60, "epsilon", "50 digits", "0.0001 to 30"),
        ('type = "category"\nepsilon = 1', "values", "missing", "add values"),
        ('type = "category"\nvalues = "a"\nepsilon = 1', "values", "list", "such as"),
        ('type = "category"\nvalues = ["a"]\nepsilon = 1', "values", "between 2", "2 to 65,536"),
        (THEME.replace("dark", "x" * 201), "values[1]", "201 characters", "at most 200"),
        (THEME.replace("dark", "se\u0301pia"), "values[2]", "given twice", "NFC"),
        (THEME.replace("dark", "a\\nb"), "values[1]", "control character", "printable"),
        (THEME + 'other = "rest"', "other", "not in `values`", "one of `values`"),
        (THEME + "missing = 1", "missing", "not in `values`", "one of `values`"),
        (THEME + "bounds = [0, 1]", "bounds", "no such key", "remove it"),
        (BOOLEAN + 'other = "a"', "other", "no such key", "remove it"),
        (BOOLEAN + "missing = 1", "missing", "true or false", "true or false"),
        ('type = "mean"\nepsilon = 1', "bounds", "missing", "add bounds"),
        (MEAN.replace("[10, 50]", "[50, 10]"), "bounds", "below the upper", "lower and upper"),
        (MEAN.replace("[10, 50]", "[1, 2, 3]"), "bounds", "two numbers", "lower and upper"),
        (MEAN.replace("[10, 50]", "[-inf, inf]"), "bounds", "finite", "lower and upper"),
        (MEAN + "missing = 9", "missing", "outside `bounds`", "from 10 to 50"),
        (MEAN + 'missing = "9"', "missing", "expected a number", "from 10 to 50"),
        (MEAN + 'reduce = "avg"', "reduce", "not one of mean, first", "one of them"),
        (MEAN + "reduce = 1", "reduce", "not one of mean, first", "one of them"),
        (BOOLEAN + 'reduce = "sum"', "reduce", "no meaning for a boolean", "first, last, max, min, most_common"),
        (THEME + 'reduce = "max"', "reduce", "no meaning for a category", "first, last, most_common, reservoir"),
        (BOOLEAN + "share = 0", "share", "above 0", "at most 1"),
        (BOOLEAN + "share = 1.01", "share", "at most 1", "at most 1"),
        (MEAN + 'mechanism = "laplce"', "mechanism", "is named 'laplce'", "did you mean 'laplace'"),
        (MEAN + "mechanism = 3", "mechanism", "name or a table", "use one of duchi"),
        (MEAN + "mechanism = { steps = 3 }", "mechanism", "does not name a mechanism", "one of duchi"),
        (MEAN + 'mechanism = "rr"', "mechanism", "does not fit", "use one of duchi, hybrid"),
        (MEAN + 'mechanism = { name = "laplace", steps = "x" }', "mechanism", "steps", "leave it out"),
        (MEAN + 'mechanism = { name = "laplace", stepz = 3 }', "mechanism", "no option stepz", "leave it out"),
        (BOOLEAN + 'mechanism = { name = "matrix", matrix = 3 }', "mechanism", "list of rows", "rows are reports"),
        (BOOLEAN + 'mechanism = { name = "matrix", matrix = [[1, 0], [0, 1]] }', "mechanism", "reveals", "positive"),
        (
            MEAN + 'mechanism = "laplace"\nreport_bytes = 1',
            "mechanism",
            "above `report_bytes`",
            "raise report_bytes to 2",
        ),
        (
            f'type = "category"\nvalues = {[f"v{i}" for i in range(300)]}\nepsilon = 1\nreport_bytes = 1',
            "report_bytes",
            "no mechanism sends 300 values in 1 bytes",
            "raise report_bytes to 2",
        ),
        (BOOLEAN + "report_bytes = 0", "report_bytes", "whole number", "from 1 to 1,048,576"),
        (BOOLEAN + "min_batch = 1", "min_batch", "whole number from 2", "from 2"),
        (BOOLEAN + "min_batch = 2.5", "min_batch", "whole number from 2", "from 2"),
        (BOOLEAN + 'enabled = "no"', "enabled", "true or false", "true or false"),
        (BOOLEAN + "owner = 1", "owner", "expected text", "in quotes"),
        (BOOLEAN + "description = 1", "description", "expected text", "in quotes"),
        (BOOLEAN + 'expires = "2027-06-30"', "expires", "expected a date", "without quotes"),
        (BOOLEAN + "expires = 2027-06-30T00:00:00Z", "expires", "expected a date", "without quotes"),
    ],
)
def test_a_faulty_metric_is_refused_with_place_problem_and_fix(text: str, key: str, problem: str, fix: str) -> None:
    found = metric_findings(text)

    assert list(found) == [key]
    assert re.search(problem, found[key].problem)
    assert fix in found[key].fix


@pytest.mark.parametrize(
    ("old", "new", "key", "problem"),
    [
        ('name = "photo-app"', 'name = "Photo"', "collection.name", "usable name"),
        ('name = "photo-app"', "name = 3", "collection.name", "expected text"),
        ('period = "1d"', 'period = "7h"', "collection.period", "divides a day"),
        ('period = "1d"', 'period = "1d"\ngrace = "soon"', "collection.grace", "duration"),
        ('period = "1d"', 'period = "1d"\nforward_horizon = 7', "collection.forward_horizon", "duration"),
        ('period = "1d"', 'period = "1d"\nhonest_fraction = 1.1', "collection.honest_fraction", "at most 1"),
        ("device_epsilon = 4", "device_epsilon = 0", "collection.device_epsilon", "above 0"),
        ("device_epsilon = 4", "device_epsilon = 0.9", "collection.device_epsilon", "spend 1 .* more than 0.9"),
        ("delta = 1e-8", "delta = 0", "collection.release.delta", "above 0"),
        ("delta = 1e-8", "delta = 1", "collection.release.delta", "below 1"),
        (", delta = 1e-8", "", "collection.release.delta", "missing"),
        ("release = { epsilon = 0.5, delta = 1e-8 }", "", "collection.release", "missing"),
        ("{ epsilon = 0.5, delta = 1e-8 }", "3", "collection.release", "table"),
    ],
)
def test_a_faulty_collection_is_refused_with_place_and_problem(old: str, new: str, key: str, problem: str) -> None:
    found = findings(COLLECTION_TOML.replace(old, new) + f"[metrics.m]\n{BOOLEAN}")

    assert list(found) == [key]
    assert re.search(problem, found[key].problem)


@pytest.mark.parametrize(
    ("name", "instead"),
    [("Theme", "theme"), ('"dark mode"', "dark_mode"), ("9lives", "m_9lives"), ('"ü"', "m"), ("x" * 65, "x" * 60)],
)
def test_a_metric_name_that_cannot_be_is_refused_with_one_that_can(name: str, instead: str) -> None:
    (found,) = findings(f"{COLLECTION_TOML}[metrics.{name}]\n{BOOLEAN}").values()

    assert found.key == f"metrics.{name}"
    assert repr(instead) in found.fix


@pytest.mark.parametrize(
    "text", ["", COLLECTION_TOML, COLLECTION_TOML + "metrics = 3", "metrics = 3", "collection = 3"]
)
def test_a_file_without_collection_or_metrics_is_refused(text: str) -> None:
    assert findings(text)


@pytest.mark.parametrize(
    "text",
    ["a = ", "[collection", "a = 1\na = 2", "a = " + "9" * 5_000, "a = " + "[" * 5_000, "a = 1e99999999999999999999"],
)
def test_what_is_not_toml_is_refused_with_the_place(text: str) -> None:
    assert "TOML" in findings(text)[""].problem


def test_a_file_that_cannot_be_read_is_a_codebook_error(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b"a = '\xfc'")

    for path, problem in [("absent.toml", "cannot be read"), ("latin.toml", "not UTF-8"), (".", "cannot be read")]:
        with pytest.raises(CodebookError, match=problem):
            Codebook.load(tmp_path / path)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.decimals() | st.text() | st.dates() | st.datetimes(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=5,
    ),
    st.sampled_from(
        [*(("metric", key.name) for key in metric_keys()), *(("collection", key.name) for key in COLLECTION)]
    ),
)
def test_no_value_of_any_key_raises_anything_but_a_codebook_error(value: Any, place: tuple[str, str]) -> None:
    """Reading is total: whatever TOML can hold under a key is used, or refused with findings."""
    from hubbub.codebook._read import read, resolve

    document: dict[str, Any] = {
        "collection": {
            "name": "a",
            "period": "1d",
            "device_epsilon": 30,
            "release": {"epsilon": 1, "delta": Decimal("1e-8")},
        },
        "metrics": {"m": {"type": "category", "values": ["a", "b"], "epsilon": 1}},
    }
    table, key = place
    (document["collection"] if table == "collection" else document["metrics"]["m"])[key] = value
    with suppress(CodebookError):
        read(document, "my.toml", resolve)


# -- documentation --------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [*COLLECTION, *RELEASE, *metric_keys()], ids=lambda key: key.name)
def test_every_key_is_documented_as_it_is_read(key: Any) -> None:
    page = (ROOT / "docs" / "reference" / "codebook.md").read_text(encoding="utf-8")

    assert f"| `{key.name}` | {key.form} | {key.default} | {key.meaning} |" in page


@pytest.mark.parametrize("reducer", REDUCERS.values(), ids=lambda reducer: reducer.name)
def test_every_reducer_is_documented(reducer: Any) -> None:
    page = (ROOT / "docs" / "reference" / "codebook.md").read_text(encoding="utf-8")

    fits = ", ".join(name for name, cls in registered_types().items() if reducer.name in cls.reducers)
    assert f"| `{reducer.name}` | {reducer.meaning} | {fits} |" in page


def test_the_default_reducer_of_every_type_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "codebook.md").read_text(encoding="utf-8")

    assert ", ".join(f"`{cls.reducers[0]}` for {name}" for name, cls in registered_types().items()) + "." in page


def test_every_key_that_may_be_edited_is_documented_as_such() -> None:
    page = (ROOT / "docs" / "reference" / "codebook.md").read_text(encoding="utf-8")
    editable = page.split("## Ids")[1].split("are not part of it")[0].rpartition("\n")[2]

    assert set(metric(MEAN + 'unit = "ms"').remarks()) <= set(re.findall(r"`(\w+)`", editable))


def test_what_is_kept_on_disk_is_documented_for_every_reducer_that_keeps_more() -> None:
    begun = {name: reducer.begin(1.0) for name, reducer in REDUCERS.items()}
    keep_more = [name for name, state in begun.items() if "seen" in state]
    for page in ("docs/reference/sdk.md", "docs/explanation/what-we-do-not-protect.md"):
        (line,) = re.findall(r"^- .*?true values.*?(?=^-|\Z)", (ROOT / page).read_text(encoding="utf-8"), re.M | re.S)[
            :1
        ]
        assert all(f"`{name}`" in line for name in keep_more), page
        assert str(MOST_REMEMBERED) in line


def test_a_unit_is_shown_and_changes_no_id() -> None:
    plain, shown = metric(MEAN), metric(MEAN + 'unit = "ms"')

    assert shown.id == plain.id
    assert shown.values.shape.unit == "ms"
    assert "unit" not in plain.document(), "a codebook without one is compiled to the same bytes as ever"
    assert shown.document()["unit"] == "ms"
    assert metric_findings(MEAN + 'unit = " "')["unit"].fix.startswith("write text in quotes")
    assert metric_findings(BOOLEAN + 'unit = "ms"')["unit"].problem == "a boolean metric has no such key"


@pytest.mark.parametrize(
    "unit", ["km/h", "% of 20", "\u00b5s", "m\u00b2", "\u00b0C", "\u2030", "\u20ac", "\u5186", "\u0378", "a" * 20]
)
def test_a_unit_may_have_any_character_that_is_seen(unit: str) -> None:
    assert metric(MEAN + f'unit = "{unit}"').document()["unit"] == unit


@pytest.mark.parametrize("unit", [" ms", "ms ", "m\u00a0s", "m\u200bs", "\u202ems", "\ue000", "\U0001f600", "a" * 21])
def test_a_unit_has_no_character_that_is_not_seen(unit: str) -> None:
    """By a list: what `isprintable` says of U+0378 and others depends on the version of Python."""
    assert "unit" in metric_findings(MEAN + f'unit = "{unit}"')


def test_a_finding_does_not_contradict_itself() -> None:
    """What is said to be wrong and what is said to mend it are about the same thing."""
    found = metric_findings(BOOLEAN + 'mechanism = { name = "matrix", rows = 3 }')["mechanism"]
    assert (found.problem, found.fix) == ("matrix has no option rows", "leave it out")
    found = metric_findings(MEAN + 'mechanism = "zzzzzz"')["mechanism"]
    assert (found.problem, found.fix[:17]) == ("no mechanism is named 'zzzzzz'", "use one of duchi,")
    found = metric_findings(MEAN + 'reduce = "medan"')["reduce"]
    assert found.fix == "did you mean 'median'?"
    found = metric_findings(THEME + 'mechanism = "matrix"')["mechanism"]
    assert "a row holds 4 probabilities" in found.fix
    found = findings(COLLECTION_TOML.replace('"1d"', '"7h"') + f"[metrics.m]\n{BOOLEAN}")["collection.period"]
    assert (found.problem[-11:], found.fix) == ("7h does not", 'use "6h"')


WRONG_MECHANISMS = [
    *(f'"{name}"' for name in [*registered(), "zzz", "laplac", "krrr", "matrx", ""]),
    *("3", "true", "[1]", "{}", "{ name = 1 }", '{ nam = "krr" }', '{ name = "krr", steps = 3 }'),
    *(f'{{ name = "laplace", steps = {steps} }}' for steps in ("0", '"a"', "99999999", "1.5")),
    *(f'{{ name = "{name}", steps = {steps} }}' for name in ("hybrid", "piecewise") for steps in ("0", '"a"')),
    *('{ name = "table", points = 1 }', '{ name = "table", points = "x" }'),
    *(
        f'{{ name = "matrix", matrix = {matrix} }}'
        for matrix in (
            *("3", "[]", "[1]", "[[1]]", "[[1, 0], [0, 1]]", "[[0.5, 0.5], [0.5, 0.5]]", '[["a", "b"], ["c", "d"]]'),
            *("[[0.5, 0.5]]", "[[0.5, 0.6], [0.5, 0.6]]", "[[-1, 1], [2, 0]]", "[[0.99, 0.01], [0.01, 0.99]]"),
        )
    ),
]
WRONG_REDUCERS = ['"medan"', '"zzz"', '"Mean"', '"avg"', "3", "true", '""', '["first"]', *map('"{}"'.format, REDUCERS)]
WRONG_TYPES = ['"bolean"', '"distributoin"', '"string"', '"strings"', '"zzz"', "3", '["mean"]', '""']


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z_-]+", text))


def is_taken(text: str) -> bool:
    with suppress(CodebookError):
        return bool(codebook(text))
    return False


@pytest.mark.everyday
@pytest.mark.parametrize("written", [BOOLEAN, THEME, MEAN])
@pytest.mark.parametrize("wrong", WRONG_MECHANISMS)
def test_whatever_is_wrong_with_a_mechanism_only_those_that_fit_are_named(written: str, wrong: str) -> None:
    if is_taken(f"{written}mechanism = {wrong}"):
        return
    found = metric_findings(f"{written}mechanism = {wrong}")["mechanism"]
    assert not re.search("did you mean|use one|leave|write ", found.problem), "advice stands in the fix"
    near, listed = re.findall("did you mean '(.*)'", found.fix), found.fix.rpartition("one of ")[2]
    assert not near or mechanism(near[0]).fits(metric(written).values.domain), found
    for name in words(listed) & set(registered()) if " one of " in found.fix else ():
        assert is_taken(f'{written}mechanism = "{name}"'), found


@pytest.mark.everyday
@pytest.mark.parametrize("written", [BOOLEAN, THEME, MEAN])
@pytest.mark.parametrize("wrong", WRONG_REDUCERS)
def test_whatever_is_wrong_with_a_reducer_only_those_that_fit_are_named(written: str, wrong: str) -> None:
    if is_taken(f"{written}reduce = {wrong}"):
        return
    found = metric_findings(f"{written}reduce = {wrong}")["reduce"]
    assert "did you mean" not in found.problem
    listed = found.problem.partition(" is not one of ")[2]
    for name in words(f"{listed} {found.fix}") & set(REDUCERS):
        assert is_taken(f'{written}reduce = "{name}"'), found


@pytest.mark.parametrize("wrong", WRONG_TYPES)
def test_whatever_is_wrong_with_a_type_only_those_there_are_are_named(wrong: str) -> None:
    found = metric_findings(f"type = {wrong}\nepsilon = 1")["type"]
    assert "did you mean" not in found.problem
    named = words(f"{found.problem.partition(' is not one of ')[2]} {found.fix}")
    assert not named & set(LATER)
    assert named & {"boolean", "category", "mean"}


@pytest.mark.parametrize("kind", ["counter", "Integer"])
def test_a_count_is_told_how_it_is_written(kind: str) -> None:
    found = metric_findings(f'type = "{kind}"\nepsilon = 1\nbounds = [0, 5]')["type"]
    assert not words(f"{found.problem} {found.fix}") & set(LATER)
    written = found.fix.removeprefix("write ").partition(":")[0].replace(" and ", ", ").replace("MOST", "20")
    made = metric(re.sub(r", (?=\w+ =)", "\n", written) + "\nepsilon = 1")
    assert (made.type, made.reduce, made.missing) == ("mean", "sum", 0), "what the fix says can be written"
