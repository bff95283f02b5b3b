"""Hostile names, descriptions and values: they are shown as they are, and do nothing."""

from __future__ import annotations

import pytest

from tests.browser.browser_contexts import DESKTOP, PHONE, Visitor
from tests.browser.page_content import overflow
from tests.browser.pages import HOSTILE, View, each
from tests.browser.sites import EMOJI, HTML, LONG, NAME, RTL, UNBROKEN, hostile_values


def _squeezed(text: str | None) -> str:
    return " ".join((text or "").split())


@pytest.mark.parametrize("words", [HTML, RTL, EMOJI, LONG, UNBROKEN, NAME], ids=lambda words: words[:12])
@pytest.mark.parametrize("path", ["/", "/what-is-collected"])
def test_words_of_the_codebook_are_shown_as_they_are(kept: Visitor, path: str, words: str) -> None:
    page = kept.keep("hostile", path)
    assert _squeezed(words) in _squeezed(page.locator("main").text_content())


def test_values_are_shown_as_they_are(kept: Visitor) -> None:
    table = kept.keep("hostile", "/metric/values").get_by_role("region", name="Estimates", exact=True)
    text = _squeezed(table.text_content())
    assert [value for value in hostile_values() if _squeezed(value) not in text] == []


@each(HOSTILE)
def test_nothing_that_was_written_becomes_part_of_the_page(kept: Visitor, view: View) -> None:
    page = kept.keep(view.site, view.path)
    planted = "img[src=x], [onerror], [onfocus], [onmouseover], main script, main b, svg script, [autofocus]"
    assert page.locator(planted).count() == 0
    assert page.evaluate("() => [...document.links].filter((one) => one.protocol === 'javascript:').length") == 0
    assert kept.faults(page) == []


@each(HOSTILE)
def test_long_words_break_no_layout(kept: Visitor, view: View) -> None:
    for width in (DESKTOP, PHONE):
        assert overflow(kept.keep(view.site, view.path, width=width)) == []


def test_right_to_left_text_does_not_turn_its_neighbours(kept: Visitor) -> None:
    """What the codebook's people wrote stands apart (`bdi` or `dir=auto`), so that it can't reorder what follows."""
    page = kept.keep("hostile", "/")
    inside = page.locator("article.card[data-metric=right_to_left]").get_by_text("שלום").first
    isolated = "(each) => { for (let up = each; up; up = up.parentElement) { if (up.tagName === 'BDI' ||"
    isolated += " up.dir === 'auto' || getComputedStyle(up).unicodeBidi.includes('isolate')) return up.tagName; } }"
    assert inside.evaluate(isolated) not in (None, "HTML", "BODY", "MAIN")
