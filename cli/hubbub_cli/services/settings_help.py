"""What the help of a service ends with: every setting, its default and its meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hubbub_service_common.settings_from_environment import FILE

if TYPE_CHECKING:
    from hubbub_service_common.settings import ServiceSettings

__all__ = ["write_settings"]


def write_settings(formatter: click.HelpFormatter, settings: type[ServiceSettings]) -> None:
    """All of them, and those that may stand in a file."""
    prefix = settings.prefix()
    with formatter.section("Settings, from the environment; options win"):
        formatter.write_dl(
            [(f"{prefix}{name.upper()}", f"{text} [{default or 'unset'}]") for name, default, text in settings.table()]
        )
    with formatter.section("Settings that may stand in a file; the variable has its name"):
        formatter.write_dl(
            [(f"{prefix}{name.upper()}{FILE}", f"File with {prefix}{name.upper()}.") for name in settings.in_files()]
        )
