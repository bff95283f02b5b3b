"""A file that a command writes: refused before the work if there is no place for it, and replaced in one step."""

from __future__ import annotations

import os
from pathlib import Path

import click

from hubbub_service_common.process import atomic_files

__all__ = ["refuse_if_nowhere", "write"]


def refuse_if_nowhere(out: Path) -> None:
    """End the command if the file can't be made: no folder, no right to write there, or no name."""
    folder = out.absolute().parent
    if not out.name:
        raise click.UsageError("--out needs the name of a file")
    if not folder.is_dir():
        raise click.ClickException(f"there is no folder {folder}: make it, or give another --out")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise click.ClickException(f"nothing may be written in {folder}: give another --out")


def write(out: Path, text: str, mode: int | None = None) -> None:
    """Replace the file: whoever is interrupted has the old one or the new one. `mode`: whatever the umask says."""
    try:
        atomic_files.write(out, text.encode(), mode=mode)
    except OSError as error:
        raise click.ClickException(f"{out} can't be written: {error.strerror}") from error
