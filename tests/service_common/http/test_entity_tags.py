"""Entity tags in a request: the tag of the answer counts, and nothing else in the header."""

from __future__ import annotations

import pytest

from hubbub_service_common.http.entity_tags import is_known, tag_of_basis, tag_of_bytes

TAG = tag_of_bytes(b"answer")


@pytest.mark.parametrize("header", [TAG, f"W/{TAG}", f'"other", {TAG}', f'"other",W/{TAG} ', "*", " * "])
def test_whoever_names_the_tag_has_the_answer(header: str) -> None:
    assert is_known(TAG, header)


@pytest.mark.parametrize("header", [None, "", '"other"', TAG.strip('"'), f'"{TAG[1:-2]}"', f'"x{TAG[1:]}', "**"])
def test_whoever_does_not_name_it_does_not(header: str | None) -> None:
    assert not is_known(TAG, header)


def test_tags_tell_apart_what_runs_together() -> None:
    assert tag_of_basis("ab", "c") != tag_of_basis("a", "bc") != tag_of_basis(["a", "bc"])
    assert tag_of_basis(1, None, True) == tag_of_basis(1, None, True)
    assert tag_of_bytes(b"a") != tag_of_bytes(b"b")
    assert not is_known(tag_of_basis("a"), tag_of_basis("b") + " " + tag_of_basis("c"))
