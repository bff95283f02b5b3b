"""A file that a command writes: refused before the work if there is no place for it, and replaced in one step."""

from __future__ import annotations

import os
from pathlib import Path

import click

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


def write(out: Path, text: str) -> None:
    """Replace the file: whoever is interrupted has the old one or the new one."""
    part = out.with_name(f".{out.name}.part")
    try:
        part.write_text(text, "utf-8")
        os.replace(part, out)
    except OSError as error:
        raise click.ClickException(f"{out} cannot be written: {error.strerror}") from error
