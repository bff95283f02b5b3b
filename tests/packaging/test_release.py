"""Release checks: version, changelog and classifiers agree, and `make release-check` sees when they do not."""

from __future__ import annotations

import re
import tomllib
from datetime import date

from packaging.version import Version

import hubbub
from scripts.dist import ROOT, changelog_faults, version

CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
HEADINGS = re.findall(r"^## (.+)$", CHANGELOG, re.MULTILINE)
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def released() -> list[tuple[Version, date]]:
    """Versions under headings of their own, newest first."""
    found = []
    for heading in HEADINGS:
        if heading != "Unreleased":
            number, _, day = heading.partition(" - ")
            found.append((Version(number), date.fromisoformat(day)))
    return found


def test_the_changelog_has_the_shape_that_it_names() -> None:
    assert HEADINGS[0] == "Unreleased"
    assert len(set(HEADINGS)) == len(HEADINGS)
    assert released() == sorted(released(), reverse=True)
    assert set(re.findall(r"^### (.+)$", CHANGELOG, re.MULTILINE)) <= KINDS


def test_the_version_is_one_and_not_behind_the_changelog() -> None:
    assert version() == hubbub.__version__ == str(Version(version()))
    assert all(Version(version()) >= number for number, _ in released())


def test_the_classifiers_fit_the_version_and_the_pythons() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    status = next(line for line in project["classifiers"] if line.startswith("Development Status"))
    assert Version(version()).major >= 1 or status.split(" :: ")[1][0] in "123"
    assert project["requires-python"] == ">=3.11"
    assert "Programming Language :: Python :: 3.11" in project["classifiers"]


def test_a_release_needs_its_notes_under_a_dated_heading() -> None:
    ready = "# Changelog\n\n## Unreleased\n\n## 0.1.0 - 2026-12-01\n\n### Added\n\n- A thing.\n"
    assert changelog_faults(ready, "0.1.0") == []
    assert changelog_faults(ready, "0.2.0") == ["CHANGELOG.md has no heading '## 0.2.0 - YYYY-MM-DD'"]
    assert changelog_faults(ready.replace("2026-12-01", "soon"), "0.1.0") != []
    assert changelog_faults(ready.replace("## 0.1.0", "- Waits.\n\n## 0.1.0"), "0.1.0") == [
        "CHANGELOG.md still has notes under '## Unreleased'"
    ]
