"""Saved answers: TOML that a person can edit, with a note on what each was about, so that a change is noticed."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from hubbub.errors import Finding, InvalidParameter, InvalidValue, did_you_mean
from hubbub_cli.checklist.question import Answer, Question, Section
from hubbub_cli.checklist.questions import sections
from hubbub_cli.terminal import output_file

if TYPE_CHECKING:
    from hubbub.codebook import Codebook

__all__ = ["Answers", "template"]

FORMAT = "hubbub-checklist 1"
_NOTE = "# What each answer was about. The command uses this to notice a change of the codebook; do not edit it."


@dataclass(slots=True)
class Answers:
    """The answers, and what part of the codebook each was about."""

    given: dict[str, Answer] = field(default_factory=dict)
    about: dict[str, str] = field(default_factory=dict)
    codebook: str = ""
    """Hexadecimal id of the codebook that the last answers were for; empty if the file names none."""

    @classmethod
    def load(cls, path: Path, codebook: Codebook) -> Self:
        """The answers in a file. InvalidParameter lists all entries that answer no question, or are invalid."""
        try:
            document = tomllib.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise _refused(
                str(path), [("", f"cannot be read: {error}", "give a file that was begun with `--template`")]
            ) from error
        faults: list[tuple[str, str, str]] = []
        given, about = (_table(document, name, faults) for name in ("answers", "about"))
        if document.pop("format", FORMAT) != FORMAT:
            faults.append(("format", "is of another version", f'this software reads "{FORMAT}"'))
        if document.pop("collection", codebook.collection.name) != codebook.collection.name:
            faults.append(("collection", "differs", f"the codebook's is {codebook.collection.name!r}"))
        answered = str(document.pop("codebook", ""))
        faults += [(name, "there is no such key", "answers belong under [answers]") for name in document]
        found = cls({}, {str(key): str(text) for key, text in about.items()}, answered)
        flat = dict(_flat(given))
        known = _known(codebook, {})
        gone = _of_metrics_that_went(flat, known)
        for key, written in flat.items():
            if written == "" or key in gone:
                continue
            if key not in known:
                faults.append(
                    (f"answers.{key}", "no question has this key", did_you_mean(key, known) or "see --template")
                )
                continue
            try:
                found.given[key] = known[key].read(written)
            except InvalidValue as error:
                faults.append((f"answers.{key}", str(error), "correct it, or leave it out"))
        if faults:
            raise _refused(str(path), faults)
        found._note_what_they_were_about(codebook)
        return found

    def put(self, question: Question, answer: Answer) -> None:
        self.given[question.key] = answer
        self.about[question.key] = question.basis

    def _note_what_they_were_about(self, codebook: Codebook) -> None:
        """An answer without a note is about the codebook that the file names, or if it names none, the current one."""
        moved = bool(self.codebook) and self.codebook != codebook.id.hex()
        for key, question in _known(codebook, self.given).items():
            if key in self.given and key not in self.about and question.basis:
                self.about[key] = f"codebook {self.codebook}" if moved and question.of_codebook else question.basis

    def stale(self, question: Question) -> str | None:
        """What the answer was about when it was given, if that has changed."""
        before = self.about.get(question.key, "")
        return before if question.key in self.given and before != question.basis else None

    def save(self, path: Path, codebook: Codebook, command: str) -> None:
        """Replace the file."""
        lines = [
            f"# Answers to `{command}`: change them by hand, or run it again.",
            f"format = {_quoted(FORMAT)}",
            f"collection = {_quoted(codebook.collection.name)}",
            f"codebook = {_quoted(codebook.id.hex())}",
            "",
            "[answers]",
            *(f"{_quoted_key(key)} = {_literal(answer)}" for key, answer in self.given.items()),
            "",
            _NOTE,
            "[about]",
            *(f"{_quoted_key(key)} = {_quoted(self.about[key])}" for key in self.given if self.about.get(key)),
        ]
        output_file.write(path, "\n".join(lines) + "\n")


def template(codebook: Codebook, command: str) -> str:
    """An answers file with every question, where only those with a default are answered."""
    asked = sections(codebook, {"operators": "two"})
    lines = [
        f"# Fill in, then: {command}",
        f"format = {_quoted(FORMAT)}",
        f"collection = {_quoted(codebook.collection.name)}",
        f"codebook = {_quoted(codebook.id.hex())}",
        "",
        "[answers]",
    ]
    for section in asked:
        lines += ["", f"# {section.title}"]
        for question in section.questions:
            lines.append(f"# {question.text}")
            if question.kind == "choice":
                lines += [f"#   {name}: {meaning}" for name, meaning in question.choices.items()]
            lines.append(
                f"{_quoted_key(question.key)} = {_literal('' if question.default is None else question.default)}"
            )
    # the year's figures depend on another answer, so this note can only be made when that is given
    notes = {q.key: q.basis for section in asked for q in section.questions if q.basis and q.key != "year_accepted"}
    lines += ["", _NOTE, "[about]", *(f"{_quoted_key(key)} = {_quoted(basis)}" for key, basis in notes.items())]
    return "\n".join(lines) + "\n"


def _table(document: dict[str, Any], name: str, faults: list[tuple[str, str, str]]) -> dict[str, Any]:
    found = document.pop(name, {})
    if isinstance(found, dict):
        return found
    faults.append((name, "is not a table", f"write [{name}] on a line of its own, and its entries below"))
    return {}


def _known(codebook: Codebook, given: Mapping[str, Answer]) -> dict[str, Question]:
    """Every question that may arise, by key."""
    every: Iterable[Section] = sections(codebook, {**given, "operators": "two"})
    return {question.key: question for section in every for question in section.questions}


def _of_metrics_that_went(flat: Mapping[str, object], known: Mapping[str, Question]) -> set[str]:
    """Answers about metrics that the codebook no longer has, or has switched off: not an error, only not needed."""
    there = {key.split(".")[1] for key in known if key.startswith("metrics.")}
    return {key for key in flat if key.startswith("metrics.") and key.split(".")[1] not in there}


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Dotted keys, in any notation: "limits.delta" = true, limits.delta = true or [answers.limits]."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")  # JSON's escapes are TOML's


def _quoted_key(key: str) -> str:
    return _quoted(key) if "." in key else key


def _literal(answer: Answer) -> str:
    if isinstance(answer, bool):
        return "true" if answer else "false"
    return _quoted(answer) if isinstance(answer, str) else repr(answer)


def _refused(file: str, faults: Iterable[tuple[str, str, str]]) -> InvalidParameter:
    return InvalidParameter("\n".join(str(Finding(file, *fault)) for fault in faults))
