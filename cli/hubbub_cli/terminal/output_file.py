"""Output files of commands: checked before the work starts, and replaced in one step."""

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
        raise click.ClickException(f"{folder} is not writable: give another --out")


def write(out: Path, text: str, mode: int | None = None) -> None:
    """Replace the file; after an interruption there is the old one or the new one. `mode` overrides the umask."""
    try:
        atomic_files.write(out, text.encode(), mode=mode)
    except OSError as error:
        raise click.ClickException(f"{out} can't be written: {error.strerror}") from error
