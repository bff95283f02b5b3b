"""The distributions: what is in them, and that the same tree always gives the same ones."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from scripts.dist import FILE_NAME, PACKAGES, ROOT, build, clear, metadata_faults, sdist_faults, tracked, wheel_faults
from tests.packaging.conftest import Built

NEEDED = [
    "hubbub/mechanisms/mean_tables.json",
    "hubbub_cli/data/flights.csv.gz",
    "hubbub_cli/data/README.md",
    "hubbub_cli/data/hubbub.js",
    "hubbub_aggregator/dashboard/static/dashboard.css",
    "hubbub_aggregator/dashboard/templates/layout.html",
    "hubbub_aggregator/storage/redis/lua/commit.lua",
    "hubbub_shuffler/storage/redis/lua/settle.lua",
    "hubbub_audit/report.html.j2",
]


def repacked(wheel: Path, target: Path, without: str = "", **more: str) -> Path:
    """The wheel with a file left out, and others put in."""
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            if name != without:
                new.writestr(name, old.read(name))
        for name, text in more.items():
            new.writestr(name, text)
    return target


def test_the_wheel_holds_the_packages_their_data_and_the_licence_and_nothing_else(built: Built) -> None:
    assert wheel_faults(built.wheel) == []
    names = set(zipfile.ZipFile(built.wheel).namelist())
    assert {*NEEDED, *(f"{package}/py.typed" for package in PACKAGES)} <= names
    assert len(PACKAGES) == 8


@pytest.mark.parametrize("name", [NEEDED[0], "hubbub_client/py.typed", "hubbub_cli/main.py"])
def test_a_file_left_out_of_the_wheel_is_noticed(built: Built, tmp_path: Path, name: str) -> None:
    faulty = repacked(built.wheel, tmp_path / built.wheel.name, without=name)
    assert f"{name} is missing" in wheel_faults(faulty)


def test_a_file_that_does_not_belong_is_noticed(built: Built, tmp_path: Path) -> None:
    faulty = repacked(
        built.wheel, tmp_path / built.wheel.name, **{"tests/cli/test_cli.py": "", "hubbub/identity.key": "secret"}
    )
    assert "tests/cli/test_cli.py does not belong" in wheel_faults(faulty)
    assert "hubbub/identity.key is of a kind that does not belong" in wheel_faults(faulty)


def test_the_metadata_is_what_an_index_takes(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith("/METADATA"))
        good = archive.read(name)
        assert archive.read(name.replace("METADATA", "licenses/LICENSE")) == (ROOT / "LICENSE").read_bytes()
    assert metadata_faults(good) == []
    for faulty in (
        good.replace(b"\nVersion: ", b"\nVersion: 9", 1),
        good.replace(b"License-Expression: Apache-2.0\n", b""),
        good.replace(b"License-Expression: Apache-2.0\n", b"License-Expression: Apache 2\n"),
        good.replace(b"Typing :: Typed", b"Typing :: Typd"),
        good.replace(b"Requires-Dist: cryptography", b"Requires-Dist: numpy>=2\nRequires-Dist: cryptography"),
        good.replace(b"text/markdown", b"text/plain"),
    ):
        assert faulty != good
        assert metadata_faults(faulty)


@pytest.mark.full  # four builds; `make dist` looks at what it builds
def test_the_source_distribution_gives_the_same_wheel_and_every_build_the_same_bytes(
    built: Built, tmp_path: Path
) -> None:
    """The first wheel was built from the source distribution; this one from files of another age, mode and place."""
    with tarfile.open(built.sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    tree = next(tmp_path.iterdir())
    for path in tree.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
        path.chmod(path.stat().st_mode & 0o700)  # as where nobody else may read
    # what lies around in a working tree is nobody's business: keys and tokens above all
    (tree / "hubbub-state").mkdir()
    (tree / "hubbub-state" / "forward.token").write_text("secret")
    (tree / "report.html").write_text("numbers")
    sdist, wheel = sorted(build(tmp_path / "again", source=tree), key=lambda path: path.suffix)
    assert wheel.read_bytes() == built.wheel.read_bytes()
    assert sdist.read_bytes() == built.sdist.read_bytes()


def test_only_what_was_built_before_is_removed(tmp_path: Path) -> None:
    out = tmp_path / "dist"
    clear(out)
    out.mkdir()
    for name in (f"{FILE_NAME}-0.1.0-py3-none-any.whl", f"{FILE_NAME}-0.1.0.tar.gz", "SHA256SUMS", ".gitignore"):
        (out / name).touch()
    (out / "thesis.txt").touch()
    with pytest.raises(SystemExit, match=r"such as thesis\.txt"):
        clear(out)
    assert len(list(out.iterdir())) == 5
    (out / "thesis.txt").unlink()
    clear(out)
    assert not out.exists()


def test_the_source_distribution_is_the_tree(built: Built) -> None:
    inside = shutil.which("git") and subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "--error-unmatch", "LICENSE"], capture_output=True, check=False
    )
    if not inside or inside.returncode:
        pytest.skip("what belongs in the tree is known to git: install it, and run this in a clone")
    known = tracked("--cached", "--others", "--exclude-standard")  # someone may be at work here
    assert sdist_faults(built.sdist, known) == []
    assert sdist_faults(built.sdist, known | {"core/new.py"}) == ["core/new.py is missing"]
    assert sdist_faults(built.sdist, known - {"LICENSE"}) == ["LICENSE does not belong"]
