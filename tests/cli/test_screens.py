"""Every command at 80 columns: what people see is what somebody has looked at, nothing is cut, and nothing is too wide.

After a change that is meant: `python -m tests.cli.screens_at_80`, and look at what git says changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from hubbub_cli.all_commands import hubbub
from tests.cli.screens_at_80 import WIDTH, commands, kept, renewed
from tests.docs.blocks import TUTORIAL, blocks

LAST_WORD = re.compile(r"(?:\S*://)?\S{60,}")
"""What can't be broken, such as the longest name that a metric may have."""


NUMBER = re.compile(r"\d[\d,.]*(?:e-?\d+)?")
SCREENS = kept()


def test_every_screen_is_as_it_was_last_looked_at() -> None:
    before, shown = SCREENS, renewed()
    assert shown.keys() == before.keys(), "python -m tests.cli.screens_at_80"
    for name, screen in shown.items():
        assert screen == before[name], f"{name}: if that is meant, python -m tests.cli.screens_at_80"


WITHOUT_A_SCREEN = {
    "aggregator": "serves until it is stopped",
    "aggregator restore": "tests/aggregator/operations",
    "audit": "takes minutes; tests/audit",
    "checklist": "asks a person: tests/cli/test_checklist.py has a terminal of 80 columns",
    "codebook notice": "prints Markdown, for a page of any width",
    "codebook show": "prints JSON",
    "keys new": "prints what `keys anchor` prints",
    "shuffler": "serves until it is stopped",
    "shuffler damaged discard": "needs a damaged file",
    "shuffler damaged list": "needs a damaged file; its table is in tests/cli/test_table.py",
    "shuffler damaged salvage": "needs a damaged file",
    "shuffler held discard": "needs a refused batch",
    "shuffler held offer": "needs a refused batch",
    "demo": "its numbers are the screen `demo`; the rest moves",
}


def test_every_command_has_its_help_and_every_one_that_prints_its_screen() -> None:
    typed = {screen.splitlines()[0].removeprefix("$ hubbub ") for screen in SCREENS.values()}
    groups = {"", *(" ".join(path[:-1]) for path in commands() if path)} - {"aggregator", "shuffler"}
    leaves = {" ".join(path) for path in commands()} - groups
    for path in commands():
        assert " ".join([*path, "--help"]) in typed
    ran = {line for line in typed if not line.endswith("--help")}
    assert leaves - {leaf for leaf in leaves if any(f"{line} ".startswith(f"{leaf} ") for line in ran)} == (
        WITHOUT_A_SCREEN.keys() - {"aggregator", "shuffler"}
    )
    assert "demo" in SCREENS


def test_every_command_that_ends_can_answer_in_json() -> None:
    """`hubbub shuffler` and `hubbub aggregator` do not end, and are groups."""

    def found(group: click.Group) -> Iterator[click.Command]:
        for command in group.commands.values():
            yield from found(command) if isinstance(command, click.Group) else [command]

    every = list(found(hubbub))
    assert len(every) > 30
    assert [command.name for command in every if not any("--json" in option.opts for option in command.params)] == []


def test_no_line_is_wider_than_the_terminal() -> None:
    for name, screen in SCREENS.items():
        for line in screen.splitlines():
            is_typed, is_one_word = line.startswith("$ "), LAST_WORD.fullmatch(line.strip())
            assert len(line) <= WIDTH or is_typed or is_one_word, f"{name}: {line}"


def test_the_addresses_of_hubbub_up_are_on_the_last_screen() -> None:
    last = SCREENS["up"].rstrip("\n").splitlines()[-23:]
    assert {"dashboard", "devices", "trust", "Ctrl-C"} <= {line.split(" ")[0] for line in last if line}


def test_no_help_is_cut() -> None:
    for name, screen in SCREENS.items():
        if name.startswith("help"):
            _, _, after = screen.partition("\nCommands:\n")
            assert "..." not in after.partition("\n\n")[0], name


def test_the_tutorial_shows_an_answer_as_it_is_printed() -> None:
    """Its numbers are of one day; the words around them are the command's."""
    (shown,) = [
        block.text for block in blocks(TUTORIAL) if block.text.startswith("theme, ") and "privacy:" in block.text
    ]
    screens = "\n".join(screen for name, screen in SCREENS.items() if name.startswith("query"))
    words = {NUMBER.sub("#", line) for line in screens.splitlines()}
    _, _, footnotes = shown.partition("\n\n")
    assert len(footnotes.splitlines()) > 8
    assert [line for line in footnotes.splitlines() if NUMBER.sub("#", line) not in words] == []
    assert shown.splitlines()[1] in words  # the heading of the table


def test_a_help_that_is_too_long_would_be_noticed() -> None:
    @click.group()
    def group() -> None:
        pass

    @group.command(short_help=None)
    def long() -> None:
        """Say so much in the first sentence that it cannot stand in one line of eighty columns beside its name."""

    with click.Context(group, terminal_width=WIDTH) as context:
        assert "..." in group.get_help(context)
