"""Text wrapped to the width of the terminal: no line of a command is longer than eighty columns or the terminal."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap

import click

__all__ = ["COLUMNS", "columns", "say", "wrapped"]

COLUMNS = 80


def columns() -> int:
    """Width of a line: that of the terminal or COLUMNS, at least eighty; eighty for a pipe."""
    is_known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return max(COLUMNS, shutil.get_terminal_size((COLUMNS, 24)).columns) if is_known else COLUMNS


def wrapped(text: str, *, first: str = "", rest: str = "", width: int | None = None) -> str:
    """The text with line breaks between words. `first` begins the first line, and `rest` each later one.

    Lines of the text stay lines. A word that is longer than a line, such as an address, is kept whole.
    """
    lines = []
    for number, line in enumerate(text.split("\n")):
        lead = rest if number else first
        indent = line[: len(line) - len(line.lstrip(" "))]
        broken = textwrap.wrap(
            line,
            width or columns(),
            initial_indent=lead,
            subsequent_indent=rest + indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines.append("\n".join(broken) or lead.rstrip())
    return "\n".join(lines)


def say(text: str, *, first: str = "", rest: str = "") -> None:
    """A remark or a step of progress, on stderr."""
    click.echo(wrapped(text, first=first, rest=rest), err=True)
