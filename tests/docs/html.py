"""A built site: its pages, what they point to, and what can be pointed to."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, cached_property
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["Page", "Site"]

_LOADING = {
    "img": ("src", "srcset"),
    "script": ("src",),
    "link": ("href",),
    "iframe": ("src",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
    "audio": ("src",),
    "object": ("data",),
    "embed": ("src",),
    "use": ("href", "xlink:href"),
    "form": ("action",),
}
_ONLY_SAID = {"canonical", "prev", "next", "author", "index", "search"}
"""Relations of a <link> that nobody loads."""


@dataclass
class Page(HTMLParser):
    """What one page has in it."""

    path: Path
    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if "style" in given:
            self.styles.append(given["style"])
        if tag == "link" and set(given.get("rel", "").split()) & _ONLY_SAID:
            self.links.append(given.get("href", ""))
            return
        self.loads += [given[name] for name in _LOADING.get(tag, ()) if name in given]


@dataclass(frozen=True)
class Site:
    root: Path
    said: str
    """What Sphinx complained about."""

    @cached_property
    def pages(self) -> list[Page]:
        return [_page(path) for path in sorted(self.root.rglob("*.html"))]

    def page(self, name: str) -> Page:
        return _page(self.root / name)

    def broken(self, page: Page) -> list[str]:
        """Links and loads of a page within the site that lead nowhere."""
        return [target for target in [*page.links, *page.loads] if not self._leads_somewhere(page, target)]

    def _leads_somewhere(self, page: Page, target: str) -> bool:
        parts = urlsplit(target)
        if parts.scheme or parts.netloc:
            return True
        path = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
        if not path.is_file():
            return False
        return path.suffix != ".html" or parts.fragment in ("", "top") or unquote(parts.fragment) in _page(path).ids


@cache
def _page(path: Path) -> Page:
    return Page(path)
