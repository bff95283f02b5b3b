"""Charts that commands draw: the `--plot` option, and data as the chart library takes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

__all__ = ["as_data", "option", "target"]


Command = TypeVar("Command", bound=Callable[..., Any])


def option(meaning: str, name: str = "--plot") -> Callable[[Command], Command]:
    """The `--plot` of a command, or another option that names a picture."""
    return click.option(name, type=click.Path(dir_okay=False), help=f"{meaning}: FILE.svg or .png.")


def target(plot: str | None, name: str = "--plot") -> Path | None:
    """The file to draw, or a usage error, raised before the work starts."""
    if plot is None:
        return None
    if Path(plot).suffix not in (".svg", ".png"):
        raise click.BadParameter("name a file that ends in .svg or .png", param_hint=name)
    if not Path(plot).absolute().parent.is_dir():
        raise click.BadParameter(f"there is no folder {Path(plot).absolute().parent}", param_hint=name)
    return Path(plot)


def as_data(rows: list[dict[str, Any]]) -> Any:
    import altair as alt

    return alt.Data(values=rows)  # type: ignore[no-untyped-call]  # altair leaves this one constructor untyped
