"""Dialogue in a terminal: one question after the other, with help, a way back and a way out."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import click

from hubbub.errors import InvalidValue
from hubbub_cli.checklist.questions import sections

if TYPE_CHECKING:
    from hubbub.codebook import Codebook
    from hubbub_cli.checklist.answers import Answers
    from hubbub_cli.checklist.question import Answer, Question, Section

__all__ = ["interview"]

BACK, SKIP, HELP = "<", "-", "?"
_HOW = (
    f"Enter takes the answer in brackets; {HELP} explains, {BACK} goes back, {SKIP} leaves a question open. "
    "Ctrl-C stops and keeps your answers."
)


def interview(
    codebook: Codebook,
    answers: Answers,
    keep: Callable[[], None],
    show: Callable[[str], str],
    conflicts: Mapping[str, str],
    *,
    again: bool,
) -> None:
    """Ask the open and stale questions, or with `again` all of them. Calls `keep` after each answer.

    `conflicts` has the answers that cannot stand, with the reason: those questions are asked again too.

    `show` returns the figures that a section needs, as text; it may take seconds.
    """
    say(_HOW)
    wrong = dict(conflicts)
    first = {
        question.key
        for question in _all(codebook, answers)
        if again or question.key in wrong or _is_open(question, answers)
    }
    trail: list[str] = []
    """Keys that were asked, for going back."""
    told = ""
    current = _next(codebook, answers, first, trail)
    while current is not None:
        section, question = current
        if section.name != told:
            told = section.name
            _open_section(section, show(section.name))
        reply = _ask(question, answers, wrong.pop(question.key, ""))
        if reply is None and trail:
            told, current = "", _find(codebook, answers, trail.pop())
            continue
        if reply is None:
            say("This is the first question.")
            continue
        trail.append(question.key)
        if reply != SKIP:
            answers.put(question, reply)
            keep()
        current = _next(codebook, answers, first, trail)


def say(text: str, *, indent: str = "") -> None:
    """Print a paragraph in the width of the terminal, at most 80 columns."""
    click.echo(textwrap.fill(text, _width(), initial_indent=indent, subsequent_indent=indent, break_long_words=False))


def _width() -> int:
    return max(20, min(80, shutil.get_terminal_size().columns) - 1)


def _all(codebook: Codebook, answers: Answers) -> list[Question]:
    return [question for section in sections(codebook, answers.given) for question in section.questions]


def _is_open(question: Question, answers: Answers) -> bool:
    unaccepted = question.kind == "yes" and answers.given.get(question.key) is not True
    return question.key not in answers.given or answers.stale(question) is not None or unaccepted


def _next(codebook: Codebook, answers: Answers, first: set[str], trail: list[str]) -> tuple[Section, Question] | None:
    """The next question to ask: one of `first` not asked yet, or one that an answer has made necessary."""
    for section in sections(codebook, answers.given):
        for question in section.questions:
            if question.key not in trail and (question.key in first or _is_open(question, answers)):
                return section, question
    return None


def _find(codebook: Codebook, answers: Answers, key: str) -> tuple[Section, Question] | None:
    for section in sections(codebook, answers.given):
        for question in section.questions:
            if question.key == key:
                return section, question
    return None


def _open_section(section: Section, figures: str) -> None:
    click.echo()
    click.secho(f"── {section.title} ".ljust(min(60, _width()), "─"), bold=True)
    for paragraph in section.intro:
        say(paragraph)
    if figures:
        click.echo(f"\n{figures}")


def _ask(question: Question, answers: Answers, wrong: str) -> Answer | None:
    """The answer, SKIP, or None for a step back."""
    click.echo()
    if (before := answers.stale(question)) is not None:
        say(f"Your answer was about: {before}. This is now: {question.basis}.")
    if wrong:
        say(f"Your answer cannot stand. {wrong}")
    known = answers.given.get(question.key, question.default)
    say(question.text)
    if question.kind == "choice":
        for number, (name, meaning) in enumerate(question.choices.items(), 1):
            say(f"{number}  {name}: {meaning}", indent="   ")
    while True:
        hint = " (yes/no)" if question.kind == "yes" else ""
        shown = "" if known is None else f" [{_written(known)}]"
        text = str(click.prompt(f"{hint}{shown} >".lstrip(), default="", show_default=False, prompt_suffix=" ")).strip()
        if text == BACK:
            return None
        if text == SKIP:
            return SKIP
        if text == HELP or (not text and known is None):
            say(question.help, indent="   ")
            continue
        try:
            return question.read(text) if text else known
        except InvalidValue as error:
            say(f"{error}.", indent="   ")


def _written(answer: Answer) -> str:
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    return f"{answer:g}" if isinstance(answer, float) else str(answer)
