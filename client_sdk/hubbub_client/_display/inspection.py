"""Inspection of a state directory from outside: without a client, network or consent, and without changing anything."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hubbub.bundle import verify
from hubbub.codebook import Codebook
from hubbub.errors import HubbubError
from hubbub_client._budget.account_statement import Account, read_account
from hubbub_client._budget.device_limits import NO_LIMITS
from hubbub_client._codebooks.bundle_fetch_and_cache import signer_of
from hubbub_client._codebooks.in_force import CodebooksInForce, packaged
from hubbub_client._codebooks.period_codebook_pins import read_pins
from hubbub_client._consent.opt_out_file import OptOut
from hubbub_client._display.preview import Preview, collected, read_preview
from hubbub_client._integrity.quarantine import damaged_path, lost_spends
from hubbub_client._integrity.witness import read_witness
from hubbub_client._state.database import FILE_NAME
from hubbub_client._state.schema import VERSION

__all__ = ["CannotInspect", "Inspection", "inspect"]


class CannotInspect(Exception):
    """There is nothing to inspect, or it cannot be read; the text says what and why."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a state directory holds."""

    directory: str
    disabled: bool
    """Whether telemetry is switched off here."""
    damaged: bool
    """Whether a damaged file was put aside here."""
    preview: Preview
    account: Account

    def document(self) -> dict[str, Any]:
        return {
            "directory": self.directory,
            "disabled": self.disabled,
            "damaged_file": self.damaged,
            **self.preview.document(),
            "ledger": self.account.document(),
        }

    def __str__(self) -> str:
        lines = [f"State directory: {self.directory}"]
        if self.disabled:
            lines.append("Telemetry is switched off here: nothing is kept or sent.")
        if self.damaged:
            lines.append("A damaged file was put aside here.")
        return "\n".join([*lines, str(self.preview), str(self.account)])


def inspect(directory: Path, now: float, codebook: Path | None = None) -> Inspection:
    """Inspect a state directory. Raises CannotInspect if that is not possible.

    `codebook` is the file that the app ships. Its questions are shown if the directory holds no codebook: before there
    is consent, nothing is written there.
    """
    shipped = None
    try:
        if codebook is not None:
            shipped = CodebooksInForce.before_any_bundle(packaged(codebook), NO_LIMITS)
    except (HubbubError, OSError) as error:
        raise CannotInspect(f"the codebook cannot be read: {error}") from error
    asked = collected(shipped)
    if not directory.is_dir() and shipped is None:
        raise CannotInspect(f"{directory} is not a directory: pass the app's state directory")
    path = directory / FILE_NAME
    disabled, damaged = OptOut(directory).given(), damaged_path(path).exists()
    if not path.exists():
        lost = _lost_spends(path)
        if not disabled and not lost and shipped is None:
            raise CannotInspect(
                f"{directory} holds no state of this SDK ({FILE_NAME}): nothing was ever kept there; "
                "pass --codebook with the file that the app ships, to see what would be collected"
            )
        return Inspection(
            str(directory), disabled, damaged, Preview(False, (), (), asked), Account((), 0.0, 0.0, complete=not lost)
        )
    with _reading(path) as connection:
        return Inspection(
            str(directory),
            disabled,
            damaged,
            read_preview(connection, _kept_codebooks(connection) or shipped, taking_part=False if disabled else None),
            read_account(connection, now),
        )


def _lost_spends(path: Path) -> bool:
    try:
        return lost_spends(path, read_witness(path))
    except OSError as error:
        raise CannotInspect(f"the witness beside {path} cannot be read: {error}") from error


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    log = path.with_name(path.name + "-wal")
    # The directory is not writable, not even for SQLite's locks; and no client is writing, as there is no log.
    only_reading = not os.access(path.parent, os.W_OK) and not log.exists()
    address = f"{path.resolve().as_uri()}?{'immutable=1' if only_reading else 'mode=ro'}"
    try:
        connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=5)
    except sqlite3.Error as error:
        raise CannotInspect(f"{path} cannot be read: {error}") from error
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version != VERSION:
            raise CannotInspect(
                f"{path} has version {version}, this software reads {VERSION}: use the version that the app uses, "
                "or start the app once, which brings an older file up to date"
            )
        connection.execute("BEGIN")  # one snapshot for all that follows
        yield connection
    except sqlite3.Error as error:
        raise CannotInspect(f"{path} cannot be read: {error}") from error
    finally:
        connection.close()


def _kept_codebooks(connection: sqlite3.Connection) -> CodebooksInForce | None:
    """The codebooks of the kept bundle, from any signer; or the one that came with the app."""
    facts = dict(connection.execute("SELECT name, value FROM facts WHERE name IN ('bundle', 'packaged')"))
    try:
        if "bundle" in facts:
            codebooks = CodebooksInForce.read(verify(facts["bundle"], (signer_of(facts["bundle"]),), 0.0), None)
            return replace(codebooks, pins=read_pins(connection, codebooks, NO_LIMITS))
        if "packaged" in facts:
            return CodebooksInForce.before_any_bundle(Codebook.from_compiled(facts["packaged"]), NO_LIMITS)
    except HubbubError:
        return None
    return None
