"""Questions of the checklist: a key, a text, a kind of answer, and what part of the codebook they are about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Literal, TypeAlias

from hubbub.errors import InvalidValue, did_you_mean

__all__ = ["Answer", "Kind", "Question", "Section"]

Answer: TypeAlias = str | int | float | bool
Kind: TypeAlias = Literal["text", "choice", "count", "epsilon", "date", "yes"]
"""`epsilon` is a positive number or "none". `yes` is an acknowledgement: only yes settles it."""

_YES, _NO = {"y", "yes", "true"}, {"n", "no", "false"}


@dataclass(frozen=True, slots=True)
class Question:
    """One decision. Its answer is stale when `basis`, what it was about, has changed."""

    key: str
    text: str
    help: str
    kind: Kind = "text"
    choices: Mapping[str, str] = field(default_factory=dict)
    default: Answer | None = None
    basis: str = ""
    of_codebook: bool = True
    """Whether the basis comes from the codebook; if not, it comes from this software."""

    def read(self, written: object) -> Answer:
        """The answer as parsed from a person's input or a file; InvalidValue says what is wrong with it."""
        text = written.strip() if isinstance(written, str) else written
        match self.kind:
            case "text":
                return _text(text)
            case "choice":
                return self._choice(text)
            case "count":
                return _count(text)
            case "epsilon":
                return _epsilon(text)
            case "date":
                return _date(text)
            case "yes":
                return _yes(text)

    def _choice(self, text: object) -> str:
        options = list(self.choices)
        numbers = {str(number): name for number, name in enumerate(options, 1)}
        if isinstance(text, str) and text in numbers:
            return numbers[text]
        if text in options:
            return str(text)
        hint = did_you_mean(str(text), options)
        raise InvalidValue(f"{text!r} is none of {', '.join(options)}" + (f": {hint}" if hint else ""))


@dataclass(frozen=True, slots=True)
class Section:
    """Questions that belong together, and what to know before answering them."""

    name: str
    title: str
    intro: tuple[str, ...]
    """Paragraphs."""
    questions: tuple[Question, ...]


def _text(text: object) -> str:
    if not isinstance(text, str) or not (kept := "".join(c if c.isprintable() else " " for c in text).strip()):
        raise InvalidValue(f"an answer in words is needed, got {text!r}")
    return kept


def _count(text: object) -> int:
    number = text.replace(",", "").replace("_", "") if isinstance(text, str) else text
    try:
        if isinstance(number, bool) or not isinstance(number, str | int) or (count := int(number)) < 1:
            raise ValueError
    except ValueError:
        raise InvalidValue(f"a whole number of at least 1 is needed, got {text!r}") from None
    return count


def _epsilon(text: object) -> float | str:
    if text == "none":
        return "none"
    try:
        if isinstance(text, bool) or not isinstance(text, str | int | float) or not 0 < (number := float(text)) < 1e9:
            raise ValueError
    except ValueError:
        raise InvalidValue(f'a number above 0, or "none", is needed, got {text!r}') from None
    return number


def _date(text: object) -> str:
    try:
        if isinstance(text, datetime):
            text = text.date()
        return (text if isinstance(text, date) else date.fromisoformat(str(text))).isoformat()
    except ValueError:
        raise InvalidValue(f"a date such as 2027-06-30 is needed, got {text!r}") from None


def _yes(text: object) -> bool:
    said = str(text).lower()
    if said in _YES:
        return True
    if said in _NO:
        return False
    raise InvalidValue(f"yes or no is needed, got {text!r}")
