"""HTML read with the standard library: what a browser would make of a page, without a browser."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

__all__ = ["Element", "Page"]

_VOID = {"meta", "link", "input", "br", "hr", "img", "source"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    inside: list[str]
    """The tags around it, outermost first."""
    text: str = ""


@dataclass
class Page(HTMLParser):
    """Every element of a document, in order, each with the text inside it."""

    source: str
    elements: list[Element] = field(default_factory=list)
    unclosed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._open: list[Element] = []
        self.feed(self.source)
        self.close()
        self.unclosed += [element.tag for element in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = Element(tag, {name: value or "" for name, value in attrs}, [one.tag for one in self._open])
        self.elements.append(found)
        if tag not in _VOID:
            self._open.append(found)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, {n: v or "" for n, v in attrs}, [one.tag for one in self._open]))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1].tag != tag:
            # `li` and `option` may be left open; everything else that does not match is a fault
            while self._open and self._open[-1].tag in {"option", "li", "p"} and self._open[-1].tag != tag:
                self._open.pop()
        if self._open and self._open[-1].tag == tag:
            self._open.pop()
        else:
            self.unclosed.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        for one in self._open:
            one.text += data

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """Elements of a tag; `class_` matches one of several classes."""

        def fits(element: Element, name: str, value: str) -> bool:
            if name == "class_":
                return value in element.attributes.get("class", "").split()
            return element.attributes.get(name.replace("_", "-")) == value

        return [one for one in self.elements if one.tag == tag and all(fits(one, *pair) for pair in attributes.items())]

    @property
    def text(self) -> str:
        return self.all("main")[0].text
