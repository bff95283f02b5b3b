"""Recipes: each block compiles and is planned as the page says, its lines record, and its questions get answers."""

from __future__ import annotations

import csv
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from hubbub.codebook import Codebook, lint
from hubbub_cli.all_commands import hubbub
from hubbub_client.testing import Device
from scripts import make_recipe_plans
from scripts.make_recipe_plans import COLLECTION, PAGE
from tests.aggregator.served import served_by_http
from tests.browser.crowd import Crowd
from tests.browser.sites import TODAY, start
from tests.docs.blocks import Block, blocks, commands

BLOCKS = blocks(PAGE)
TOML = "\n".join(block.text for block in BLOCKS if block.language == "toml")
TOGETHER = COLLECTION.replace("device_epsilon = 4.0", "device_epsilon = 40.0") + TOML
BOOK = Codebook.from_toml(TOGETHER)
NAMES = {metric.name for metric in BOOK.metrics}
VALUES: dict[str, list[str]] = {name: keys.get("values", []) for name, keys in tomllib.loads(TOML)["metrics"].items()}
DAYS = 15
DEVICES = 20_000


def of(*languages: str) -> list[Block]:
    return [block for block in BLOCKS if block.language in languages]


# -- the codebook blocks


@pytest.mark.parametrize("block", of("toml"), ids=lambda block: block.place)
def test_a_block_fits_the_example_and_the_linter_says_only_what_the_page_says(block: Block) -> None:
    book = Codebook.from_toml(COLLECTION + block.text)
    found = {(one.key.rpartition(".")[2], one.key.split(".")[1]) for one in lint(book, today=date(2026, 12, 1))}
    silent = {name for key, name in found if key == "missing"}
    assert {key for key, _ in found} <= {"owner", "expires", "missing"}
    assert silent <= {"saved_old_editor", "saved_new_editor", "filters_by_os"}, "the page says that `check` warns"


# -- the plans


@pytest.mark.full  # ten seconds of searches; every day the screens of the commands have a plan
def test_the_plans_on_the_page_are_what_plan_prints() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert make_recipe_plans.main() == written, "python -m scripts.make_recipe_plans"
    planned = {name for block in of("text") for name in re.findall(r"^[a-z]\w+", block.text, re.MULTILINE)} - {"metric"}
    assert planned == NAMES, "each has a row"
    stale = re.sub(r"^(survey_2027_01 +)\S+", r"\g<1>9", written, flags=re.MULTILINE)
    assert make_recipe_plans.renewed(stale) == written != stale


def test_each_plan_is_asked_for_as_many_devices_as_it_shows() -> None:
    asked = [line for block in of("sh") for line in commands(block.text) if line.startswith("hubbub plan")]
    assert set(asked) == {"hubbub plan metrics.toml --devices 10000", "hubbub plan metrics.toml --devices 20000"}
    assert len(asked) == len(of("text"))


# -- the lines of the app


class Recipes(SimpleNamespace):
    """All functions of the page's Python blocks."""


@pytest.fixture(scope="module")
def recipes() -> Recipes:
    names: dict[str, Any] = {}
    for block in of("python"):
        exec(compile(block.text, str(PAGE), "exec"), names)  # noqa: S102  our own documentation
    return Recipes(**names)


TODAY_THERE = datetime(2027, 1, 8, tzinfo=UTC).date()
USED = {TODAY_THERE - timedelta(days=7)}
TRIED: list[tuple[str, Callable[[Recipes, Any, Path], object], dict[str, list[object]]]] = [
    ("feature", lambda r, c, _: r.on_filter(c), {"used_filters": [True]}),
    ("count", lambda r, c, _: [r.on_export(c, 3), r.on_export(c, 4)], {"photos_exported": [3, 4]}),
    (
        "crash",
        lambda r, c, mark: [r.on_start(c, mark), r.on_start(c, mark), r.on_end(mark), r.on_start(c, mark)],
        {"crashed": [True], "crashes": [1]},
    ),
    ("latency", lambda r, c, _: [r.on_open(c, 0.07), r.on_open(c, 9)], {"open_time": ["50 to 100 ms", "over 1 s"]}),
    ("survey", lambda r, c, _: r.on_answer(c, "happy"), {"survey_2027_01": ["happy"]}),
    (
        "a/b",
        lambda r, c, _: [r.on_editor_opened(c, "new"), r.on_saved(c, "new")],
        {"saved_new_editor": [False, True]},
    ),
    (
        "retention",
        lambda r, c, _: r.on_first_start_of_a_day(c, TODAY_THERE, USED),
        {"active_a_week_ago": [True]},
    ),
    (
        "funnel",
        lambda r, c, _: [r.on_step(c, "opened"), r.on_step(c, "paid")],
        {"checkout_opened": [True], "checkout_paid": [True]},
    ),
    ("pair", lambda r, c, _: r.on_end_of_session(c, True), {"filters_by_os": ["linux: yes"]}),
]


