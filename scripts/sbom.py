"""Bill of materials, sbom.cdx.json: the packages of an installation, as CycloneDX 1.6. `make sbom` renews it.

It is made from requirements.lock. The SDK's packages have the scope `required`, those that the extra `server` adds
`optional`; packages for developers only are left out. A universal lock may hold two versions of a package for two
Pythons: both are listed, each with its marker. The file has no time, no serial number and no address in it, so that the
same lock gives the same bytes.

The packages are those that scripts/lock_subset.py takes from the lock for the image. The lock says which package
requires which ("via"), but not for which extra. So some packages are installed and listed that only a developer's tool
requires.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from scripts.lock_subset import entries, needed, of_extra

ROOT = Path(__file__).parent.parent
FILE = ROOT / "sbom.cdx.json"
LOCK = ROOT / "requirements.lock"
_CLASSIFIER = "License :: "


@dataclass(frozen=True, slots=True)
class Locked:
    """One version of a package in the lock."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]
    via: frozenset[str]
    """Packages that require it."""

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{self.name}@{self.version}"


def read_lock(text: str) -> list[Locked]:
    """All entries of a lock file, as `uv pip compile --generate-hashes --universal` writes it."""
    found = []
    for entry in re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE | re.IGNORECASE)[1:]:
        head, *rest = entry.splitlines()
        pinned, _, marker = head.rstrip("\\ ").partition(" ; ")
        name, _, version = pinned.partition("==")
        via = [line.strip("# ").removeprefix("via").strip() for line in rest if line.lstrip().startswith("#")]
        hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})", entry)
        found.append(
            Locked(
                canonicalize_name(name.partition("[")[0]),
                version,
                marker,
                tuple(sorted(hashes)),
                frozenset(filter(None, via)),
            )
        )
    return found


def names(lock_text: str, project: dict[str, Any]) -> tuple[set[str], set[str]]:
    """Packages that the SDK needs, and all of an installation with the server, which are those of the image."""
    lock, sdk = entries(lock_text), of_extra(None, project)
    return set(needed(lock, sdk)), set(needed(lock, of_extra("server", project)))


def _installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def licences(one: Locked) -> list[dict[str, Any]]:
    """Licence that a package states: an SPDX id or expression, or names. Empty if it is not installed."""
    from cyclonedx.spdx import fixup_id, is_expression

    installed = _installed(one.name)
    if installed is None or installed.version != one.version:
        return []
    for field in ("License-Expression", "License"):
        for written in installed.metadata.get_all(field) or []:
            if known := fixup_id(written):
                return [{"license": {"id": known}}]
            if is_expression(written):
                return [{"expression": written}]
    names = [
        line.rpartition(" :: ")[2]
        for line in installed.metadata.get_all("Classifier") or []
        if line.startswith(_CLASSIFIER)
    ]
    return [{"license": {"name": said}} for said in sorted(names)]


def document(lock_text: str, pyproject: dict[str, Any], version: str) -> dict[str, Any]:
    """The bill of materials."""
    project = pyproject["project"]
    sdk, used = names(lock_text, project)
    root = f"pkg:pypi/{project['name']}@{version}"
    parts = [one for one in sorted(read_lock(lock_text), key=lambda one: one.name) if one.name in used]

    def needs(name: str) -> list[str]:
        return sorted(one.purl for one in parts if name in one.via)

    direct = of_extra("server", project)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "lifecycles": [{"phase": "pre-build"}],
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": project["name"],
                "version": version,
                "description": project["description"],
                "licenses": [{"license": {"id": project["license"]}}],
                "purl": root,
            },
            "properties": [{"name": "cdx:reproducible", "value": "true"}],
        },
        "components": [_component(one, "required" if one.name in sdk else "optional") for one in parts],
        "dependencies": [
            {"ref": root, "dependsOn": sorted(one.purl for one in parts if one.name in direct)},
            *({"ref": one.purl, "dependsOn": needs(one.name)} for one in parts),
        ],
    }


def _component(one: Locked, scope: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": "library",
        "bom-ref": one.purl,
        "name": one.name,
        "version": one.version,
        "scope": scope,
    }
    if licensed := licences(one):
        found["licenses"] = licensed
    found["purl"] = one.purl
    # The hashes are of files, of which each platform installs one, so they belong to the distribution. Installations
    # decide from where to get it, so its address is the package's name.
    found["externalReferences"] = [
        {
            "type": "distribution",
            "url": one.purl,
            "hashes": [{"alg": "SHA-256", "content": text} for text in one.hashes],
        }
    ]
    if one.marker:
        found["properties"] = [{"name": "hubbub:marker", "value": one.marker}]
    return found


def current() -> dict[str, Any]:
    """The bill of materials of this tree."""
    from scripts.dist import version

    return document(LOCK.read_text(), tomllib.loads((ROOT / "pyproject.toml").read_text()), version())


def text_of(bill: dict[str, Any]) -> str:
    return json.dumps(bill, indent=1, ensure_ascii=False) + "\n"


def faults(text: str) -> str | None:
    """Why CycloneDX's own schema refuses the text, if it does."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    return None if error is None else str(error)


if __name__ == "__main__":
    written = text_of(current())
    if problem := faults(written):
        sys.exit(f"the bill is not CycloneDX: {problem}")
    FILE.write_text(written)
    print(f"{FILE.name}: {len(json.loads(written)['components'])} packages")
