"""The distribution's name: pyproject.toml says it once, and everything that names it agrees."""

from __future__ import annotations

import re
from importlib.metadata import entry_points

from hubbub_cli.main import distribution
from scripts.dist import FILE_NAME, NAME, ROOT, version
from scripts.sbom import current
from tests.docs.blocks import PAGES, name_of

INSTALLS = re.compile(r"""pip install (?:--?[\w-]+ )*["']?([^\s"'`\[]+)""")


def test_the_installed_command_says_under_which_name_it_was_installed() -> None:
    assert distribution() == NAME
    assert [entry.value for entry in entry_points(group="console_scripts", name="hubbub")] == ["hubbub_cli.main:main"]


def test_the_bill_of_materials_and_the_files_have_it() -> None:
    assert current()["metadata"]["component"]["purl"] == f"pkg:pypi/{NAME}@{version()}"
    release = (ROOT / "docs" / "how-to" / "release.md").read_text()
    assert set(re.findall(r"`([\w.-]+)-VERSION", release)) == {FILE_NAME}


def test_every_page_that_installs_hubbub_installs_it_from_here_or_under_this_name() -> None:
    """The plain name belongs to another project, or may do so one day: a page that names it would install that."""
    named = {(name_of(page), what) for page in PAGES for what in INSTALLS.findall(page.read_text())}
    assert named
    ours = re.compile(rf"\.|{NAME}|(?:.*/)?{FILE_NAME}-.*\.whl")
    assert {(page, what) for page, what in named if "hubbub" in what and not ours.fullmatch(what)} == set()
    assert ("README.md", ".") in named, "the README says how to install it"


def test_a_page_with_the_plain_name_is_noticed() -> None:
    assert INSTALLS.findall("`pip install hubbub` pip install 'hubbub[server]' pip install --no-deps .") == [
        "hubbub",
        "hubbub",
        ".",
    ]


def test_no_text_names_an_extra_of_the_plain_name() -> None:
    """As an error message or a docstring might."""
    for folder in (
        "core",
        "client_sdk",
        "query_sdk",
        "service_common",
        "shuffler",
        "aggregator",
        "audit",
        "cli",
        "scripts",
        "docs",
    ):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".md", ".html", ".toml"}:
                assert not re.search(r"(?<![\w-])hubbub\[", path.read_text(encoding="utf-8")), path
