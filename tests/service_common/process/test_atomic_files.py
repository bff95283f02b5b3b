"""Atomic files: whole or not there at all, for their owner only, and with nothing left beside them."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path

import pytest

from hubbub.errors import InvalidParameter
from hubbub_service_common.process import atomic_files


@pytest.fixture(params=[0o000, 0o022, 0o077])
def _umask(request: pytest.FixtureRequest) -> object:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("_umask")
def test_a_file_has_its_mode_whatever_the_umask_says_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    atomic_files.write(tmp_path / "secret", b"1")
    atomic_files.write(tmp_path / "page", b"1", mode=0o644)
    assert (mode(tmp_path / "secret"), mode(tmp_path / "page")) == (0o600, 0o644)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page", "secret"]


def test_without_a_mode_the_umask_decides(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        atomic_files.write(tmp_path / "page", b"1", mode=None)
    finally:
        os.umask(before)
    assert mode(tmp_path / "page") == 0o640


def test_a_file_is_replaced_in_one_step_and_only_if_that_is_wanted(tmp_path: Path) -> None:
    path = tmp_path / "file[1]"  # a pattern to others
    atomic_files.write(path, b"old")
    with pytest.raises(FileExistsError):
        atomic_files.write(path, b"new", replace=False)
    assert path.read_bytes() == b"old"
    with atomic_files.new_file(path, replace=True) as part:
        part.write_bytes(b"ne")
        assert path.read_bytes() == b"old"
        part.write_bytes(b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_what_fails_on_the_way_changes_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with atomic_files.new_file(tmp_path / "file") as part:
            part.write_bytes(b"half")
            part.with_name(f"{part.name}-journal").touch()  # as SQLite does
            raise ValueError("no room")

    with pytest.raises(ValueError, match="no room"):
        fail()
    assert not list(tmp_path.iterdir())


def test_a_database_can_be_made_so(tmp_path: Path) -> None:
    with atomic_files.new_file(tmp_path / "copy.db") as part, closing(sqlite3.connect(part)) as made:
        made.execute("CREATE TABLE t (x)")
    assert mode(tmp_path / "copy.db") == 0o600
    with closing(sqlite3.connect(tmp_path / "copy.db")) as read:
        assert read.execute("SELECT name FROM sqlite_master").fetchall() == [("t",)]


def test_bytes_and_names_are_on_the_disk_before_it_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes before the name is taken, the name after it."""
    done: list[str] = []
    sync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        done.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    def replaced(source: Path, target: Path) -> None:
        done.append("name")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    atomic_files.write(tmp_path / "file", b"1")
    assert done == ["file", "name", "directory"]


def test_a_state_directory_is_private_also_if_it_was_there_before(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o755)
    assert mode(atomic_files.state_directory(tmp_path / "state")) == 0o700
    assert mode(atomic_files.state_directory(tmp_path / "new" / "state")) == 0o700


def test_a_state_directory_that_can_not_be_used_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, why in ((tmp_path / "file", "it is a file"), (tmp_path / "file" / "x", "Not a directory")):
        with pytest.raises(InvalidParameter, match=f"can't be used: {why}"):
            atomic_files.state_directory(path)
    with pytest.raises(InvalidParameter, match="can't be used"):
        atomic_files.state_directory(Path("/proc/x"))


@pytest.mark.parametrize(
    ("name", "own", "other"),
    [("identity.key", "aggregator", "shuffler"), ("reports.sqlite", "shuffler", "aggregator")],
)
def test_no_service_starts_in_the_state_directory_of_the_other(
    tmp_path: Path, name: str, own: atomic_files.Service, other: atomic_files.Service
) -> None:
    (tmp_path / name).touch()
    assert atomic_files.state_directory(tmp_path, own) == tmp_path
    with pytest.raises(InvalidParameter, match=f"is the state directory of an? {own}, since it has {name}"):
        atomic_files.state_directory(tmp_path, other)


def test_a_file_that_is_there_is_not_opened_anew(tmp_path: Path) -> None:
    atomic_files.create(tmp_path / "file").close()
    with pytest.raises(FileExistsError):
        atomic_files.create(tmp_path / "file")


def test_what_a_killed_process_left_beside_is_removed_by_the_next_write(tmp_path: Path) -> None:
    """A file that was changed within a day may be another process's work."""
    path, old, young = tmp_path / "file", time.time() - 2 * 86_400, time.time() - 3_600
    left = {"file.0123456789abcdef.part": old, "file.0123456789abcdef.part-journal": old}
    kept = {
        "file.fedcba9876543210.part": young,
        "file.notes.part": old,
        "files.0123456789abcdef.part": old,
        "file": old,
    }
    for name, changed in (left | kept).items():
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (changed, changed))
    atomic_files.write(path, b"new")
    assert {each.name for each in tmp_path.iterdir()} == set(kept)
    assert path.read_bytes() == b"new"
