"""The bill of materials: the packages of the lock that run, and no others."""

from __future__ import annotations

import copy
import json
import re
import tomllib
from typing import Any

import pytest
from packaging.utils import canonicalize_name

from scripts import sbom
from scripts.dist import ROOT, version
from scripts.lock_subset import entries, main

WRITTEN = sbom.FILE.read_text()
BILL: dict[str, Any] = json.loads(WRITTEN)
LOCK = sbom.read_lock(sbom.LOCK.read_text())


def without_licences(bill: dict[str, Any]) -> dict[str, Any]:
    """A package that is not installed on this platform cannot be asked for its licence."""
    stripped = copy.deepcopy(bill)
    for one in stripped["components"]:
        one.pop("licenses", None)
    return stripped


def test_it_is_renewed_with_the_lock() -> None:
    now = sbom.current()
    assert without_licences(now) == without_licences(BILL), "make sbom"
    named = {one["purl"]: one["licenses"] for one in BILL["components"] if "licenses" in one}
    for one in now["components"]:
        if "licenses" in one and one["purl"] in named:
            assert one["licenses"] == named[one["purl"]], "make sbom"
    assert len(named) > 0.9 * len(BILL["components"])


@pytest.mark.full  # `make sbom` asks the same before it writes
def test_it_is_cyclonedx_by_the_strict_schema() -> None:
    assert sbom.faults(WRITTEN) is None
    small = {**BILL, "components": [], "dependencies": []}
    for fault in ({"bomFormat": "SPDX"}, {"colour": "green"}, {"components": [{"name": "x"}]}):
        assert sbom.faults(json.dumps({**small, **fault})) is not None


def test_every_package_stands_in_the_lock_with_its_hashes() -> None:
    locked = {one.purl: one for one in LOCK}
    for one in BILL["components"]:
        known = locked[one["purl"]]
        assert one["version"] == known.version
        assert [entry["content"] for entry in one["externalReferences"][0]["hashes"]] == list(known.hashes)
        assert known.hashes
        assert [entry["value"] for entry in one.get("properties", [])] == ([known.marker] if known.marker else [])


def test_the_lock_is_read_whole() -> None:
    heads = re.findall(r"^(\S+?)==(\S+)", sbom.LOCK.read_text(), re.MULTILINE)
    assert [(one.name, one.version) for one in LOCK] == heads
    assert sum(len(one.hashes) for one in LOCK) == sbom.LOCK.read_text().count("--hash=")


def test_the_sdk_needs_cryptography_and_what_that_needs_and_developers_tools_are_left_out() -> None:
    scopes = {one["name"]: one["scope"] for one in BILL["components"]}
    assert {name for name, scope in scopes.items() if scope == "required"} == {"cryptography", "cffi", "pycparser"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    server = {canonicalize_name(re.split(r"[\[>;]", text)[0]) for text in project["optional-dependencies"]["server"]}
    assert {name for name in server if scopes.get(name) == "optional"} == server
    assert "hiredis" in scopes, "redis[hiredis] asks for it"
    assert not {"pytest", "ruff", "mypy", "locust", "sphinx", "cyclonedx-bom"} & scopes.keys()


def test_it_lists_all_that_the_image_gets_and_nothing_else() -> None:
    """Also what the lock has for an extra that only a developer's tool asks for: it is installed all the same."""
    assert {one["name"] for one in BILL["components"]} == set(entries(main(["--extra", "server"])))


def test_every_package_is_reached_from_the_root_and_none_is_named_that_is_not_listed() -> None:
    edges = {one["ref"]: set(one["dependsOn"]) for one in BILL["dependencies"]}
    root = BILL["metadata"]["component"]["bom-ref"]
    seen, waiting = set(), [root]
    while waiting:
        if (step := waiting.pop()) not in seen:
            seen.add(step)
            waiting += edges[step]
    assert seen == {root, *(one["bom-ref"] for one in BILL["components"])} == set(edges)


def test_it_names_no_host_no_time_and_no_machine() -> None:
    assert BILL["metadata"]["component"]["version"] == version()
    assert "timestamp" not in WRITTEN
    assert "serialNumber" not in WRITTEN
    assert re.findall(r"https?://[^\"]*", WRITTEN) == ["http://cyclonedx.org/schema/bom-1.6.schema.json"]
