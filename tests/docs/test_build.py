"""The documentation's build: no warning, no dead link, and nothing loaded from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.docs.blocks import ROOT
from tests.docs.html import Page, Site

_ELSEWHERE = re.compile(r"(?:https?:)?//", re.IGNORECASE)
_STYLE_LOADS = re.compile(r"url\(\s*['\"]?((?:https?:)?//[^)]*)|@import\s+['\"]?((?:https?:)?//\S+)", re.IGNORECASE)
_SCRIPT_LOADS = re.compile(
    r"""(?:fetch|importScripts|import|XMLHttpRequest|\.open|\.src\s*=|\.href\s*=)\s*\(?\s*["'`](?:https?:)?//""",
    re.IGNORECASE,
)


@pytest.mark.full  # `make docs` fails on a warning too; the build takes twenty seconds
def test_it_builds_without_a_warning(site: Site) -> None:
    assert site.said == ""
    assert len(site.pages) > 30


@pytest.mark.full  # `make docs` fails on a warning too; the build takes twenty seconds
def test_every_link_and_anchor_within_the_site_leads_somewhere(site: Site) -> None:
    broken = [f"{page.path.relative_to(site.root)}: {target}" for page in site.pages for target in site.broken(page)]
    assert broken == []


@pytest.mark.full  # `make docs` fails on a warning too; the build takes twenty seconds
def test_links_to_other_hosts_are_well_formed(site: Site) -> None:
    """Whether they still lead somewhere is not tested: tests have no network."""
    for page in site.pages:
        for target in page.links:
            parts = urlsplit(target)
            if parts.scheme in ("", "mailto"):
                assert not parts.netloc, f"{page.path}: {target} has no scheme"
                continue
            assert parts.scheme in ("http", "https"), f"{page.path}: {target}"
            assert re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+(:\d+)?", parts.netloc), f"{page.path}: {target}"
            assert " " not in target, f"{page.path}: {target}"
            if parts.scheme == "http":
                assert parts.hostname == "127.0.0.1", f"{page.path}: {target} is not encrypted"


@pytest.mark.full  # `make docs` fails on a warning too; the build takes twenty seconds
def test_nothing_is_loaded_from_elsewhere(site: Site) -> None:
    assert [load for page in site.pages for load in foreign(page)] == []
    for path in site.root.rglob("*"):
        if path.suffix == ".css":
            assert not _STYLE_LOADS.search(path.read_text(encoding="utf-8")), path
        elif path.suffix in (".js", ".mjs"):
            assert not _SCRIPT_LOADS.search(path.read_text(encoding="utf-8")), path
        elif path.suffix == ".svg":
            assert not re.search(r"(?:href|src)=[\"'](?:https?:)?//", path.read_text(encoding="utf-8")), path


def foreign(page: Page) -> list[str]:
    """What a page would load from another host."""
    found = [load for load in page.loads if _ELSEWHERE.match(load)]
    return found + [style for style in page.styles if _STYLE_LOADS.search(style)]


def test_a_load_from_elsewhere_would_be_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    for planted in (
        '<script src="https://cdn.example.com/x.js"></script>',
        '<link rel="stylesheet" href="//fonts.example.com/x.css">',
        '<img src="http://example.com/x.png">',
        '<p style="background: url(https://example.com/x.png)">',
    ):
        page.write_text(planted)
        assert foreign(Page(page)), planted
    assert _STYLE_LOADS.search("@import 'https://fonts.example.com/x.css'")
    assert _STYLE_LOADS.search("src: url(//fonts.example.com/x.woff2)")
    assert _SCRIPT_LOADS.search('fetch("https://example.com")')
    page.write_text('<a href="https://example.com">a link</a>')
    assert not foreign(Page(page))


def test_a_link_or_an_anchor_that_leads_nowhere_would_be_seen(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<p id="here"><a href="b.html#there">x</a><a href="#here">y</a>')
    (tmp_path / "b.html").write_text('<p id="elsewhere"><a href="c.html">z</a><img src="gone.png">')
    site = Site(tmp_path, "")
    assert [site.broken(page) for page in site.pages] == [["b.html#there"], ["c.html", "gone.png"]]


@pytest.mark.full  # `make docs` fails on a warning too; the build takes twenty seconds
def test_every_file_at_the_root_has_a_page_in_the_site(site: Site) -> None:
    for path in ROOT.glob("*.md"):
        if path.name != "README.md":  # the landing page says the same
            page = site.root / "project" / f"{path.stem.lower()}.html"
            assert page.exists(), f"docs/project/{path.stem.lower()}.md must be a link to {path.name}"
            title = re.search("^# (.*)", path.read_text(encoding="utf-8"), re.MULTILINE)
            assert title is not None
            assert title[1] in page.read_text(encoding="utf-8")
