"""Alerts and Grafana dashboard: they use what the services expose, all of it, and each alert says what to do."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.core import Metric

from hubbub_aggregator.intake.open_reports import Pool
from hubbub_aggregator.operations import metrics as of_the_aggregator
from hubbub_service_common.http.certificate import Certificate
from hubbub_service_common.http.connection_limits import ConnectionLimits
from hubbub_shuffler.forwarding.lag import Lag
from hubbub_shuffler.operations import metrics as of_the_shuffler
from scripts import make_grafana_dashboard
from tests.aggregator.world import Site
from tests.client.http.bad_servers import Authority
from tests.deploy.network_namespaces import ROOT
from tests.shuffler.world import World

PROMETHEUS = ROOT / "deploy" / "prometheus"
DASHBOARD = json.loads(make_grafana_dashboard.PATH.read_text())
RULES = [rule for group in yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())["groups"] for rule in group["rules"]]
PAGE = ROOT / "docs" / "how-to" / "monitor.md"
FROM_PROMETHEUS = {"instance", "job"}
"""Labels that a scrape adds."""
OF_OTHERS = ("up", "node_", "probe_", "process_")
"""Prometheus' own, those of exporters that monitor.md names, and those of every Python process."""


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> list[Metric]:
    """All metrics of both services, as they are built, before anything happens."""

    async def shuffler() -> list[Metric]:
        async with World(tmp_path_factory.mktemp("shuffler")) as world:
            lag = Lag(world.clock)
            sources = of_the_shuffler.Sources(world.ingest, world.bundles, lag, connections, world.trusted, certificate)
            await world.ingest.high_water.look()
            return list(of_the_shuffler.snapshot(sources, await world.storage.overview(), world.storage, writable=True))

    files = Authority(tmp_path_factory.mktemp("tls")).write(["localhost"])
    certificate = Certificate(*files, logging.getLogger("hubbub.test"))
    connections = ConnectionLimits(
        head_timeout=1,
        body_timeout=1,
        body_rate=1,
        max_body=1,
        max_connections=1,
        max_per_address=1,
        clock=time.monotonic,
        log=logging.getLogger("hubbub.test"),
    )
    pool = Pool(1)
    site = Site.open(tmp_path_factory.mktemp("aggregator"), pool)
    site.service.certificate, site.service.connections = certificate, connections
    try:
        site.service.accumulator.progress.last = site.service.clock.now()  # as after the first batch
        stored = of_the_aggregator.stored_now(site.service)
        aggregator = list(of_the_aggregator.snapshot(site.service, stored))
    finally:
        site.close()
        pool.close()
    return [*asyncio.run(shuffler()), *aggregator]


def name_of(family: Metric) -> str:
    return family.name + ("_total" if family.type == "counter" else "")


@pytest.fixture(scope="module")
def exposed(fresh: list[Metric]) -> dict[str, set[str]]:
    """Each metric that a service can show and its labels, whether or not there is a number for it now."""
    return {name_of(family): set(getattr(family, "_labelnames", ())) for family in fresh}


def asked(expression: str) -> dict[str, set[str]]:
    """Each metric of an expression, and the labels by which it is chosen, grouped or joined there."""
    bare = re.sub(r'"[^"]*"', '""', expression)
    groups = {word for found in re.findall(r"\b(?:by|on) \(([^)]*)\)", bare) for word in re.findall(r"\w+", found)}
    rest = re.sub(r"\b(?:by|on) \([^)]*\)", "", bare)
    names = re.findall(r"\b(hubbub_\w+|up|node_\w+|probe_\w+|process_\w+)\b(?:\{([^}]*)\})?", rest)
    found: dict[str, set[str]] = {}
    for name, matchers in names:
        found.setdefault(name, set()).update(re.findall(r"(\w+) *[=!]", matchers), groups)
    return found


