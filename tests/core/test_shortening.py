"""Shortened names: they fit, and no two of a list look the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.shortening import letters, shortened, shortened_all


def test_a_name_is_cut_in_the_middle() -> None:
    assert shortened("Department of things 12", 24) == "Department of things 12"
    assert shortened("Department of all things 12", 20) == "Department…things 12"
    assert shortened("Department of all things 12", 20, "~").count("~") == 1


@given(st.text(max_size=60), st.integers(3, 30))
def test_a_cut_name_fits(name: str, most: int) -> None:
    assert letters(shortened(name, most)) <= most


@given(st.lists(st.text("ab…2", max_size=12), unique=True, max_size=12), st.integers(3, 8))
def test_no_two_names_of_a_list_look_the_same(names: list[str], most: int) -> None:
    assert len(set(shortened_all(names, most))) == len(names)


def test_names_that_differ_only_in_the_middle_get_more_room_or_a_number() -> None:
    near = [f"a long beginning {place} a long end" for place in ("one", "two")]
    far = [f"{'x' * 40}{place}{'y' * 40}" for place in range(3)]
    assert [name[-15:] for name in shortened_all(near, 24)] == ["…one a long end", "…two a long end"]
    assert len(set(shortened_all(far, 20))) == 3


@pytest.mark.parametrize(("name", "room"), [("abc", 3), ("漢字", 4), ("é", 1)])
def test_wide_letters_take_twice_the_room(name: str, room: int) -> None:
    assert letters(name) == room
