"""Every command and option, from the command line itself."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from hubbub_cli.all_commands import hubbub
from scripts.reference.markdown import anchored, code, definitions

__all__ = ["commands", "undocumented", "walk"]

_SERVICES = {"hubbub shuffler": "shuffler", "hubbub aggregator": "aggregator"}


def walk(command: click.Command = hubbub, name: str = "hubbub") -> Iterator[tuple[str, click.Command]]:
    """A command and all its subcommands, each with its full name."""
    yield name, command
    if isinstance(command, click.Group):
        for inner, found in sorted(command.commands.items()):
            yield from walk(found, f"{name} {inner}")


def commands() -> str:
    """A section for each command."""
    return "\n\n".join(_section(name, command) for name, command in walk())


def undocumented() -> list[str]:
    """Commands and options without a help text."""
    found = [name for name, command in walk() if not command.help]
    for name, command in walk():
        found += [f"{name} {o.opts[-1]}" for o in command.params if isinstance(o, click.Option) and not o.help]
    return found


def _section(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name)
    usage = f"{name} {' '.join(command.collect_usage_pieces(context))}"
    parts = [f"## `{name}`", f"```text\n{usage}\n```", inspect.cleandoc(command.help or "").replace("\b\n", "")]
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    if options:
        parts.append(
            definitions(
                (anchored(code(_written(o)), name, o.opts[-1]), _facts(o, context), o.help or "") for o in options
            )
        )
    if name in _SERVICES:
        parts.append(f"Its settings: [{_SERVICES[name]}](settings.md#{_SERVICES[name]}).")
    return "\n\n".join(parts)


def _written(option: click.Option) -> str:
    return " / ".join([", ".join(option.opts), *option.secondary_opts])


def _facts(option: click.Option, context: click.Context) -> str:
    facts = [] if option.is_flag else [code(option.make_metavar(context).replace("|", " or "))]
    default = option.default
    if (
        not callable(default)
        and default is not None
        and not option.is_flag
        and str(default) not in ("", "Sentinel.UNSET")
    ):
        facts.append(f"default {code(default)}")
    if option.required:
        facts.append("required")
    if option.multiple:
        facts.append("may be repeated")
    if option.envvar:
        facts.append(f"or {code(option.envvar)} in the environment")
    return ", ".join(facts)
