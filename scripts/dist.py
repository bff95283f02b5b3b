"""Build the published files into dist/ and check them: `make dist`, and before a release `make release-check`.

The files are a wheel, a source distribution that gives the same wheel, the bill of materials and SHA256SUMS. Nothing is
downloaded or uploaded. Two builds of one commit have the same bytes: hatchling takes times from SOURCE_DATE_EPOCH, or
2020-02-02 if that is not set, and fixes order and file modes itself.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

from packaging.metadata import Metadata

from scripts.make_client_js import KEPT, fresh
from scripts.sbom import FILE as SBOM

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
NAME: str = PYPROJECT["project"]["name"]
"""The distribution's name at a package index."""
FILE_NAME = re.sub(r"[-_.]+", "_", NAME).lower()
"""The same as the names of wheels and source distributions have it (PEP 625, PEP 491)."""
PACKAGES = {
    folder.name: folder
    for folder in map(ROOT.joinpath, PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
}
"""Import name to folder."""
SUFFIXES = {".py", ".typed", ".json", ".html", ".css", ".js", ".svg", ".lua", ".j2", ".toml", ".gz", ".md"}
"""Files that belong in a package: code, and the data that it reads."""
DIST_INFO = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
BUILT = re.compile(rf"{FILE_NAME}-.+\.(whl|tar\.gz|cdx\.json)|SHA256SUMS|\.gitignore")
"""Names of the files that are built into dist/."""
MOST_BYTES = 1_500_000
"""Largest wheel: every device downloads it."""


def version() -> str:
    """The version of the tree, without importing it."""
    found = re.search(r'^__version__ = "(.+)"$', (ROOT / "core" / "hubbub" / "__init__.py").read_text(), re.MULTILINE)
    if found is None:
        raise ValueError("core/hubbub/__init__.py has no __version__")
    return found[1]


def build(out: Path, *, source: Path = ROOT, kind: str | None = None) -> list[Path]:
    """Build both distributions, the wheel from the source distribution; or only a `wheel` or an `sdist` of a tree."""
    uv = Path(sys.executable).with_name("uv")
    command = [str(uv), "build", "--quiet", "--offline", "--no-build-isolation", "--python", sys.executable]
    command += [f"--{kind}"] if kind else []
    subprocess.run([*command, "--out-dir", str(out), str(source)], check=True)
    return sorted(path for path in out.iterdir() if path.suffix in {".whl", ".gz"})


def wheel_faults(wheel: Path, packages: dict[str, Path] = PACKAGES) -> list[str]:
    """All faults of a wheel's contents."""
    faults = []
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = next((name for name in names if name.endswith(".dist-info/METADATA")), None)
        if metadata is None:
            return ["it has no METADATA"]
        faults += metadata_faults(archive.read(metadata))
    info = metadata.removesuffix("METADATA")
    faults += [f"{name} is missing" for name in sorted(DIST_INFO) if info + name not in names]
    expected = {
        f"{package}/{path.relative_to(folder).as_posix()}"
        for package, folder in packages.items()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = {name for name in names if not name.startswith(info)}
    faults += [f"{name} is missing" for name in sorted(expected - packed)]
    faults += [f"{name} does not belong" for name in sorted(packed - expected)]
    faults += [
        f"{name} is of a kind that does not belong" for name in sorted(packed) if Path(name).suffix not in SUFFIXES
    ]
    faults += [f"{package}/py.typed is missing" for package in packages if f"{package}/py.typed" not in packed]
    if wheel.stat().st_size > MOST_BYTES:
        faults.append(f"it has {wheel.stat().st_size:,} bytes, more than {MOST_BYTES:,}")
    return faults


def metadata_faults(raw: bytes) -> list[str]:
    """Faults of the metadata: what an index would refuse, or a reader would miss."""
    from trove_classifiers import classifiers

    try:
        said = Metadata.from_email(raw, validate=True)
    except ExceptionGroup as errors:
        return [str(error) for error in errors.exceptions]
    faults = []
    if said.name != NAME:
        faults.append(f"its name is {said.name}, the tree's {NAME}")
    if str(said.version) != version():
        faults.append(f"its version is {said.version}, the tree's {version()}")
    if said.license_expression != "Apache-2.0" or said.license_files != ["LICENSE"]:
        faults.append("it does not name its licence")
    if said.description_content_type != "text/markdown" or not (said.description or "").startswith("# Hubbub"):
        faults.append("the README is not its description")
    faults += [f"there is no classifier {name!r}" for name in said.classifiers or [] if name not in classifiers]
    always = [str(need) for need in said.requires_dist or [] if need.marker is None]
    if [need.split(">")[0] for need in always] != ["cryptography"]:
        faults.append(f"the SDK alone would bring in {always}")
    return faults


def sdist_faults(sdist: Path, tracked: set[str]) -> list[str]:
    """Faults of a source distribution, which must have all tracked files except dot-files, and no others."""
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    wanted = {name for name in tracked if not name.startswith(".")}
    extra = names - wanted - {"PKG-INFO", ".gitignore"}
    return [f"{name} is missing" for name in sorted(wanted - names)] + [
        f"{name} does not belong" for name in sorted(extra)
    ]


def changelog_faults(text: str, released: str) -> list[str]:
    """Faults of the changelog for this version: the notes must have moved under its dated heading."""
    faults = []
    if re.search(rf"^## {re.escape(released)} - \d{{4}}-\d\d-\d\d$", text, re.MULTILINE) is None:
        faults.append(f"CHANGELOG.md has no heading '## {released} - YYYY-MM-DD'")
    waiting = re.search(r"^## Unreleased\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if waiting and re.search(r"^- ", waiting[1], re.MULTILINE):
        faults.append("CHANGELOG.md still has notes under '## Unreleased'")
    return faults


def script_faults() -> list[str]:
    """Faults of the browser SDK's file in the tree, where there is a Node to build it with."""
    built = fresh()
    if built is None:
        print("no Node or no npm packages: whether hubbub.js is a fresh build was NOT checked", file=sys.stderr)
    return [] if built in (None, KEPT.read_bytes()) else [f"{KEPT.name} is old: run python -m scripts.make_client_js"]


def _git(*arguments: str) -> str:
    git = shutil.which("git")
    if git is None:
        raise SystemExit("git is needed to list the tracked files")
    return subprocess.run([git, *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def tracked(*which: str) -> set[str]:
    """Files of the tree that git tracks, or that `git ls-files` lists with these options."""
    return set(filter(None, _git("ls-files", "-z", *which).split("\0")))


def release_faults() -> list[str]:
    """Faults of this tree that prevent a release, apart from those of the built files."""
    faults = changelog_faults((ROOT / "CHANGELOG.md").read_text(), version())
    if changed := _git("status", "--porcelain").splitlines():
        faults.append(f"{len(changed)} file(s) are not committed, such as {changed[0][3:]}")
    if f"v{version()}" in _git("tag").split():
        faults.append(f"v{version()} is tagged already: raise __version__ in core/hubbub/__init__.py")
    return faults


def clear(out: Path) -> None:
    """Remove earlier builds, and nothing else: a folder with other files is refused."""
    if not out.exists():
        return
    others = [path.name for path in out.iterdir() if not BUILT.fullmatch(path.name)]
    if others:
        raise SystemExit(f"{out} has files that were not built here, such as {min(others)}: give another --out")
    shutil.rmtree(out)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.dist", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--release", action="store_true", help="also: clean tree, dated changelog, new version")
    asked = parser.parse_args()
    clear(asked.out)
    sdist, wheel = sorted(build(asked.out), key=lambda path: path.suffix)
    with tempfile.TemporaryDirectory() as again:
        twice = build(Path(again), kind="wheel")[0].read_bytes() == wheel.read_bytes()
    faults = [f"{wheel.name}: {fault}" for fault in wheel_faults(wheel)]
    faults += [f"{sdist.name}: {fault}" for fault in sdist_faults(sdist, tracked())]
    faults += [] if twice else ["the wheel from the source distribution is not the wheel from the tree"]
    sbom = asked.out / f"{FILE_NAME}-{version()}.cdx.json"
    shutil.copyfile(SBOM, sbom)
    faults += script_faults()
    faults += release_faults() if asked.release else []
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in (sbom, sdist, wheel)]
    (asked.out / "SHA256SUMS").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    for fault in faults:
        print(f"! {fault}", file=sys.stderr)
    if faults:
        sys.exit(f"{len(faults)} thing(s) to mend")
    print(f"{NAME} {version()} is {'ready to be released' if asked.release else 'built'}: {asked.out}")


if __name__ == "__main__":
    main()
