"""End of a service's help: every setting, its default and its meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hubbub_service_common.settings_from_files import FILE

if TYPE_CHECKING:
    from hubbub_service_common.settings import ServiceSettings

__all__ = ["write_settings"]


def write_settings(formatter: click.HelpFormatter, settings: type[ServiceSettings]) -> None:
    """Write all settings, then those that may be given in a file."""
    prefix = settings.prefix()
    with formatter.section("Settings from the environment; options win"):
        formatter.write_dl(
            [(f"{prefix}{name.upper()}", f"{text} [{default or 'unset'}]") for name, default, text in settings.table()]
        )
    with formatter.section("Settings that a file may hold; the variable names the file"):
        formatter.write_dl(
            [(f"{prefix}{name.upper()}{FILE}", f"File with {prefix}{name.upper()}.") for name in settings.in_files()]
        )