def test_every_recipe_is_tried() -> None:
    assert {name for _, _, recorded in TRIED for name in recorded} | {"saved_old_editor"} == NAMES


@pytest.mark.parametrize(("act", "recorded"), [(act, said) for _, act, said in TRIED], ids=[name for name, *_ in TRIED])
def test_the_lines_record_and_become_one_report(
    act: Callable[[Recipes, Any, Path], object],
    recorded: dict[str, list[object]],
    recipes: Recipes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    block = next(block for block in of("toml") if f"[metrics.{next(iter(recorded))}]" in block.text)
    with Device(COLLECTION + block.text, tmp_path / "state") as device:
        act(recipes, device.client, tmp_path / "running")
        assert {one.metric for one in device.recorded} == recorded.keys()
        for metric, values in recorded.items():
            assert [one.value for one in device.recorded if one.metric == metric] == values
        day = datetime.fromtimestamp(device.clock(), UTC).date().isoformat()
        device.next_period()
        sent = [report.metric for report in device.reports_sent() if report.period == day]
        silent = {"saved_old_editor"} & {metric.name for metric in Codebook.from_toml(COLLECTION + block.text).metrics}
        assert sorted(sent) == sorted(set(re.findall(r"\[metrics\.(\w+)\]", block.text)) - silent)


def test_every_value_that_the_lines_can_record_is_in_the_list(recipes: Recipes) -> None:
    times = {name for _, name in recipes.LIMITS} | {"over 1 s"}
    assert times | {"none"} == set(VALUES["open_time"])
    pairs = {f"{system}: {yes}" for system in recipes.SYSTEMS.values() for yes in ("yes", "no")}
    assert pairs | {"other"} == set(VALUES["filters_by_os"])


# -- what to expect


def played(rng: np.random.Generator) -> dict[str, list[Any]]:
    """A crowd's day: what each device would report without noise."""
    return {
        name: [str(value).lower() if isinstance(value, bool) else value for value in _drawn(name, rng)]
        for name in sorted(NAMES)
    }


def _drawn(name: str, rng: np.random.Generator) -> list[Any]:
    metric = BOOK.metric(name)
    if metric.type == "boolean":
        return [bool(one) for one in rng.random(DEVICES) < 0.2]
    if metric.type == "mean":
        return [int(one) for one in rng.poisson(1.5, DEVICES)]
    return [str(one) for one in rng.choice(VALUES[name], DEVICES)]


def test_simulated_crowds_come_out_as_planned(tmp_path: Path) -> None:
    """Within six standard errors: for all values here together, a false alarm in 1e-7 of runs; the seeds are fixed."""
    (tmp_path / "metrics.toml").write_text(TOGETHER)
    crowd = played(np.random.default_rng(23))
    with (tmp_path / "devices.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(crowd)
        writer.writerows(zip(*crowd.values(), strict=True))
    ran = CliRunner().invoke(
        hubbub,
        [
            "simulate",
            "--codebook",
            str(tmp_path / "metrics.toml"),
            "--data",
            str(tmp_path / "devices.csv"),
            "--seed",
            "23",
            "--json",
        ],
    )
    assert ran.exit_code == 0, ran.output
    simulated = json.loads(ran.stdout)["metrics"]
    assert simulated.keys() == NAMES
    values = [value for metric in simulated.values() for value in metric["values"]]
    assert len(values) == 7 * 2 + 2 + 7 + 5 + 7
    assert all(abs(value["estimate"] - value["truth"]) < 6 * value["stderr"] for value in values)
    assert {name: metric["reports"] for name, metric in simulated.items()} == dict.fromkeys(NAMES, DEVICES)


# -- how to ask


@pytest.fixture(scope="module")
def aggregator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One with two weeks of all recipes."""
    root = tmp_path_factory.mktemp("recipes")
    start(root, TOGETHER, (TODAY - DAYS) * 86_400 + 60.0).storage.close()
    service = start(root, TOGETHER)
    crowd = Crowd(service.storage, service.codebooks)
    for period in range(TODAY - DAYS, TODAY):
        for metric in BOOK.metrics:
            if metric.type == "mean":
                crowd.numbers(metric.name, period, 1.5, 1.0, 2000)
            else:
                values = 2 if metric.type == "boolean" else len(VALUES[metric.name])
                crowd.shares(metric.name, period, np.ones(values), 2000)
    with served_by_http(service) as address:
        yield address
    service.storage.close()


ASKED = [line for block in of("sh") for line in commands(block.text) if line.startswith("hubbub query")]


def test_every_recipe_says_how_to_ask() -> None:
    assert {line.split()[2] for line in ASKED} == NAMES


@pytest.mark.parametrize("line", ASKED)
def test_the_questions_of_the_page_get_answers(line: str, aggregator: str) -> None:
    _, *words = line.split()
    ran = CliRunner().invoke(hubbub, words, env={"HUBBUB_ADDRESS": aggregator})
    assert ran.exit_code == 0, ran.output
    assert words[1] in ran.stdout
