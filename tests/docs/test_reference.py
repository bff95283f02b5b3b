"""The reference: everything that exists is documented, from the code where the code can say it."""

from __future__ import annotations

import re
from typing import Any

import click
import pytest
from pydantic import Field

from hubbub.mechanisms import registered
from hubbub.refusals import REFUSALS, Action, Refusal
from hubbub_aggregator.dashboard.pages.operations import INVALID
from hubbub_aggregator.operations import metrics as aggregator
from hubbub_cli.all_commands import hubbub as command
from hubbub_service_common.process.prometheus import Family
from hubbub_shuffler.settings import Settings as Shuffler
from scripts.reference import commands, mechanisms, metrics, python, routes, settings
from scripts.reference.markdown import slug
from scripts.reference.pages import DOCS, GENERATED, MARK, as_built
from tests.docs.html import Site

PROBLEMS = DOCS / "reference" / "problems.md"


@pytest.mark.parametrize(
    "kind", [settings, commands, routes, mechanisms, metrics, python], ids=lambda kind: kind.__name__
)
def test_nothing_is_without_a_word_about_itself(kind: Any) -> None:
    assert kind.undocumented() == []


def test_every_setting_has_its_anchor(reference: Site) -> None:
    ids = reference.page("reference/settings.html").ids
    wanted = {slug(service, name) for service, made in settings.CLASSES.items() for name in made.model_fields}
    assert len(wanted) > 50
    assert wanted - ids == set()


def test_every_command_and_option_has_its_anchor(reference: Site) -> None:
    ids = reference.page("reference/cli.html").ids
    wanted = {slug(name) for name, _ in commands.walk()}
    for name, found in commands.walk():
        wanted |= {slug(name, o.opts[-1]) for o in found.params if isinstance(o, click.Option)}
    assert {"hubbub-keys-revoke", "hubbub-query-compare"} <= wanted
    assert wanted - ids == set()


def test_every_route_has_its_anchor(reference: Site) -> None:
    wanted = {operation.anchor for operation in routes.operations()}
    assert {"shuffler-post-v1-reports", "aggregator-get-v1-privacy"} <= wanted
    assert wanted - reference.page("reference/http-api.html").ids == set()


def test_every_mechanism_and_metric_has_its_anchor(reference: Site) -> None:
    assert {slug("mechanism", name) for name in registered()} <= reference.page("reference/mechanisms.html").ids
    wanted = {slug("metric", service, name) for service, found in metrics.FAMILIES.items() for name in found}
    assert len(wanted) > 25
    assert wanted - reference.page("reference/prometheus.html").ids == set()


def test_every_problem_type_has_a_section_of_its_own_at_its_name(reference: Site) -> None:
    assert unexplained(PROBLEMS.read_text(encoding="utf-8")) == []
    assert set(REFUSALS) - reference.page("reference/problems.html").ids == set()


def unexplained(text: str) -> list[str]:
    """Problem types that lack their section, or when they come, or what to do then, or their facts."""
    found = []
    for name in REFUSALS:
        section = re.search(rf"^### {name}\n(.*?)(?=^##|\Z)", text, re.DOTALL | re.MULTILINE)
        parts = ("**When:** ", "**Do:** ", f"<!-- generated: problem {name} -->")
        if section is None or not all(part in section[1] for part in parts):
            found.append(name)
    return found


def test_every_reason_for_which_a_single_report_is_refused_is_explained() -> None:
    text = PROBLEMS.read_text(encoding="utf-8")
    for reason, meaning in INVALID.items():
        assert f"| `{reason}` | {meaning} |" in text, reason
    # what the shuffler may say of one report: read where it is said
    source = (DOCS.parent / "shuffler" / "hubbub_shuffler" / "ingest" / "admission.py").read_text(encoding="utf-8")
    said = set(re.findall(r'"([a-z]+(?:-[a-z]+)+)"', source))
    assert said <= set(REFUSALS)
    at = text.index("At the shuffler, in the list of failures")
    listed = set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", text[at : text.index("\n\n", at)]))
    assert listed == said


def test_every_maker_of_a_table_is_used_and_every_mark_has_its_maker() -> None:
    used = {found[1] for page in DOCS.rglob("*.md") for found in MARK.finditer(page.read_text(encoding="utf-8"))}
    assert used == set(GENERATED)
    with pytest.raises(KeyError):
        as_built("<!-- generated: nothing -->", DOCS / "x.md")


def test_links_that_leave_the_docs_lead_to_the_pages_that_stand_for_those_files() -> None:
    page = DOCS / "how-to" / "x.md"
    assert as_built("see [a](../../CONTRIBUTING.md#tests)", page) == "see [a](../project/contributing.md#tests)"
    assert as_built("see [`examples/`](../../examples/)", page) == "see `examples/`"
    assert as_built("see [d](../design/)", page) == "see [d](../design/index.md)"
    assert as_built("see [h](https://example.com/a.md)", page) == "see [h](https://example.com/a.md)"
    assert "](../design/index.md)" in as_built(
        "[x](../../README.md)\n", DOCS / "project" / "x.md"
    )  # that file, re-linked
    both = as_built("![a](../images/overview.webp)", page)
    assert both == "![a](../images/overview.webp){.only-light}\n![a](../images/overview-dark.webp){.only-dark}"
    assert as_built("```\n[a](../../CONTRIBUTING.md)\n```\n", page) == "```\n[a](../../CONTRIBUTING.md)\n```\n"


# -- each of these would be noticed ---------------------------------------------------------------


def test_a_setting_without_a_description_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Planted(Shuffler):
        planted: int = Field(1)

    monkeypatch.setitem(settings.CLASSES, "shuffler", Planted)
    assert settings.undocumented() == ["shuffler: planted"]


def test_a_command_and_an_option_without_help_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = click.Command("planted", params=[click.Option(["--planted"])])
    monkeypatch.setitem(command.commands, "planted", planted)
    assert commands.undocumented() == ["hubbub planted", "hubbub planted --planted"]


def test_a_metric_without_help_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(metrics.FAMILIES["aggregator"], "planted", Family("gauge", ""))
    assert metrics.undocumented() == ["aggregator: planted"]


def test_a_metric_that_is_exposed_must_be_in_the_table() -> None:
    with pytest.raises(KeyError):
        aggregator.FAMILIES.one("planted", 1)


def test_a_mechanism_without_a_purpose_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registered()["krr"], "regime", "")
    assert mechanisms.undocumented() == ["krr"]


def test_a_problem_type_without_a_section_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REFUSALS, "planted", Refusal("planted", 400, "Planted.", Action.DROP))
    assert unexplained(PROBLEMS.read_text(encoding="utf-8")) == ["planted"]


def test_a_parameter_without_a_description_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    parameter = next(p for o in routes.operations() for p in o.told.get("parameters", []))
    monkeypatch.delitem(parameter, "description")
    assert len(routes.undocumented()) == 1


def test_a_public_name_without_a_docstring_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from hubbub_client import Client

    monkeypatch.setattr(Client.record, "__doc__", None)
    assert python.undocumented() == ["hubbub_client.Client.record"]


def test_pages_of_the_reference_do_not_depend_on_where_they_are_built() -> None:
    """Nothing in them names a folder or an address in memory of this machine."""
    for page in sorted((DOCS / "reference").glob("*.md")):
        text = as_built(page.read_text(encoding="utf-8"), page)
        assert " at 0x" not in text, page
        assert str(DOCS.parent) not in text, page
