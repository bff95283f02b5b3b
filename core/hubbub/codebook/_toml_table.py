"""Reader of one TOML table that finds every fault in it, not just the first."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, TypeVar

from hubbub.errors import Finding, InvalidParameter, InvalidValue, did_you_mean

if TYPE_CHECKING:
    from hubbub.codebook._toml_keys import Key

__all__ = ["Findings", "Table", "a_date", "a_flag", "a_table", "a_text", "key_path", "one_of", "whole_number"]

T = TypeVar("T")


class Findings:
    """Everything that is wrong with one file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: list[Finding] = []

    def add(self, key: str, problem: str, fix: str) -> None:
        self.found.append(Finding(self.file, key, problem, fix))


class Table:
    """One table of the file. A key that cannot be read becomes a finding, and reading goes on."""

    def __init__(
        self, content: Mapping[str, object], path: str, findings: Findings, keys: Sequence[Key] | None = None
    ) -> None:
        self.content, self.path, self.findings = content, path, findings
        self._forms: dict[str, str] = {}
        if keys is not None:
            self.allow(keys)

    def allow(self, keys: Sequence[Key], elsewhere: Callable[[], Mapping[str, str]] = dict) -> None:
        """Set the keys that the table may have; every other key is a finding. `elsewhere` says why a key that another
        table may have is wrong in this one."""
        self._forms = {key.name: key.form for key in keys}
        unknown = [name for name in self.content if name not in self._forms]
        others = elsewhere() if unknown else {}
        for name in unknown:
            if name in others:
                self.fault(name, others[name], "remove it")
                continue
            near = did_you_mean(name, self._forms)
            self.fault(name, "there is no such key", near or f"remove it, or use one of {', '.join(self._forms)}")

    def fault(self, name: str, problem: str, fix: str | None = None) -> None:
        self.findings.add(key_path(self.path, name), problem, fix or f"write {self._form(name)}")

    def fault_at(self, name: str, position: int, problem: str, fix: str) -> None:
        """Add what is wrong with one element of a list."""
        self.findings.add(f"{key_path(self.path, name)}[{position}]", problem, fix)

    def _form(self, name: str) -> str:
        from hubbub.codebook._toml_keys import METRIC  # the keys name the metric types, which read tables

        return self._forms.get(name) or next(key.form for key in METRIC if key.name == name)

    def take(self, name: str, read: Callable[[object], T], default: T) -> T:
        """The key's value, or the default if the key is absent or faulty."""
        if name not in self.content:
            return default
        try:
            return read(self.content[name])
        except (InvalidParameter, InvalidValue) as error:
            self.fault(name, error.problem, error.fix or None)
        return default

    def need(self, name: str, read: Callable[[object], T]) -> T | None:
        """The value of a required key, or None if it is absent or faulty."""
        if name not in self.content:
            self.fault(name, "the key is missing", f"add {name} = {self._form(name)}")
        return self.take(name, read, None)


def key_path(path: str, name: str) -> str:
    """The key's path, as written in TOML."""
    part = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
    return f"{path}.{part}" if path else part


def a_text(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidParameter(f"expected text, got {value!r}")
    return value


def a_flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidParameter(f"expected true or false, got {value!r}")
    return value


def a_date(value: object) -> date:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise InvalidParameter(f"expected a date, got {value!r}")
    return value


def a_table(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise InvalidParameter(f"expected a table, got {value!r}")
    return value


def whole_number(least: int, most: int) -> Callable[[object], int]:
    """A reader of whole numbers in a range."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise InvalidParameter(f"expected a whole number from {least} to {most}, got {value}")
        return value

    return read


def one_of(options: Sequence[str]) -> Callable[[object], str]:
    """A reader that takes one of a few words."""

    def read(value: object) -> str:
        if not isinstance(value, str) or value not in options:
            near = did_you_mean(value, options) if isinstance(value, str) else ""
            fix = near or "write one of them, in quotes"
            raise InvalidParameter(f"{value!r} is not one of {', '.join(options)}", fix)
        return value

    return read