def expressions() -> list[tuple[str, str, str]]:
    """Where, what is asked, and what is shown of the answer."""
    alerts = [(rule["alert"], rule["expr"], str(rule["annotations"])) for rule in RULES]
    targets = [(panel["title"], target) for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    return alerts + [(title, target["expr"], target["legendFormat"]) for title, target in targets]


def test_what_is_asked_for_is_exposed_with_the_labels_by_which_it_is_asked(exposed: dict[str, set[str]]) -> None:
    for place, expression, _ in expressions():
        found = asked(expression)
        assert found, place
        for name, labels in found.items():
            if not name.startswith(OF_OTHERS):
                assert name in exposed, (place, name)
                assert labels <= exposed[name] | FROM_PROMETHEUS, (place, name)


def test_every_counter_is_there_at_zero_before_its_first_event(fresh: list[Metric]) -> None:
    """One that begins to exist with its first event has not risen then, as Prometheus sees it."""
    counters = [family for family in fresh if family.type == "counter"]
    assert {sample.value for family in counters for sample in family.samples} == {0}
    assert not [family.name for family in counters if not family.samples]
    there = {(name_of(family), *sample.labels.values()) for family in counters for sample in family.samples}
    for _, expression, _ in expressions():
        for name, value in re.findall(r'(hubbub_\w+_total)\{\w+="([\w-]+)"\}', expression):
            assert (name, value) in there


def test_every_metric_is_on_the_dashboard(exposed: dict[str, set[str]]) -> None:
    shown = {
        name for panel in DASHBOARD["panels"] for target in panel.get("targets", ()) for name in asked(target["expr"])
    }
    assert set(exposed) <= shown


def test_what_is_shown_of_an_answer_is_in_it(exposed: dict[str, set[str]]) -> None:
    for place, expression, text in expressions():
        wanted = set(re.findall(r"\$labels\.(\w+)|\{\{(\w+)\}\}", text))
        names = {name for pair in wanted for name in pair if name}
        grouped = re.findall(r"\bby \(([^)]*)\)", expression)
        there = set(FROM_PROMETHEUS)
        for name in asked(expression):
            there |= exposed.get(name, {"mountpoint"})
        if grouped:
            there = {word for group in grouped for word in re.findall(r"\w+", group)}
        assert names <= there, place


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_alert_says_what_it_means_and_leads_to_a_section(rule: dict[str, Any]) -> None:
    notes = rule["annotations"]
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert len(notes["summary"]) > 20
    assert len(notes["description"]) > 60
    page, _, anchor = notes["runbook_url"].partition("#")
    assert ROOT / page == PAGE
    assert anchor in {heading.lower() for heading in re.findall(r"^#+ (\w+)$", PAGE.read_text(), re.MULTILINE)}


def test_nothing_fires_for_a_service_that_another_party_runs_and_scrapes() -> None:
    assert not [rule["alert"] for rule in RULES if "absent" in rule["expr"]]


def test_the_page_has_no_alert_that_there_is_not() -> None:
    headings = set(re.findall(r"^#+ (Hubbub\w+)$", PAGE.read_text(), re.MULTILINE))
    assert headings == {rule["alert"] for rule in RULES}


def test_every_alert_is_seen_to_fire_and_not_to_fire() -> None:
    cases = yaml.safe_load((PROMETHEUS / "alerts.test.yml").read_text())["tests"]
    checks = [(check["expr"], bool(check["exp_samples"])) for case in cases for check in case["promql_expr_test"]]
    for rule in RULES:
        for fires in (True, False):
            assert any(f'"{rule["alert"]}"' in expression and fires == fired for expression, fired in checks), rule[
                "alert"
            ]


def test_the_jobs_are_those_of_the_example() -> None:
    jobs = {job["job_name"] for job in yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())["scrape_configs"]}
    named = {name for _, expression, _ in expressions() for name in re.findall(r'job="([^"]+)"', expression)}
    assert jobs == {"hubbub-shuffler", "hubbub-aggregator"}
    assert named <= jobs | {"hubbub-tls"}


def test_the_dashboard_is_what_its_script_makes_and_no_panel_hides_another() -> None:
    assert make_grafana_dashboard.PATH.read_text() == make_grafana_dashboard.main()
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    for a, b in itertools.combinations(places, 2):
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        assert beside or a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert a["x"] + a["w"] <= 24
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(places)


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    if shutil.which("promtool") is None:
        pytest.skip(
            "no promtool here: apt-get install prometheus; names and texts of the rules are looked at without it"
        )
    return subprocess.run(["promtool", *arguments], capture_output=True, text=True, cwd=PROMETHEUS, check=False)


def test_prometheus_takes_rules_and_configuration() -> None:
    done = promtool("check", "config", "prometheus.yml")
    assert done.returncode == 0, done.stderr
    assert f"SUCCESS: {len(RULES)} rules found" in done.stdout


@pytest.mark.full
def test_alerts_fire_when_they_should() -> None:
    done = promtool("test", "rules", "alerts.test.yml")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.full
def test_a_rule_that_is_wrong_is_noticed(tmp_path: Path) -> None:
    shutil.copy(PROMETHEUS / "alerts.test.yml", tmp_path)
    text = (PROMETHEUS / "alerts.yml").read_text()
    (tmp_path / "alerts.yml").write_text(
        text.replace("hubbub_shuffler_bundle_valid == 0", "hubbub_shuffler_bundle_valid == 1")
    )
    done = promtool("test", "rules", tmp_path / "alerts.test.yml")
    assert done.returncode != 0
    assert "HubbubNoBundle" in done.stdout + done.stderr
