"""Print the part of requirements.lock that one extra of hubbub, or some packages, need; hashes included.

    python scripts/lock_subset.py --extra server > server.lock
    python scripts/lock_subset.py hatchling > build.lock

The lock says for each package which others require it ("via"): this is followed from the wanted packages. Needs only
Python's standard library and no network. The output is pinned to the same versions and bytes as the lock.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

__all__ = ["entries", "main", "needed", "of_extra"]

ROOT = Path(__file__).parent.parent
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def normal(name: str) -> str:
    """A package name as the lock writes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def entries(lock: str) -> dict[str, str]:
    """Each pinned package and its lines; a package that is pinned again for other Pythons has all of them."""
    found: dict[str, str] = {}
    for entry in re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE):
        if name := _NAME.match(entry):
            found[normal(name[0])] = found.get(normal(name[0]), "") + entry
    return found


def needed(lock: Mapping[str, str], wanted: Collection[str]) -> list[str]:
    """These packages and all that they need, sorted. LookupError names those that are not pinned."""
    if missing := sorted(set(wanted) - set(lock)):
        raise LookupError(f"not in requirements.lock: {', '.join(missing)}; run make lock")
    asked_by = {name: _via(entry) for name, entry in lock.items()}
    found, before = set(wanted), set[str]()
    while found != before:
        before = set(found)
        found |= {name for name, who in asked_by.items() if who & before}
    return sorted(found)


def _via(entry: str) -> set[str]:
    """Packages that require this one. Hubbub itself is left out, since the lock does not say for which extra."""
    comments = re.findall(r"^ +#(?: +via)? +(\S.*)$", entry, re.MULTILINE)
    return {normal(who) for who in comments if who != "via" and not who.endswith("(pyproject.toml)")}


def of_extra(extra: str | None, project: Mapping[str, Any]) -> set[str]:
    """Packages that hubbub itself requires with this extra. `project` is that table of pyproject.toml."""
    asked = [*project["dependencies"], *(project["optional-dependencies"][extra] if extra else ())]
    return {normal(name[0]) for line in asked if (name := _NAME.match(line))}


def main(arguments: list[str]) -> str:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--extra", help="All packages that hubbub needs with this extra.")
    parser.add_argument("packages", nargs="*", help="These packages and all that they need.")
    given = parser.parse_args(arguments)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {normal(name) for name in given.packages} | (of_extra(given.extra, project) if given.extra else set())
    lock = entries((ROOT / "requirements.lock").read_text())
    return "".join(lock[name] for name in needed(lock, wanted))


if __name__ == "__main__":
    sys.stdout.write(main(sys.argv[1:]))
