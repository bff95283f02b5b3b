"""What the help of a service ends with: every setting, its default and its meaning."""

from __future__ import annotations

from collections.abc import Sequence

import click

from hubbub_service_common.secret_files import FILE

__all__ = ["write_settings"]


def write_settings(
    formatter: click.HelpFormatter, prefix: str, rows: Sequence[tuple[str, str, str]], in_files: Sequence[str]
) -> None:
    """`rows` as the service's `table()` has them; `in_files`: settings that may stand in a file."""
    with formatter.section("Settings, from the environment; options win"):
        formatter.write_dl(
            [(f"{prefix}{name.upper()}", f"{text} [{default or 'unset'}]") for name, default, text in rows]
        )
    with formatter.section("Settings that may stand in a file; the variable has its name"):
        formatter.write_dl(
            [(f"{prefix}{name.upper()}{FILE}", f"File with {prefix}{name.upper()}.") for name in in_files]
        )
