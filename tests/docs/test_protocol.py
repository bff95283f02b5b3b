"""The tables of the protocol's page are what the code says, in the page as it is committed."""

from __future__ import annotations

import re

import pytest

from hubbub.mechanisms import registered
from hubbub.refusals import REFUSALS, Action, Refusal
from scripts.reference.protocol import PAGE, ROOT, TABLES, as_it_should_be


def test_the_tables_in_the_page_are_what_the_code_says() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert text == as_it_should_be(text), "run: python -m scripts.make_protocol_tables"


def test_every_table_that_is_made_is_in_the_page_and_filled() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert set(re.findall(r"<!-- table: (\S+) -->", text)) == set(TABLES)
    for name in TABLES:
        filled = text.split(f"<!-- table: {name} -->")[1].split("<!-- end of table -->")[0]
        assert filled.strip().count("\n") >= 2, name


def test_every_mechanism_has_its_pseudo_code_in_the_page() -> None:
    headings = " ".join(re.findall(r"^### (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))

    assert set(registered()) - set(re.findall(r"[\w-]+", headings)) == set()


def test_every_label_under_which_something_is_hashed_or_signed_is_in_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    core = ROOT / "core" / "hubbub"
    sources = "".join(path.read_text(encoding="utf-8") for path in core.rglob("*.py"))

    labels = set(re.findall(r'"(hubbub-01 [a-z]+)', sources))
    assert len(labels) >= 4
    for label in labels:
        assert f'"{label}"' in text, label


# -- each of these would be noticed ---------------------------------------------------------------


def test_a_refusal_that_the_page_lacks_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = PAGE.read_text(encoding="utf-8")
    monkeypatch.setitem(REFUSALS, "planted", Refusal("planted", 400, "Planted.", Action.DROP))

    assert text != as_it_should_be(text)


def test_a_table_that_nothing_makes_is_noticed() -> None:
    with pytest.raises(KeyError):
        as_it_should_be("<!-- table: nothing -->\n<!-- end of table -->")
