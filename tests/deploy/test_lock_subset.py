"""Packages of the image: what the services need, with versions and hashes of requirements.lock, and nothing else."""

from __future__ import annotations

from importlib import metadata

import pytest
from packaging.requirements import Requirement

from scripts.dist import NAME
from scripts.lock_subset import ROOT, entries, main, needed, normal

LOCK = entries((ROOT / "requirements.lock").read_text())
SERVER = entries(main(["--extra", "server"]))


def closure(name: str, extras: set[str], seen: set[str]) -> set[str]:
    """What the installed packages say that they need on this machine."""
    for line in metadata.requires(name) or ():
        requirement = Requirement(line)
        wanted = requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras)
        if wanted and normal(requirement.name) not in seen:
            seen.add(normal(requirement.name))
            closure(requirement.name, {"", *requirement.extras}, seen)
    return seen


def test_all_that_the_services_need_is_in_it() -> None:
    assert closure(NAME, {"", "server"}, set()) <= set(SERVER)


def test_it_is_word_for_word_a_part_of_the_lock() -> None:
    assert all(LOCK[name] == entry for name, entry in SERVER.items())
    assert all("--hash=sha256:" in entry for entry in SERVER.values())
    assert LOCK["numpy"].count("numpy==") > 1  # one for each range of Pythons, kept together


@pytest.mark.parametrize("name", ["pytest", "sphinx", "locust", "playwright", "hatchling"])
def test_nothing_that_only_development_needs_is_in_it(name: str) -> None:
    assert name in LOCK
    assert name not in SERVER


def test_a_package_comes_with_all_that_it_needs() -> None:
    assert closure("hatchling", {""}, {"hatchling"}) <= set(entries(main(["hatchling"])))


def test_a_package_that_is_not_locked_is_named() -> None:
    with pytest.raises(LookupError, match="no-such-package"):
        needed(LOCK, {"no-such-package"})
